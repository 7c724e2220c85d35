package daruma_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
)

// What users of agents have reported about sessions, interrupts and ends, by the
// number that the project gives each report. Others stand where they can be
// tried best: C108, C170 and C250 with the real binary in cmd/daruma, C064,
// C102, C145, C146 and C218 as scripts in internal/cli, C109, C110, C171, C173,
// C254 and C255 in session.

// resumed is a lab that goes on from these messages.
func resumed(script string, messages ...*message.Message) lab {
	return lab{script: script, prompts: []string{"Go on."}, config: func(cfg *daruma.Config) {
		h := &session.History{Session: "story"}
		for i, m := range messages {
			h.Apply(session.Event{Seq: uint64(i + 1), Session: "story", Run: 1, Body: &session.Message{Message: m}})
		}
		cfg.History = h
	}}
}

// goesOnFrom holds that a conversation that ends so can go on. The laws of the
// lab compare the log with memory, and the log lacks what was given.
func goesOnFrom(t *testing.T, l lab) []*message.Message {
	t.Helper()
	var held []*message.Message
	synctest.Test(t, func(t *testing.T) {
		agent, finish := simulated(t, l.script, l.config)
		goesOn(t, agent)
		report := finish()
		checkViolations(t, report)
		if len(report.Requests) != 1 {
			t.Errorf("%d requests", len(report.Requests))
		}
		held = agent.History().Messages
	})
	return held
}

func called(id, name, input string) *message.Message {
	return &message.Message{ID: "m" + id, Role: message.Assistant, Model: "claude-a", Blocks: []message.Block{
		{Type: message.Text, Text: "I look."}, {Type: message.ToolUse, ID: id, Name: name, Input: []byte(input)},
	}}
}

// TestC018: a run that ended on an exhausted quota after three retries was
// reported as a success. "Reset after 0s" is no reason to ask at once.
func TestC018(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent, finish := simulated(t, "step s always\n  status 429 json `"+
			`{"error":{"code":429,"message":"You have exhausted your capacity on this model. Your quota will reset after 0s.","status":"RESOURCE_EXHAUSTED"}}`+
			"`\n", both(tries(3), chain("claude-a")))
		began := time.Now()
		result, err := daruma.Collect(agent.Run(t.Context(), "Do the task."))
		if err != nil {
			t.Fatal(err)
		}
		if result.Reason != loop.APIError || !result.IsError || result.Err() == nil {
			t.Errorf("it ended with %s", result.Reason)
		}
		if n := len(finish().Requests); n < 1 || n > 4 || n > 1 && time.Since(began) < time.Duration(n-1)*400*time.Millisecond {
			t.Errorf("%d requests within %s", n, time.Since(began))
		}
	})
}

// TestC063: a summary replaced the beginning, and the tail that was kept starts
// with a call whose result was dropped; resuming failed with a 400.
func TestC063(t *testing.T) {
	goesOnFrom(t, resumed(resumeScript,
		message.NewSynthetic("m1", "Summary of what happened before."),
		&message.Message{ID: "m2", Role: message.Assistant, Blocks: []message.Block{{Type: message.Text, Text: "I know."}}},
		called("call_1", "Read", `{"file_path":"a"}`),
		message.NewText("m4", "And now?"),
	))
}

// TestC103: Ctrl+C while a nested agent works made the session irrecoverable.
// See also TestSubAgentEndsWithItsParent.
func TestC103(t *testing.T) {
	p := lab{
		script: familyScript("slow", "stall text"), prompts: []string{"Do the task.", "Go on."}, config: withAgents(daruma.SubAgents{}),
		at: func(a *daruma.Agent, e session.Event) {
			if _, ok := e.Body.(*session.Child); ok && e.Run == 1 {
				time.AfterFunc(time.Second, func() { a.Interrupt() })
			}
		},
	}.play(t)
	p.must(t, loop.Completed)
	if p.ends[0].Reason != loop.AbortedTools {
		t.Errorf("interrupted, the run ended with %s", p.ends[0].Reason)
	}
	for _, m := range p.held {
		for _, c := range m.Calls() {
			if !slices.ContainsFunc(p.held, func(o *message.Message) bool {
				return slices.ContainsFunc(o.Blocks, func(b message.Block) bool { return b.ToolUseID == c.ID })
			}) {
				t.Errorf("call %s has no result", c.ID)
			}
		}
	}
}

