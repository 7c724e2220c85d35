package anthropic

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// memory is a listener without sockets: real ones never let a bubble sleep.
type memory struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), gone: make(chan struct{})} }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.gone:
		return nil, net.ErrClosed
	}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.gone:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.gone) }); return nil }
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// inBubble runs test with a client whose server is in memory, in a bubble where
// hours pass at once. The server's write sends and flushes.
func inBubble(t *testing.T, cfg Config, server func(write func(string), gone <-chan struct{}), test func(*testing.T, *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			server(func(s string) {
				_, _ = io.WriteString(w, s)
				w.(http.Flusher).Flush()
			}, r.Context().Done())
		})}
		go func() { _ = srv.Serve(m) }()
		cfg.BaseURL, cfg.DialContext = "http://memory", m.dial
		c := mustNew(t, cfg)
		test(t, c)
		c.DropIdle()
		_ = srv.Close()
		synctest.Wait()
	})
}

// stall runs a request that must fail and returns the failure and how long it
// took.
func stall(t *testing.T, c *Client) (*failure.Error, time.Duration) {
	t.Helper()
	began := time.Now()
	_, err := collect(t.Context(), c, hello)
	e := failureIn(err)
	if e == nil {
		t.Fatalf("%v is no failure", err)
	}
	return e, time.Since(began)
}

func TestWatchdogs(t *testing.T) {
	ping := sse(`{"type":"ping"}`)
	for _, tc := range []struct {
		name   string
		server func(write func(string), gone <-chan struct{})
		rule   string
		after  time.Duration
		says   string
	}{
		{"no headers", func(_ func(string), gone <-chan struct{}) { <-gone }, RuleFirstByte, 300 * time.Second, "within 5m0s"},
		{"headers, then nothing", func(write func(string), gone <-chan struct{}) {
			time.Sleep(100 * time.Second)
			write("")
			<-gone
		}, RuleFirstByte, 300 * time.Second, "within 5m0s"},
		{"silence in the middle", func(write func(string), gone <-chan struct{}) {
			write(sse(start, textOpen, textHi))
			<-gone
		}, RuleBytes, 180 * time.Second, "no byte for 3m0s"},
		{"silence in half an event", func(write func(string), gone <-chan struct{}) {
			write(sse(start, textOpen) + "data: {")
			time.Sleep(50 * time.Second)
			write(`"type":`)
			<-gone
		}, RuleBytes, 230 * time.Second, "no byte for 3m0s"},
		{"pings only", func(write func(string), gone <-chan struct{}) {
			write(sse(start))
			for {
				select {
				case <-time.After(21 * time.Second):
					write(ping)
				case <-gone:
					return
				}
			}
		}, RuleEvents, 300 * time.Second, "did not grow for 5m0s"},
		{"comments only", func(write func(string), gone <-chan struct{}) {
			for {
				select {
				case <-time.After(21 * time.Second):
					write(": processing\n\n")
				case <-gone:
					return
				}
			}
		}, RuleEvents, 321 * time.Second, "did not grow for 5m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Config{}, tc.server, func(t *testing.T, c *Client) {
				e, took := stall(t, c)
				if e.Kind != failure.Timeout || e.Retry != failure.RetryYes || e.Rule != tc.rule || !strings.Contains(e.Message, tc.says) {
					t.Errorf("%s %s %s: %s", e.Kind, e.Retry, e.Rule, e.Message)
				}
				if took != tc.after {
					t.Errorf("fired after %v, want %v", took, tc.after)
				}
			})
		})
	}
}

// TestSlowAnswer: an answer may take hours as long as it grows.
func TestSlowAnswer(t *testing.T) {
	inBubble(t, Config{}, func(write func(string), _ <-chan struct{}) {
		for line := range strings.SplitAfterSeq(strings.TrimSuffix(rich, "\n\n"), "\n\n") {
			time.Sleep(140 * time.Second)
			write(line)
		}
	}, func(t *testing.T, c *Client) {
		if _, err := collect(t.Context(), c, hello); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowConsumer: the time that the consumer takes is no stall, however full
// the queue is.
func TestSlowConsumer(t *testing.T) {
	inBubble(t, Config{}, func(write func(string), _ <-chan struct{}) {
		for range 40 { // more than the queue holds
			write(": more\n\n")
		}
		write(longAnswer(20_000))
	}, func(t *testing.T, c *Client) {
		n := 0
		for e, err := range c.Stream(t.Context(), hello) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%2000 == 0 || e.Kind == model.EventStop {
				time.Sleep(time.Hour)
			}
		}
		if n < 20_000 {
			t.Errorf("%d events", n)
		}
	})
}

func TestNoTimeouts(t *testing.T) {
	inBubble(t, Config{Timeouts: Timeouts{FirstByte: -1, Bytes: -1, Events: -1}}, func(write func(string), _ <-chan struct{}) {
		time.Sleep(24 * time.Hour)
		write(sse(start, textOpen))
		time.Sleep(24 * time.Hour)
		write(sse(close0, endTurn, stop))
	}, func(t *testing.T, c *Client) {
		if _, err := collect(t.Context(), c, hello); err != nil {
			t.Error(err)
		}
	})
}

// TestStallAfterTheStopReason: what is complete stays complete.
func TestStallAfterTheStopReason(t *testing.T) {
	inBubble(t, Config{}, func(write func(string), gone <-chan struct{}) {
		write(sse(start, textOpen, textHi, close0, endTurn))
		<-gone
	}, func(t *testing.T, c *Client) {
		events, err := collect(t.Context(), c, hello)
		if err != nil || events[len(events)-1].Kind != model.EventStop {
			t.Errorf("%v", err)
		}
	})
}

// TestTimersStopWithTheCaller: once the caller left, no watchdog speaks.
func TestTimersStopWithTheCaller(t *testing.T) {
	inBubble(t, Config{}, func(_ func(string), gone <-chan struct{}) { <-gone }, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := collect(ctx, c, hello)
		if failure.KindOf(err) != failure.Aborted || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Hour)
	})
}

