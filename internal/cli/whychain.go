package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
)

// chain puts the events of a run together to what led to its end.
type chain struct {
	*why
	at    map[int]int // step of a recovery
	calls map[string]message.Block
	end   *session.End

	said        string // what an attempt that was taken back died of, until something is done about it
	saidAt      time.Time
	spent, lost session.Total
	last        session.Body // that was durable
	begun       *session.Begin
}

func (c *chain) add(e session.Event) {
	c.Turn = max(c.Turn, e.Turn)
	switch b := e.Body.(type) {
	case *session.Begin:
		c.begun = b
		c.Attempts[0]++
	case *session.Commit:
		c.begun = nil
		c.pay(b.Spent, false)
		c.know(b.Message)
	case *session.Continue:
		c.begun = nil
		c.pay(b.Spent, false)
		c.know(b.Message)
	case *session.Retract:
		c.begun = nil
		c.retract(e, b)
	case *session.Recovery:
		c.recovery(e, b)
	case *session.Compaction:
		text := fmt.Sprintf("about %s tokens → %s", thousands(b.Before), thousands(b.After))
		if b.Cause == string(loop.Refusal) {
			text = "what was refused left it"
		}
		c.did(e, text)
	case *session.Permission:
		if !b.Allowed {
			c.refuse(e, b)
		}
	case *session.Result:
		if b.Block.IsError && !b.Denied {
			if c.Failed == nil {
				c.Failed = map[string]int{}
			}
			c.Failed[b.Name]++
		}
	case *session.Notice:
		if b.Level == session.Warning {
			c.Chain = append(c.Chain, whyStep{At: e.Time, What: b.Text})
		}
	case *session.End:
		c.flush()
		c.end = b
	}
	c.last = e.Body
}

// callsShown is how many of the newest calls are told.
const callsShown = 3

func (c *chain) know(m *message.Message) {
	if m == nil {
		return
	}
	for _, call := range m.Calls() {
		c.calls[call.ID] = call
		c.Calls = append(c.Calls, whyCall{ID: call.ID, Name: call.Name, Input: call.Input})
	}
	c.Calls = c.Calls[max(0, len(c.Calls)-callsShown):]
}

func (c *chain) pay(s session.Spent, lost bool) {
	totals := []*session.Total{&c.spent}
	if lost {
		totals = append(totals, &c.lost)
		c.LostTime += s.Total
		c.Attempts[1]++
	}
	for _, t := range totals {
		t.Usage.Input += s.Usage.Input
		t.Usage.Output += s.Usage.Output
		t.Usage.CacheRead += s.Usage.CacheRead
		t.Usage.CacheWrite += s.Usage.CacheWrite
		t.USD += s.USD
		if s.Unknown {
			t.Unknown++
		}
	}
}

// retract remembers what an attempt died of. What is done about it comes next.
func (c *chain) retract(e session.Event, b *session.Retract) {
	c.flush()
	c.pay(b.Spent, true)
	c.saidAt = e.Time
	c.said = fmt.Sprintf("request %d: %s", b.Attempt, outcomeText(b.Cause))
	if b.Failure != nil {
		c.said = fmt.Sprintf("request %d: %s", b.Attempt, failureText(b.Failure))
	}
}

// flush makes a step of its own of a failure about which nothing was done.
func (c *chain) flush() {
	if c.said != "" {
		c.Chain = append(c.Chain, whyStep{At: c.saidAt, What: c.said})
		c.said = ""
	}
}

// failureText is what happened, with its figures but without advice.
func failureText(e *failure.Error) string {
	text, _, _ := strings.Cut(e.Text(false), "; ")
	if e.Status != 0 {
		text += fmt.Sprintf(", HTTP %d", e.Status)
	}
	return text
}

