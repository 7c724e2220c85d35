package daruma_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// putsOff is a hook that puts a call off so many times, and then says what.
func putsOff(times int, then string) string {
	const answer = `printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"%%s","permissionDecisionReason":"ask the boss"}}' %s`
	return fmt.Sprintf("n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) >n; if [ $n -lt %d ]; then "+answer+"; else "+answer+"; fi", times, "defer", then)
}

func deferring(cfg *daruma.Config) { cfg.Defer = true }

// TestDefer: a call that a hook puts off stays open, and the next run asks the
// hook again before anything else is said.
func TestDefer(t *testing.T) {
	for name, c := range map[string]struct {
		then string
		ran  int
		says string
	}{
		"then it runs":      {"allow", 1, "read it"},
		"then it is denied": {"deny", 0, "ask the boss"},
	} {
		t.Run(name, func(t *testing.T) {
			read := &fickle{name: "Read", effect: tool.Unsafe, do: func(int, string) tool.Result { return tool.Text("read it") }}
			hooks := hooked(t, map[hook.Event]string{hook.PreToolUse: putsOff(2, c.then), hook.SessionStart: "echo it is Monday"})
			p := lab{script: readThenDone, prompts: []string{"Do the task.", "And then?", "Go on."}, config: func(cfg *daruma.Config) {
				cfg.Tools, _ = tool.NewSet(&reader{read})
				hooks(cfg)
				deferring(cfg)
			}}.play(t)
			for _, end := range p.ends[:2] {
				if end.Reason != loop.ToolDeferred || end.Stop != "tool_deferred" || end.Deferred == nil || end.Deferred.Name != "Read" || end.Failure != nil || end.Next == "" {
					t.Errorf("the run ended with %s: %+v", end.Reason, end.Deferred)
				}
			}
			p.must(t, loop.Completed)
			if len(p.sent) != 2 || read.ran != c.ran {
				t.Errorf("%d requests, and it ran %d times", len(p.sent), read.ran)
			}
			var texts []string
			for _, m := range p.held {
				text := m.PlainText()
				for i := range m.Blocks {
					text += m.Blocks[i].PlainText()
				}
				texts = append(texts, text)
			}
			want := []string{"it is Monday", "Do the task.", "", c.says, "And then?", "Go on.", "Done."}
			if len(texts) != len(want) {
				t.Fatalf("the conversation: %q", texts)
			}
			for i, w := range want {
				if !strings.Contains(texts[i], w) {
					t.Errorf("message %d is %q, not %q", i, texts[i], w)
				}
			}
		})
	}
}

