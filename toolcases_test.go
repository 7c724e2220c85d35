package daruma_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/builtin"
	"github.com/go-json-experiment/json/jsontext"
)

// TestToolCases has what users reported about tools elsewhere, by the id of the
// report, where no other test of that id stands nearer to the code.
func TestToolCases(t *testing.T) {
	t.Run("C152 a tool that was made up", func(t *testing.T) {
		r := theResult(t, lab{script: fmt.Sprintf(oneCall, "block `{\"type\":\"tool_use\",\"name\":\"generic_command\",\"input\":{}}`")}.play(t))
		if text := r.Block.PlainText(); !r.Block.IsError || !strings.Contains(text, "Available tools: Read, Write") {
			t.Errorf("the result: %s", text)
		}
	})
	t.Run("C159 a call of old that no server can read", func(t *testing.T) {
		h := session.Fold([]session.Event{
			event(1, &session.Message{Message: message.NewText("m1", "Do it.")}),
			event(2, &session.Commit{Attempt: 1, Message: &message.Message{ID: "m2", Role: message.Assistant, Blocks: []message.Block{
				{Type: message.ToolUse, ID: "toolu_1", Name: "Read", Input: jsontext.Value(`{"value": `)},
				{Type: message.ToolUse, ID: "toolu_2", Name: "", Input: jsontext.Value(`[1,2]`)},
			}}}),
			event(3, &session.Result{Call: "toolu_1", Name: "Read", Block: message.TextResult("toolu_1", "It was not executed.", true)}),
			event(4, &session.Result{Call: "toolu_2", Block: message.TextResult("toolu_2", "It was not executed.", true)}),
			event(5, &session.Results{ID: "m3", Caller: "m2", Calls: []string{"toolu_1", "toolu_2"}}),
		})
		synctest.Test(t, func(t *testing.T) {
			agent, finish := simAgent(t, "model\n  rule done\n    say \"Good.\"\n", h, nil)
			result, err := daruma.Collect(agent.Run(t.Context(), "Go on."))
			if err != nil || result.Reason != loop.Completed {
				t.Errorf("%v, %+v", err, result)
			}
			checkViolations(t, finish())
		})
	})
	t.Run("C195 another wording of the pairing error", func(t *testing.T) {
		e := failure.Classify(failure.Report{Status: 400, Body: []byte(`{"message":"Expected toolResult blocks at messages.0.content for the following Ids: tooluse_x"}`)})
		if e.Kind != failure.ToolPairing || e.Retry != failure.RetryNo {
			t.Errorf("it is %s, %s", e.Kind, e.Retry)
		}
	})
	t.Run("C233 one tool with a schema that is refused", func(t *testing.T) {
		refuse := `status 400 invalid_request_error "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"`
		p := lab{script: "step bad\n  when offers Write\n  " + refuse + "\nmodel\n  rule done\n    say \"Good.\"\n"}.play(t)
		p.must(t, loop.Completed)
		if n := len(p.sent); n != 2 || len(p.sent[1].Tools) != 1 || p.sent[1].Tools[0].Name != "Read" {
			t.Errorf("%d requests", n)
		}
		if n := of[*session.Notice](p); len(n) != 1 || !strings.Contains(n[0].Text, "does not accept the tool Write") {
			t.Errorf("notices: %+v", n)
		}
	})
	t.Run("C206 a command that breaks the network", testBrokenNetwork)
	t.Run("C277 one of 27 fails", testOneOfMany)
}

func event(seq uint64, body session.Body) session.Event {
	return session.Event{Version: session.Version, Seq: seq, Session: "story", Run: 1, Turn: 1, Body: body}
}

// offline is a wire that cannot connect for some calls.
type offline struct {
	*anthropic.Client
	calls, from, to int
}

func (o *offline) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Event, error] {
	if o.calls++; o.calls < o.from || o.calls > o.to {
		return o.Client.Stream(ctx, r)
	}
	return func(yield func(model.Event, error) bool) {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("network is unreachable")}
		yield(model.Event{}, (&failure.Error{Kind: failure.Network, Retry: failure.RetryYes, Message: err.Error()}).Wrap(err))
	}
}

// testBrokenNetwork: the result of the command stays, the wait says why, and the
// model is told what came right after its command.
func testBrokenNetwork(t *testing.T) {
	shell := &slow{name: "Shell", effect: tool.Unsafe, access: tool.AccessShell}
	wire := &offline{from: 2, to: 5}
	p := lab{
		script: "model\n  rule off\n    when first\n    call Shell x=1\n  rule done\n    say \"I will not do that again.\"\n",
		config: func(cfg *daruma.Config) {
			cfg.Tools, _ = tool.NewSet(shell)
			wire.Client = cfg.Wire.(*witness).Client
			cfg.Wire = wire
		},
	}.play(t)
	p.must(t, loop.Completed)
	notes := 0
	for i, m := range p.held {
		if strings.Contains(m.PlainText(), "no connection to the model") {
			notes++
			if !m.Synthetic || !p.held[i-1].HasResults() {
				t.Errorf("the note stands at %d of %d", i, len(p.held))
			}
		}
	}
	waits := of[*session.Waiting](p)
	if notes != 1 || len(waits) == 0 || waits[0].Cause != failure.Network {
		t.Errorf("%d notes, %d waits", notes, len(waits))
	}
}

// testOneOfMany: 27 commands at once, of which one ends with 1: none is cut, and
// that one is no error.
func testOneOfMany(t *testing.T) {
	calls := ""
	for i := range 27 {
		command := fmt.Sprintf("ls / | wc -l | sed s/^/%d:/", i)
		if i == 9 {
			command = "ls | grep nothing"
		}
		calls += fmt.Sprintf("\n    call Bash command=%q", command)
	}
	ws, err := builtin.New(builtin.Config{Root: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	p := lab{script: "model\n  rule many\n    when first" + calls + "\n  rule done\n    say \"Good.\"\n", config: func(cfg *daruma.Config) {
		cfg.Tools, _ = tool.NewSet(ws.Tools()...)
		cfg.Permission = &permission.Policy{Mode: permission.Bypass, Root: "/"}
	}}.play(t)
	p.must(t, loop.Completed)
	results := of[*session.Result](p)
	for _, r := range results {
		if r.Block.IsError || strings.Contains(strings.ToLower(r.Block.PlainText()), "cancel") {
			t.Errorf("%s", r.Block.PlainText())
		}
	}
	if len(results) != 27 {
		t.Errorf("%d results", len(results))
	}
}
