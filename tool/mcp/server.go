package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daruma-agent/daruma/tool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is one server over all its connections.
type server struct {
	all   *Servers
	cfg   Server
	label string // its part of the names of tools
	hide  func(string) string
	base  *http.Transport // HTTP and SSE
	from  *carrier        // HTTP and SSE

	settled chan struct{} // closed after the first try to connect

	mu       sync.Mutex
	state    State
	err      error
	link     *link
	dialing  *dialing
	rounds   int       // of failed tries in a row
	failedAt time.Time // the last of them
	closed   bool
	legacy   bool // it does not survive the question of the newer era
	listed   []*sdk.Tool
	offered  int
	warnings []string
}

// dialing is a try to connect that all callers share.
type dialing struct {
	done chan struct{}
	link *link
	err  error
}

func newServer(all *Servers, cfg Server, label string) *server {
	s := &server{all: all, cfg: cfg, label: label, hide: hider(&all.cfg, cfg), state: Pending, settled: make(chan struct{})}
	if cfg.Kind == Stdio {
		return s
	}
	c := &all.cfg
	s.base = &http.Transport{
		Proxy: c.Proxy, TLSClientConfig: c.TLS, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8,
		// Shorter than most servers keep one: a call on a connection that is just
		// being closed is lost, and nobody knows whether it was run.
		IdleConnTimeout: 4 * time.Second,
		DialContext:     (&net.Dialer{Timeout: 15 * time.Second}).DialContext, TLSHandshakeTimeout: 15 * time.Second,
	}
	origin, _ := url.Parse(cfg.URL) // Parse has seen it; of another one nothing is sent along
	if origin == nil {
		origin = &url.URL{}
	}
	s.from = &carrier{
		base: s.base, origin: origin, headers: cfg.Headers, helper: headersOf(cfg, c.Dir, c.Env),
		firstByte: max(c.FirstByte, cfg.Timeout), idle: c.IdleHTTP,
	}
	return s
}

// begin connects for the first time.
func (s *server) begin() {
	if s.cfg.Disabled {
		s.state = Disabled
		close(s.settled)
		return
	}
	d := &dialing{done: make(chan struct{})}
	s.dialing = d
	tries := 1 // a program that ends at once would do so again
	if s.cfg.Kind != Stdio {
		tries = 2
	}
	s.all.work.Go(func() {
		defer close(s.settled)
		s.dial(d, tries)
	})
}

// The breaker: how often connecting is tried when a tool is called.
const (
	mostTries = 5  // R70, with Backoff doubled in between
	coolDown  = 10 // times Backoff in which a server that was just out of reach is left alone
)

// tries is how often to try now, after so many rounds of tries that failed, the
// last one that long ago; zero means: wait for so long. A server that is out of
// reach is tried again once per use, for ever, and never in haste.
func tries(rounds int, since, backoff time.Duration) (n int, wait time.Duration) {
	switch rest := coolDown*backoff - since; {
	case rounds == 0:
		return mostTries, 0
	case rest > 0:
		return 0, rest
	}
	return 1, 0
}

// unreachable is why a call could not even begin.
type unreachable struct {
	err  error
	wait time.Duration // until it is tried again; zero: it was tried now
}

func (e *unreachable) Error() string { return e.err.Error() }
func (e *unreachable) Unwrap() error { return e.err }

var errClosed = errors.New("the session is over")