// TestC104: after an interrupt through a gateway the session stayed invalid, and
// the gateway words the pairing error in its own way. Results come first in the
// message that follows (the strict server holds it), and this wording is known.
func TestC104(t *testing.T) {
	p := lab{script: stuck, prompts: []string{"Do the task.", "Go on."}, at: interruptTools}.play(t)
	p.must(t, loop.Completed)
	e := failure.Classify(failure.Report{Status: 400, Body: []byte(`{"external_model_provider":"amazon-bedrock","external_model_error":{"message":"messages.2: Did not find 1 tool_result block(s) at the beginning of this message. Messages following tool_use blocks must begin with a matching number of tool_result blocks."}}`)})
	if e.Kind != failure.ToolPairing {
		t.Errorf("the gateway's words are %s", e.Kind)
	}
}

// stuck calls a tool; interruptTools interrupts it.
const stuck = `model
  rule act
    when not called Write
    say "Now I write."
    call Write file_path="c" content="x"
    call Write file_path="d" content="x"
  rule done
    say "Good."
`

func interruptTools(a *daruma.Agent, e session.Event) {
	if _, ok := e.Body.(*session.Intent); ok && e.Run == 1 {
		a.Interrupt()
	}
}

// TestC105: after Ctrl+C a new message confused the model, because the open call
// was never answered. It is, before the new message.
func TestC105(t *testing.T) {
	p := lab{script: stuck, prompts: []string{"Do the task.", "Something else."}, at: interruptTools}.play(t)
	p.must(t, loop.Completed)
	last := p.sent[len(p.sent)-1].Messages
	answered, prompt := -1, -1
	for i, m := range last {
		for j := range m.Blocks {
			switch b := &m.Blocks[j]; {
			case b.Type == message.ToolResult:
				answered = 100*i + j
			case b.Type == message.Text && b.Text == "Something else.":
				prompt = 100*i + j
			}
		}
	}
	if answered < 0 || prompt < answered {
		t.Errorf("the result stands at %d, the new message at %d", answered, prompt)
	}
}

// TestC112: each resume failed within seconds, since the last record was a
// made-up error of the agent, or a call without result.
func TestC112(t *testing.T) {
	prompt := message.NewText("m1", "Do the task.")
	failed := message.NewFailure("m2", "API Error: 500", &failure.Error{Kind: failure.ServerError, Status: 500})
	goesOnFrom(t, resumed(resumeScript, prompt, failed))
	held := goesOnFrom(t, resumed(resumeScript, prompt, called("call_1", "Write", `{"file_path":"c"}`)))
	if !told(held, "call_1", "was not run") {
		t.Error("the model is not told what became of the call")
	}
}

// TestC128: after an overflow that nothing healed the stop button had no effect,
// and even a reset waited behind the dead run.
func TestC128(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent, finish := simulated(t, `step full always
  when not user "Go on"
  status 400 invalid_request_error "This model's maximum context length is 262144 tokens. However, you requested 303617 tokens (271617 in the messages, 32000 in the completion)."
`+resumeScript, func(cfg *daruma.Config) { cfg.Models = []string{"claude-a"} })
		result, err := daruma.Collect(agent.Run(t.Context(), "Do the task."))
		if err != nil || !result.IsError {
			t.Fatalf("%v, %+v", err, result)
		}
		if agent.Interrupt() {
			t.Error("a run is still in progress")
		}
		goesOn(t, agent)
		checkViolations(t, finish())
	})
}

// TestC188: each cancel and retry added another block to the prompt. However
// often somebody goes on and cancels, the model is told once.
func TestC188(t *testing.T) {
	const rounds = 6
	prompts := append(slices.Repeat([]string{"Go on."}, rounds), "Really go on.")
	p := lab{
		script: "step slow always\n  when not user \"Really\"\n  stall headers\n" + resumeScript, prompts: prompts,
		at: func(a *daruma.Agent, e session.Event) {
			if _, ok := e.Body.(*session.Begin); ok && e.Run <= rounds {
				a.Interrupt()
			}
		},
	}
	p.config = func(cfg *daruma.Config) { cfg.Models = []string{"claude-a"} }
	got := playLoosely(t, p)
	notes := 0
	for _, m := range got {
		if strings.Contains(m.PlainText(), "user interrupted") {
			notes++
		}
	}
	if notes != 1 {
		t.Errorf("the model is told of %d interrupts", notes)
	}
}

// playLoosely plays without asking that every fault lands, and returns the
// conversation.
func playLoosely(t *testing.T, l lab) (held []*message.Message) {
	synctest.Test(t, func(t *testing.T) {
		agent, finish := simulated(t, l.script, l.config)
		for _, prompt := range l.prompts {
			for e, err := range agent.Run(t.Context(), prompt) {
				if err != nil {
					t.Fatal(err)
				}
				l.at(agent, e)
			}
		}
		if agent.History().End.Reason != loop.Completed {
			t.Errorf("it ended with %s", agent.History().End.Reason)
		}
		checkViolations(t, finish())
		held = agent.History().Messages
	})
	return held
}

