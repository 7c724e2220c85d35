package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// web is a server over HTTP on the loopback, with a switch for what goes wrong.
type web struct {
	*httptest.Server
	calls atomic.Int64 // tools/call requests that came
	fault atomic.Value // func(w, r, method string) bool: true if it answered
}

func newWeb(t *testing.T, inner http.Handler) *web {
	t.Helper()
	w := &web{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m request
		_ = json.Unmarshal(body, &m)
		if m.Method == "tools/call" {
			w.calls.Add(1)
		}
		if f, ok := w.fault.Load().(func(http.ResponseWriter, *http.Request, string) bool); ok && f(rw, r, m.Method) {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		inner.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

// proper is the handler of a server that does everything right.
func proper(opts *sdk.StreamableHTTPOptions) http.Handler {
	s := sdkServer(func(string) {})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts)
}

func (w *web) server() mcp.Server {
	return mcp.Server{Name: "web", Kind: mcp.HTTP, URL: w.URL, Source: ".mcp.json:1"}
}

// on calls fault for the requests of a method, until it has answered so often.
func (w *web) on(method string, times int64, fault http.HandlerFunc) {
	var done atomic.Int64
	w.fault.Store(func(rw http.ResponseWriter, r *http.Request, m string) bool {
		if m != method || done.Add(1) > times {
			return false
		}
		fault(rw, r)
		return true
	})
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// legacyOnly answers the question of the newer era as a server does that does
// not know it.
func legacyOnly(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") > "2026" {
			http.Error(w, "Bad Request: no valid session", http.StatusBadRequest)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.Handler
		version string
	}{
		"newer era":            {proper(&sdk.StreamableHTTPOptions{Stateless: true}), "2026-07-28"},
		"older era":            {legacyOnly(proper(nil)), "2025-11-25"},
		"older era, plain":     {legacyOnly(proper(&sdk.StreamableHTTPOptions{JSONResponse: true})), "2025-11-25"},
		"a server of sessions": {proper(nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, c.handler)
			s := open(t, mcp.Config{Servers: []mcp.Server{w.server()}})
			if st := s.state(t, mcp.Connected); c.version != "" && st.Version != c.version {
				t.Errorf("it speaks %s, want %s", st.Version, c.version)
			}
			good(t, s.call(t, "mcp__web__echo", `{"text":"hello"}`), "hello")
			bad(t, s.call(t, "mcp__web__fail", `{}`), mcp.ClassTool, "the table is locked")
		})
	}
	t.Run("the transport before", func(t *testing.T) {
		t.Parallel()
		inner := sdkServer(func(string) {})
		w := newWeb(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return inner }, nil))
		one := w.server()
		one.Kind = mcp.SSE
		s := open(t, mcp.Config{Servers: []mcp.Server{one}})
		s.state(t, mcp.Connected)
		good(t, s.call(t, "mcp__web__echo", `{"text":"hello"}`), "hello")
	})
}

