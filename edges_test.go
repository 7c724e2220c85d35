package daruma_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

func TestRunEndsDuringHook(t *testing.T) {
	for name, end := range map[string]func(*daruma.Agent){
		"interrupt": func(a *daruma.Agent) { a.Interrupt() }, "shutdown": func(a *daruma.Agent) { a.Shutdown() },
	} {
		t.Run(name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "began")
			p := lab{script: readThenDone, config: hooked(t, map[hook.Event]string{hook.PreToolUse: "touch " + mark + "; sleep 60"}),
				at: func(a *daruma.Agent, e session.Event) {
					if d, ok := e.Body.(*session.Decision); ok && strings.HasPrefix(d.Step, "tools") {
						go func() {
							for {
								if _, err := os.Stat(mark); err == nil {
									break
								}
								runtime.Gosched()
							}
							end(a)
						}()
					}
				}}.play(t)
			if n := len(p.end().Denials); n > 0 {
				t.Errorf("%d denials", n)
			}
			results := of[*session.Result](p)
			if name == "shutdown" {
				if len(results) > 0 {
					t.Errorf("made up: %+v", results[0])
				}
				return
			}
			if len(results) != 1 || results[0].Class != tool.ClassAborted {
				t.Errorf("results: %d, %+v", len(results), results[0])
			}
		})
	}
}

func TestNoMeansNone(t *testing.T) {
	look := &slow{name: "Look", effect: tool.Pure, access: tool.AccessOther}
	asked := 0
	p := lab{script: "model\n  rule work\n    when not results\n    call Look x=1\n    call Look x=2\n    call Look x=3\n  rule done\n    say \"Good.\"\n",
		config: func(cfg *daruma.Config) {
			cfg.Tools, _ = tool.NewSet(look)
			cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w"}
			cfg.Ask = func(context.Context, permission.Question) (permission.Answer, error) {
				asked++
				if asked == 2 {
					return permission.Answer{Interrupt: true}, nil
				}
				return permission.Answer{Behavior: permission.Allow}, nil
			}
		}}.play(t)
	p.must(t, loop.AbortedTools)
	if asked != 2 || len(look.began) != 0 {
		t.Errorf("asked %d times, ran %d", asked, len(look.began))
	}
	if r := of[*session.Result](p); len(r) != 3 {
		t.Errorf("%d results", len(r))
	}
}

// twoFaced only reads, unless its input holds a 2.
type twoFaced struct{ slow }

func (s *twoFaced) Effect(in jsontext.Value) tool.Effect {
	if strings.Contains(string(in), "2") {
		return tool.Unsafe
	}
	return tool.Pure
}

// TestChangedInputChangesEffect: a call whose input the answer changed is in the
// ledger for what it does now.
func TestChangedInputChangesEffect(t *testing.T) {
	look := &twoFaced{slow{name: "Look", access: tool.AccessOther}}
	p := lab{script: "model\n  rule work\n    when not results\n    call Look x=1\n  rule done\n    say \"Good.\"\n",
		config: func(cfg *daruma.Config) {
			cfg.Tools, _ = tool.NewSet(look)
			cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w"}
			cfg.Ask = func(context.Context, permission.Question) (permission.Answer, error) {
				return permission.Answer{Behavior: permission.Allow, Input: jsontext.Value(`{"x":2}`)}, nil
			}
		}}.play(t)
	p.must(t, loop.Completed)
	if n := len(of[*session.Intent](p)); n != 1 {
		t.Errorf("%d intents", n)
	}
}

