package gate

import "time"

// Bounds of what a gate may do to a request.
const (
	trust    = 10 * time.Minute // no limit is believed longer than this without another look
	memory   = 15 * time.Minute // what nobody confirmed for so long is forgotten
	skew     = 5 * time.Second  // a state from further in the future is from another clock
	lease    = 10 * time.Second // how long the others believe in the one who went to look
	firstGap = time.Second      // the pace after the first refusal; it is learned from there
	leastGap = 20 * time.Millisecond
	mostGap  = time.Minute
	ahead    = 2                      // turns are promised so many gaps ahead: what a dead process takes along
	glance   = 250 * time.Millisecond // between two looks at a thing that changes soon
	spread   = 500 * time.Millisecond // over which those wake that wait for the same moment
	backStep = time.Second            // by which the background lets the foreground go first
	proof    = 3                      // overloads in a row that are no accident
	proofAge = time.Minute            // within which they count as a row
	longest  = time.Minute            // wait after refusals that name no time
)

// state is what all know of one limit. The zero state knows nothing, and lets
// everybody go. It is comparable: an equal state need not be written.
type state struct {
	Epoch     int           `json:"epoch"`              // counts closings and openings, so that late answers are known
	Until     time.Time     `json:"until,omitzero"`     // nobody sends before; then one looks
	Reset     time.Time     `json:"reset,omitzero"`     // the end of the limit by the provider's word
	Prober    string        `json:"prober,omitzero"`    // the ticket that looks
	Lease     time.Time     `json:"lease,omitzero"`     // until when it is believed in
	Gap       time.Duration `json:"gap_ns,omitzero"`    // between two requests; 0: no pace is known
	Next      time.Time     `json:"next,omitzero"`      // the first free turn
	Tried     bool          `json:"tried,omitzero"`     // a pace was too fast: go on in small steps
	Calm      int           `json:"calm,omitzero"`      // successes since the last refusal
	Refusals  int           `json:"refusals,omitzero"`  // in a row
	Overloads int           `json:"overloads,omitzero"` // in a row, not yet proof
	Changed   time.Time     `json:"changed,omitzero"`
}

// believable reports whether s can be the work of a gate whose clock is ours.
func (s *state) believable(now time.Time) bool {
	within := func(t time.Time, d time.Duration) bool { return t.IsZero() || !t.After(s.Changed.Add(d)) }
	return !s.Changed.After(now.Add(skew)) && now.Sub(s.Changed) <= memory &&
		within(s.Until, trust) && within(s.Lease, lease) && within(s.Next, (ahead+2)*mostGap) &&
		0 <= s.Gap && s.Gap <= mostGap && s.Calm >= 0 && s.Refusals >= 0 && s.Overloads >= 0
}

// enter decides whether t may send now. The times of a monotonic clock mean
// nothing to another process, so they never reach the state.
func (s *state) enter(t *Ticket, now time.Time, chance float64) Hold {
	now = now.Round(0)
	switch {
	case now.Before(s.Until):
		wait := s.Until.Sub(now) + part(spread, chance)
		if t.priority == Background {
			wait += backStep
		}
		return Hold{For: wait, Why: ForLimit, Until: s.Reset}
	case !s.Until.IsZero() && now.Before(s.Lease) && s.Prober != t.id:
		return Hold{For: glance + part(spread, chance), Why: ForProbe, Until: s.Reset}
	case !s.Until.IsZero():
		s.Prober, s.Lease = t.id, now.Add(lease)
	case s.Gap > 0:
		if wait := s.queue(t, now, chance); wait > 0 {
			return Hold{For: wait, Why: ForTurn}
		}
	}
	t.epoch, t.turn = s.Epoch, time.Time{}
	return Hold{}
}

