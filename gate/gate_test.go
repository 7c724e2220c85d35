package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// memoryStore is a store that all processes of a test share.
type memoryStore struct {
	mu  sync.Mutex
	raw []byte
	err error
}

func (m *memoryStore) update(change func([]byte) []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	if raw := change(m.raw); raw != nil {
		m.raw = raw
	}
	return nil
}

// chance is a sequence without a source of entropy: the tests repeat.
func chance(seed int) func() float64 {
	n := uint32(seed)*2654435761 + 1
	return func() float64 {
		n = n*1664525 + 1013904223
		return float64(n>>8) / (1 << 24)
	}
}

func (m *memoryStore) gate(seed int) *Gate {
	return &Gate{Now: time.Now, Rand: chance(seed), store: m}
}

// provider limits requests: one each gap, and hints at when the next may come.
type provider struct {
	mu      sync.Mutex
	gap     time.Duration
	closed  time.Time // refuses all before
	last    time.Time
	arrived []time.Time
	refused []time.Time
}

func (p *provider) ask() Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.arrived = append(p.arrived, now)
	if left := max(p.closed.Sub(now), p.last.Add(p.gap).Sub(now)); left > 0 {
		p.refused = append(p.refused, now)
		return Outcome{Result: Limited, After: left.Truncate(time.Second) + time.Second}
	}
	p.last = now
	return Outcome{Result: OK}
}

// work is one process: it asks until it is let in.
func work(t *testing.T, g *Gate, p *provider, priority Priority, tries int) time.Time {
	ticket := g.Enter(priority)
	for range tries {
		if err := ticket.Wait(t.Context()); err != nil {
			t.Error(err)
			break
		}
		time.Sleep(5 * time.Millisecond) // the way there
		o := p.ask()
		time.Sleep(5 * time.Millisecond) // and back
		if err := ticket.Report(o); err != nil {
			t.Error(err)
		}
		if o.Result == OK {
			return time.Now()
		}
	}
	t.Error("a process was never let in")
	return time.Now()
}

// crowd lets n processes ask at the same time, and returns how many requests
// the first round had, and how many came later.
func crowd(t *testing.T, n int, p *provider, m *memoryStore) (first, later int) {
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { work(t, m.gate(i), p, Foreground, 10) })
	}
	all.Wait()
	for _, at := range p.arrived {
		if at.Sub(began) < 100*time.Millisecond {
			first++
		}
	}
	return first, len(p.arrived) - first
}

// burst is the largest number of requests within d, after the first round.
func burst(arrived []time.Time, first int, d time.Duration) int {
	most := 0
	rest := arrived[first:]
	for i := range rest {
		n := 0
		for _, at := range rest[i:] {
			if at.Sub(rest[i]) < d {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestFiftyAtOneASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{gap: time.Second}
		began := time.Now()
		first, later := crowd(t, 50, p, new(memoryStore))
		took := time.Since(began)
		t.Logf("first round %d, later %d requests in %v", first, later, took)
		if first != 50 || later > 49*12/10 {
			t.Errorf("%d requests in the first round, %d later; want 50 and at most %d", first, later, 49*12/10)
		}
		if n := burst(p.arrived, first, 800*time.Millisecond); n > 1 {
			t.Errorf("%d requests within 0.8 s", n)
		}
		if took > 75*time.Second {
			t.Errorf("it took %v, want about 50 s", took)
		}
	})
}

func TestPacesAreLearned(t *testing.T) {
	for _, gap := range []time.Duration{30 * time.Millisecond, 200 * time.Millisecond, 4 * time.Second} {
		t.Run(gap.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 200
				p := &provider{gap: gap}
				began := time.Now()
				first, later := crowd(t, n, p, new(memoryStore))
				least := (n - 1) * gap
				took := time.Since(began)
				t.Logf("first round %d, later %d requests in %v, at least %v", first, later, took, least)
				if later > n*12/10 || took > 2*least+time.Minute {
					t.Errorf("%d requests after the first round in %v", later, took)
				}
			})
		})
	}
}

func TestNobodySendsWhileALimitIsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{gap: time.Second, closed: time.Now().Add(5 * time.Minute)}
		first, _ := crowd(t, 20, p, new(memoryStore))
		for _, at := range p.arrived[first:] {
			if at.Before(p.closed) {
				t.Fatalf("a request %v before the reset", p.closed.Sub(at))
			}
		}
		after := 0 // one looks; the others wait for what it finds
		for _, at := range p.arrived[first:] {
			if at.Sub(p.arrived[first]) < 900*time.Millisecond {
				after++
			}
		}
		if after != 1 {
			t.Errorf("%d requests at the reset, want one that looks", after)
		}
	})
}

func TestForegroundGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := new(memoryStore), &provider{gap: time.Second, closed: time.Now().Add(30 * time.Second)}
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []Priority
		for i := range 12 {
			priority := Priority(i % 2)
			all.Go(func() {
				work(t, m.gate(i), p, priority, 20)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, priority)
			})
		}
		all.Wait()
		for i, priority := range order {
			if (priority == Background) != (i >= 6) {
				t.Fatalf("let in: %v, want the foreground first", order)
			}
		}
	})
}

func TestAProberThatDiesIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memoryStore)
		trip(t, m, 10*time.Second)
		dead, next := m.gate(1).Enter(Foreground), m.gate(2).Enter(Foreground)
		time.Sleep(10 * time.Second)
		if h := dead.Hold(); h.For != 0 {
			t.Fatalf("nobody may look: %+v", h)
		}
		if h := next.Hold(); h.Why != ForProbe || h.For > time.Second {
			t.Fatalf("beside the one that looks: %+v", h)
		}
		began := time.Now()
		if err := next.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("the next one looked after %v", took)
		}
		next.Report(Outcome{Result: OK})
		dead.Report(Outcome{Result: Limited, After: time.Hour}) // not dead after all, but too late
		other := m.gate(3).Enter(Foreground)
		if h := other.Hold(); h.For > 2*time.Second {
			t.Errorf("a late answer closed the gate again: %+v", h)
		}
	})
}

// trip closes the gate for d.
func trip(t *testing.T, m *memoryStore, d time.Duration) {
	t.Helper()
	ticket := m.gate(0).Enter(Foreground)
	if h := ticket.Hold(); h != (Hold{}) {
		t.Fatalf("at first: %+v", h)
	}
	if err := ticket.Report(Outcome{Result: Limited, After: d}); err != nil {
		t.Fatal(err)
	}
}

func TestAProbeThatFailsOtherwiseFreesTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memoryStore)
		trip(t, m, time.Second)
		time.Sleep(time.Second)
		probe := m.gate(1).Enter(Foreground)
		probe.Hold()
		probe.Report(Outcome{Result: Failed})
		if h := m.gate(2).Enter(Foreground).Hold(); h.For != 0 {
			t.Errorf("after a probe that met another failure: %+v", h)
		}
	})
}

func TestTrippedOnlyOnProof(t *testing.T) {
	for _, test := range []struct {
		name  string
		after []Outcome
		held  bool
	}{
		{"failures", []Outcome{{Result: Failed}, {Result: Failed}, {Result: Failed}, {Result: Failed}}, false},
		{"one overload", []Outcome{{Result: Overloaded}}, false},
		{"overloads and answers", []Outcome{{Result: Overloaded}, {Result: Overloaded}, {Result: OK}, {Result: Overloaded}}, false},
		{"overloads in a row", []Outcome{{Result: Overloaded}, {Result: Overloaded}, {Result: Overloaded}}, true},
		{"an overload with a time", []Outcome{{Result: Overloaded, After: time.Second}}, true},
		{"a limit", []Outcome{{Result: Limited}}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := new(memoryStore)
			for i, o := range test.after {
				ticket := m.gate(i).Enter(Foreground)
				ticket.Hold()
				ticket.Report(o)
			}
			if h := m.gate(9).Enter(Foreground).Hold(); (h.For > 0) != test.held {
				t.Errorf("after %s: %+v", test.name, h)
			}
		})
	}
}

func TestTrustIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(memoryStore)
		trip(t, m, 5*time.Hour)
		h := m.gate(1).Enter(Foreground).Hold()
		if h.For > trust+spread || time.Until(h.Until) != 5*time.Hour {
			t.Errorf("held for %v until %v: want at most %v, and the provider's word for people", h.For, h.Until, trust)
		}
	})
}