// clock is a wall clock that can be set.
type clock struct {
	mu   sync.Mutex
	skew time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew)
}

func (c *clock) jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += by
}

// TestClockJumps: no jump of the wall clock makes a watchdog fire; one forward
// while the monotonic clock stood still is a sleep, and names the failure.
func TestClockJumps(t *testing.T) {
	for _, tc := range []struct {
		name string
		jump time.Duration
		rule string
		says string
	}{
		{"asleep for two hours", 2 * time.Hour, RuleSlept, "no byte for 3m0s in the middle of the answer (byte watchdog); this machine seems to have slept for 2h0m0s"},
		{"set back a day", -24 * time.Hour, RuleBytes, "no byte for 3m0s"},
		{"a small correction", 2 * time.Second, RuleBytes, "no byte for 3m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wall := &clock{}
			inBubble(t, Config{Now: wall.now}, func(write func(string), gone <-chan struct{}) {
				write(sse(start, textOpen))
				time.Sleep(100 * time.Second)
				wall.jump(tc.jump)
				write(sse(textHi))
				<-gone
			}, func(t *testing.T, c *Client) {
				e, took := stall(t, c)
				if e.Kind != failure.Timeout || e.Rule != tc.rule || !strings.Contains(e.Message, tc.says) || took != 280*time.Second {
					t.Errorf("after %v: %s %s: %s", took, e.Kind, e.Rule, e.Message)
				}
			})
		})
	}
}

// TestBreakAfterSleep: a connection that died in the sleep is a network
// failure that says so.
func TestBreakAfterSleep(t *testing.T) {
	wall := &clock{}
	inBubble(t, Config{Now: wall.now}, func(write func(string), _ <-chan struct{}) {
		write(sse(start, textOpen))
		time.Sleep(time.Second)
		wall.jump(time.Hour)
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, c *Client) {
		e, _ := stall(t, c)
		if e.Kind != failure.Network || e.Rule != RuleSlept || !strings.Contains(e.Message, "slept for 1h0m0s") {
			t.Errorf("%s %s: %s", e.Kind, e.Rule, e.Message)
		}
	})
}

// TestLateTimer: on systems whose monotonic clock runs on in sleep the timer
// fires far too late. It is wound up again: the bytes may be in the socket.
func TestLateTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, kill := context.WithCancelCause(t.Context())
		defer kill(nil)
		w := newWatchdog(Timeouts{Bytes: time.Minute}, time.Now, kill)
		w.begun = true
		w.begin()
		w.mu.Lock()
		w.since = w.since.Add(-time.Hour) // the hour in which nothing ran
		w.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("fired on waking up")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Fatal("did not fire a minute after waking up")
		}
		e := w.stalled()
		w.nameSleep(e)
		if e.Rule != RuleSlept || !strings.Contains(e.Message, "slept for 1h0m0s") {
			t.Errorf("%s: %s", e.Rule, e.Message)
		}
		w.end(0)
	})
}

// TestBriefStop: a timer that is late by little is patient for little, and a
// wait that ends before its late timer fired counts for nothing.
func TestBriefStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, kill := context.WithCancelCause(t.Context())
		defer kill(nil)
		w := newWatchdog(Timeouts{Bytes: 3 * time.Minute, Events: 5 * time.Minute}, time.Now, kill)
		w.begun = true
		stopped := func(d time.Duration) {
			w.mu.Lock()
			w.since = w.since.Add(-d)
			w.mu.Unlock()
		}
		w.begin()
		stopped(10 * time.Minute)
		w.end(1)
		if w.quiet != 0 {
			t.Errorf("quiet for %v", w.quiet)
		}
		w.begin()
		stopped(5 * time.Second)
		time.Sleep(3*time.Minute + 49*time.Second)
		if synctest.Wait(); ctx.Err() != nil {
			t.Fatal("fired too early")
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); ctx.Err() == nil {
			t.Fatal("did not fire 50 s after a stop of 5 s")
		}
		e := w.stalled()
		if w.nameSleep(e); e.Rule != RuleBytes {
			t.Errorf("%s: %s", e.Rule, e.Message)
		}
		w.end(0)
	})
}