// queue gives t a turn, and tells how far it is away. Turns are promised only a
// little ahead, so that they follow the pace as it changes; whoever comes later
// asks again.
func (s *state) queue(t *Ticket, now time.Time, chance float64) time.Duration {
	if !t.turn.IsZero() && t.epoch == s.Epoch {
		// A turn missed by far is void: those who slept must not come all at once.
		if wait := t.turn.Sub(now); wait > -s.Gap-glance {
			return wait
		}
	}
	t.turn, t.gap = time.Time{}, 0
	next := s.Next
	if next.Before(now) {
		next = now
	}
	wait, horizon := next.Sub(now), max(ahead*s.Gap, 2*glance)
	switch {
	case wait > 0 && t.priority == Background:
		return wait + glance + part(spread, chance)
	case wait > horizon:
		return wait - horizon + part(horizon, chance)
	case now.Sub(s.Next) < s.Gap/4:
		t.gap = s.Gap // somebody went just before: this one puts the pace to the test
	}
	t.epoch, t.turn = s.Epoch, next
	s.Next = next.Add(s.Gap + part(s.Gap/10, chance)) // chance only widens the gap
	return wait
}

// report takes in what became of t's request. An answer to a request from
// before the last closing or opening belongs to a round that is over.
func (s *state) report(t *Ticket, o Outcome, now time.Time) {
	now = now.Round(0)
	fresh := t.epoch == s.Epoch
	switch o.Result {
	case OK:
		if fresh {
			s.admit(t, now)
		}
	case Limited:
		if fresh {
			s.refuse(o.After, now)
		} else if now.Before(s.Until) && o.After > 0 {
			s.close(o.After, now) // of the same round, but it may know of a later end
		}
	case Overloaded:
		if fresh {
			s.overload(o.After, now)
		}
	case Failed:
		if s.Prober == t.id {
			s.Prober, s.Lease = "", time.Time{} // another may look
		}
	}
}

// admit learns from a request that was let in: a limit has ended, or the pace at
// which it went was not too fast. The longer all goes well, the larger the steps.
func (s *state) admit(t *Ticket, now time.Time) {
	s.Refusals, s.Overloads = 0, 0
	switch {
	case !s.Until.IsZero() && s.Prober == t.id:
		s.Until, s.Reset, s.Lease, s.Prober = time.Time{}, time.Time{}, time.Time{}, ""
		s.Epoch++
		s.Next = now.Add(s.Gap)
	case s.Until.IsZero() && t.gap > 0:
		s.Calm++
		step := t.gap / 5
		if s.Tried {
			step = min(step, 3*t.gap/100*time.Duration(1+s.Calm/50))
		}
		if s.Gap = min(s.Gap, t.gap-step); s.Gap < leastGap {
			*s = state{Epoch: s.Epoch} // so fast that nothing needs to be shared
		}
	}
}

// overload takes one refusal for load as an accident, unless the provider names
// a time or it is not the first trouble.
func (s *state) overload(after time.Duration, now time.Time) {
	if now.Sub(s.Changed) > proofAge {
		s.Overloads = 0
	}
	s.Overloads++
	known := !s.Until.IsZero() || s.Gap > 0
	if known || after > 0 || s.Overloads >= proof {
		s.refuse(after, now)
	}
}

// refuse closes the gate, and widens the gap for the time after.
func (s *state) refuse(after time.Duration, now time.Time) {
	s.Epoch++
	s.Calm, s.Overloads, s.Prober, s.Lease, s.Next = 0, 0, "", time.Time{}, time.Time{}
	if s.Gap == 0 {
		s.Gap = firstGap
	} else {
		s.Gap, s.Tried = min(s.Gap+s.Gap/4, mostGap), true
	}
	// A provider that says "now" and refuses again is believed less each time.
	if s.Refusals++; after == 0 || s.Refusals > 1 {
		after = max(after, min(time.Second<<min(s.Refusals-1, 10), longest))
	}
	s.Until, s.Reset = time.Time{}, time.Time{}
	s.close(after, now)
}

// close holds all requests for after, or for longer if it already did.
func (s *state) close(after time.Duration, now time.Time) {
	if reset := now.Add(after); reset.After(s.Reset) {
		s.Reset = reset
	}
	if until := now.Add(min(after, trust)); until.After(s.Until) {
		s.Until = until
	}
}

func part(d time.Duration, chance float64) time.Duration { return time.Duration(float64(d) * chance) }