// TestDeferIsRefused where it cannot be done: with a person at hand, beside
// another call, and in a sub-agent.
func TestDeferIsRefused(t *testing.T) {
	two := strings.Replace(readThenDone, `    call Read file_path="a"`, `    call Read file_path="a"`+"\n"+`    call Read file_path="b"`, 1)
	for name, c := range map[string]struct {
		script string
		config func(*daruma.Config)
	}{
		"with a person":     {readThenDone, func(*daruma.Config) {}},
		"beside others":     {two, deferring},
		"within sub-agents": {familyScript("slow", "delay headers 1s"), withAgents(daruma.SubAgents{}, deferring)},
	} {
		t.Run(name, func(t *testing.T) {
			on := says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}`)
			hooks := hooked(t, map[hook.Event]string{hook.PreToolUse: `case "$IN" in *'"tool_name":"Agent"'*) ;; *) ` + on + `;; esac`})
			p := lab{script: c.script, config: both(hooks, c.config)}.play(t)
			p.must(t, loop.Completed)
			if p.end().Deferred != nil {
				t.Error("a call waits")
			}
		})
	}
}

// TestDeferOverACrash: wherever the process dies behind the decision, the call is
// never run twice, never lost, and never counts as in doubt before it began.
func TestDeferOverACrash(t *testing.T) {
	read := &fickle{name: "Read", effect: tool.Unsafe, do: func(int, string) tool.Result { return tool.Text("read it") }}
	life := func(t *testing.T, h *session.History, times int) (events []session.Event, ran int) {
		hooks := hooked(t, map[hook.Event]string{hook.PreToolUse: putsOff(times, "allow")})
		read.ran = 0
		synctest.Test(t, func(t *testing.T) {
			agent, finish := simulated(t, strings.Replace(readThenDone, "not results", "not called Read", 1), func(cfg *daruma.Config) {
				cfg.Tools, _ = tool.NewSet(&reader{read})
				hooks(cfg)
				deferring(cfg)
				cfg.History = h
			})
			prompt := "Do the task."
			if h != nil {
				prompt = "Go on."
			}
			for e, err := range agent.Run(t.Context(), prompt) {
				if err != nil {
					t.Fatal(err)
				}
				events = append(events, e)
			}
			finish()
		})
		return events, read.ran
	}
	first, _ := life(t, nil, 1)
	h := session.Fold(first)
	if left := h.Left(); !h.PutOff() || len(left) != 1 || left[0].State != session.CallPutOff {
		t.Fatalf("left behind: %+v", left)
	}
	second, ran := life(t, h, 0)
	if ran != 1 {
		t.Fatalf("it ran %d times", ran)
	}
	for i, e := range second {
		if e.Seq == 0 {
			continue
		}
		h := session.Fold(append(first[:len(first):len(first)], second[:i+1]...))
		waits, begun := h.PutOff(), len(h.Intents) > 0 || h.Results != nil || len(h.Messages) > 2
		if waits == begun {
			t.Fatalf("behind %s the call waits: %v, began: %v", e.Type(), waits, begun)
		}
		third, again := life(t, h, 0)
		if end, ok := third[len(third)-1].Body.(*session.End); !ok || end.Reason != loop.Completed {
			t.Fatalf("behind %s the third life ended with %+v", e.Type(), third[len(third)-1].Body)
		}
		if want := map[bool]int{true: 1}[waits]; again != want {
			t.Errorf("behind %s it ran %d times in the third life, not %d", e.Type(), again, want)
		}
	}
}

// TestDeferSurvivesAHook that ends the run before the call is decided about: the
// call still waits, and the prompt is not lost.
func TestDeferSurvivesAHook(t *testing.T) {
	answer := &message.Message{ID: "m2", Role: message.Assistant, Blocks: []message.Block{{Type: message.ToolUse, ID: "t1", Name: "Read", Input: []byte(`{"file_path":"a"}`)}}}
	h := session.Fold([]session.Event{
		{Seq: 1, Session: "story", Run: 1, Body: &session.Message{Message: message.NewText("m1", "Do the task.")}},
		{Seq: 2, Session: "story", Run: 1, Body: &session.Commit{Attempt: 1, Message: answer}},
		{Seq: 3, Session: "story", Run: 1, Body: &session.End{Reason: loop.ToolDeferred, IsError: true, Deferred: &session.Deferred{ID: "t1", Name: "Read", Input: []byte(`{"file_path":"a"}`)}}},
	})
	for life, hooks := range []func(*daruma.Config){
		hooked(t, map[hook.Event]string{hook.SessionStart: says(`{"continue":false,"stopReason":"closed"}`)}), func(*daruma.Config) {},
	} {
		var end *session.End
		synctest.Test(t, func(t *testing.T) {
			agent, finish := simulated(t, "model\n  rule done\n    say \"Good.\"\n", func(cfg *daruma.Config) {
				hooks(cfg)
				deferring(cfg)
				cfg.History = h
			})
			for e, err := range agent.Run(t.Context(), []string{"Go on.", "And more."}[life]) {
				if err != nil {
					t.Fatal(err)
				}
				end, _ = e.Body.(*session.End)
			}
			finish()
		})
		if want := []loop.Reason{loop.HookStopped, loop.Completed}[life]; end.Reason != want || h.PutOff() != (life == 0) {
			t.Errorf("life %d ended with %s, a call waits: %v", life+1, end.Reason, h.PutOff())
		}
	}
	var texts []string
	for _, m := range h.Messages {
		texts = append(texts, m.PlainText())
	}
	if got := strings.Join(texts, "|"); !strings.HasSuffix(got, "|Go on.|And more.|Good.") {
		t.Errorf("the conversation: %s", got)
	}
}
