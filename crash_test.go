package daruma_test

import (
	_ "embed"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// crashScript has tools with and without effects, retries, a cut answer and an
// overflow, so that a run writes every kind of event.
//
//go:embed testdata/eventful.fault
var crashScript string

// resumeScript answers whatever a resumed session still asks.
const resumeScript = `model
  rule done
    say "Good."
`

// TestCrashAtEveryWrite ends the process behind every event that a run writes,
// and resumes: the next request must be valid, the run must complete, and the
// model must be told of every call that may have taken effect.
func TestCrashAtEveryWrite(t *testing.T) {
	var lines [][]byte
	synctest.Test(t, func(t *testing.T) {
		agent, finish := simAgent(t, crashScript, nil, nil)
		for e, err := range agent.Run(t.Context(), "Do the task.") {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type().Durable() {
				line, err := session.Encode(e)
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, line)
			}
		}
		finish()
	})
	seen := map[session.Type]bool{}
	for k := range lines {
		t.Run("", func(t *testing.T) {
			h := &session.History{}
			for _, line := range lines[:k+1] {
				e, err := session.Decode(line)
				if err != nil {
					t.Fatal(err)
				}
				seen[e.Type()] = true
				h.Apply(e)
			}
			resume(t, h)
		})
	}
	for _, want := range []session.Type{session.TypeRetract, session.TypeContinue, session.TypeCompaction, session.TypeIntent, session.TypeEnd} {
		if !seen[want] {
			t.Errorf("the run wrote no %s, so dying behind it was not tried", want)
		}
	}
}

func resume(t *testing.T, h *session.History) {
	doubtful := inDoubt(h)
	said := spoken(h.Messages)
	synctest.Test(t, func(t *testing.T) {
		agent, finish := simAgent(t, resumeScript, h, nil)
		result, err := daruma.Collect(agent.Run(t.Context(), "Go on."))
		if err != nil {
			t.Fatal(err)
		}
		if result.Reason != loop.Completed {
			t.Errorf("the resumed run ended with %s: %v", result.Reason, result.Failure)
		}
		for _, v := range finish().Violations {
			t.Errorf("the resumed session broke the protocol: %s", v)
		}
		now := spoken(agent.History().Messages)
		if len(now) < len(said) || !slices.Equal(now[:len(said)], said) {
			t.Errorf("what was said before is not what the session says now:\n%q\n%q", said, now)
		}
		for _, id := range doubtful {
			if !told(agent.History().Messages, id, "may have taken effect") {
				t.Errorf("the model was not told that call %s may have taken effect", id)
			}
		}
	})
}

// inDoubt lists the calls with effects that began and have no result.
func inDoubt(h *session.History) []string {
	var ids []string
	for id := range h.Intents {
		ids = append(ids, id)
	}
	return ids
}

// spoken is the text of the conversation, message by message, without results.
func spoken(msgs []*message.Message) []string {
	var out []string
	for _, m := range msgs {
		if !m.HasResults() {
			out = append(out, m.PlainText())
		}
	}
	return out
}

func told(msgs []*message.Message, call, text string) bool {
	for _, m := range msgs {
		for i := range m.Blocks {
			if b := &m.Blocks[i]; b.ToolUseID == call && strings.Contains(b.PlainText(), text) {
				return true
			}
		}
	}
	return false
}

// simAgent is an agent with simulated tools before a fault server in memory.
// It goes on from h, and shows every event to observe; both may be nil.
func simAgent(t *testing.T, text string, h *session.History, observe func(session.Event)) (*daruma.Agent, func() fault.Report) {
	t.Helper()
	return simulated(t, text, func(cfg *daruma.Config) { cfg.History, cfg.Observe = h, observe })
}

// simulated is the same with a configuration that change makes its own. finish
// ends the server, and returns what it saw.
func simulated(t *testing.T, text string, change func(*daruma.Config)) (agent *daruma.Agent, finish func() fault.Report) {
	t.Helper()
	script, err := fault.Parse("script", text)
	if err != nil {
		t.Fatal(err)
	}
	network := fault.NewMemoryNet()
	server := fault.New(script, fault.Options{}).Serve(network)
	wire, err := anthropic.New(anthropic.Config{BaseURL: "http://fault.test", APIKey: "any-key", DialContext: network.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	set, err := tool.NewSet(&simTool{name: "Read", effect: tool.Pure, bad: &bad}, &simTool{name: "Write", effect: tool.Unsafe, bad: &bad})
	if err != nil {
		t.Fatal(err)
	}
	cfg := daruma.Config{
		Wire: wire, Models: []string{"claude-a", "claude-b"}, Tools: set, Session: "story",
		System: []string{"Be brief."}, Rand: func() float64 { return 0 },
	}
	change(&cfg)
	if agent, err = daruma.New(cfg); err != nil {
		t.Fatal(err)
	}
	return agent, func() fault.Report {
		wire.DropIdle()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		for _, b := range bad {
			t.Error(b)
		}
		return server.Report()
	}
}
