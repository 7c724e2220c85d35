package anthropic

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// http2Server answers over HTTP/2 as act says, and keeps the connections that
// requests came on.
type http2Server struct {
	*httptest.Server
	act func(w http.ResponseWriter, r *http.Request, cut func())

	mu    sync.Mutex
	peers []string
	conns map[string]net.Conn
}

func serveHTTP2(t *testing.T, timeouts Timeouts) (*http2Server, *Client) {
	t.Helper()
	s := &http2Server{conns: map[string]net.Conn{}}
	srv, root := serveTLS(t, func(srv *httptest.Server) {
		srv.EnableHTTP2 = true
		srv.Config.Handler = s
		srv.Config.ConnState = func(c net.Conn, state http.ConnState) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if state == http.StateNew {
				s.conns[c.RemoteAddr().String()] = c
			}
		}
	})
	s.Server = srv
	c := mustNew(t, Config{BaseURL: srv.URL, APIKey: testKey, TLS: TLS{Roots: root}, Timeouts: timeouts})
	t.Cleanup(c.DropIdle)
	return s, c
}

func (s *http2Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.peers = append(s.peers, r.RemoteAddr)
	conn, act := s.conns[r.RemoteAddr], s.act
	s.mu.Unlock()
	if r.ProtoMajor != 2 {
		http.Error(w, "not HTTP/2", http.StatusHTTPVersionNotSupported)
		return
	}
	act(w, r, func() { conn.Close() })
}

// peer is where the n-th request came from.
func (s *http2Server) peer(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[n]
}

func begin(w http.ResponseWriter) {
	_, _ = io.WriteString(w, sse(start, textOpen, textHi))
	w.(http.Flusher).Flush()
}

func well(w http.ResponseWriter, _ *http.Request, _ func()) { _, _ = io.WriteString(w, rich) }

// TestHTTP2 breaks an answer in every way that HTTP/2 knows. Each is a network
// failure, or a stall, and the next try goes over a new connection.
func TestHTTP2(t *testing.T) {
	for _, tc := range []struct {
		name   string
		act    func(w http.ResponseWriter, r *http.Request, cut func())
		kind   failure.Kind
		rule   string
		events int
	}{
		{"reset before the answer", func(http.ResponseWriter, *http.Request, func()) { panic(http.ErrAbortHandler) }, failure.Network, "", 0},
		{"reset in the answer", func(w http.ResponseWriter, _ *http.Request, _ func()) {
			begin(w)
			time.Sleep(50 * time.Millisecond)
			panic(http.ErrAbortHandler)
		}, failure.Network, RuleCut, 3},
		{"connection gone", func(w http.ResponseWriter, _ *http.Request, cut func()) {
			begin(w)
			time.Sleep(50 * time.Millisecond) // the client has read that
			cut()
		}, failure.Network, RuleCut, 3},
		{"going away", func(w http.ResponseWriter, _ *http.Request, cut func()) {
			w.Header().Set("Connection", "close") // GOAWAY, once the answer is over
			begin(w)
			time.Sleep(50 * time.Millisecond)
			cut()
		}, failure.Network, RuleCut, 3},
		{"silence", func(w http.ResponseWriter, r *http.Request, _ func()) {
			begin(w)
			<-r.Context().Done()
		}, failure.Timeout, RuleBytes, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := serveHTTP2(t, Timeouts{Bytes: time.Second})
			s.act = well
			if events, err := collect(t.Context(), c, hello); err != nil || events[len(events)-1].Kind != model.EventStop {
				t.Fatal(err)
			}
			s.act = tc.act
			events, err := collect(t.Context(), c, hello)
			e := failure.As(err)
			if e == nil || e.Kind != tc.kind || e.Retry != failure.RetryYes || tc.rule != "" && e.Rule != tc.rule || len(events) != tc.events {
				t.Fatalf("%d events, %+v", len(events), e)
			}
			s.act = well
			if _, err := collect(t.Context(), c, hello); err != nil {
				t.Fatal(err)
			}
			if s.peer(0) != s.peer(1) {
				t.Error("the connection was not used again while it was well")
			}
			if s.peer(1) == s.peer(2) {
				t.Error("the next try went over the connection that broke")
			}
		})
	}
}

// TestHTTP2GoAway: a server that sends its clients away after an answer takes
// nothing from that answer, and the next request finds its own way.
func TestHTTP2GoAway(t *testing.T) {
	s, c := serveHTTP2(t, Timeouts{})
	s.act = func(w http.ResponseWriter, _ *http.Request, _ func()) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, rich)
	}
	for range 3 {
		if _, err := collect(t.Context(), c, hello); err != nil {
			t.Fatal(err)
		}
	}
	if s.peer(0) == s.peer(1) || s.peer(1) == s.peer(2) {
		t.Errorf("peers %v", s.peers)
	}
}

// TestHTTP2Crowd: many answers share a connection; one that is reset hurts none
// of the others.
func TestHTTP2Crowd(t *testing.T) {
	s, c := serveHTTP2(t, Timeouts{})
	s.act = func(w http.ResponseWriter, r *http.Request, _ func()) {
		body, _ := io.ReadAll(r.Body)
		begin(w)
		time.Sleep(100 * time.Millisecond)
		if strings.Contains(string(body), `"model":"bad"`) {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, sse(close0, endTurn, stop))
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r := *hello
			if i%5 == 0 {
				r.Model = "bad"
			}
			if _, err := collect(t.Context(), c, &r); (err != nil) != (r.Model == "bad") {
				t.Errorf("%s: %v", r.Model, err)
			}
		})
	}
	all.Wait()
}