func TestChangedInputRunsAlone(t *testing.T) {
	look := &twoFaced{slow{name: "Look", access: tool.AccessOther, takes: time.Second}}
	h := hooked(t, map[hook.Event]string{hook.PreToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"y":2}}}`)})
	p := lab{script: "model\n  rule work\n    when not results\n    call Look x=1\n    call Look x=3\n  rule done\n    say \"Good.\"\n",
		config: func(cfg *daruma.Config) {
			h(cfg)
			cfg.Tools, _ = tool.NewSet(look)
		}}.play(t)
	p.must(t, loop.Completed)
	if len(look.began) != 2 || look.began[1].Sub(look.began[0]) < time.Second {
		t.Errorf("they ran together: %v", look.began)
	}
}

// TestSubmitNowWhileAsking: a call that was asked about when the prompt came has
// not begun, and does not (R79).
func TestSubmitNowWhileAsking(t *testing.T) {
	change := &slow{name: "Change", effect: tool.Unsafe, access: tool.AccessOther}
	var agent *daruma.Agent
	p := lab{script: "model\n  rule work\n    when not results\n    call Change x=1\n  rule done\n    say \"Good.\"\n",
		at: func(a *daruma.Agent, e session.Event) { agent = a },
		config: func(cfg *daruma.Config) {
			cfg.Tools, _ = tool.NewSet(change)
			cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w"}
			cfg.Ask = func(context.Context, permission.Question) (permission.Answer, error) {
				agent.SubmitNow("Stop that.")
				return permission.Answer{Behavior: permission.Allow}, nil
			}
		}}.play(t)
	p.must(t, loop.Completed)
	if len(change.began) != 0 {
		t.Errorf("it began all the same")
	}
}

// TestPermissionHookHalts: a hook that ends the run allows nothing more.
func TestPermissionHookHalts(t *testing.T) {
	change := &slow{name: "Change", effect: tool.Unsafe, access: tool.AccessOther}
	h := hooked(t, map[hook.Event]string{hook.PermissionRequest: says(`{"continue":false,"stopReason":"enough","hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}`)})
	p := lab{script: "model\n  rule work\n    when not results\n    call Change x=1\n  rule done\n    say \"Good.\"\n",
		config: func(cfg *daruma.Config) {
			h(cfg)
			cfg.Tools, _ = tool.NewSet(change)
			cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w"}
		}}.play(t)
	p.must(t, loop.HookStopped)
	if len(change.began) != 0 {
		t.Errorf("it began all the same")
	}
}

func TestConsumerPanics(t *testing.T) {
	for name, when := range map[string]func(session.Event, int) bool{
		"second intent": func(e session.Event, n int) bool { _, ok := e.Body.(*session.Intent); return ok && n == 1 },
		"group":         func(e session.Event, n int) bool { b, ok := e.Body.(*session.Intent); return ok && b.Group != 0 },
		"progress":      func(e session.Event, n int) bool { _, ok := e.Body.(*session.Progress); return ok },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				starter := &starter{}
				agent, finish := simulated(t, "model\n  rule work\n    when not results\n    call Start x=1\n    call Start x=2\n  rule done\n    say \"Good.\"\n", func(cfg *daruma.Config) {
					cfg.Tools, _ = tool.NewSet(starter)
				})
				func() {
					defer func() {
						if recover() == nil {
							t.Error("no panic")
						}
					}()
					n := 0
					for e := range agent.Run(t.Context(), "go") {
						if when(e, n) {
							panic("consumer")
						}
						if _, ok := e.Body.(*session.Intent); ok {
							n++
						}
					}
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				finish()
				if n := starter.inside.Load(); n != 0 {
					t.Errorf("%d calls hang", n)
				}
			})
		})
	}
}

// starter says something, and has a process.
type starter struct{ inside atomic.Int32 }

func (s *starter) Spec() model.Tool {
	return model.Tool{Name: "Start", Schema: jsontext.Value(`{"type":"object"}`)}
}

func (s *starter) Effect(jsontext.Value) tool.Effect { return tool.Unsafe }

func (s *starter) Concurrent(jsontext.Value) bool { return true }

func (s *starter) Access(jsontext.Value) tool.Access { return tool.Access{Kind: tool.AccessNone} }

func (s *starter) Run(ctx context.Context, c tool.Call) tool.Result {
	s.inside.Add(1)
	defer s.inside.Add(-1)
	c.Progress("hello")
	if err := c.Started(42, time.Now()); err != nil {
		return tool.Fail(tool.ClassAborted, err.Error())
	}
	return tool.Text("ok")
}