func TestWhatCannotBeBelievedHoldsNobody(t *testing.T) {
	now := time.Now()
	date := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	for name, raw := range map[string]string{
		"empty":             "",
		"cut":               `{"epoch":3,"until":"20`,
		"not JSON":          "\x00\x00\x00",
		"another type":      `[1,2]`,
		"wrong member":      `{"until":7}`,
		"from the future":   fmt.Sprintf(`{"until":%q,"changed":%q}`, date(time.Hour), date(time.Hour-time.Minute)),
		"for too long":      fmt.Sprintf(`{"until":%q,"changed":%q}`, date(time.Hour), date(0)),
		"a lease too long":  fmt.Sprintf(`{"until":%q,"lease":%q,"changed":%q}`, date(-1), date(time.Hour), date(-2)),
		"a turn too far":    fmt.Sprintf(`{"gap_ns":1000000000,"next":%q,"changed":%q}`, date(time.Hour), date(0)),
		"forgotten":         fmt.Sprintf(`{"gap_ns":60000000000,"next":%q,"changed":%q}`, date(-memory), date(-memory-time.Second)),
		"a pace too slow":   fmt.Sprintf(`{"gap_ns":%d,"next":%q,"changed":%q}`, time.Hour, date(time.Second), date(0)),
		"a negative pace":   fmt.Sprintf(`{"gap_ns":-5,"next":%q,"changed":%q}`, date(time.Second), date(0)),
		"no date of change": fmt.Sprintf(`{"until":%q}`, date(time.Minute)),
	} {
		g := &Gate{Now: func() time.Time { return now }, Rand: chance(1), store: &memoryStore{raw: []byte(raw)}}
		if h := g.Enter(Foreground).Hold(); h != (Hold{}) {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

func TestATroubledStoreHoldsNobody(t *testing.T) {
	trouble := errors.New("no space left")
	g := &Gate{Now: time.Now, Rand: chance(1), store: &memoryStore{err: trouble}}
	ticket := g.Enter(Foreground)
	if h := ticket.Hold(); h.For != 0 || !errors.Is(h.Err, trouble) {
		t.Errorf("%+v", h)
	}
	if err := ticket.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := ticket.Report(Outcome{Result: OK}); !errors.Is(err, trouble) {
		t.Error(err)
	}
}

func TestNoGate(t *testing.T) {
	var g *Gate
	ticket := g.Enter(Background)
	for range 3 {
		if h := ticket.Hold(); h != (Hold{}) {
			t.Errorf("%+v", h)
		}
		if err := ticket.Report(Outcome{Result: Limited, After: time.Hour}); err != nil {
			t.Error(err)
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	synctest.Test(t, func(t *testing.T) {
		m := new(memoryStore)
		trip(t, m, time.Minute)
		stop := errors.New("the user pressed a key")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if err := m.gate(1).Enter(Foreground).Wait(ctx); !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}

func TestAClockThatIsSetBackForgets(t *testing.T) {
	m := new(memoryStore)
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	g := &Gate{Now: func() time.Time { return now }, Rand: chance(1), store: m}
	first := g.Enter(Foreground)
	first.Hold()
	first.Report(Outcome{Result: Limited, After: time.Minute})
	var held []bool
	for _, d := range []time.Duration{0, -2 * time.Second, -time.Hour} {
		now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).Add(d)
		held = append(held, g.Enter(Foreground).Hold().For > 0)
	}
	if diff := cmp.Diff([]bool{true, true, false}, held); diff != "" {
		t.Error(diff)
	}
}

// FuzzState feeds a gate with files that no gate wrote.
func FuzzState(f *testing.F) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	f.Add([]byte(`{"epoch":1,"until":"2030-01-01T12:01:00Z","gap_ns":1000000000,"changed":"2030-01-01T12:00:00Z"}`), uint8(1))
	f.Add([]byte(`{"gap_ns":60000000000,"next":"2030-01-01T12:03:00Z","changed":"2030-01-01T12:00:00Z"}`), uint8(2))
	f.Fuzz(func(t *testing.T, raw []byte, result uint8) {
		m := &memoryStore{raw: raw}
		g := &Gate{Now: func() time.Time { return now }, Rand: chance(int(result)), store: m}
		ticket := g.Enter(Priority(result % 2))
		for range 3 {
			if h := ticket.Hold(); h.For > trust+spread+backStep || h.Err != nil {
				t.Errorf("held for %v (%s), %v", h.For, h.Why, h.Err)
			}
			if err := ticket.Report(Outcome{Result: Result(result % 6), After: time.Duration(result) * time.Hour}); err != nil {
				t.Error(err)
			}
		}
	})
}
