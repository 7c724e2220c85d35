package retry

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
)

// Policy is the patience of a run, as data.
type Policy struct {
	Retries   int           // waits before giving up: 10 retries are 11 tries (R01)
	Base      time.Duration // first wait (R02)
	Cap       time.Duration // longest wait without a hint (R02)
	Jitter    float64       // share of the wait that chance may add; it never takes away
	HintLimit time.Duration // a longer hint is not waited for: it is asked about, or ends the run
	Total     time.Duration // all waits of a request together; zero: no limit but Retries

	Handover  int // consecutive overloads after which another model is due (R20)
	Stalls    int // re-sends after a silent stream, outside Retries (R25)
	Thoughts  int // re-sends after a break behind finished thinking (R25)
	Refreshes int // times that credentials are renewed

	// Interactive asks the person where a hint is longer than HintLimit.
	Interactive bool
	// WaitForLimit replaces HintLimit, as long as all waits of the run
	// together stay under it; zero: HintLimit counts.
	WaitForLimit time.Duration

	// Unattended waits for what passes by itself (R16), within its own caps.
	Unattended        bool
	UnattendedRetries int           // for failures that are not of capacity
	UnattendedCap     time.Duration // longest wait without a hint
	WaitLimit         time.Duration // longest single wait, whatever the hint: then it looks again
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

// endless stands for "time is the limit", and ends a policy that has no times.
const endless = 1 << 20

// capacity are the kinds that say "not now": whoever has the time may ask for
// ever, slowly. A failure that is broken rather than full gets a number.
func capacity(k failure.Kind) bool {
	return k == failure.Overloaded || k == failure.RateLimit || k == failure.QuotaExhausted
}

// retries is how many waits a failure of kind is worth.
func (p Policy) retries(k failure.Kind) int {
	switch {
	case p.Unattended && capacity(k):
		return endless
	case p.Unattended && (k == failure.ServerError || k == failure.Timeout || k == failure.Network):
		return p.UnattendedRetries
	}
	return p.Retries
}

// of is retries as a person reads it.
func (p Policy) of(k failure.Kind) int {
	if n := p.retries(k); n < endless {
		return n
	}
	return 0
}

// left is the time that may still be waited; limited tells whether any limit
// but the number of retries holds.
func (p Policy) left(s State) (left time.Duration, limited bool) {
	if p.Unattended {
		return p.TotalLimit - s.Before - s.Waited, true
	}
	return p.Total - s.Waited, p.Total > 0
}

// longestHint is the longest wait that the server can ask for.
func (p Policy) longestHint(s State) time.Duration {
	if p.Unattended {
		left, _ := p.left(s)
		return left
	}
	if p.WaitForLimit > 0 {
		return max(p.HintLimit, p.WaitForLimit-s.Before-s.Waited)
	}
	return p.HintLimit
}

// longest is the longest wait that we choose by ourselves.
func (p Policy) longest(k failure.Kind) time.Duration {
	if p.Unattended && capacity(k) {
		return p.UnattendedCap
	}
	return p.Cap
}

// own is the wait that we choose by ourselves: exponential (R02).
func (p Policy) own(s State, k failure.Kind) time.Duration {
	if d := p.Base << min(s.Waits, 20); 0 < d && d < p.longest(k) {
		return d
	}
	return p.longest(k)
}

// pause is the wait before the next try: our own, at least what the server asks
// for, and chance only adds (R02, R03). It adds a share of what could be our
// own wait, not of a hint of hours.
func (p Policy) pause(s State, e *failure.Error) (least, most time.Duration) {
	least = p.own(s, e.Kind)
	if e.Hint.Given {
		least = max(least, e.Hint.After)
	}
	most = least + time.Duration(float64(min(least, p.longest(e.Kind)))*p.Jitter)
	if p.Unattended {
		least, most = min(least, p.WaitLimit), min(most, p.WaitLimit)
	}
	// Chance must not break a limit that the wait itself keeps.
	if left, limited := p.left(s); limited && least <= left {
		most = min(most, left)
	}
	if longest := p.longestHint(s); p.HintLimit < least && least <= longest {
		most = min(most, longest)
	}
	return least, most
}