// connected returns a connection that works, and makes one if there is none.
func (s *server) connected(ctx context.Context) (*link, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, &unreachable{err: errClosed}
	}
	if l := s.link; l != nil && l.alive() && !l.suspect.Load() {
		s.mu.Unlock()
		return l, nil
	}
	d := s.dialing
	if d == nil {
		n, wait := tries(s.rounds, time.Since(s.failedAt), s.all.cfg.Backoff)
		if n == 0 {
			err := s.err
			s.mu.Unlock()
			return nil, &unreachable{err, wait}
		}
		d = &dialing{done: make(chan struct{})}
		s.dialing = d
		s.all.work.Go(func() { s.dial(d, n) })
	}
	s.mu.Unlock()
	select {
	case <-d.done:
		return d.link, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dial connects, in several tries, for all who wait at d.
func (s *server) dial(d *dialing, tries int) {
	s.mu.Lock()
	old := s.link
	s.mu.Unlock()
	var l *link
	var err error
	if old != nil && old.alive() && old.answers(s.all.ctx) {
		old.suspect.Store(false)
		l = old
	} else {
		if old != nil {
			old.close()
		}
		l, err = s.redial(tries)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialing = nil
	if err == nil && s.closed {
		l.close()
		l, err = nil, errClosed
	}
	s.link, s.err, s.state = l, err, Connected
	s.rounds = 0
	if err != nil {
		s.rounds, s.failedAt, s.state = s.rounds+1, time.Now(), Failed
		if refusedAuth(err) {
			s.state = NeedsAuth
		}
		err = &unreachable{err: err}
	}
	d.link, d.err = l, err
	close(d.done)
}

func refusedAuth(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && (e.code == http.StatusUnauthorized || e.code == http.StatusForbidden)
}

// redial tries to connect so often.
func (s *server) redial(tries int) (l *link, err error) {
	pause := s.all.cfg.Backoff
	for i := range tries {
		if i > 0 {
			select {
			case <-time.After(pause):
				pause *= 2
			case <-s.all.ctx.Done():
				return nil, errClosed
			}
		}
		l, err = s.open()
		if err == nil || refusedAuth(err) || errors.Is(err, errNotStarted) || s.all.ctx.Err() != nil {
			break
		}
	}
	return l, err
}

// errNotStarted marks that a program could not even be started.
var errNotStarted = errors.New("it cannot be started")

// open makes a connection and lists the tools, within the time for a start.
func (s *server) open() (*link, error) {
	ctx, cancel := context.WithTimeout(s.all.ctx, s.all.cfg.Startup)
	defer cancel()
	s.mu.Lock()
	legacy := s.legacy
	s.mu.Unlock()
	l, err := s.openAs(ctx, legacy)
	if err != nil && s.cfg.Kind == Stdio && !legacy && ctx.Err() == nil && !errors.Is(err, errNotStarted) {
		// Some older servers end when the first question is not the one that
		// they know. If it lives when asked in the old way, that is remembered.
		if l, again := s.openAs(ctx, true); again == nil {
			s.mu.Lock()
			s.legacy = true
			s.mu.Unlock()
			return l, nil
		}
	}
	return l, err
}

func (s *server) openAs(ctx context.Context, legacy bool) (*link, error) {
	l := &link{server: s, gone: make(chan struct{}), watches: map[string]*heard{}}
	t := &transport{}
	switch s.cfg.Kind {
	case Stdio:
		p, err := start(append([]string{s.cfg.Command}, s.cfg.Args...), s.all.cfg.Dir, s.environment(), &l.errs)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNotStarted, err)
		}
		l.process = p
		t.pipe = newPipe(p, &l.errs, s.all.cfg.Grace)
		s.all.work.Go(func() { <-p.exited })
	case HTTP:
		t.inner = &sdk.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: s.client(), MaxRetries: 2}
	case SSE:
		t.inner, legacy = &sdk.SSEClientTransport{Endpoint: s.cfg.URL, HTTPClient: s.client()}, true
	}
	l.transport = t
	err := l.connect(ctx, legacy)
	if err == nil {
		err = l.list(ctx)
	}
	if err != nil {
		err = s.explain(ctx, l, err)
		l.close()
		return nil, err
	}
	s.mu.Lock()
	s.listed = l.tools
	s.mu.Unlock()
	return l, nil
}

// client has no time limit of its own: each call has one.
func (s *server) client() *http.Client { return &http.Client{Transport: s.from} }

func (s *server) environment() []string {
	env := append([]string(nil), s.all.cfg.Env...)
	for k, v := range s.cfg.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// drain is how long a server that ends is given to be dead, and how long its
// output is read on should something that it left behind hold it open.
const drain = 500 * time.Millisecond

// explain says why there is no connection, with what the server said itself.
func (s *server) explain(ctx context.Context, l *link, err error) error {
	err = bare(err)
	if s.from != nil {
		if why := s.from.complaint(); why != nil {
			return fmt.Errorf("%w (%w)", why, err)
		}
	}
	switch {
	case ctx.Err() != nil && s.all.ctx.Err() == nil:
		err = fmt.Errorf("it did not answer within %v", s.all.cfg.Startup)
	case l.process != nil:
		select {
		case <-l.process.exited:
			err = errors.New("it " + l.process.fate())
		case <-time.After(drain):
		}
	}
	if words := l.errs.String(); words != "" {
		err = fmt.Errorf("%w. Its last words: %s", err, words)
	}
	return err
}

// bare leaves out what the SDK puts in front of an error of HTTP.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Name: s.cfg.Name, Kind: s.cfg.Kind, State: s.state, Tools: s.offered, Source: s.cfg.Source,
		Warnings: append([]string(nil), s.warnings...),
	}
	if s.err != nil {
		st.Error = tool.Middle(tool.Clean(s.hide(s.err.Error())), 1_500, 500, " … ")
	}
	if s.link != nil {
		if s.state == Connected && !s.link.alive() {
			st.State, st.Error = Failed, "it went away; it is connected to again when one of its tools is called"
		}
		st.Version = s.link.version
		if n := s.link.errs.strays(); n > 0 {
			st.Warnings = append(st.Warnings, fmt.Sprintf("it printed %d lines on stdout that are no messages; they were left out", n))
		}
	}
	return st
}

// close ends the server for good. What it started is awaited by Servers.Close.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
	if s.base != nil {
		s.all.work.Go(func() {
			if l != nil {
				<-l.gone
			}
			s.base.CloseIdleConnections()
		})
	}
}

// heard is what is heard of one call while it runs.
type heard struct {
	last     atomic.Int64 // of its progress, in Unix nanoseconds
	told     atomic.Int64 // when some of it was handed on, likewise
	silent   atomic.Bool  // its answer stopped coming
	progress func(string) // may be nil
}

type heardKey struct{}

func heardOf(ctx context.Context) *heard {
	h, _ := ctx.Value(heardKey{}).(*heard)
	return h
}
