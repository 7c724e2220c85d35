package telemetry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/telemetry"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// TestDetails holds what the stories do not meet, one event after another.
func TestDetails(t *testing.T) {
	answer := func(blocks ...message.Block) *message.Message {
		return &message.Message{Role: message.Assistant, Model: "m-2026", Blocks: blocks}
	}
	call := message.Block{Type: message.ToolUse, ID: "c", Name: "Bash", Input: jsontext.Value(`{"command":"ls"}`)}
	until := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		bodies []session.Body
		want   []string // "number key=value" of a span, or "* name key=value" of an event
		never  []string
	}{
		{"held at the gate", []session.Body{
			&session.Begin{Attempt: 1, Model: "m", Source: "main", Held: true},
			&session.Retract{Attempt: 1, Failure: &failure.Error{Kind: failure.RateLimit, Message: "words"}},
		}, []string{"2 (internal)", "2 daruma.held=true", "2 error.type=rate_limit", "2 daruma.failure.message=words"}, nil},
		{"money", []session.Body{
			&session.Begin{Attempt: 1, Model: "m", Source: "main"},
			&session.Commit{Attempt: 1, Stop: "end_turn", Message: answer(), Spent: session.Spent{USD: 0.5, Usage: session.Tokens{Input: 1, CacheRead: 2, CacheWrite: 3}}},
			&session.End{Reason: loop.MaxTurns, Total: session.Total{USD: 0.5, Unknown: 1}, Wasted: session.Total{USD: 0.25}},
		}, []string{
			"2 daruma.cost.usd=0.5", "2 gen_ai.usage.input_tokens=6", "2 gen_ai.usage.output_tokens=0", "2 gen_ai.response.model=m-2026",
			"1 daruma.cost.usd=0.5", "1 daruma.wasted.cost.usd=0.25", "1 daruma.cost.unknown_attempts=1", "1 error.type=max_turns",
		}, []string{"daruma.cost.unknown=true", "daruma.interrupted"}},
		{"silence", []session.Body{
			&session.Begin{Attempt: 1, Model: "m", Source: "main"},
			&session.Retract{Attempt: 1, Failure: &failure.Error{Kind: failure.Timeout, Stalled: true}, Spent: session.Spent{Unknown: true}},
		}, []string{"2 daruma.stalled=true", "2 daruma.cost.unknown=true"}, []string{"gen_ai.usage", "daruma.cost.usd"}},
		{"nothing kept", []session.Body{
			&session.Begin{Attempt: 1, Model: "m", Source: "main"},
			&session.Continue{Attempt: 1, Cause: "truncated text"},
			&session.Begin{Attempt: 2, Model: "m", Source: "main"},
		}, []string{"2 daruma.outcome=retracted", "3 -> daruma.link=replacement"}, []string{"error.type=truncated"}},
		{"each source by itself", []session.Body{
			&session.Begin{Attempt: 1, Model: "m", Source: "main"},
			&session.Retract{Attempt: 1, Cause: "empty"},
			&session.Begin{Attempt: 2, Model: "m", Source: "compact"},
			&session.Commit{Attempt: 2, Stop: "end_turn"},
			&session.Begin{Attempt: 3, Model: "m", Source: "main", Try: 1},
		}, []string{"2 error.type=empty", "2 daruma.cause=empty", "4 -> daruma.link=retry"}, []string{"3 ->"}},
		{"a call", []session.Body{
			&session.Begin{Attempt: 1, Model: "m", Source: "main"},
			&session.Commit{Attempt: 1, Stop: "tool_use", Message: answer(call, message.Block{Type: message.Image})},
			&session.Intent{Call: "c", Name: "Bash", Effect: "unsafe", Input: jsontext.Value(`{"command":"ls -l"}`)},
			&session.Intent{Call: "c", Name: "Bash", Effect: "unsafe", Group: 7},
			&session.Result{Call: "c", Name: "Bash", Block: message.TextResult("c", "a b", false)},
			&session.Result{Call: "c", Name: "Bash", Class: "ENOENT"},
		}, []string{
			`2 gen_ai.output.messages=[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"Bash","arguments":"{\"command\":\"ls\"}"},{"type":"blob"}],"finish_reason":"tool_call"}]`,
			"3 gen_ai.tool.call.arguments={\"command\":\"ls -l\"}", "3 gen_ai.tool.call.result=a b",
			"* daruma.leftover error.type=ENOENT",
		}, []string{"4 "}},
		{"an error without a class", []session.Body{
			&session.Intent{Call: "c", Name: "Bash"},
			&session.Result{Call: "c", Name: "Bash", Block: message.TextResult("c", "no", true)},
		}, []string{"2 error.type=_OTHER"}, nil},
		{"a life before", []session.Body{
			&session.Retract{Attempt: 9, Cause: "the process ended"},
			&session.Result{Call: "old", Name: "Bash", Class: "Aborted"},
		}, []string{"* daruma.leftover daruma.attempt=9", "* daruma.leftover gen_ai.tool.call.id=old"}, []string{"2 "}},
		{"a wait", []session.Body{
			&session.Waiting{Recovery: 1, Cause: failure.RateLimit, Left: 2 * time.Second, Until: until},
			&session.Waiting{Recovery: 1, Cause: failure.RateLimit, Left: time.Second, Until: until},
			&session.Waiting{Recovery: 1, Cause: failure.RateLimit, Left: 5 * time.Second, Until: until.Add(4 * time.Second)},
		}, []string{"* daruma.wait daruma.wait.left=2", "* daruma.wait daruma.wait.left=5"}, []string{"daruma.wait.left=1"}},
		{"other events", []session.Body{
			&session.Prompt{Text: "p"},
			&session.Mismatch{Said: "s"},
			&session.Permission{Call: "c", Name: "Bash", Allowed: true, By: "mode"},
			&session.Repair{Fixes: slices.Repeat([]message.Fix{{Rule: "orphan", Detail: "d"}}, 20)},
			&session.Recovery{ID: 1, State: session.Running, Evidence: "they said", Lost: session.Lost{USD: 0.5, Unknown: true, Took: time.Second}},
		}, []string{
			"* daruma.prompt_queued", "* daruma.pairing_mismatch", "* daruma.repair daruma.repair.fixes=20",
			"* daruma.recovery daruma.recovery.evidence=they said", "* daruma.recovery daruma.recovery.lost.cost.usd=0.5",
			"* daruma.recovery daruma.recovery.lost.cost.unknown=true", "* daruma.recovery daruma.recovery.lost.time=1",
		}, []string{"daruma.permission_refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder()
			o := telemetry.New(telemetry.Config{Tracer: rec, Provider: "p", Content: true})
			for i, b := range slices.Concat([]session.Body{new(session.RunStart)}, c.bodies) {
				o.Observe(session.Event{Session: "s", Run: 1, Time: until.Add(time.Duration(i) * time.Second), Body: b})
			}
			o.Close()
			lawful(t, rec)
			facts := rec.facts()
			for _, want := range c.want {
				if !slices.Contains(facts, want) {
					t.Errorf("missing: %s\n%s", want, rec.tree())
				}
			}
			for _, never := range c.never {
				if slices.ContainsFunc(facts, func(f string) bool { return strings.HasPrefix(f, never) || strings.Contains(f, " "+never) }) {
					t.Errorf("not wanted: %s\n%s", never, rec.tree())
				}
			}
		})
	}
}

// TestFinishReasons holds each stop of the API in the conventions' words; what
// is not known stays as it is.
func TestFinishReasons(t *testing.T) {
	got := map[string]string{}
	for _, stop := range []string{"end_turn", "stop_sequence", "pause_turn", "max_tokens", "model_context_window_exceeded", "tool_use", "refusal", "", "meteor"} {
		rec := newRecorder()
		o := telemetry.New(telemetry.Config{Tracer: rec, Content: true})
		o.Observe(session.Event{Body: new(session.RunStart)})
		o.Observe(session.Event{Body: &session.End{Text: "x", Stop: stop}})
		_, reason, _ := strings.Cut(rec.spans[0].attr("gen_ai.output.messages"), `"finish_reason":"`)
		got[stop] = strings.TrimSuffix(reason, `"}]`)
	}
	want := map[string]string{
		"end_turn": "stop", "stop_sequence": "stop", "pause_turn": "stop", "max_tokens": "length",
		"model_context_window_exceeded": "length", "tool_use": "tool_call", "refusal": "content_filter", "": "error", "meteor": "meteor",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
