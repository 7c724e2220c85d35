package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/failure"
)

const (
	// sleepGap is from which difference of the two clocks on the machine counts
	// as having slept. Corrections of the clock are smaller as a rule.
	sleepGap = 10 * time.Second
	// lateBy is how late a timer fires only where the process was not running:
	// stopped, starved or asleep. What arrived meanwhile lies in the socket, so
	// the silence proves nothing, and patience begins anew: for patienceFor as
	// long as the timer was late, and no longer than the limit.
	lateBy      = time.Second
	patienceFor = 10
)

// errStalled ends a request whose watchdog fired.
var errStalled = errors.New("the answer stalled")

// watchdog times the waits for the server, and nothing else: it is armed by
// begin, right before the reader waits, and disarmed by end. One timer serves
// all three limits, since it is known at begin which of them comes first.
//
// Timers run on the monotonic clock, so setting the wall clock moves none. A
// machine that slept is treated kindly: where the monotonic clock stands still
// in sleep nothing happens, and where it runs on, a timer that fires too late is
// wound up again. So it is in a process that was stopped and goes on.
type watchdog struct {
	limits Timeouts
	wall   func() time.Time
	kill   context.CancelCauseFunc // ends the request, which closes its connection

	whole bool // the answer comes in one piece: one limit for all of it

	mu      sync.Mutex
	timer   *time.Timer
	armed   bool
	since   time.Time     // when the wait began
	limit   time.Duration // of this wait
	due     time.Duration // when the timer fires, after since
	rule    string        // which limit that is
	quiet   time.Duration // waited since the answer last grew
	begun   bool          // the first byte is here
	fired   bool
	slept   time.Duration
	monoAt  time.Time // when the clocks were last compared
	wallAt  time.Time
	waiting time.Duration // how long, when it fired
}

func newWatchdog(limits Timeouts, wall func() time.Time, kill context.CancelCauseFunc) *watchdog {
	w := &watchdog{limits: limits, wall: wall, kill: kill, monoAt: time.Now(), wallAt: wall().Round(0)}
	w.timer = time.AfterFunc(time.Hour, w.fire)
	w.timer.Stop()
	return w
}

// begin is called before the reader waits for the server.
func (w *watchdog) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compareClocks()
	w.since, w.armed = time.Now(), true
	w.limit, w.rule = w.tightest()
	if w.due = w.limit; w.limit > 0 {
		w.timer.Reset(w.due)
	}
}

// tightest returns the limit that this wait meets first; zero is none.
func (w *watchdog) tightest() (limit time.Duration, rule string) {
	if w.whole {
		if w.limits.Whole == 0 {
			return 0, ""
		}
		return max(w.limits.Whole-w.quiet, 1), RuleWhole
	}
	if !w.begun {
		if w.limits.FirstByte == 0 {
			return 0, ""
		}
		return max(w.limits.FirstByte-w.quiet, 1), RuleFirstByte
	}
	if w.limits.Events > 0 {
		limit, rule = max(w.limits.Events-w.quiet, 1), RuleEvents
	}
	if w.limits.Bytes > 0 && (limit == 0 || w.limits.Bytes < limit) {
		limit, rule = w.limits.Bytes, RuleBytes
	}
	return limit, rule
}

// end is called when the wait is over; n is how many bytes of the body came.
func (w *watchdog) end(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.armed = false
	waited := time.Since(w.since)
	w.quiet += waited
	if w.due > 0 && waited-w.due > lateBy {
		w.quiet = 0 // the process was not running, and this end came before the late timer
	}
	w.compareClocks()
	if n > 0 && !w.begun {
		w.begun = true
		if !w.whole {
			w.quiet = 0
		}
	}
}

// streams is called when an answer turns out to be a stream, asked for or not.
func (w *watchdog) streams() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole, w.quiet = false, 0
}

// progress is called when the answer grew.
func (w *watchdog) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = 0
}

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := time.Since(w.since)
	if !w.armed || waited < w.due {
		return // that wait is over; this is another one
	}
	w.compareClocks()
	if late := waited - w.due; late > lateBy {
		if late >= sleepGap {
			w.slept = max(w.slept, late)
		}
		w.since, w.quiet = time.Now(), 0
		w.limit, w.rule = w.tightest()
		w.due = min(w.limit, patienceFor*late)
		w.timer.Reset(w.due)
		return
	}
	w.fired, w.waiting = true, w.limit
	if w.rule != RuleBytes {
		w.waiting += w.quiet
	}
	w.kill(errStalled)
}

// compareClocks notes what the wall clock gained on the monotonic one, which
// stands still while the machine sleeps. It only gives a failure its name.
func (w *watchdog) compareClocks() {
	mono, wall := time.Now(), w.wall().Round(0)
	if gap := wall.Sub(w.wallAt) - mono.Sub(w.monoAt); gap >= sleepGap {
		w.slept += gap
	}
	w.monoAt, w.wallAt = mono, wall
}

// stalled returns the failure of the watchdog that fired, or nil.
func (w *watchdog) stalled() *failure.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fired {
		return nil
	}
	e := &failure.Error{Kind: failure.Timeout, Retry: failure.RetryYes, Rule: w.rule, Stalled: true}
	switch w.rule {
	case RuleFirstByte:
		e.Message = fmt.Sprintf("no byte of an answer within %v (first-byte watchdog)", w.waiting)
	case RuleBytes:
		e.Message = fmt.Sprintf("no byte for %v in the middle of the answer (byte watchdog)", w.waiting)
	case RuleWhole:
		e.Message = fmt.Sprintf("no complete answer within %v (watchdog of unstreamed answers)", w.waiting)
	case RuleEvents:
		e.Message = fmt.Sprintf("the answer did not grow for %v although the connection lives (event watchdog)", w.waiting)
	}
	return e.Wrap(errStalled)
}

// nameSleep adds to a broken connection or a stall that the machine slept.
func (w *watchdog) nameSleep(e *failure.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slept > 0 && (e.Kind == failure.Network || e.Kind == failure.Timeout) {
		e.Rule = RuleSlept
		e.Message += fmt.Sprintf("; this machine seems to have slept for %v in between", w.slept.Round(time.Second))
	}
}

// watched is a body whose reads are timed. Before it waits it hands over what
// was decoded so far.
type watched struct {
	body   io.Reader
	dog    *watchdog
	before func()
}

func (w *watched) Read(p []byte) (int, error) {
	w.before()
	w.dog.begin()
	n, err := w.body.Read(p)
	w.dog.end(n)
	return n, err
}
