// Package mcp (layer 4) answers one question: how are the tools of MCP servers
// called so that no server can stop the agent?
//
// Servers start beside one another and in a bounded time. One that is late,
// dead or wrong only lacks its tools. Each call ends as a result: with what the
// server said, or with what went wrong, whether it took effect, and what to do.
// The protocol in both eras is that of the official SDK; starting, watching,
// reconnecting and ending servers is done here.
package mcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/tool"
)

// Config says which servers there are and how patiently they are treated. The
// zero value of everything but Servers is useful.
type Config struct {
	Servers []Server
	Dir     string   // working directory of servers that are programs
	Env     []string // their environment, as os.Environ gives it
	Version string   // of this program, for them
	// Hide takes secrets out of what is quoted of servers. What looks like a
	// credential and the values of headers are taken out anyway.
	Hide  func(text string) string
	Proxy func(*http.Request) (*url.URL, error) // nil: none
	TLS   *tls.Config

	Startup   time.Duration // for a server to start and list its tools; zero: 30 seconds
	Call      time.Duration // for a call, if the server has no Timeout; zero: 1 hour
	IdleStdio time.Duration // without progress of a call; zero: 30 minutes (R70)
	IdleHTTP  time.Duration // without a byte of an answer; zero: 5 minutes (R70)
	FirstByte time.Duration // of an HTTP answer, at least; zero: 60 seconds (R70)
	Backoff   time.Duration // before the second try to reconnect, then doubled; zero: 1 second
	Grace     time.Duration // from the end of stdin to SIGTERM, and from there to SIGKILL; zero: 1 second
	NameLimit int           // characters of a tool's name; zero: 128, as the Messages API allows
}

// State says how a server is.
type State string

// The states of a server, in the words of stream-json.
const (
	Pending   State = "pending"    // it has not answered yet
	Connected State = "connected"  // its tools can be called
	Failed    State = "failed"     // it could not be reached; tried again when one of its tools is called
	NeedsAuth State = "needs-auth" // it refuses the credentials that it gets, or that it does not get
	Disabled  State = "disabled"   // the file says so
)

// Status is what is known of a server.
type Status struct {
	Name     string
	Kind     Kind
	State    State
	Error    string   // why it is not connected, and its last words; no secrets
	Version  string   // of the protocol
	Tools    int      // that can be called
	Warnings []string // of its tools, and of what it does against the protocol
	Source   string
}

// Servers are the MCP servers of a session. They are safe for concurrent use.
type Servers struct {
	cfg     Config
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup // everything that must be over when Close returns
	servers []*server

	mu     sync.Mutex
	names  map[string]bool // of tools
	frozen bool
	tools  []tool.Tool
}

// Open starts all servers and does not wait for them. It never fails: what
// became of each is in Status. Close must be called.
func Open(cfg Config) *Servers {
	cfg.Startup = cmp.Or(cfg.Startup, 30*time.Second)
	cfg.Call = cmp.Or(cfg.Call, time.Hour)
	cfg.IdleStdio = cmp.Or(cfg.IdleStdio, 30*time.Minute)
	cfg.IdleHTTP = cmp.Or(cfg.IdleHTTP, 5*time.Minute)
	cfg.FirstByte = cmp.Or(cfg.FirstByte, time.Minute)
	cfg.Backoff = cmp.Or(cfg.Backoff, time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, time.Second)
	cfg.NameLimit = cmp.Or(cfg.NameLimit, 128)
	if cfg.Hide == nil {
		cfg.Hide = func(text string) string { return text }
	}
	s := &Servers{cfg: cfg, names: map[string]bool{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	labels := map[string]bool{}
	for _, one := range cfg.Servers {
		label := unique(labels, cmp.Or(serverLabel(one.Name), "server"), maxLabel)
		s.servers = append(s.servers, newServer(s, one, label))
	}
	for _, one := range s.servers {
		one.begin()
	}
	return s
}

// Wait waits until every server is connected or has failed, or ctx ends.
func (s *Servers) Wait(ctx context.Context) {
	for _, one := range s.servers {
		select {
		case <-one.settled:
		case <-ctx.Done():
			return
		}
	}
}

// Tools returns the tools of the servers that are connected. The first call
// fixes them, in the order of the servers and of their lists: the tools of a
// session do not change. A server that comes later has none in it.
func (s *Servers) Tools() []tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen {
		s.frozen = true
		for _, one := range s.servers {
			s.tools = append(s.tools, one.offer(s.names)...)
		}
	}
	return slices.Clone(s.tools)
}

// Status tells how the servers are, in the order of the Config.
func (s *Servers) Status() []Status {
	var out []Status
	for _, one := range s.servers {
		out = append(out, one.status())
	}
	return out
}

// closeTime is how long closing may take beyond twice the grace.
const closeTime = 10 * time.Second

// Close ends all servers, with all that they started, and waits for that: twice
// the grace and a little, as a rule. Calls that run end.
func (s *Servers) Close() error {
	s.stop()
	for _, one := range s.servers {
		one.close()
	}
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	late := time.NewTimer(2*s.cfg.Grace + closeTime)
	defer late.Stop()
	select {
	case <-done:
		return nil
	case <-late.C:
		return errors.New("close MCP servers: something of them does not end")
	}
}

// hider takes out of text what a server must not be quoted with.
func hider(cfg *Config, s Server) func(string) string {
	var values []string
	for _, v := range s.Headers {
		values = append(values, v)
		if _, token, ok := strings.Cut(v, " "); ok {
			values = append(values, token)
		}
	}
	for k, v := range s.Env {
		if secretName(k) {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	known := failure.NewRedactor(values...)
	return func(text string) string { return known.Redact(cfg.Hide(text)) }
}

func secretName(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "DSN"}, func(w string) bool {
		return strings.Contains(name, w)
	})
}
