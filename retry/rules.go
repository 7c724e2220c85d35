package retry

import (
	"errors"
	"syscall"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// background are the sources that nobody waits for. During an overload every
// retry of theirs is load that keeps others waiting (R19). All other sources,
// and a missing one, count as foreground.
var background = map[model.Source]bool{model.Title: true}

// Background reports whether nobody waits for requests of source.
func Background(source model.Source) bool { return background[source] }

// rule is one branch of the decision.
type rule struct {
	name   string
	why    string
	decide func(Policy, *State, Facts) (Verdict, bool)
}

// rules is the whole decision: the first rule that decides wins, the last one
// decides about everything.
var rules = []rule{
	{"aborted", "the caller cancelled", aborted},
	{"clamp_max_tokens", "less output room is another request, so it is sent at once", clamp},
	{"refresh_credentials", "an expired login is cured by a new one; after that it is refused", refresh},
	{"background_overload", "nobody waits for the answer, and each retry feeds the overload", backgroundOverload},

	{"fast_off", "fast mode is closed to this account: normal speed for the session", fastOff},
	{"fast_unpaid", "fast mode is out of credits: normal speed for this request", fastUnpaid},
	{"fast_wait", "a short wait at full speed keeps the prompt cache warm", fastWait},
	{"fast_cooldown", "fast mode is short of room for longer: normal speed until it has cooled down", fastCooldown},

	{"overloaded_again", "another model has room while this one has none", overloadedAgain},
	{"model_missing", "another model is there while this one is not", modelMissing},
	{"server_forbids", "the server says that repeating is useless", serverForbids},
	{"never", "repeating never cures this kind of failure", never},
	{"asked_once", "a model that stands in for a broken one is asked once", askedOnce},

	{"stall", "silence costs minutes, not seconds: it has its own small budget", stall},
	{"after_thinking", "finished thinking is dear: a break behind it is repeated quickly, and rarely", afterThinking},
	{"budget", "the retries are used up", budget},
	{"hint_too_long", "the server asks for a longer wait than is granted", hintTooLong},
	{"out_of_time", "the next wait would go over the time for all waits together", outOfTime},
	{"server_hint", "the server names the time", serverHint},
	{"backoff", "it may pass by itself", backoff},
}

func aborted(_ Policy, _ *State, f Facts) (Verdict, bool) {
	return Verdict{Do: GiveUp}, f.Failure.Kind == failure.Aborted
}

// refresh renews credentials (R15): a 401, and a 403 of a revoked login, which
// is of the same kind.
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

// overloadedAgain and modelMissing leave to layer 3 what another model can
// cure (R20, R92). A rate limit, login, money, size or transport it cannot:
// another model would fail on the same.
func overloadedAgain(p Policy, s *State, f Facts) (Verdict, bool) {
	again := f.Failure.Kind == failure.Overloaded && s.Overloads >= p.Handover
	return Verdict{Do: HandOver}, again && f.Fallback
}

func modelMissing(_ Policy, _ *State, f Facts) (Verdict, bool) {
	return Verdict{Do: HandOver}, f.Failure.Kind == failure.ModelNotFound && f.Fallback
}

func serverForbids(_ Policy, _ *State, f Facts) (Verdict, bool) {
	return Verdict{Do: GiveUp}, f.Failure.Hint.ShouldRetry == "false"
}

// never holds what no repetition cures (R06, R08).
func never(p Policy, _ *State, f Facts) (Verdict, bool) {
	e := f.Failure
	asked := e.Hint.ShouldRetry == "true"
	hopeless := true
	switch e.Kind {
	case failure.Overloaded, failure.RateLimit, failure.ServerError, failure.Timeout, failure.Network:
		hopeless = e.Retry == failure.RetryNo && !asked
	case failure.QuotaExhausted:
		hopeless = !comesBack(p, e)
	case failure.Billing:
		// One bill passes by itself: a charge that is being settled.
		hopeless = e.Retry != failure.RetryYes && e.Retry != failure.RetryAfter
	case failure.InvalidRequest, failure.Unknown:
		// The server knows better what it means by these (R09).
		hopeless = !asked
	}
	return Verdict{Do: GiveUp}, hopeless
}

// comesBack reports whether an allowance is there again at a time that is
// known, or, for those who have the time to look, after a window with a name.
func comesBack(p Policy, e *failure.Error) bool {
	told := e.Retry == failure.RetryAfter && e.Hint.Given
	return told || p.Unattended && !e.Numbers.NoAllowance && (e.Retry == failure.RetryAfter || e.Numbers.QuotaWindow != "")
}

func askedOnce(_ Policy, s *State, f Facts) (Verdict, bool) {
	return Verdict{Do: GiveUp}, s.Once && f.Failure.Kind == failure.ServerError
}

// stall sends again at once: the silence was the wait. The connection is not
// trusted, though nothing broke it. With nobody there to see the run end, a
// stall beyond the budget is a failure like others.
func stall(p Policy, s *State, f Facts) (Verdict, bool) {
	switch {
	case f.Failure.Kind != failure.Timeout || !f.Failure.Stalled:
		return Verdict{}, false
	case s.Stalls < p.Stalls:
		s.Stalls++
		return Verdict{Do: Wait, Attempt: s.Stalls, Of: p.Stalls, DropPool: true}, true
	}
	return Verdict{Do: GiveUp}, !p.Unattended
}

func afterThinking(p Policy, s *State, f Facts) (Verdict, bool) {
	if !f.Progress.Thinking || f.Failure.Kind != failure.Network || p.Unattended {
		return Verdict{}, false
	}
	if s.Thoughts >= p.Thoughts {
		return Verdict{Do: GiveUp}, true
	}
	least, most := p.pause(State{Waited: s.Waited}, &failure.Error{})
	if left, limited := p.left(*s); limited && least > left {
		return Verdict{}, false
	}
	s.Thoughts++
	return Verdict{
		Do: Wait, Min: least, Max: most, Attempt: s.Thoughts, Of: p.Thoughts, DropPool: stale(f.Failure),
	}, true
}

func budget(p Policy, s *State, f Facts) (Verdict, bool) {
	return Verdict{Do: GiveUp}, s.Waits >= p.retries(f.Failure.Kind)
}

func hintTooLong(p Policy, s *State, f Facts) (Verdict, bool) {
	h := f.Failure.Hint
	if !h.Given || h.After <= p.longestHint(*s) {
		return Verdict{}, false
	}
	if !p.Interactive {
		return Verdict{Do: GiveUp}, true
	}
	v := p.wait(s, f)
	v.Do = Ask
	return v, true
}

func outOfTime(p Policy, s *State, f Facts) (Verdict, bool) {
	least, _ := p.pause(*s, f.Failure)
	left, limited := p.left(*s)
	return Verdict{Do: GiveUp}, limited && least > left
}

func serverHint(p Policy, s *State, f Facts) (Verdict, bool) {
	if h := f.Failure.Hint; !h.Given || h.After < p.own(*s, f.Failure.Kind) {
		return Verdict{}, false
	}
	return p.wait(s, f), true
}

func backoff(p Policy, s *State, f Facts) (Verdict, bool) { return p.wait(s, f), true }

// wait takes one retry from the budget.
func (p Policy) wait(s *State, f Facts) Verdict {
	least, most := p.pause(*s, f.Failure)
	s.Waits++
	return Verdict{
		Do: Wait, Min: least, Max: most, Attempt: s.Waits, Of: p.of(f.Failure.Kind), DropPool: stale(f.Failure),
	}
}

// stale reports whether the pool may hold more connections like the one that
// broke (R10): a peer that resets one has mostly forgotten the others too.
func stale(e *failure.Error) bool {
	return e.Kind == failure.Network && (errors.Is(e, syscall.ECONNRESET) || errors.Is(e, syscall.EPIPE))
}