// TestC227: streaming functions swallowed errors that came before the first
// event, and production stopped with empty logs.
func TestC227(t *testing.T) {
	for fault, kind := range map[string]failure.Kind{
		"status 429": failure.RateLimit, "status 401": failure.Auth, "status 404 not_found_error \"model: x\"": failure.ModelNotFound,
		"status 200 empty": "", "cut start end": "",
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent, finish := simulated(t, "step s always\n  "+fault+"\n", both(tries(1), chain("claude-a")))
				result, err := daruma.Collect(agent.Run(t.Context(), "Do the task."))
				if err != nil {
					t.Fatal(err)
				}
				if result.Reason != loop.APIError || !result.IsError || result.Err() == nil || result.Failure == nil || kind != "" && result.Failure.Kind != kind {
					t.Errorf("it ended with %s, %v", result.Reason, result.Failure)
				}
				finish()
			})
		})
	}
}

// TestC260: a message that came during a compaction deleted two hours of
// history. Whatever ends a compaction, the conversation is as it was before.
func TestC260(t *testing.T) {
	for name, end := range map[string]func(*daruma.Agent){
		"Ctrl+C":    func(a *daruma.Agent) { a.Interrupt() },
		"a message": func(a *daruma.Agent) { a.SubmitNow("Stop that, and do this.") },
		"shutdown":  func(a *daruma.Agent) { a.Shutdown() },
	} {
		t.Run(name, func(t *testing.T) {
			var before []string
			l := nearlyFull("Goal: a story. Done: it began once upon a time, and went on for long.", 2)
			l.script = "step slow\n  when purpose compact\n  stall text 10 150s\n" + l.script
			var agent *daruma.Agent
			l.at = func(a *daruma.Agent, e session.Event) {
				agent = a
				switch b := e.Body.(type) {
				case *session.Begin:
					if b.Source == string(model.Compact) && before == nil {
						before = spoken(a.History().Messages)
						time.AfterFunc(time.Second, func() { end(a) })
					}
				case *session.Retract:
					if before != nil && len(spoken(a.History().Messages)) < len(before) {
						t.Error("an aborted compaction took something along")
					}
				}
			}
			l.play(t)
			if before == nil {
				t.Fatal("nothing was compacted")
			}
			for _, text := range before {
				if !slices.ContainsFunc(agent.History().Messages, func(m *message.Message) bool { return m.PlainText() == text }) && name != "a message" {
					t.Errorf("%.40q is lost", text)
				}
			}
		})
	}
}

// TestC263: to cancel an automatic compaction armed it again at once. It stays
// away until the conversation has grown by a tenth, or the person asks.
func TestC263(t *testing.T) {
	l := nearlyFull("Goal: a story. Done: it began once upon a time, and went on for long.", 6)
	l.script = "step slow\n  when purpose compact\n  stall text 10 150s\n" + l.script
	cancelled := 0
	l.at = func(a *daruma.Agent, e session.Event) {
		if b, ok := e.Body.(*session.Begin); ok && b.Source == string(model.Compact) {
			if cancelled++; cancelled == 1 {
				time.AfterFunc(time.Second, func() { a.Interrupt() })
			}
		}
	}
	p := l.play(t)
	p.must(t, loop.Completed)
	if cancelled != 1 {
		t.Errorf("%d compactions began", cancelled)
	}
	for i, end := range p.ends {
		if end.Reason != loop.Completed && end.Reason != loop.AbortedStreaming {
			t.Errorf("run %d ended with %s", i+1, end.Reason)
		}
	}
}

// TestC265: a message that was typed during a batch of calls was lost when the
// run was aborted before it was stored. Wherever the abort comes, the message
// stands in the conversation or waits.
func TestC265(t *testing.T) {
	const steer = "Look at b instead."
	for k := 1; ; k++ {
		reached := false
		ok := t.Run(fmt.Sprint(k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent, finish := simAgent(t, crashScript, nil, nil)
				n := 0
				for _, err := range agent.Run(t.Context(), "Do the task.") {
					if err != nil {
						t.Fatal(err)
					}
					switch n++; n {
					case k:
						reached = true
						agent.Submit(steer)
					case k + 2:
						agent.Interrupt()
					}
				}
				h := agent.History()
				if reached && h.End.Reason != loop.Completed && !slices.Contains(append(spoken(h.Messages), h.Queued...), steer) {
					t.Error("the message is lost")
				}
				goesOn(t, agent)
				// A compaction may have put it into other words by now.
				checkViolations(t, finish())
			})
		})
		if !ok || !reached {
			return
		}
	}
}
