// Package retry (layer 1) answers one question: can the same request be sent
// again, and when?
//
// [Next] is pure: policy, state and facts in, a verdict out. A wait is a range,
// so that chance stays with the caller, who also sleeps. Only this layer
// repeats requests; every retry below it is off.
package retry

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// Policy is the patience of a run, as data.
type Policy struct {
	Retries   int           // waits before giving up: 10 retries are 11 tries (R01)
	Base      time.Duration // first wait (R02)
	Cap       time.Duration // longest wait without a hint (R02)
	Jitter    float64       // share of the wait that chance may add; it never takes away
	HintLimit time.Duration // a longer hint ends a run at once with the time to come back
	Total     time.Duration // all waits of a request together; zero: no limit but Retries

	Handover  int // consecutive overloads after which another model is due (R20)
	Stalls    int // re-sends after a silent stream, outside Retries (R25)
	Thoughts  int // re-sends after a break behind finished thinking (R25)
	Refreshes int // times that credentials are renewed

	// Unattended waits for what passes by itself (R16), within its own caps.
	Unattended        bool
	UnattendedRetries int           // for failures that are not of capacity
	UnattendedCap     time.Duration // longest wait without a hint
	WaitLimit         time.Duration // longest single wait, whatever the hint
	TotalLimit        time.Duration // all waits of a run together
	Heartbeat         time.Duration // a wait is cut into slices of this length (R17)
}

// Default is the patience of R01, R02, R16 and R17.
func Default() Policy {
	return Policy{
		Retries: 10, Base: 500 * time.Millisecond, Cap: 32 * time.Second, Jitter: 0.25,
		HintLimit: time.Minute,
		Handover:  3, Stalls: 1, Thoughts: 2, Refreshes: 1,
		UnattendedRetries: 300, UnattendedCap: 5 * time.Minute,
		WaitLimit: 6 * time.Hour, TotalLimit: 24 * time.Hour,
		Heartbeat: 30 * time.Second,
	}
}

// State counts the tries of one request. The zero State is a fresh request.
type State struct {
	Tries     int // failed tries so far
	Waits     int // of them, those that cost a retry
	Overloads int // consecutive
	Stalls    int
	Thoughts  int
	Refreshes int
	Clamped   int           // the max_tokens that was last clamped to; 0: never
	Waited    time.Duration // together
}

// Facts is what is known of the try that failed.
type Facts struct {
	Failure   *failure.Error
	Progress  model.Progress
	Source    model.Source
	MaxTokens int  // that were asked for
	Budget    int  // thinking budget within them
	Fallback  bool // another model is left to hand over to
	Refresh   bool // credentials can be renewed
}

// Do is what a verdict says.
type Do string

// The verdicts.
const (
	Wait     Do = "wait"     // send the same request again after Min to Max
	Refresh  Do = "refresh"  // renew the credentials, then send at once
	Clamp    Do = "clamp"    // send at once with MaxTokens
	HandOver Do = "handover" // another model may do it: layer 3 decides
	GiveUp   Do = "give_up"  // the failure stands: layer 3 decides
)

// Verdict is the decision, with the rule that made it.
type Verdict struct {
	Do        Do
	Min, Max  time.Duration // of Wait; chance picks in between
	MaxTokens int           // of Clamp
	DropPool  bool          // close idle connections first (R10)
	Attempt   int           // which retry this is, from 1
	Of        int           // how many there can be
	Rule      string        // why, as a name
	Overflow  bool          // of GiveUp: no clamp fits, so this is an overflow
	Later     time.Duration // of GiveUp: when it is worth trying again, if the server said so
}

// Next decides about the try that facts describe.
func Next(p Policy, s State, f Facts) (State, Verdict) {
	s.Tries++
	if f.Failure.Kind == failure.Overloaded {
		s.Overloads++
	} else {
		s.Overloads = 0 // consecutive means consecutive
	}
	for _, rule := range rules {
		if v, decided := rule.decide(p, &s, f); decided {
			v.Rule = rule.name
			return s, v
		}
	}
	return s, Verdict{Do: GiveUp, Rule: "final"}
}
