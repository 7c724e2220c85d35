//go:build unix

package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// run asks the given hooks about the example of their event.
func run(t *testing.T, cfg Config, handlers ...Handler) Output {
	t.Helper()
	cfg.Handlers = handlers
	return hooks(t, cfg).Run(context.Background(), example(handlers[0].Event, common(t)))
}

func printing(e Event, fields string) Handler {
	return sh(e, `printf '%s' '{"hookSpecificOutput":{"hookEventName":"`+string(e)+`",`+fields+`}}'`)
}

func deciding(p Permission, more string) Handler {
	return printing(PreToolUse, `"permissionDecision":"`+string(p)+`","permissionDecisionReason":"`+string(p)+` says the hook"`+more)
}

// slow lets h answer after the others.
func slow(h Handler) Handler {
	h.Command = "sleep 0.2; " + h.Command
	return h
}

// TestFailingPolicyHooks: C276, a hook that fails never means yes.
func TestFailingPolicyHooks(t *testing.T) {
	sleeps := sh(PreToolUse, "echo '"+says(PreToolUse, "json")+"'; sleep 30")
	sleeps.Timeout = 100 * time.Millisecond
	missing := Handler{Event: PreToolUse, Type: Command, Command: "/no/such/guard", Direct: true}
	unknown := Handler{Event: PreToolUse, Type: Command, Command: "no-such-guard", Direct: true}
	readable := filepath.Join(t.TempDir(), "guard")
	if err := os.WriteFile(readable, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		hook Handler
		want string
	}{
		{"C276 sleeps beyond its timeout", sleeps, "did not end within 100ms"},
		{"C276 crashes", sh(PreToolUse, "echo '"+says(PreToolUse, "json")+"'; kill -SEGV $$"), "was ended by the signal segmentation fault"},
		{"C276 is missing", missing, "could not be started: "},
		{"C276 is not in PATH", unknown, "there is no program no-such-guard in PATH"},
		{"C276 is not executable", Handler{Event: PreToolUse, Type: Command, Command: readable, Direct: true}, "could not be started: "},
		{"C276 is missing for the shell", sh(PreToolUse, "./no-such-guard"), "exit code 127"},
		{"C276 prints invalid JSON", sh(PreToolUse, "echo '{yes}'"), "printed JSON that cannot be read"},
		{"C276 answers another event", sh(PreToolUse, `echo '{"hookSpecificOutput":{"hookEventName":"Stop","permissionDecision":"allow"}}'`), `"hookEventName" is "Stop"`},
		{"C276 prints something before its JSON", sh(PreToolUse, "echo a warning; echo '"+says(PreToolUse, "json")+"'"), "something stands before it"},
		{"C276 prints something before the older form", sh(PreToolUse, `echo a warning; echo '{"decision":"block","reason":"no"}'`), "something stands before it"},
		{"C276 says what nobody knows", deciding("yes", ""), `"permissionDecision" is "yes"`},
		{"C276 says two things at once", printing(PreToolUse, `"permissionDecision":"deny","permissionDecision":"allow"`), "duplicate"},
		{"C276 changes the input to no object", deciding(Allow, `,"updatedInput":"ls"`), `"updatedInput" is not an object`},
		{"C276 prints without end", sh(PreToolUse, `printf '{"a":"'; head -c 3000000 /dev/zero | tr '\0' a; printf '"}'`), "longer than 1048576 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fine := deciding(Allow, "")
			out := run(t, Config{}, c.hook, fine)
			if out.Permission != Deny || !strings.Contains(out.Reason, c.want) || !strings.Contains(out.Reason, "this call was not run") {
				t.Errorf("%q, not denied because %q: %s", out.Permission, c.want, out.Reason)
			}
			out = run(t, Config{FailOpen: true}, c.hook)
			if out.Permission != "" || len(out.Notices) != 1 || !strings.Contains(out.Notices[0].Text, c.want) || strings.Contains(out.Notices[0].Text, "\n") {
				t.Errorf("failing open: %q, %v", out.Permission, out.Notices)
			}
		})
	}
}

// TestInterrupted: an open door stays shut when the run ends.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	h := hooks(t, Config{FailOpen: true, Handlers: []Handler{sh(PreToolUse, "sleep 30")}})
	out := h.Run(ctx, example(PreToolUse, common(t)))
	if out.Permission != Deny || !strings.Contains(out.Reason, "stopped because the run ended") || out.Results[0].Outcome != "cancelled" {
		t.Errorf("%+v", out)
	}
	if out := h.Run(ctx, example(PreToolUse, common(t))); out.Permission != Deny {
		t.Errorf("after the end: %+v", out)
	}
}

