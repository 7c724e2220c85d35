// Package gate (layer 1) answers one question: how do many processes share what
// one of them learned about a limit?
//
// All who ask the same model on the same account share a small file. While a
// limit is in force nobody sends; when it ends, one goes first to look, and
// then all go by turns, at a pace that the refusals taught.
//
//	g, err := gate.Open(dir, gate.Key{BaseURL: url, Account: key, Model: name})
//	t := g.Enter(gate.Foreground) // works without a gate too: g may be nil
//	err = t.Wait(ctx)
//	… send …
//	t.Report(gate.Outcome{Result: gate.OK})
//
// A gate only ever delays, by times that are bounded, and only on proof. What
// cannot be read, locked or believed is as good as nothing: the way is free.
package gate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"
)

// Priority says who goes first.
type Priority uint8

// The priorities. Nobody waits for a request in the background, so it takes
// only turns that nobody else wants.
const (
	Foreground Priority = iota
	Background
)

// Result is what the provider said to a request, as far as limits go. It is
// known when the answer begins; whoever went first should not wait for its end.
type Result uint8

// The results.
const (
	OK         Result = iota + 1 // let in
	Limited                      // refused for a limit of the account: proof
	Overloaded                   // refused for the provider's load: proof with a hint, or when it repeats
	Failed                       // something else, which says nothing about limits
)

// Outcome is what became of a request.
type Outcome struct {
	Result Result
	After  time.Duration // the wait that the provider asked for; zero: none
}

// Why tells what a request is held for.
type Why string

// The reasons to hold a request.
const (
	ForLimit Why = "limit" // a limit is in force
	ForProbe Why = "probe" // another request looks whether the limit has ended
	ForTurn  Why = "turn"  // others go first, at the pace that the limit allows
)

// Hold says how long a request must wait before it asks again. The zero Hold
// lets it go.
type Hold struct {
	For   time.Duration
	Why   Why
	Until time.Time // when the limit ends, by the provider's word: for people
	Err   error     // why the gate cannot be used: then the way is free
}

// Gate is what is known of one limit. A nil Gate knows nothing and holds nobody.
type Gate struct {
	// Now and Rand are the clock and chance in [0,1); set them before use.
	Now  func() time.Time
	Rand func() float64

	store store
}

// store keeps bytes where all can see them. change is called while they are
// locked, perhaps twice, and returns the new ones; nil leaves what is there.
type store interface {
	update(change func(old []byte) []byte) error
}

// Open returns the gate of key in dir, which is made if it is missing. Its
// files name no account. A system without file locks has no gate: the error is
// [errors.ErrUnsupported], and a nil Gate is as good.
func Open(dir string, key Key) (*Gate, error) {
	if !supported {
		return nil, fmt.Errorf("open gate: lock files: %w", errors.ErrUnsupported)
	}
	name, err := key.file(dir)
	if err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	return &Gate{Now: time.Now, Rand: mathrand.Float64, store: file(name)}, nil
}

// Enter returns the ticket of one request and all its tries.
func (g *Gate) Enter(p Priority) *Ticket {
	return &Ticket{gate: g, id: rand.Text(), priority: p}
}

// Ticket stands for one request, which may be tried again after each report.
// It is not safe for concurrent use.
type Ticket struct {
	gate     *Gate
	id       string
	priority Priority
	epoch    int           // of the state that let it go, or promised the turn
	turn     time.Time     // promised; zero: none
	gap      time.Duration // behind the request before, if that was kept just so
}

// Hold tells whether the request may be sent now, and if not, for how long not
// to ask again. It returns at once.
func (t *Ticket) Hold() Hold {
	var h Hold
	err := t.update(func(s *state, now time.Time, chance float64) { h = s.enter(t, now, chance) })
	if err != nil {
		return Hold{Err: fmt.Errorf("enter gate: %w", err)}
	}
	return h
}

// Wait sleeps until the request may be sent. Its only error is the end of ctx.
func (t *Ticket) Wait(ctx context.Context) error {
	for h := t.Hold(); h.For > 0; h = t.Hold() {
		timer := time.NewTimer(h.For)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return ctx.Err()
}

// Report tells the others what became of the request that [Ticket.Hold] let go.
func (t *Ticket) Report(o Outcome) error {
	err := t.update(func(s *state, now time.Time, _ float64) { s.report(t, o, now) })
	if err != nil {
		return fmt.Errorf("report to gate: %w", err)
	}
	return nil
}

// update changes the shared state, if there is something to change.
func (t *Ticket) update(change func(*state, time.Time, float64)) error {
	g := t.gate
	if g == nil {
		change(new(state), time.Now(), 0)
		return nil
	}
	before := *t
	return g.store.update(func(old []byte) []byte {
		*t = before // a second call starts anew
		now := g.Now()
		s := decode(old, now)
		was := s
		change(&s, now, g.Rand())
		if s == was {
			return nil
		}
		s.Changed = now
		return encode(s)
	})
}

// decode reads a state and forgets what cannot be believed.
func decode(raw []byte, now time.Time) state {
	var s state
	if len(bytes.TrimSpace(raw)) == 0 || json.Unmarshal(raw, &s) != nil || !s.believable(now) {
		return state{}
	}
	return s
}

func encode(s state) []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // a date that has no JSON form: better said nothing
	}
	return append(raw, '\n')
}
