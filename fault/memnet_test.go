package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// bubble plays a script on the memory net, where hours pass in no time.
func bubble(t *testing.T, script string, o Options, f func(*testing.T, *Running, *client)) {
	t.Helper()
	s := parsed(t, script)
	synctest.Test(t, func(t *testing.T) {
		m := NewMemoryNet()
		r := New(s, o).Serve(m)
		h := m.Client()
		f(t, r, &client{t, r.URL, h})
		h.CloseIdleConnections()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitsInABubble(t *testing.T) {
	const three = "model\n  rule a\n    say \"ab\"\n" // 7 events: start, block start, 2 deltas, block stop, ping, delta, stop
	for _, tt := range []struct {
		step string
		want time.Duration
	}{
		{"delay headers 2h", 2 * time.Hour},
		{"delay first 3s", 3 * time.Second},
		{"delay events 10s", 80 * time.Second},
		{"stall headers 5m", 5 * time.Minute},
		{"stall text 7m", 7 * time.Minute},
		{"pings text 30s every 10s", 30 * time.Second},
	} {
		t.Run(tt.step, func(t *testing.T) {
			bubble(t, "step wait\n  "+tt.step+"\n"+three, Options{}, func(t *testing.T, _ *Running, c *client) {
				start := time.Now()
				g := c.ask(ask(user("x")))
				if d := time.Since(start); d != tt.want || !g.stopped {
					t.Errorf("took %v, want %v; stopped %v %v", d, tt.want, g.stopped, g.err)
				}
			})
			bubble(t, "scale 2\nstep wait\n  "+tt.step+"\n"+three, Options{Scale: 0.5}, func(t *testing.T, _ *Running, c *client) {
				start := time.Now()
				c.ask(ask(user("x")))
				if d := time.Since(start); d != tt.want/2 {
					t.Errorf("scaled by a half it took %v", d)
				}
			})
		})
	}
}

// What is cut off on the memory net looks the same as on a real one.
func TestBreaksInABubble(t *testing.T) {
	for _, how := range []string{"end", "close", "reset"} {
		bubble(t, "step cut\n  cut text "+how+twoCalls, Options{}, func(t *testing.T, r *Running, c *client) {
			checkBreak(t, c.ask(ask(user("x"))), how)
			if g := c.ask(ask(user("x"))); !g.stopped {
				t.Errorf("%s: the second try was not healthy: %v", how, g.err)
			}
			if q := r.Report().Requests; q[0].End != "cut" || q[1].End != "complete" {
				t.Errorf("%s: report\n%s", how, r.Report())
			}
		})
	}
	for _, how := range []string{"close", "reset"} {
		bubble(t, "step cut\n  "+how+" headers"+twoCalls, Options{}, func(t *testing.T, r *Running, c *client) {
			if g := c.ask(ask(user("x"))); g.err == nil {
				t.Errorf("%s before the headers gave %d", how, g.status)
			}
			if q := r.Report().Requests; q[0].Status != 0 || q[0].End != "cut" {
				t.Errorf("report\n%s", r.Report())
			}
		})
	}
}

func TestClientLeavesInABubble(t *testing.T) {
	bubble(t, "step hang always\n  stall text"+twoCalls, Options{}, func(t *testing.T, r *Running, c *client) {
		ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
		defer cancel()
		// The end of the context and that of the connection come in one instant:
		// either may be what the client sees first. The answer is not whole.
		if g := c.send(ctx, ask(user("x"))); g.stopped || g.text == "" {
			t.Errorf("got %v %q", g.err, g.text)
		}
		synctest.Wait()
		if q := r.Report().Requests[0]; q.End != "client left" || q.EndMS != 45000 {
			t.Errorf("report\n%s", r.Report())
		}
	})
}

// The same script, seed and requests give the same bytes.
func TestSameSeedSameBytes(t *testing.T) {
	play := func(seed uint64) string {
		var all strings.Builder
		bubble(t, "step flaky always\n  when chance 50%\n  cut random\n"+essay, Options{Seed: seed}, func(t *testing.T, r *Running, c *client) {
			for range 12 {
				all.WriteString(c.ask(ask(user("x"))).raw)
			}
			all.WriteString(r.Report().String())
		})
		return all.String()
	}
	if first, second := play(7), play(7); first != second {
		t.Error("two plays with one seed differ")
	}
	if play(7) == play(8) {
		t.Error("two seeds gave the same bytes")
	}
}

func TestMemoryNetIsANet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemoryNet()
		accepted := make(chan net.Conn)
		go func() {
			c, err := m.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		client, err := m.DialContext(t.Context(), "tcp", "anywhere:1")
		if err != nil {
			t.Fatal(err)
		}
		server := <-accepted
		if err := client.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read after the deadline: %v", err)
		}
		if err := client.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go func() { // more than fits into the buffer: the writer has to wait for the reader
			_, err := server.Write(make([]byte, 3*memoryBuffer))
			if err != nil {
				t.Error(err)
			}
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		if n, err := io.Copy(io.Discard, client); n != 3*memoryBuffer || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed peer: %v", err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if _, err := m.DialContext(t.Context(), "tcp", "x:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after Close: %v", err)
		}
		if _, err := m.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after Close: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := NewMemoryNet().DialContext(ctx, "tcp", "x:1"); !errors.Is(err, context.Canceled) {
			t.Errorf("dial with a dead context: %v", err)
		}
	})
}

var _ http.Handler = (*Server)(nil)
