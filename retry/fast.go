package retry

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
)

// Times of fast mode (R11, R12).
const (
	fastPatience    = 20 * time.Second // a wait from here on is worth leaving fast mode for
	fastCoolDefault = 30 * time.Minute // without a hint
	fastCoolFloor   = 10 * time.Minute // a shorter cooldown would lose the prompt cache twice
)

// Speed is whether a session may ask for the faster variant of its model. The
// zero Speed may.
type Speed struct {
	Until time.Time // cooling down until then
	Off   string    // off for the session, for this reason
}

// At says how fast mode stands: "on", "cooldown" or "off".
func (s Speed) At(now time.Time) string {
	switch {
	case s.Off != "":
		return "off"
	case now.Before(s.Until):
		return "cooldown"
	}
	return "on"
}

// After is the speed that v leaves behind.
func (s Speed) After(v Verdict, now time.Time) Speed {
	if v.Do != LeaveFast {
		return s
	}
	if v.FastOff != "" {
		s.Off = v.FastOff
	}
	if until := now.Add(v.Cooldown); v.Cooldown > 0 && until.After(s.Until) {
		s.Until = until
	}
	return s
}

// short reports whether the faster variant was refused for want of room.
func short(f Facts) bool {
	return f.Fast && capacity(f.Failure.Kind)
}

// leaveFast goes on at normal speed, which has room and limits of its own: so
// its overloads are counted anew, and no word about the fast variant binds it.
func leaveFast(s *State, v Verdict) (Verdict, bool) {
	s.Slow, s.Overloads = true, 0
	v.Do = LeaveFast
	return v, true
}

func fastOff(_ Policy, s *State, f Facts) (Verdict, bool) {
	if f.FastOff == "" || !short(f) && !(f.Fast && f.Failure.Kind == failure.Billing) {
		return Verdict{}, false
	}
	return leaveFast(s, Verdict{FastOff: f.FastOff})
}

func fastUnpaid(_ Policy, s *State, f Facts) (Verdict, bool) {
	if !f.Fast || f.Failure.Kind != failure.Billing {
		return Verdict{}, false
	}
	return leaveFast(s, Verdict{})
}

// fastWait stays in fast mode as long as both the server and our own backoff
// call for a short wait, so that small hints do not burn every retry.
func fastWait(p Policy, s *State, f Facts) (Verdict, bool) {
	if p.Unattended || !short(f) || !f.Failure.Hint.Given || s.Waits >= p.Retries {
		return Verdict{}, false
	}
	least, _ := p.pause(*s, f.Failure)
	if left, limited := p.left(*s); least >= fastPatience || limited && least > left {
		return Verdict{}, false
	}
	return p.wait(s, f), true
}

// fastCooldown is skipped by those who have the time to wait (R12).
func fastCooldown(p Policy, s *State, f Facts) (Verdict, bool) {
	if p.Unattended || !short(f) {
		return Verdict{}, false
	}
	cool := fastCoolDefault
	if h := f.Failure.Hint; h.Given {
		cool = max(h.After, fastCoolFloor)
	}
	return leaveFast(s, Verdict{Cooldown: cool})
}
