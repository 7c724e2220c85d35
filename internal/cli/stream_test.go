package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file, or writes the file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: go test ./internal/cli -update writes it anew (-want +got):\n%s", path, diff)
	}
}

// lineSchema returns the schema of stream-json with the check of one kind of
// line on top, so that an error names the field and not all kinds.
func lineSchema(t testing.TB) func(line []byte) error {
	t.Helper()
	data, err := os.ReadFile("testdata/stream-json.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var whole jsonschema.Schema
	if err := whole.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	known := map[string]*jsonschema.Resolved{}
	return func(line []byte) error {
		var value map[string]any
		if err := json.Unmarshal(line, &value); err != nil {
			return err
		}
		kind, _ := value["type"].(string)
		if sub, ok := value["subtype"].(string); ok && kind == "system" {
			kind += "_" + sub
		}
		if known[kind] == nil {
			if whole.Defs[kind] == nil {
				return errors.New("the schema does not know lines of kind " + kind)
			}
			one := &jsonschema.Schema{Ref: "#/$defs/" + kind, Defs: whole.CloneSchemas().Defs}
			var err error
			if known[kind], err = one.Resolve(nil); err != nil {
				return err
			}
		}
		return known[kind].Validate(value)
	}
}

// LineSchema is for the scripts, which are in another package.
var LineSchema = lineSchema

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func answer(id, text, stop string, more ...message.Block) *message.Message {
	return &message.Message{
		ID: id, Role: message.Assistant, Model: "claude-sonnet-5", Stop: stop,
		Blocks: append([]message.Block{{Type: message.Text, Text: text}}, more...),
	}
}

// TestStreamLines shows what each kind of event becomes. The golden file is
// read by people.
func TestStreamLines(t *testing.T) {
	spent := session.Spent{Usage: session.Tokens{Input: 9, Output: 20, CacheRead: 900}, USD: 0.01, Total: 2 * time.Second}
	busy := &failure.Error{Kind: failure.Overloaded, Status: 529, Retry: failure.RetryYes, Message: "Overloaded"}
	wait := session.Recovery{
		ID: 1, Layer: "request", Cause: failure.Overloaded, Status: 529, Request: "req_1", Evidence: "Overloaded", Decision: "retry",
		Rule: "backoff", Attempt: 1, Of: 10, Delay: 512 * time.Millisecond, NextAt: at, State: session.Running, From: "claude-sonnet-5",
	}
	healed, offline := wait, wait
	healed.State = session.Healed
	offline.ID, offline.Cause, offline.Status, offline.Of = 2, failure.Network, 0, 0
	call := message.Block{Type: message.ToolUse, ID: "toolu_1", Name: "Read", Input: jsontext.Value(`{"file_path":"/p/a"}`)}
	for _, c := range []struct {
		name   string
		bodies []session.Body
	}{
		{"a retry that heals", []session.Body{
			&session.Begin{Attempt: 1, Model: "claude-sonnet-5", Source: "main"},
			&session.Retract{Attempt: 1, Cause: "overloaded", Failure: busy, Spent: session.Spent{Unknown: true}},
			&wait, &session.Waiting{Recovery: 1, Cause: failure.Overloaded, Attempt: 1, Of: 10, Left: time.Second, Until: at}, &healed,
		}},
		{"no answer at all, and time is the limit", []session.Body{&offline}},
		{"an answer with thinking and a call, while it is written", []session.Body{
			&session.Begin{Attempt: 2, Model: "claude-sonnet-5", Source: "main"},
			&session.Block{Attempt: 2, Index: 0, Block: message.Thinking},
			&session.Delta{Attempt: 2, Index: 0, Text: "Hm.", Thinking: true},
			&session.Block{Attempt: 2, Index: 1, Block: message.Text},
			&session.Delta{Attempt: 2, Index: 1, Text: "I read."},
			&session.Block{Attempt: 2, Index: 2, Block: message.ToolUse, ID: "toolu_1", Name: "Read"},
			&session.Delta{Attempt: 2, Index: 2, Text: `{"file_path":"/p/a"}`, Input: true},
			&session.Commit{Attempt: 2, Stop: "tool_use", Spent: spent, Message: answer("m2", "I read.", "tool_use", call)},
		}},
		{"a result, a refusal and a failed result", []session.Body{
			&session.Result{Call: "toolu_1", Name: "Read", Block: message.TextResult("toolu_1", "hello", false), Output: map[string]any{"type": "text"}},
			&session.Permission{Call: "toolu_2", Name: "Bash", By: "rule", Reason: "The rule Bash(rm:*) denies it."},
			&session.Permission{Call: "toolu_3", Name: "Bash", By: "rule", Allowed: true},
			&session.Result{Call: "toolu_2", Name: "Bash", Denied: true, Block: message.TextResult("toolu_2", "refused", true)},
			&session.Results{ID: "m3", Caller: "m2", Calls: []string{"toolu_1", "toolu_2"}},
		}},
		{"streamed words that are taken back", []session.Body{
			&session.Begin{Attempt: 3, Model: "claude-sonnet-5", Source: "main"},
			&session.Block{Attempt: 3, Index: 0, Block: message.Text},
			&session.Delta{Attempt: 3, Index: 0, Text: "Once upon"},
			&session.Retract{Attempt: 3, Cause: "network", Lost: 9, Spent: spent},
		}},
		{"a cut answer that is kept, and the word to go on", []session.Body{
			&session.Begin{Attempt: 4, Model: "claude-sonnet-5", Source: "main"},
			&session.Block{Attempt: 4, Index: 0, Block: message.Text},
			&session.Delta{Attempt: 4, Index: 0, Text: "Once upon a ti"},
			&session.Continue{Attempt: 4, Cause: "truncated text", Spent: spent, Message: answer("m4", "Once upon a ti", "max_tokens")},
			&session.Message{Message: message.NewSynthetic("m5", "Go on.")},
			&session.Message{Message: message.NewText("m6", "said by a person, who knows it")},
		}},
		{"a summary, and smaller parts", []session.Body{
			&session.Begin{Attempt: 5, Model: "claude-sonnet-5", Source: "compact"},
			&session.Commit{Attempt: 5, Stop: "end_turn", Spent: spent},
			&session.Compaction{Rung: "summary", Cause: "proactive_compact", Before: 9000, After: 800, New: []*message.Message{message.NewSynthetic("m7", "Summary.")}},
			&session.Compaction{Rung: "collapse", Cause: "collapse_drain_retry", Before: 9000, After: 4000},
		}},
		{"a notice", []session.Body{&session.Notice{Level: session.Warning, Text: "switched to another model"}}},
		{"an interrupt keeps what was said", []session.Body{
			&session.Continue{Attempt: 6, Cause: "aborted user", Spent: spent, Message: answer("m8", "Half a", "")},
			&session.Message{Message: message.NewSynthetic("m9", "[The user interrupted you here.]")},
			&session.End{Reason: loop.AbortedStreaming, IsError: true},
		}},
		{"an interrupt before anything was said", []session.Body{&session.Continue{Attempt: 7, Cause: "aborted user", Spent: spent}}},
		{"an error is shown once", []session.Body{
			&session.Message{Message: message.NewFailure("m10", "the provider is overloaded; try again later", busy)},
			&session.End{Reason: loop.APIError, IsError: true},
		}},
		{"the output limit has a category of its own", []session.Body{
			&session.Message{Message: message.NewFailure("m11", "longer than the limit", &failure.Error{Kind: failure.Unknown})},
			&session.End{Reason: loop.OutputLimit, IsError: true},
		}},
	} {
		n := 0
		s := &stream{id: func() string { n++; return fmt.Sprint("u", n) }, session: "s-1", retries: 10, partial: true}
		var got bytes.Buffer
		check := lineSchema(t)
		for _, body := range c.bodies {
			for _, line := range s.lines(session.Event{Time: at, Session: "s-1", Run: 1, Turn: 1, Body: body}) {
				data, err := json.Marshal(line, session.JSONOptions())
				if err != nil {
					t.Fatal(err)
				}
				if err := check(data); err != nil {
					t.Errorf("%s: %v\n%s", c.name, err, data)
				}
				got.Write(append(data, '\n'))
			}
		}
		t.Run(c.name, func(t *testing.T) {
			golden(t, filepath.Join("testdata/stream", strings.ReplaceAll(strings.ReplaceAll(c.name, ",", ""), " ", "-")+".jsonl"), got.Bytes())
		})
	}
}

// TestStreamResult holds the first and the last line to the schema, for every
// reason with which a run can end.
func TestStreamResult(t *testing.T) {
	check := lineSchema(t)
	set, err := tool.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := &setup{session: "s-1", config: daruma.Config{
		Models: []string{"claude-sonnet-5", "claude-haiku-4-5"}, Tools: set, Dir: "/p",
		Permission: &permission.Policy{Mode: permission.Plan},
	}}
	o := newOutput(&world{Stdout: &out}, &options{output: formatStream}, s)
	o.write(o.first())
	for _, reason := range loop.Reasons {
		r := &daruma.Result{Session: "s-1", End: session.End{Reason: reason, IsError: reason.IsError(), NextAt: at}}
		if reason == loop.APIError {
			r.Failure = &failure.Error{Kind: failure.RateLimit, Status: 429}
		}
		code := exitCode(reason, r.Failure)
		if r.IsError != (code != exitOK) {
			t.Errorf("%s: is_error is %v, but the exit code is %d", reason, r.IsError, code)
		}
		if err := o.finish(r, code); err != nil {
			t.Fatal(err)
		}
	}
	o.stillborn(loop.SetupFailed, errors.New("no space left"), fail(exitConfig, "make room", "no space left"))
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if want := len(loop.Reasons) + 2; len(lines) != want {
		t.Errorf("%d lines instead of %d", len(lines), want)
	}
	for _, line := range lines {
		if err := check(line); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
	}
}

// TestStreamBegins: the first line comes once the prompt is in the session, and
// without one at once.
func TestStreamBegins(t *testing.T) {
	set, _ := tool.NewSet()
	for prompt, silent := range map[string]int{"do": 3, "": 0} {
		var out bytes.Buffer
		s := &setup{session: "s-1", config: daruma.Config{Models: []string{"m"}, Tools: set}}
		o := newOutput(&world{Stdout: &out}, &options{output: formatStream, prompt: prompt}, s)
		seen := 0
		events := func(yield func(session.Event, error) bool) {
			for i, b := range []session.Body{&session.Start{}, &session.Name{}, &session.RunStart{}, &session.Prompt{Text: "do"}, &session.End{Reason: loop.Completed}} {
				if yield(session.Event{Body: b}, nil); strings.Contains(out.String(), `"init"`) != (i >= silent) {
					t.Errorf("prompt %q: behind event %d there stands %q", prompt, i, out.String())
				}
				seen++
			}
		}
		if _, err := daruma.Collect(o.follow(events)); err != nil || seen != 5 || strings.Count(out.String(), `"init"`) != 1 {
			t.Errorf("prompt %q: %v, %d events, %s", prompt, err, seen, out.String())
		}
	}
}

// TestStreamLeft: when nobody reads any more, the run ends.
func TestStreamLeft(t *testing.T) {
	set, _ := tool.NewSet()
	s := &setup{session: "s-1", config: daruma.Config{Models: []string{"m"}, Tools: set}}
	o := newOutput(&world{Stdout: &reader{lines: 2}}, &options{output: formatStream}, s)
	played := 0
	events := func(yield func(session.Event, error) bool) {
		for range 10 {
			played++
			if !yield(session.Event{Body: &session.Notice{Level: session.Info, Text: "hello"}}, nil) {
				return
			}
		}
	}
	if _, err := daruma.Collect(o.follow(events)); err != nil {
		t.Fatal(err)
	}
	if played != 2 { // the first line is init
		t.Errorf("%d events were played for a reader of 2 lines", played)
	}
	if err := o.finish(&daruma.Result{}, exitFailed); !errors.Is(err, os.ErrClosed) {
		t.Errorf("finish: %v", err)
	}
}

// reader goes away after some lines.
type reader struct{ lines int }

func (r *reader) Write(p []byte) (int, error) {
	if r.lines--; r.lines < 0 {
		return 0, os.ErrClosed
	}
	return len(p), nil
}

// TestStreamFormats keeps the flag's words and the list together.
func TestStreamFormats(t *testing.T) {
	for _, format := range append(slices.Clone(outputFormats), "yaml") {
		err := (&options{output: format, print: true, prompt: "x", retries: -1}).check(&world{Stdin: strings.NewReader("")})
		if (err != nil) != (format == "yaml") {
			t.Errorf("%s: %v", format, err)
		}
	}
}
