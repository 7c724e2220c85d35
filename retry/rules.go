package retry

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// background are the sources that nobody waits for. During an overload every
// retry of theirs is load that keeps others waiting (R19). All other sources,
// and a missing one, count as foreground.
var background = map[model.Source]bool{model.Title: true}

// Background reports whether nobody waits for requests of source.
func Background(source model.Source) bool { return background[source] }

// rule is one branch of the decision; the first that decides wins.
type rule struct {
	name   string
	decide func(Policy, *State, Facts) (Verdict, bool)
}

var rules = []rule{
	// Cancelled by the caller: nothing to repeat.
	{"aborted", giveUpOn(failure.Aborted)},
	// Too much output room: less of it is another request, so no wait.
	{"clamp_max_tokens", clamp},
	// An expired login is cured by a new one, once; after that it is refused.
	{"refresh_credentials", refresh},
	// Nobody waits for the answer, and each retry feeds the overload.
	{"background_overload", backgroundOverload},
	// Another model is free while this one is not, or is there while this one is not.
	{"hand_over", handOver},
	// The server says that repeating is useless, or the kind says it.
	{"never", never},
	// Silence has its own small budget: a stall costs minutes, not seconds.
	{"stall", stall},
	// After finished thinking a break is repeated quickly, and rarely.
	{"after_thinking", afterThinking},
	// A wait longer than anyone sits through ends the run with the time.
	{"hint_too_long", hintTooLong},
	{"budget", budget},
	{"backoff", backoff},
}

func giveUpOn(kinds ...failure.Kind) func(Policy, *State, Facts) (Verdict, bool) {
	return func(_ Policy, _ *State, f Facts) (Verdict, bool) {
		for _, k := range kinds {
			if f.Failure.Kind == k {
				return Verdict{Do: GiveUp}, true
			}
		}
		return Verdict{}, false
	}
}

// Clamp constants (R14).
const (
	clampMargin = 1000 // tokens kept free: the two sides count differently
	clampFloor  = 3000 // below this an answer is not worth its request
)

// clamp lowers max_tokens so that input and output fit the window together
// (R14). When no reduction can fit, or a second one would not be lower, the
// history is what is too long.
func clamp(_ Policy, s *State, f Facts) (Verdict, bool) {
	if f.Failure.Kind != failure.MaxTokensOverflow {
		return Verdict{}, false
	}
	n := f.Failure.Numbers
	asked := f.MaxTokens
	if s.Clamped > 0 {
		asked = min(asked, s.Clamped)
	}
	room := asked / 2 // no usable numbers: halve
	switch {
	case n.InputTokens > 0 && n.Limit > 0:
		room = n.Limit - n.InputTokens - clampMargin
	case n.Limit > 0 && n.Limit < asked && n.MaxTokens > 0:
		room = n.Limit // the model's own cap on output
	}
	floor := max(clampFloor, f.Budget+1)
	if n.InputTokens > 0 && room < floor || room >= asked || room < 1 {
		return Verdict{Do: GiveUp, Overflow: true}, true
	}
	s.Clamped = max(room, min(floor, asked-1))
	return Verdict{Do: Clamp, MaxTokens: s.Clamped}, true
}

func refresh(p Policy, s *State, f Facts) (Verdict, bool) {
	if f.Failure.Kind != failure.Auth || !f.Refresh || s.Refreshes >= p.Refreshes {
		return Verdict{}, false
	}
	s.Refreshes++
	return Verdict{Do: Refresh, Attempt: s.Refreshes, Of: p.Refreshes}, true
}

func backgroundOverload(_ Policy, _ *State, f Facts) (Verdict, bool) {
	return Verdict{Do: GiveUp}, f.Failure.Kind == failure.Overloaded && Background(f.Source)
}

