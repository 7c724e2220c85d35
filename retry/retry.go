// Package retry (layer 1) answers one question: can the same request be sent
// again, and when?
//
// [Next] is pure: policy, state and facts in, a verdict out. A wait is a range,
// so that chance stays with the caller, who also sleeps. Only this layer
// repeats requests; every retry below it is off. What it does with a failure,
// step by step, tells [Plan]; the whole of it is in testdata/verdicts.txt.
package retry

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// State counts the tries of one request. The zero State is a fresh request.
type State struct {
	Tries     int // failed tries so far
	Waits     int // of them, those that cost a retry
	Overloads int // consecutive, as far as they matter
	Stalls    int
	Thoughts  int
	Refreshes int
	Clamped   int           // the max_tokens that was last clamped to; 0: never
	Slow      bool          // fast mode was left: the rest is asked at normal speed
	Once      bool          // handed over with [Verdict.Once]: a server error here is final
	Waited    time.Duration // together; the caller adds what it waited
	Before    time.Duration // waited for earlier requests of the same run
}

// Facts is what is known of the try that failed.
type Facts struct {
	Failure   *failure.Error
	Progress  model.Progress
	Source    model.Source
	MaxTokens int    // that were asked for
	Budget    int    // thinking budget within them
	Fallback  bool   // another model is left to hand over to
	Refresh   bool   // credentials can be renewed
	Fast      bool   // the faster variant of the model was asked for
	FastOff   string // the server's reason why fast mode is closed to the account (R13)
}

// Do is what a verdict says.
type Do string

// The verdicts.
const (
	Wait      Do = "wait"       // send the same request again after Min to Max
	Ask       Do = "ask"        // a person chooses: wait Min to Max, take another model, or stop
	Refresh   Do = "refresh"    // renew the credentials, then send at once
	Clamp     Do = "clamp"      // send at once with MaxTokens
	LeaveFast Do = "leave_fast" // send at once at normal speed; see [Speed]
	HandOver  Do = "handover"   // another model may do it: layer 3 decides
	GiveUp    Do = "give_up"    // the failure stands: layer 3 decides
)

// Ends reports whether nothing more is sent to this model for the request.
func (d Do) Ends() bool { return d == HandOver || d == GiveUp }

// Verdict is the decision, with the rule that made it.
type Verdict struct {
	Do        Do
	Min, Max  time.Duration // of Wait and Ask; chance picks in between
	MaxTokens int           // of Clamp
	DropPool  bool          // close idle connections first (R10)
	Attempt   int           // which retry this is, from 1
	Of        int           // how many there can be; 0: time is the limit
	Rule      string        // which rule, as a name
	Why       string        // the reason of the rule, in a sentence
	Overflow  bool          // of GiveUp: no clamp fits, so this is an overflow
	Once      bool          // of HandOver: the next model is asked once (R92); see [State]
	Later     time.Duration // of GiveUp and Ask: when it is worth trying again, if the server said so
	Cooldown  time.Duration // of LeaveFast: how long fast mode stays off
	FastOff   string        // of LeaveFast: why it stays off for the session
}

// Next decides about the try that facts describe.
func Next(p Policy, s State, f Facts) (State, Verdict) {
	s.Tries++
	f.Fast = f.Fast && !s.Slow
	if f.Failure.Kind == failure.Overloaded {
		s.Overloads = min(s.Overloads+1, p.Handover)
	} else {
		s.Overloads = 0 // consecutive means consecutive
	}
	for i := 0; ; i++ { // the last rule decides about everything
		if v, decided := rules[i].decide(p, &s, f); decided {
			v.Rule, v.Why = rules[i].name, rules[i].why
			return s, settle(v, f)
		}
	}
}

// settle completes what the rule could not know: what ends on this model can
// go on with another, and what ends may be worth another visit.
func settle(v Verdict, f Facts) Verdict {
	e := f.Failure
	if (v.Do == GiveUp || v.Do == Ask) && e.Hint.Given && e.Retry != failure.RetryNo {
		v.Later = e.Hint.After
	}
	if (v.Do == GiveUp || v.Do == Ask) && f.Fallback && !Background(f.Source) {
		switch e.Kind {
		case failure.Overloaded:
			return Verdict{Do: HandOver, Rule: v.Rule, Why: v.Why}
		case failure.ServerError:
			return Verdict{Do: HandOver, Once: true, Rule: v.Rule, Why: v.Why}
		}
	}
	return v
}
