package hook

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite testdata/matrix.txt and the table in docs/hooks.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is what hooks of tests get.
func env() []string { return []string{"PATH=" + os.Getenv("PATH"), "PROBE=yes"} }

// hooks are ready hooks, which the end of the test closes.
func hooks(t *testing.T, cfg Config) *Hooks {
	t.Helper()
	if cfg.Env == nil {
		cfg.Env = env()
	}
	if cfg.Grace == 0 {
		cfg.Grace = 50 * time.Millisecond
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// sh is a command hook.
func sh(e Event, command string) Handler {
	return Handler{Event: e, Type: Command, Command: command, Source: "settings.json"}
}

func common(t *testing.T) Common {
	return Common{Session: "s1", Transcript: "/tmp/s1.jsonl", Dir: t.TempDir(), PermissionMode: "default"}
}

var shellCall = ToolCall{Name: "Bash", Input: jsontext.Value(`{"command":"git push"}`), ID: "call_1"}

// example is an input of each event.
func example(e Event, c Common) Input {
	record := RecoveryRecord{Decision: "retry", Cause: "overloaded", Record: jsontext.Value(`{"id":1}`)}
	if e == SubagentStart || e == SubagentStop {
		c.AgentID, c.AgentType = "a1", "reviewer"
	}
	noID := shellCall
	noID.ID = ""
	bodies := []Body{
		PreToolUseInput{shellCall}, PermissionRequestInput{ToolCall: noID},
		PostToolUseInput{ToolCall: shellCall, Response: jsontext.Value(`{"stdout":"ok"}`), DurationMS: 12},
		PostToolUseFailureInput{ToolCall: shellCall, Error: "Exit code 1"},
		PostToolBatchInput{Calls: []AnsweredCall{{ToolCall: shellCall, Response: jsontext.Value(`"ok"`)}}},
		UserPromptSubmitInput{Text: "hello"}, SessionStartInput{Source: "startup", Model: "m"}, SessionEndInput{Reason: "other"},
		StopInput{LastMessage: "done"}, StopFailureInput{Error: "overloaded", Attempts: 3, Helper: true, NextAt: "2026-01-02T03:04:05Z"},
		SubagentStartInput{}, SubagentStopInput{Transcript: "/tmp/a1.jsonl"}, PreCompactInput{Trigger: "auto"},
		PostCompactInput{Trigger: "auto", Summary: "short"}, NotificationInput{Message: "look", Type: "idle_prompt"},
		RecoveryStartInput{record}, RecoveryEndInput{record},
	}
	for _, b := range bodies {
		if b.event() == e {
			return Input{c, b}
		}
	}
	panic("no example of " + string(e))
}