func TestHTTPFaults(t *testing.T) {
	t.Parallel()
	eras := map[string]http.Handler{"newer": proper(&sdk.StreamableHTTPOptions{Stateless: true}), "older": legacyOnly(proper(nil))}
	for era, handler := range eras {
		in := func(t *testing.T, cfg mcp.Config) (*web, session) {
			w := newWeb(t, handler)
			cfg.Servers = []mcp.Server{w.server()}
			s := open(t, cfg)
			s.state(t, mcp.Connected)
			return w, s
		}
		t.Run(era+" C147 503 once during parallel calls", func(t *testing.T) {
			t.Parallel()
			w, s := in(t, mcp.Config{})
			w.on("tools/call", 1, status(http.StatusServiceUnavailable))
			var wait sync.WaitGroup
			for range 6 {
				wait.Go(func() { good(t, s.call(t, "mcp__web__look", `{"text":"x"}`), "seen x") })
			}
			wait.Wait()
			w.on("tools/call", 1, status(http.StatusServiceUnavailable))
			bad(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), mcp.ClassUnavailable, "HTTP 503", "Most likely it did nothing")
			good(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), "x")
		})
		t.Run(era+" closed in mid-call", func(t *testing.T) {
			t.Parallel()
			w, s := in(t, mcp.Config{})
			w.on("tools/call", 1, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			before := w.calls.Load()
			bad(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), mcp.ClassLost, "ended during the call", "outcome is unknown")
			if n := w.calls.Load() - before; n != 1 {
				t.Errorf("a call that changes things was sent %d times", n)
			}
			w.on("tools/call", 1, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			good(t, s.call(t, "mcp__web__look", `{"text":"x"}`), "seen x")
		})
		t.Run(era+" C024 a part of the stream, then silence", func(t *testing.T) {
			t.Parallel()
			w, s := in(t, mcp.Config{IdleHTTP: time.Second})
			gone := make(chan struct{})
			w.on("tools/call", 1, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(rw, "event: message\ndata: {\"jsonrpc\"")
				rw.(http.Flusher).Flush()
				<-r.Context().Done()
				close(gone)
			})
			bad(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), mcp.ClassSilent, "fell silent")
			<-gone // the request does not go on either
			good(t, s.call(t, "mcp__web__echo", `{"text":"y"}`), "y")
		})
		t.Run(era+" C024 cancelled in a silent stream", func(t *testing.T) {
			t.Parallel()
			w, s := in(t, mcp.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			w.on("tools/call", 1, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(rw, "event: message\ndata: {")
				rw.(http.Flusher).Flush()
				cancel()
				<-r.Context().Done()
			})
			bad(t, s.callIn(t, ctx, "mcp__web__echo", `{"text":"x"}`), tool.ClassAborted, "cancelled")
			good(t, s.call(t, "mcp__web__echo", `{"text":"y"}`), "y")
		})
		t.Run(era+" no first byte", func(t *testing.T) {
			t.Parallel()
			w, s := in(t, mcp.Config{FirstByte: time.Second})
			w.on("tools/call", 1, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			bad(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), mcp.ClassSilent, "fell silent")
			good(t, s.call(t, "mcp__web__echo", `{"text":"y"}`), "y")
		})
		t.Run(era+" nonsense for an answer", func(t *testing.T) {
			t.Parallel()
			w, s := in(t, mcp.Config{})
			w.on("tools/call", 1, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, "<html>")
			})
			bad(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), mcp.ClassLost, "unknown")
			good(t, s.call(t, "mcp__web__echo", `{"text":"y"}`), "y")
		})
		t.Run(era+" more than is read", func(t *testing.T) {
			t.Parallel()
			w, s := in(t, mcp.Config{})
			w.on("tools/call", 1, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				part := strings.Repeat("x", 1<<20)
				for range 40 {
					_, _ = io.WriteString(rw, part)
				}
			})
			bad(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), mcp.ClassLost, "more than 33554432 bytes")
			good(t, s.call(t, "mcp__web__echo", `{"text":"y"}`), "y")
		})
	}
	t.Run("the session is gone", func(t *testing.T) {
		t.Parallel()
		w := newWeb(t, legacyOnly(proper(nil)))
		s := open(t, mcp.Config{Servers: []mcp.Server{w.server()}})
		w.on("tools/call", 1, status(http.StatusNotFound))
		good(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), "x")
		if n := w.calls.Load(); n != 2 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// out is a server that is out of reach and comes back at the same address.
func TestC148OutOfReach(t *testing.T) {
	t.Parallel()
	w := newWeb(t, proper(&sdk.StreamableHTTPOptions{Stateless: true}))
	address := w.Listener.Addr().String()
	s := open(t, mcp.Config{Servers: []mcp.Server{w.server()}, Backoff: 20 * time.Millisecond})
	good(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), "x")
	w.CloseClientConnections()
	w.Close()
	bad(t, s.call(t, "mcp__web__look", `{"text":"x"}`), mcp.ClassUnavailable, "cannot be reached", "not called", "refused")
	bad(t, s.call(t, "mcp__web__look", `{"text":"x"}`), mcp.ClassUnavailable, "tried again when it is called after")
	s.state(t, mcp.Failed)

	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	back := &http.Server{Handler: proper(&sdk.StreamableHTTPOptions{Stateless: true})}
	go func() { _ = back.Serve(l) }()
	defer back.Close()
	time.Sleep(250 * time.Millisecond) // the breaker cools down in ten times the backoff
	good(t, s.call(t, "mcp__web__echo", `{"text":"back"}`), "back")
	s.state(t, mcp.Connected)
}