// TestPermissionOrder: C101, the order of who is faster decides nothing, and a
// denial names its reason.
func TestPermissionOrder(t *testing.T) {
	order := []Permission{Deny, Defer, Ask, Allow}
	for i, strong := range order {
		for _, weak := range order[i+1:] {
			for n, pair := range [][2]Handler{
				{deciding(strong, ""), slow(deciding(weak, ""))}, {slow(deciding(strong, "")), deciding(weak, "")},
				{deciding(weak, ""), slow(deciding(strong, ""))}, {slow(deciding(weak, "")), deciding(strong, "")},
			} {
				t.Run(fmt.Sprintf("C101 %s before %s, %d", strong, weak, n), func(t *testing.T) {
					t.Parallel()
					out := run(t, Config{}, pair[0], pair[1])
					if out.Permission != strong || out.Reason != string(strong)+" says the hook" {
						t.Errorf("%s: %s", out.Permission, out.Reason)
					}
				})
			}
		}
	}
}

func TestUpdatedInput(t *testing.T) {
	for _, c := range []struct {
		name       string
		hooks      []Handler
		permission Permission
		input      string
		notices    int
	}{
		{"allowed as changed", []Handler{deciding(Allow, `,"updatedInput":{"command":"ls"}`)}, Allow, `{"command":"ls"}`, 0},
		{"a yes to another input is none", []Handler{deciding(Allow, ""), printing(PreToolUse, `"updatedInput":{"a":1}`)}, "", `{"a":1}`, 0},
		{"asked as changed", []Handler{deciding(Ask, ""), printing(PreToolUse, `"updatedInput":{"a":1}`)}, Ask, `{"a":1}`, 0},
		{"denied is denied", []Handler{deciding(Deny, ""), deciding(Allow, `,"updatedInput":{"a":1}`)}, Deny, "", 0},
		{"the last one counts", []Handler{slow(deciding(Allow, `,"updatedInput":{"a":1}`)), deciding(Allow, `,"updatedInput":{"a":2}`)}, Allow, `{"a":2}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := run(t, Config{}, c.hooks...)
			if out.Permission != c.permission || string(out.Input) != c.input || len(out.Notices) != c.notices {
				t.Errorf("%q %s %v", out.Permission, out.Input, out.Notices)
			}
		})
	}
}

// TestContext: C144, what hooks say is bounded, and it is known who said how much.
func TestContext(t *testing.T) {
	dir := t.TempDir()
	loud := sh(PreToolUse, `printf '{"hookSpecificOutput":{"additionalContext":"'; head -c 12345 /dev/zero | tr '\0' a; printf 'END"}}'`)
	quiet := printing(PreToolUse, `"additionalContext":"a word"`)
	h := hooks(t, Config{Handlers: []Handler{quiet, loud}, OutputDir: dir})
	var out Output
	chars := 0
	for range 3 {
		out = h.Run(context.Background(), example(PreToolUse, common(t)))
		chars += out.Results[1].Chars
	}
	t.Run("C144 capped and named", func(t *testing.T) {
		files, _ := filepath.Glob(filepath.Join(dir, "hook-*.txt"))
		long := out.Context[1].Text
		if n := len([]rune(long)); n > 10_000 || len(files) != 3 || !strings.Contains(long, "12348 characters") {
			t.Fatalf("%d characters, %d files: …%s", n, len(files), long[len(long)-300:])
		}
		at := slices.IndexFunc(files, func(f string) bool { return strings.Contains(long, f) })
		if at < 0 {
			t.Fatalf("no file is named: …%s", long[len(long)-300:])
		}
		if whole, _ := os.ReadFile(files[at]); len(whole) != 12348 || !strings.HasSuffix(string(whole), "END") {
			t.Errorf("the file has %d bytes", len(whole))
		}
	})
	t.Run("C144 accounted for", func(t *testing.T) {
		if out.Results[0].Chars != 6 || out.Results[1].Chars != len([]rune(out.Context[1].Text)) {
			t.Errorf("characters: %d, %d", out.Results[0].Chars, out.Results[1].Chars)
		}
		spent := h.Spent()
		if len(spent) != 2 || spent[0].Hook != out.Context[1].Hook || spent[0].Calls != 3 || spent[0].Chars != chars || spent[1].Chars != 18 {
			t.Errorf("%+v", spent)
		}
	})
	if out := run(t, Config{}, loud); !strings.Contains(out.Context[0].Text, "were not kept") {
		t.Error("without a folder the cut is not named")
	}
}

func TestAnswers(t *testing.T) {
	deny := printing(PermissionRequest, `"decision":{"behavior":"deny","message":"no","interrupt":true}`)
	allow := printing(PermissionRequest, `"decision":{"behavior":"allow","updatedInput":{"a":1},"updatedPermissions":[{"type":"setMode"}]}`)
	if a := run(t, Config{}, allow).Answer; a == nil || !a.Allow || string(a.Input) != `{"a":1}` || string(a.Updates) != `[{"type":"setMode"}]` {
		t.Errorf("%+v", a)
	}
	if a := run(t, Config{}, allow, slow(deny)).Answer; a == nil || a.Allow || a.Message != "no" || !a.Interrupt {
		t.Errorf("a yes wins over a no: %+v", a)
	}
	if out := run(t, Config{FailOpen: true}, sh(PermissionRequest, "echo '{no'")); out.Answer != nil || len(out.Notices) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestRecoveryActions(t *testing.T) {
	act := func(fields string) Handler { return printing(RecoveryStart, fields) }
	wait := act(`"action":"wait","until":"2026-01-02T03:04:05Z"`)
	out := run(t, Config{}, act(`"action":"proceed"`), wait, act(`"action":"fallback","model":"other"`))
	if r := out.Recovery; r == nil || r.Do != Wait || !r.Until.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v", r)
	}
	if r := run(t, Config{}, act(`"action":"fallback","model":"other"`), act(`"action":"fallback","model":"third"`)).Recovery; r.Model != "other" {
		t.Errorf("%+v", r)
	}
	for _, bad := range []string{`"action":"wait"`, `"action":"wait","until":"soon"`, `"action":"sleep"`} {
		if out := run(t, Config{}, act(bad)); out.Recovery != nil || len(out.Notices) != 1 {
			t.Errorf("%s: %+v", bad, out)
		}
	}
}

func TestStopAndTerminal(t *testing.T) {
	out := run(t, Config{}, sh(PostToolBatch, `printf '%s' '{"continue":false,"stopReason":"enough","terminalSequence":"\u001b]0;title\u0007\u001b[2J\u001b]52;c;eA==\u0007\u0007"}'`),
		sh(PostToolBatch, `echo '{"continue":false,"stopReason":"later"}'`))
	if !out.Stop || out.StopReason != "enough" || out.Terminal != "\x1b]0;title\x07\x07" {
		t.Errorf("%+v", out)
	}
	if out := run(t, Config{}, sh(PreToolUse, `echo '{"decision":"block","reason":"old form"}'`)); out.Permission != Deny || out.Reason != "old form" {
		t.Errorf("%+v", out)
	}
}

// TestSame: the same hook of two files and two matchers runs once.
func TestSame(t *testing.T) {
	c := common(t)
	one := sh(PreToolUse, "echo x >> ran")
	two, other := one, one
	two.Source, two.Matcher = "other.json", "Ba.*"
	other.Command += " # not the same"
	var told atomic.Int32
	h := hooks(t, Config{Handlers: []Handler{one, two, other}, Observe: func(Entry, *Result) { told.Add(1) }})
	out := h.Run(context.Background(), example(PreToolUse, c))
	ran, _ := os.ReadFile(filepath.Join(c.Dir, "ran"))
	if len(out.Results) != 2 || string(ran) != "x\nx\n" || told.Load() != 4 {
		t.Errorf("%d results, ran %q, told %d times", len(out.Results), ran, told.Load())
	}
}

func TestIf(t *testing.T) {
	h := sh(PreToolUse, "exit 2")
	h.If = "Bash(git *)"
	match := func(yes bool, err error) Config {
		return Config{Match: func(rule string, call ToolCall) (bool, error) {
			if rule != h.If || call.Name != "Bash" || string(call.Input) != `{"command":"git push"}` {
				t.Errorf("asked about %s and %+v", rule, call)
			}
			return yes, err
		}}
	}
	for _, c := range []struct {
		name string
		cfg  Config
		want Permission
	}{
		{"matches", match(true, nil), Deny}, {"does not", match(false, nil), ""},
		{"cannot be judged: it runs", match(false, fmt.Errorf("bad rule")), Deny},
		{"the judge panics: it runs", Config{Match: func(string, ToolCall) (bool, error) { panic("oh") }}, Deny}, {"nobody judges: it runs", Config{}, Deny},
	} {
		if out := run(t, c.cfg, h); out.Permission != c.want {
			t.Errorf("%s: %q", c.name, out.Permission)
		}
	}
	h.Event = Stop
	if out := run(t, match(true, nil), h); out.Block || len(out.Results) > 0 {
		t.Error(`a hook with "if" ran on an event without a call`)
	}
}

// TestMatches: what a hook wants to see must wait for it.
func TestMatches(t *testing.T) {
	one, other := sh(PreToolUse, "true"), sh(PreToolUse, "true")
	one.Matcher, other.Matcher, other.If = "Edit", "Bash", "Bash(rm *)"
	in := example(PreToolUse, common(t))
	for _, c := range []struct {
		hooks []Handler
		match bool
		want  bool
	}{{nil, true, false}, {[]Handler{one}, true, false}, {[]Handler{one, other}, true, true}, {[]Handler{one, other}, false, false}, {[]Handler{{Event: PreToolUse, Type: Agent}}, true, false}} {
		h := hooks(t, Config{Handlers: c.hooks, Match: func(string, ToolCall) (bool, error) { return c.match, nil }})
		if got := h.Matches(in); got != c.want {
			t.Errorf("%d hooks, %v: %v", len(c.hooks), c.match, got)
		}
	}
}

// TestHide: no secret gets out by a hook that knows it.
func TestHide(t *testing.T) {
	dir := t.TempDir()
	h := hooks(t, Config{
		OutputDir: dir, Hide: func(s string) string { return strings.ReplaceAll(s, "secret", "*") },
		Handlers: []Handler{
			sh(UserPromptSubmit, "echo secret; exit 3"), sh(UserPromptSubmit, "echo secret >&2; exit 2"), sh(UserPromptSubmit, "echo secret >&2; exit 1"),
			sh(UserPromptSubmit, "printf secret; head -c 20000 /dev/zero | tr '\\0' a; exit 0"),
			sh(UserPromptSubmit, `echo '{"systemMessage":"secret","stopReason":"secret","continue":false,"hookSpecificOutput":{"sessionTitle":"secret"}}'`),
		},
	})
	out := h.Run(context.Background(), example(UserPromptSubmit, common(t)))
	for i := range out.Results {
		out.Results[i].Entry = Entry{} // the caller's own words
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	kept, _ := os.ReadFile(files[0])
	said := fmt.Sprintf("%v %v %v %v %v %v %v", out.Reason, out.StopReason, out.Context, out.Notices, out.Results, out.Title, string(kept))
	for _, s := range out.System {
		said += s.Text
	}
	if strings.Contains(said, "secret") || !out.Block || !out.Stop {
		at := max(0, strings.Index(said, "secret")-200)
		t.Errorf("…%.500s", said[at:])
	}
}

func TestUnsupported(t *testing.T) {
	h := hooks(t, Config{Handlers: []Handler{{Event: PreToolUse, Type: Prompt}}})
	first := h.Run(context.Background(), example(PreToolUse, common(t)))
	again := h.Run(context.Background(), example(PreToolUse, common(t)))
	if first.Permission != "" || len(first.Notices) != 1 || len(again.Notices) != 0 || h.Any(PreToolUse) {
		t.Errorf("%+v, then %+v", first, again)
	}
	var none *Hooks
	if out := none.Run(context.Background(), example(Stop, common(t))); out.Block || none.Any(Stop) || none.Close(context.Background()) != nil || none.Spent() != nil {
		t.Error("no hooks say something")
	}
	none.Start(example(Stop, common(t)))
}

// TestBrokenInput: what cannot be written cannot be asked about.
func TestBrokenInput(t *testing.T) {
	in := example(PreToolUse, common(t))
	in.Body = PreToolUseInput{ToolCall{Name: "Bash", Input: jsontext.Value("{")}}
	out := hooks(t, Config{Handlers: []Handler{sh(PreToolUse, "exit 0")}}).Run(context.Background(), in)
	if out.Permission != Deny || !strings.Contains(out.Reason, "its input could not be written") {
		t.Errorf("%+v", out)
	}
}
