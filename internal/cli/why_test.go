package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json/jsontext"
)

// journaled writes events to a journal of a folder of its own and reads them
// back.
func journaled(t *testing.T, bodies ...session.Body) *past {
	t.Helper()
	var data []byte
	for i, body := range bodies {
		line, err := session.Encode(session.Event{
			Version: session.Version, Seq: uint64(i + 1), Time: at.Add(time.Duration(i) * time.Second), Session: "s-1", Run: 1, Turn: 1, Body: body,
		})
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
	}
	path := filepath.Join(t.TempDir(), "s-1.jsonl")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readPast(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// moments are what changes with day and place.
var moments = regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d`)

func told(t *testing.T, y *why) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := y.print(&b, false); err != nil {
		t.Fatal(err)
	}
	text := moments.ReplaceAllString(b.String(), "TIME")
	return []byte(regexp.MustCompile(`(?m)^ +↳`).ReplaceAllString(text, "        ↳"))
}

// TestWhyReasons: every reason is told in words, with a safe step.
func TestWhyReasons(t *testing.T) {
	for _, reason := range loop.Reasons {
		p := journaled(t, &session.RunStart{}, &session.End{Reason: reason, IsError: reason.IsError(), Next: "do something"})
		y, err := explainEnd(p)
		if err != nil {
			t.Fatal(err)
		}
		if y.State != runEnded || y.Words == "" || len(y.Next) == 0 || strings.Contains(y.Words, "_") {
			t.Errorf("%s: %+v", reason, y)
		}
		if text := string(told(t, y)); !strings.Contains(text, y.Words) || !strings.Contains(text, "Safe next:\n  - ") {
			t.Errorf("%s: %s", reason, text)
		}
	}
}

// TestWhyStories holds whole explanations, for people to read.
func TestWhyStories(t *testing.T) {
	long := &failure.Error{Kind: failure.ContextOverflow, Status: 400, Numbers: failure.Numbers{InputTokens: 214_003, Limit: 200_000}}
	busy := &failure.Error{Kind: failure.Overloaded, Status: 529, Retry: failure.RetryYes}
	spent := session.Spent{Usage: session.Tokens{Input: 9000, Output: 200}, USD: 0.02, Total: 3 * time.Second}
	total := session.Total{Usage: session.Tokens{Input: 9000, Output: 200}, USD: 0.02}
	call := message.Block{Type: message.ToolUse, ID: "toolu_1", Name: "Bash", Input: jsontext.Value(`{"command":"make deploy"}`)}
	rung := func(id int, name loop.Transition, state session.RecoveryState) *session.Recovery {
		return &session.Recovery{ID: id, Layer: "context", Cause: failure.ContextOverflow, Outcome: "failed context_overflow", Decision: string(name), Rule: string(name), Attempt: 1, Of: 1, State: state}
	}
	try := func(id int, state session.RecoveryState) *session.Recovery {
		return &session.Recovery{ID: id, Layer: "request", Cause: failure.Overloaded, Status: 529, Decision: "retry", Rule: "backoff", Attempt: id, Of: 3, Delay: time.Duration(id) * time.Second, State: state}
	}
	for name, bodies := range map[string][]session.Body{
		"overflow": {
			&session.RunStart{}, &session.Begin{Attempt: 7, Model: "m"},
			&session.Retract{Attempt: 7, Cause: "context_overflow", Failure: long, Spent: spent},
			rung(1, loop.CollapseDrain, session.Running),
			&session.Compaction{Rung: "collapse", Before: 214_000, After: 205_000}, rung(1, loop.CollapseDrain, session.Superseded),
			&session.Begin{Attempt: 8, Model: "m"}, &session.Retract{Attempt: 8, Cause: "context_overflow", Failure: long, Spent: spent},
			rung(2, loop.ReactiveCompact, session.Running),
			&session.Notice{Level: session.Warning, Text: "the conversation could not be summarised: no answer"},
			rung(2, loop.ReactiveCompact, session.NotHealed),
			&session.End{Reason: loop.PromptTooLong, IsError: true, Failure: long, Turns: 3, Total: total, Wasted: total},
		},
		"overload": {
			&session.RunStart{}, &session.Begin{Attempt: 1, Model: "m"},
			&session.Retract{Attempt: 1, Cause: "overloaded", Failure: busy, Spent: session.Spent{Unknown: true}}, try(1, session.Running),
			&session.Begin{Attempt: 2, Model: "m"},
			&session.Retract{Attempt: 2, Cause: "overloaded", Failure: busy, Spent: session.Spent{Unknown: true}}, try(2, session.Running),
			&session.Begin{Attempt: 3, Model: "m"},
			&session.Retract{Attempt: 3, Cause: "overloaded", Failure: busy, Spent: session.Spent{Unknown: true}}, try(3, session.Running),
			&session.Begin{Attempt: 4, Model: "m"},
			&session.Retract{Attempt: 4, Cause: "overloaded", Failure: busy, Spent: session.Spent{Unknown: true}},
			try(1, session.NotHealed), try(2, session.NotHealed), try(3, session.NotHealed),
			&session.End{Reason: loop.APIError, IsError: true, Failure: busy, Turns: 1, Total: session.Total{Unknown: 4}, Wasted: session.Total{Unknown: 4}},
		},
		"refused-call": {
			&session.RunStart{}, &session.Begin{Attempt: 1, Model: "m"},
			&session.Commit{Attempt: 1, Stop: "tool_use", Spent: spent, Message: answer("m1", "I deploy.", "tool_use", call)},
			&session.Permission{Call: "toolu_1", Name: "Bash", By: "rule", Reason: "The rule Bash(make deploy) denies it."},
			&session.Result{Call: "toolu_1", Name: "Bash", Denied: true, Block: message.TextResult("toolu_1", "refused", true)},
			&session.End{Reason: loop.AbortedTools, IsError: true, Turns: 1, Total: total, Denials: []session.Denial{{Tool: "Bash", Call: "toolu_1"}}},
		},
		"crash-in-a-tool": {
			&session.RunStart{}, &session.Begin{Attempt: 1, Model: "m"},
			&session.Commit{Attempt: 1, Stop: "tool_use", Spent: spent, Message: answer("m1", "I deploy.", "tool_use", call)},
			&session.Intent{Call: "toolu_1", Name: "Bash", Effect: "unsafe", Input: call.Input},
		},
		"crash-in-a-wait": {
			&session.RunStart{}, &session.Begin{Attempt: 1, Model: "m"},
			&session.Retract{Attempt: 1, Cause: "overloaded", Failure: busy}, try(1, session.Running),
		},
		"crash-in-an-answer": {&session.RunStart{}, &session.Begin{Attempt: 1, Model: "claude-sonnet-5"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := journaled(t, bodies...)
			y, err := explainEnd(p)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/why/"+name+".txt", told(t, y))
			if err := printJSON(&bytes.Buffer{}, y); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhyRunning: a session that a process holds is at work, not dead.
func TestWhyRunning(t *testing.T) {
	store := session.Store{Dir: t.TempDir(), Project: "/p"}
	j, err := store.Create("s-1")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i, body := range []session.Body{&session.RunStart{}, &session.Begin{Attempt: 1, Model: "m"}} {
		if err := j.Append(session.Event{Version: session.Version, Seq: uint64(i + 1), Time: at, Session: "s-1", Run: 1, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := readPast(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("this system has no locks")
	}
	if !p.inUse {
		t.Fatal("a session that is written is not in use")
	}
	y, err := explainEnd(p)
	if err != nil {
		t.Fatal(err)
	}
	if y.State != runRunning || state(p.history, p.inUse) != "running" || !strings.HasPrefix(string(told(t, y)), "Still running: while m answered\n") {
		t.Errorf("%s, %s: %s", y.State, state(p.history, p.inUse), told(t, y))
	}
}

// TestTranscriptLines holds the JSON form of a session to the schema of the
// lines.
func TestTranscriptLines(t *testing.T) {
	p := journaled(t,
		&session.Start{Build: "1", Dir: "/p", Model: "m", Tools: []string{"Bash"}},
		&session.RunStart{}, &session.Message{Message: message.NewText("m1", "hello")},
		&session.Begin{Attempt: 1, Model: "m", Source: "main"},
		&session.Commit{Attempt: 1, Stop: "end_turn", Message: answer("m2", "Hello.", "end_turn")},
		&session.End{Reason: loop.Completed, Text: "Hello."},
	)
	var out bytes.Buffer
	if err := p.lines(&out); err != nil {
		t.Fatal(err)
	}
	check := lineSchema(t)
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != 4 {
		t.Errorf("%d lines instead of 4:\n%s", len(lines), out.Bytes())
	}
	for _, line := range lines {
		if err := check(line); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
	}
	var text bytes.Buffer
	if err := p.transcript(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"> hello\n", "\nHello.\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the transcript lacks %q:\n%s", want, text.String())
		}
	}
}