// outcomes says what the decision core was told, where the name alone says little.
var outcomes = map[string]string{
	"truncated text": "the output limit cut the answer", "truncated call": "the output limit cut a tool call",
	"truncated": "the output limit cut the answer", "window_full": "the answer filled the window",
	"malformed": "a tool call could not be read", "empty": "the answer was empty",
	"paused": "the server paused", "paused text": "the answer paused and nothing says for what",
	"refused": "the model refused", "unchanged": "the conversation could not be made smaller that way",
	"measured over": "the window is nearly full", "measured blocked": "the request would not fit the window",
	"broken text": "the connection broke behind a long text", "broken after_calls": "the connection broke behind complete calls",
	"hooks_blocked": "a stop hook did not accept the answer", "repeated": "its calls lead nowhere", "aborted user": "interrupted",
	"aborted shutdown": "the process was told to end", "aborted consumer": "whoever read the output left",
	"aborted submit": "another prompt came in",
}

func outcomeText(cause string) string {
	if text, ok := outcomes[cause]; ok {
		return text
	}
	return strings.ReplaceAll(cause, "_", " ")
}

// recovery adds a step for a way back, or completes it. Repetitions of the same
// request are one step.
func (c *chain) recovery(e session.Event, b *session.Recovery) {
	if i, ok := c.at[b.ID]; ok {
		c.Chain[i].State = string(b.State)
		return
	}
	c.LostTime += b.Delay
	step := whyStep{At: e.Time, Records: []int{b.ID}, Did: decision(b), State: string(b.State), Rule: b.Rule, Evidence: b.Evidence}
	step.What = cmp.Or(c.said, outcomeText(cmp.Or(b.Outcome, string(b.Cause))))
	if b.Delay > 0 {
		step.Did += " after " + round(b.Delay).String()
	}
	if b.To != "" {
		step.Did += " (" + b.To + ")"
	}
	if b.Kept != "" {
		step.Did += ", keeping " + b.Kept
	}
	c.said = ""
	c.at[b.ID] = len(c.Chain)
	c.Chain = append(c.Chain, step)
}

// did adds to the newest step what came of it, or makes one.
func (c *chain) did(e session.Event, text string) {
	if n := len(c.Chain); n > 0 && c.Chain[n-1].State == string(session.Running) {
		c.Chain[n-1].Did += ": " + text
		return
	}
	c.flush()
	c.Chain = append(c.Chain, whyStep{At: e.Time, What: "the conversation changed", Did: text})
}

func (c *chain) refuse(e session.Event, b *session.Permission) {
	what := b.Name
	if call, ok := c.calls[b.Call]; ok {
		what += " " + brief(call.Input)
	}
	c.Refused = append(c.Refused, whyRefusal{At: e.Time, What: what, Rule: b.By, Reason: b.Reason})
}

// giveUp adds by which rule the last failure was not sent again: what layer 1
// says about it when its budget is spent.
func (c *chain) giveUp(e *failure.Error) {
	if c.end.Reason != loop.APIError {
		return
	}
	stages := retry.Plan(retry.Default(), retry.Facts{Failure: e})
	s := stages[len(stages)-1]
	if !s.Do.Ends() {
		return
	}
	why := s.Why
	if s.Rule == "server_hint" || s.Rule == "backoff" {
		why = "the retries are used up"
	}
	c.Refused = append(c.Refused, whyRefusal{At: c.Ended, What: "sending it again", Rule: s.Rule, Reason: why})
}

// doing says what a run without an end was at.
func (c *chain) doing(p *past) string {
	if len(p.history.Intents) > 0 {
		for _, in := range p.history.Intents {
			return fmt.Sprintf("while %s ran: %s", in.Name, brief(in.Input))
		}
	}
	if c.begun != nil {
		return "while " + c.begun.Model + " answered"
	}
	switch b := c.last.(type) {
	case *session.Recovery:
		if b.State == session.Running && b.Delay > 0 {
			return fmt.Sprintf("in a wait: %s, %s", because(b), decision(b))
		}
		return "in a way back: " + because(b) + ", " + decision(b)
	case *session.Commit, *session.Result, *session.Permission:
		return "between tool calls"
	case *session.Retract:
		return "behind a failed request"
	}
	return "between two requests"
}