func TestHookSecret(t *testing.T) {
	h := hooked(t, map[hook.Event]string{
		hook.PreToolUse:    says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"x":"topsecretvalue"}}}`),
		hook.Stop:          "case \"$IN\" in *'\"stop_hook_active\":true'*) exit 0;; esac; echo topsecretvalue >&2; exit 2",
		hook.SessionStart:  says(`{"hookSpecificOutput":{"hookEventName":"SessionStart","sessionTitle":"topsecretvalue"}}`),
		hook.SubagentStart: says(`{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":"topsecretvalue"}}`),
	})
	change := &slow{name: "Change", effect: tool.Unsafe, access: tool.AccessEdit}
	p := lab{script: "model\n  rule work\n    when not results\n    call Change x=1\n  rule done\n    say \"Good.\"\n", config: func(cfg *daruma.Config) {
		h(cfg)
		cfg.Tools, _ = tool.NewSet(change)
		cfg.Redact = failure.NewRedactor("topsecretvalue")
	}}.play(t)
	for _, e := range p.events {
		if text := fmt.Sprintf("%+v", e.Body); strings.Contains(text, "topsecretvalue") {
			t.Errorf("%s: %s", e.Type(), text)
		}
		switch b := e.Body.(type) {
		case *session.Intent:
			if strings.Contains(string(b.Input), "topsecretvalue") {
				t.Errorf("intent: %s", b.Input)
			}
		case *session.Message:
			if strings.Contains(b.Message.PlainText(), "topsecretvalue") {
				t.Errorf("message: %s", b.Message.PlainText())
			}
		}
	}
}

// TestShutdownBillsSubAgents: what a sub-agent spent is in the total, also where
// the end of the process leaves its call open.
func TestShutdownBillsSubAgents(t *testing.T) {
	totals := map[string]session.Total{}
	for name, end := range map[string]func(*daruma.Agent){
		"interrupt": func(a *daruma.Agent) { a.Interrupt() }, "shutdown": func(a *daruma.Agent) { a.Shutdown() },
	} {
		p := lab{
			script: strings.Replace(familyScript("slow", "delay headers 10m"), "when purpose subagent", "when purpose subagent, called Read", 1),
			config: withAgents(daruma.SubAgents{}),
			at: func(a *daruma.Agent, e session.Event) {
				if _, ok := e.Body.(*session.Child); ok {
					time.AfterFunc(5*time.Second, func() { end(a) })
				}
			},
		}.play(t)
		totals[name] = p.must(t, loop.AbortedTools).Total
	}
	if totals["interrupt"] != totals["shutdown"] || totals["shutdown"].Unknown < 2 {
		t.Errorf("totals: %+v", totals)
	}
}

// TestAgentGoesOnUnsaved: an agent without a journal goes on with what it knows.
func TestAgentGoesOnUnsaved(t *testing.T) {
	const script = inTwoHalves + `  rule child-again
    when n 4, said "Half of it"
    say "The other half."
  rule lost
    when n 4
    say "I know nothing."
  rule done
    say "All done."
`
	p := lab{script: script, config: withAgents(daruma.SubAgents{})}.play(t)
	p.must(t, loop.Completed)
	if r := of[*session.Result](p); len(r) != 2 || r[1].Block.PlainText() != "The other half." {
		t.Errorf("results: %+v", r)
	}
}

// TestStubbornToolInChild: an agent that waits for a tool which does not listen is
// not given up itself.
func TestStubbornToolInChild(t *testing.T) {
	place := &stubborn{slow{name: "Read", effect: tool.Unsafe, access: tool.AccessOther}}
	p := lab{
		script: familyScript("slow", "delay headers 1s"),
		config: withAgents(daruma.SubAgents{Open: func(string, bool) (w daruma.Workplace, err error) {
			w.Tools, err = tool.NewSet(place)
			w.Close = func() { time.Sleep(time.Second) }
			return w, err
		}}),
		at: func(a *daruma.Agent, e session.Event) {
			if _, ok := e.Body.(*session.Child); ok && e.Run == 1 {
				time.AfterFunc(5*time.Second, func() { a.Interrupt() })
			}
		},
	}.play(t)
	p.must(t, loop.AbortedTools)
	if r := of[*session.Result](p); len(r) != 1 || !strings.Contains(r[0].Block.PlainText(), "I read a first.") {
		t.Errorf("what it has is lost: %+v", r)
	}
}

type stubborn struct{ slow }

func (s *stubborn) Run(ctx context.Context, c tool.Call) tool.Result {
	time.Sleep(11 * time.Second)
	return tool.Text("late")
}