// handOver leaves to layer 3 what another model can cure (R20, R92): repeated
// overload and a missing model. Never a rate limit, login, money, size or
// transport: another model would fail on the same.
func handOver(p Policy, s *State, f Facts) (Verdict, bool) {
	if !f.Fallback {
		return Verdict{}, false
	}
	switch f.Failure.Kind {
	case failure.Overloaded:
		return Verdict{Do: HandOver}, s.Overloads >= p.Handover
	case failure.ModelNotFound:
		return Verdict{Do: HandOver}, true
	case failure.ServerError:
		// A server error that may not be repeated is final on this model only.
		return Verdict{Do: HandOver}, f.Failure.Retry == failure.RetryNo || s.Waits >= p.Retries
	}
	return Verdict{}, false
}

// never holds what no repetition cures (R06, R08).
func never(_ Policy, _ *State, f Facts) (Verdict, bool) {
	e := f.Failure
	if e.Hint.ShouldRetry == "false" {
		return Verdict{Do: GiveUp, Later: e.Hint.After}, true
	}
	switch e.Kind {
	case failure.Overloaded, failure.RateLimit, failure.ServerError, failure.Timeout, failure.Network:
		return Verdict{Do: GiveUp, Later: e.Hint.After}, e.Retry == failure.RetryNo
	case failure.InvalidRequest, failure.Unknown:
		// The server knows better what it means by these (R09).
		return Verdict{Do: GiveUp}, e.Hint.ShouldRetry != "true"
	}
	return Verdict{Do: GiveUp, Later: e.Hint.After}, true
}

func stall(p Policy, s *State, f Facts) (Verdict, bool) {
	if f.Failure.Kind != failure.Timeout || !f.Failure.Stalled {
		return Verdict{}, false
	}
	if s.Stalls >= p.Stalls && !p.Unattended {
		return Verdict{Do: GiveUp}, true
	}
	s.Stalls++
	return Verdict{Do: Wait, Attempt: s.Stalls, Of: p.Stalls, DropPool: true}, true
}

func afterThinking(p Policy, s *State, f Facts) (Verdict, bool) {
	if !f.Progress.Thinking || f.Failure.Kind != failure.Network || p.Unattended {
		return Verdict{}, false
	}
	if s.Thoughts >= p.Thoughts {
		return Verdict{Do: GiveUp}, true
	}
	s.Thoughts++
	return Verdict{Do: Wait, Min: p.Base, Max: p.Base + p.jitter(p.Base), Attempt: s.Thoughts, Of: p.Thoughts, DropPool: true}, true
}

func hintTooLong(p Policy, _ *State, f Facts) (Verdict, bool) {
	limit := p.HintLimit
	if p.Unattended {
		limit = p.WaitLimit
	}
	return Verdict{Do: GiveUp, Later: f.Failure.Hint.After}, f.Failure.Hint.Given && f.Failure.Hint.After > limit
}

// retries is how many waits the failure is worth.
func (p Policy) retries(k failure.Kind) int {
	switch {
	case !p.Unattended:
		return p.Retries
	case k == failure.Overloaded || k == failure.RateLimit:
		return 1 << 20 // bounded by the total time alone
	}
	return p.UnattendedRetries
}

func budget(p Policy, s *State, f Facts) (Verdict, bool) {
	total := p.Total
	if p.Unattended {
		total = p.TotalLimit
	}
	over := s.Waits >= p.retries(f.Failure.Kind) || total > 0 && s.Waited >= total
	return Verdict{Do: GiveUp, Later: f.Failure.Hint.After}, over
}

// backoff waits: exponential, at least what the server asks for, and chance
// only adds (R02, R03).
func backoff(p Policy, s *State, f Facts) (Verdict, bool) {
	longest := p.Cap
	if p.Unattended {
		longest = p.UnattendedCap
	}
	low := p.Base << min(s.Waits, 20)
	if low > longest || low <= 0 {
		low = longest
	}
	if h := f.Failure.Hint; h.Given {
		low = max(low, h.After)
	}
	s.Waits++
	of := p.retries(f.Failure.Kind)
	return Verdict{
		Do: Wait, Min: low, Max: low + p.jitter(low), Attempt: s.Waits, Of: of,
		DropPool: f.Failure.Kind == failure.Network,
	}, true
}

func (p Policy) jitter(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * p.Jitter)
}
