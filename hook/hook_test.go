package hook

import (
	"context"
	"flag"
	"os"
	"strings"
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

// words are kinds of output.
var words = []string{"json", "plain", "broken"}

// yes is what a hook says that agrees to all and wants all.
var yes = map[Event]string{
	PreToolUse:        `"permissionDecision":"allow","permissionDecisionReason":"fine"`,
	PermissionRequest: `"decision":{"behavior":"allow"}`,
	PostToolUse:       `"updatedToolOutput":"other"`,
	UserPromptSubmit:  `"additionalContext":"context","sessionTitle":"title"`,
	SessionStart:      `"additionalContext":"context","initialUserMessage":"begin"`,
	RecoveryStart:     `"action":"fallback","model":"other"`,
}

func says(e Event, word string) string {
	specific, ok := yes[e]
	if !ok {
		specific = `"additionalContext":"context"`
	}
	decision := `"decision":"block","reason":"why",`
	if e == PreToolUse {
		decision = ""
	}
	whole := `{` + decision + `"systemMessage":"hello","hookSpecificOutput":{"hookEventName":"` + string(e) + `",` + specific + `}}`
	switch word {
	case "plain":
		return "plain words"
	case "broken":
		return whole[:len(whole)-3]
	}
	return whole
}

// golden compares text with a file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	have, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(have), len(wanted)) {
		a, b := "", ""
		if i < len(have) {
			a = have[i]
		}
		if i < len(wanted) {
			b = wanted[i]
		}
		if a != b {
			t.Errorf("%s:%d:\n got %s\nwant %s", name, i+1, a, b)
		}
	}
}