func TestReadAgainAfterCompaction(t *testing.T) {
	read := &fickle{name: "read", effect: tool.Pure, do: func(n int, in string) tool.Result {
		return tool.Text("the file " + in)
	}}
	script := "window 2400\n" + `model
  rule summary
    when purpose compact
    say "Goal: the task. Done: the file was read; it holds words, and more of them must be read."
`
	for i := range 8 {
		script += fmt.Sprintf("  rule r%d once\n    when purpose main\n    say \"Let me see.\" fill=300\n    call read x=\"1\"\n", i)
	}
	script += "  rule done\n    say \"Done.\"\n"
	p := lab{script: script, config: func(cfg *daruma.Config) { cfg.Tools, _ = tool.NewSet(read) }}.play(t)
	p.must(t, loop.Completed)
	if n := len(of[*session.Compaction](p)); n == 0 || read.ran < 7 {
		t.Errorf("%d compactions, %d calls", n, read.ran)
	}
}

func TestOneIDTwice(t *testing.T) {
	do := &fickle{name: "do", effect: tool.Unsafe, do: func(n int, in string) tool.Result { return tool.Text(fmt.Sprintf("%d %s", n, in)) }}
	script := `model
  rule work
    when not results
    block ` + "`" + `{"type":"tool_use","id":"toolu_x","name":"do","input":{"x":"a"}}` + "`" + `
    block ` + "`" + `{"type":"tool_use","id":"toolu_x","name":"do","input":{"x":"b"}}` + "`" + `
  rule done
    say "All done."
`
	p := lab{script: script, config: func(cfg *daruma.Config) { cfg.Tools, _ = tool.NewSet(do) }}.play(t)
	p.must(t, loop.Completed)
	blocks := p.sent[1].Messages[2].Blocks
	if len(blocks) != 2 || blocks[0].PlainText() != `1 {"x":"a"}` || blocks[1].PlainText() != `2 {"x":"b"}` {
		t.Errorf("the model was told: %+v", blocks)
	}
}

func TestTwoAgentsSameID(t *testing.T) {
	script := `model
  rule a
    when purpose subagent, user "TASK-A"
    say "Done with A."
  rule b
    when purpose subagent, user "TASK-B"
    say "Done with B."
  rule hand-over
    when not results
    block ` + "`" + `{"type":"tool_use","id":"toolu_x","name":"Agent","input":{"prompt":"TASK-A"}}` + "`" + `
    block ` + "`" + `{"type":"tool_use","id":"toolu_x","name":"Agent","input":{"prompt":"TASK-B"}}` + "`" + `
  rule done
    say "All done."
`
	p := lab{script: script, config: withAgents(daruma.SubAgents{})}.play(t)
	p.must(t, loop.Completed)
	blocks := p.held[2].Blocks
	if len(blocks) != 2 || blocks[0].PlainText() != "Done with A." || blocks[1].PlainText() != "Done with B." {
		t.Errorf("results: %+v", blocks)
	}
}

func TestNoQuestionBehindTheEnd(t *testing.T) {
	const script = `model
  rule work
    when purpose subagent, not results
    call Change x=1
  rule worked
    when purpose subagent
    say "Done with it."
  rule hand-over
    when not results
    call Agent prompt="TASK-A"
    call Agent prompt="TASK-B"
  rule done
    say "All done."
`
	change := &slow{name: "Change", effect: tool.Unsafe, access: tool.AccessOther}
	var agent atomic.Pointer[daruma.Agent]
	var asked atomic.Int32
	p := lab{script: script, at: func(a *daruma.Agent, _ session.Event) { agent.Store(a) },
		config: withAgents(daruma.SubAgents{}, func(cfg *daruma.Config) {
			cfg.Tools, _ = tool.NewSet(change)
			cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w"}
			cfg.Ask = func(ctx context.Context, _ permission.Question) (permission.Answer, error) {
				asked.Add(1)
				for range 100_000 { // the other one comes to wait
					runtime.Gosched()
				}
				agent.Load().Interrupt()
				<-ctx.Done()
				return permission.Answer{}, ctx.Err()
			}
		})}.play(t)
	p.must(t, loop.AbortedTools)
	if n := asked.Load(); n != 1 {
		t.Errorf("%d questions", n)
	}
}
