package daruma_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// hooked gives an agent one shell hook for each event that is named; $IN is what
// it was told.
func hooked(t *testing.T, scripts map[hook.Event]string) func(*daruma.Config) {
	t.Helper()
	type handler struct {
		Type    string `json:"type"`
		Command string `json:"command"`
	}
	type group struct {
		Hooks []handler `json:"hooks"`
	}
	all := map[hook.Event][]group{}
	for event, script := range scripts {
		all[event] = []group{{[]handler{{"command", "IN=$(cat); " + script}}}}
	}
	data, err := json.Marshal(map[string]any{"hooks": all})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := hook.Parse(data, "settings.json")
	if err != nil {
		t.Fatal(err)
	}
	parsed.Env = []string{"PATH=" + os.Getenv("PATH")}
	hooks, err := hook.New(parsed)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return func(cfg *daruma.Config) { cfg.Hooks, cfg.Dir = hooks, dir }
}

func says(jsonText string) string { return "printf '%s' '" + jsonText + "'" }

const readThenDone = "model\n  rule read\n    when not results\n    call Read file_path=\"a\"\n  rule done\n    say \"Done.\"\n"

// TestHookDecisions: what a hook says at each event, and what comes of it.
func TestHookDecisions(t *testing.T) {
	long := "model\n  rule r1\n    when n 1\n    say \"One.\" fill=600\n  rule r2\n    say \"Two.\" fill=600\n"
	for name, c := range map[string]struct {
		on      map[hook.Event]string
		script  string
		prompts []string
		config  func(*daruma.Config)
		reason  loop.Reason
		model   string // what the conversation must hold
		person  string // what a notice must say
		ran     int    // how often Read runs
	}{
		"PreToolUse denies":             {on: map[hook.Event]string{hook.PreToolUse: "echo not today >&2; exit 2"}, reason: loop.Completed, model: "not today"},
		"PreToolUse dies":               {on: map[hook.Event]string{hook.PreToolUse: "kill -9 $$"}, reason: loop.Completed, model: "was ended by the signal"},
		"PreToolUse exit 1":             {on: map[hook.Event]string{hook.PreToolUse: "echo odd >&2; exit 1"}, reason: loop.Completed, ran: 1, person: "odd"},
		"PreToolUse changes the input":  {on: map[hook.Event]string{hook.PreToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"file_path":"other"}}}`)}, reason: loop.Completed, ran: 1, model: "read other"},
		"PreToolUse spoils the input":   {on: map[hook.Event]string{hook.PreToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{}}}`)}, reason: loop.Completed, model: "`file_path` is missing"},
		"PreToolUse asks, C101 nobody":  {on: map[hook.Event]string{hook.PreToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"is it wise"}}`)}, reason: loop.Completed, model: "nobody can be asked"},
		"PreToolUse asks, a hook says":  {on: map[hook.Event]string{hook.PreToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}`), hook.PermissionRequest: says(`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}`)}, reason: loop.Completed, ran: 1},
		"PreToolUse allows":             {on: map[hook.Event]string{hook.PreToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}`)}, config: strict, reason: loop.Completed, ran: 1},
		"PreToolUse cannot lift a deny": {on: map[hook.Event]string{hook.PreToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}`)}, config: forbids, reason: loop.Completed, model: "denies"},
		"PreToolUse ends the run":       {on: map[hook.Event]string{hook.PreToolUse: says(`{"continue":false,"stopReason":"enough"}`)}, reason: loop.HookStopped, model: "not run: a hook ended", person: "enough"},
		"PermissionRequest refuses":     {on: map[hook.Event]string{hook.PermissionRequest: says(`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"rather not"}}}`)}, config: strict, reason: loop.Completed, model: "rather not"},
		"PermissionRequest interrupts":  {on: map[hook.Event]string{hook.PermissionRequest: says(`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","interrupt":true}}}`)}, config: strict, reason: loop.AbortedTools},
		"PermissionRequest times out":   {on: map[hook.Event]string{hook.PermissionRequest: "kill -9 $$"}, config: strict, reason: loop.Completed, model: "signal"},
		"PostToolUse tells the model":   {on: map[hook.Event]string{hook.PostToolUse: "echo format it >&2; exit 2"}, reason: loop.Completed, ran: 1, model: "format it"},
		"PostToolUse changes the text":  {on: map[hook.Event]string{hook.PostToolUse: says(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":"censored"}}`)}, reason: loop.Completed, ran: 1, model: "censored"},
		"PostToolUse ends the run":      {on: map[hook.Event]string{hook.PostToolUse: says(`{"continue":false,"stopReason":"seen it"}`)}, reason: loop.HookStopped, ran: 1, person: "seen it"},
		"PostToolUseFailure":            {on: map[hook.Event]string{hook.PostToolUseFailure: "echo look at the log >&2; exit 2"}, config: failing, reason: loop.Completed, ran: 1, model: "look at the log"},
		"PostToolBatch ends the run":    {on: map[hook.Event]string{hook.PostToolBatch: "echo all of it >&2; exit 2"}, reason: loop.HookStopped, ran: 1, person: "all of it"},
		"UserPromptSubmit rejects":      {on: map[hook.Event]string{hook.UserPromptSubmit: "echo mind your words >&2; exit 2"}, script: "", reason: loop.HookStopped, person: "mind your words"},
		"UserPromptSubmit adds":         {on: map[hook.Event]string{hook.UserPromptSubmit: "echo the branch is main"}, reason: loop.Completed, ran: 1, model: "the branch is main"},
		"SessionStart adds":             {on: map[hook.Event]string{hook.SessionStart: "echo it is Monday"}, reason: loop.Completed, ran: 1, model: "it is Monday"},
		"Stop sends back, then accepts": {on: map[hook.Event]string{hook.Stop: `case "$IN" in *'"stop_hook_active":true'*) exit 0;; esac; echo run the tests >&2; exit 2`}, script: "model\n  rule done\n    say \"Done.\"\n", reason: loop.Completed, model: "run the tests"},
		"C141 Stop says the same again": {on: map[hook.Event]string{hook.Stop: "echo cannot authorize Stop >&2; exit 2"}, script: "model\n  rule done\n    say \"Done.\"\n", reason: loop.StopHookPrevented, person: "says the same again"},
		"C143 nothing to add":           {on: map[hook.Event]string{hook.Stop: "date +%N >&2; exit 2"}, script: "model\n  rule one\n    when n 1\n    say \"Done.\"\n  rule nothing\n    stop end_turn\n", reason: loop.StopHookPrevented},
		"Stop ends the run":             {on: map[hook.Event]string{hook.Stop: says(`{"continue":false,"stopReason":"no"}`)}, reason: loop.StopHookPrevented, ran: 1},
		"PreCompact blocks":             {on: map[hook.Event]string{hook.PreCompact: "echo keep it >&2; exit 2"}, script: "window 1500\n" + long, prompts: []string{"Do it.", "Again.", "Again."}, reason: loop.PromptTooLong, person: "keep it"},
	} {
		t.Run(name, func(t *testing.T) {
			read := &fickle{name: "Read", effect: tool.Pure, do: func(_ int, in string) tool.Result {
				if strings.Contains(in, "other") {
					return tool.Text("read other")
				}
				return tool.Text("read it")
			}}
			script := c.script
			if script == "" {
				script = readThenDone
			}
			hooks := hooked(t, c.on)
			p := lab{script: script, prompts: c.prompts, config: func(cfg *daruma.Config) {
				cfg.Tools, _ = tool.NewSet(&reader{read})
				hooks(cfg)
				if c.config != nil {
					c.config(cfg)
				}
			}}.play(t)
			p.must(t, c.reason)
			if read.ran != c.ran {
				t.Errorf("Read ran %d times, not %d", read.ran, c.ran)
			}
			var held, told []string
			for _, m := range p.held {
				held = append(held, m.PlainText())
				for i := range m.Blocks {
					held = append(held, m.Blocks[i].PlainText())
				}
			}
			for _, n := range of[*session.Notice](p) {
				told = append(told, n.Text)
			}
			if all := strings.Join(held, "\n"); !strings.Contains(all, c.model) {
				t.Errorf("the model was not told %q:\n%s", c.model, all)
			}
			if all := strings.Join(told, "\n"); !strings.Contains(all, c.person) {
				t.Errorf("the person was not told %q:\n%s", c.person, all)
			}
			if denied := len(p.end().Denials) > 0; denied != (strings.HasPrefix(name, "PreToolUse den") || strings.HasPrefix(name, "PreToolUse dies") || strings.Contains(name, "C101") || strings.Contains(name, "lift") || strings.HasPrefix(name, "PermissionRequest")) {
				t.Errorf("denials: %+v", p.end().Denials)
			}
		})
	}
}

// reader is a fickle tool with the input of Read.
type reader struct{ *fickle }

func (r *reader) Spec() model.Tool {
	s := r.fickle.Spec()
	s.Schema = []byte(`{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}`)
	return s
}
func (r *reader) Access(jsontext.Value) tool.Access {
	return tool.Access{Kind: tool.AccessEdit, Paths: []string{"/elsewhere/a"}}
}

func strict(cfg *daruma.Config) {
	cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w"}
}
func forbids(cfg *daruma.Config) {
	rules, _ := permission.ParseRules("Read,Edit")
	cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w", Deny: rules}
}
func failing(cfg *daruma.Config) {
	read := cfg.Tools
	t, _ := read.Lookup("Read")
	t.(*reader).do = func(int, string) tool.Result { return tool.Fail("ENOENT", "no such file") }
}

// TestHooksAreTold: every event reaches its hook, in the order in which things
// happen, with what it is about.
func TestHooksAreTold(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	on := map[hook.Event]string{}
	for _, e := range hook.Events() {
		on[e] = fmt.Sprintf(`printf '%%s\n' "$IN" >> %s`, log)
	}
	script := `window 2400
step busy
  when n 2
  status 529
model
  rule child
    when purpose subagent
    say "Found."
  rule hand-over
    when not called Agent
    call Agent prompt="look"
    call Read file_path="a"
  rule big
    when not called Read "big"
    call Read file_path="big"
  rule done
    say "Done."
`
	hooks := hooked(t, on)
	p := lab{script: script, config: func(cfg *daruma.Config) {
		cfg.SubAgents = &daruma.SubAgents{}
		hooks(cfg)
	}, at: func(a *daruma.Agent, e session.Event) {
		if e.Type() == session.TypeEnd {
			a.Close(context.Background(), "other")
		}
	}}.play(t)
	p.must(t, loop.Completed)
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		var in struct {
			Event   string `json:"hook_event_name"`
			Session string `json:"session_id"`
			Agent   string `json:"agent_id"`
			Tool    string `json:"tool_name"`
		}
		if err := json.Unmarshal([]byte(line), &in); err != nil || in.Session != "story" {
			t.Fatalf("%v: %s", err, line)
		}
		got = append(got, strings.TrimSpace(in.Event+" "+in.Tool+" "+in.Agent))
	}
	for _, want := range []string{
		"SessionStart", "UserPromptSubmit", "PreToolUse Agent", "SubagentStart  story.agent-1",
		"RecoveryStart  story.agent-1", "SubagentStop  story.agent-1", "PostToolUse Agent", "PostToolBatch", "Stop", "SessionEnd",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if got[0] != "SessionStart" || got[1] != "UserPromptSubmit" || !slices.Contains(got[len(got)-3:], "SessionEnd") { // hooks that nobody waits for end when they end
		t.Errorf("the order is odd: %q", got)
	}
	if slices.Contains(got, "Stop  story.agent-1") {
		t.Error("a sub-agent is taken for the main one")
	}
}

// TestHooksOnWaysBack: a recovery hook may wait, choose another model, or give up.
func TestHooksOnWaysBack(t *testing.T) {
	busy := func(times int) string {
		return fmt.Sprintf("step busy times %d\n  status 529\nmodel\n  rule done\n    say \"Done.\"\n", times)
	}
	action := func(a string) string {
		return says(`{"hookSpecificOutput":{"hookEventName":"RecoveryStart","action":"` + a + `"}}`)
	}
	for name, c := range map[string]struct {
		on     string
		times  int
		reason loop.Reason
		models []string
		waits  time.Duration
	}{
		"proceed":  {action("proceed"), 2, loop.Completed, []string{"claude-a", "claude-a", "claude-a"}, 0},
		"give up":  {action("give_up"), 1, loop.APIError, []string{"claude-a"}, 0},
		"fallback": {action("fallback"), 1, loop.Completed, []string{"claude-a", "claude-b"}, 0},
		"wait":     {"UNTIL=2000-01-01T05:00:00Z; " + `printf '{"hookSpecificOutput":{"hookEventName":"RecoveryStart","action":"wait","until":"%s"}}' $UNTIL`, 1, loop.Completed, []string{"claude-a", "claude-a"}, 4 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			hooks := hooked(t, map[hook.Event]string{hook.RecoveryStart: c.on})
			p := lab{script: busy(c.times), config: func(cfg *daruma.Config) {
				cfg.Models = []string{"claude-a", "claude-b"}
				hooks(cfg)
			}}.play(t)
			end := p.must(t, c.reason)
			var asked []string
			for _, q := range p.sent {
				asked = append(asked, q.Model)
			}
			if !slices.Equal(asked, c.models) {
				t.Errorf("asked %q, want %q", asked, c.models)
			}
			if end.Took < c.waits {
				t.Errorf("it took %s", end.Took)
			}
		})
	}
}

// TestStopFailure: a failed run is told to its own hook, and never to Stop.
func TestStopFailure(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	hooks := hooked(t, map[hook.Event]string{
		hook.StopFailure: fmt.Sprintf(`printf '%%s\n' "$IN" >> %s; exit 2`, log), hook.Stop: "echo Stop >> " + log,
	})
	p := lab{script: "step gone always\n  status 401\n", config: hooks, at: func(a *daruma.Agent, e session.Event) {
		if e.Type() == session.TypeEnd {
			a.Close(context.Background(), "other")
		}
	}}.play(t)
	p.must(t, loop.APIError)
	data, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(data), `"error":"authentication_failed"`) || strings.Contains(string(data), "Stop\n") {
		t.Errorf("%v: %s", err, data)
	}
}