func TestC150RefusedAtStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	s := open(t, mcp.Config{Servers: []mcp.Server{{Name: "web", Kind: mcp.HTTP, URL: url}, program(t, "it", "sdk", nil)}})
	if st := s.state(t, mcp.Failed); !strings.Contains(st.Error, "refused") {
		t.Errorf("the error says %s", st.Error)
	}
	good(t, s.call(t, "mcp__it__echo", `{"text":"x"}`), "x")
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	guarded := func(token *atomic.Value) http.Handler {
		inner := proper(&sdk.StreamableHTTPOptions{Stateless: true})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token.Load().(string) {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	t.Run("401 at the start", func(t *testing.T) {
		t.Parallel()
		var token atomic.Value
		token.Store("right-token-1")
		one := newWeb(t, guarded(&token)).server()
		one.Headers = map[string]string{"Authorization": "Bearer wrong-token-1"}
		s := open(t, mcp.Config{Servers: []mcp.Server{one}})
		if st := s.state(t, mcp.NeedsAuth); !strings.Contains(st.Error, "HTTP 401") || strings.Contains(st.Error, "wrong-token") {
			t.Errorf("the error says %s", st.Error)
		}
	})
	t.Run("401 later, and the helper knows more", func(t *testing.T) {
		t.Parallel()
		var token atomic.Value
		token.Store("first-token")
		file := filepath.Join(t.TempDir(), "token")
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first-token")
		one := newWeb(t, guarded(&token)).server()
		one.HeadersHelper = fmt.Sprintf(`echo x >>%s.runs; printf '{"Authorization":"Bearer %%s"}' "$(cat %s)"`, file, file)
		s := open(t, mcp.Config{Servers: []mcp.Server{one}})
		s.state(t, mcp.Connected)
		good(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), "x")
		token.Store("second-token")
		write("second-token")
		good(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), "x")
		if runs, _ := os.ReadFile(file + ".runs"); len(runs) != 4 {
			t.Errorf("the helper was run %d times", len(runs)/2)
		}
		token.Store("third-token") // which the helper does not know
		bad(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), mcp.ClassAuth, "HTTP 401", "not run", "headersHelper", ".mcp.json:1")
		s.state(t, mcp.NeedsAuth)
		write("third-token")
		time.Sleep(150 * time.Millisecond)
		good(t, s.call(t, "mcp__web__echo", `{"text":"x"}`), "x")
		s.state(t, mcp.Connected)
	})
	t.Run("no headers for other hosts", func(t *testing.T) {
		t.Parallel()
		seen := make(chan string, 20)
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
			http.Error(w, "no", http.StatusBadRequest)
		}))
		defer other.Close()
		w := newWeb(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
		one := w.server()
		one.Headers = map[string]string{"Authorization": "Bearer token-of-mine", "X-Api-Key": "key-of-mine"}
		open(t, mcp.Config{Servers: []mcp.Server{one}}).state(t, mcp.Failed)
		close(seen)
		n := 0
		for got := range seen {
			if n++; got != "" {
				t.Errorf("the other host was told %q", got)
			}
		}
		if n == 0 {
			t.Error("the other host was never asked")
		}
	})
}
