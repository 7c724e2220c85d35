package mcp_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/mcp"
)

// program is a server that is this binary in one of its modes.
func program(t *testing.T, name, mode string, env map[string]string) mcp.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{modeVar: mode}
	maps.Copy(all, env)
	return mcp.Server{Name: name, Kind: mcp.Stdio, Command: self, Env: all, Source: ".mcp.json:1"}
}

// session are servers that were opened and waited for, and their tools.
type session struct {
	*mcp.Servers
	set *tool.Set
}

func open(t *testing.T, cfg mcp.Config) session {
	t.Helper()
	if cfg.Backoff == 0 {
		cfg.Backoff = 10 * time.Millisecond
	}
	if cfg.Grace == 0 {
		cfg.Grace = 200 * time.Millisecond
	}
	cfg.Env = append(cfg.Env, "PATH="+os.Getenv("PATH"))
	cfg.Dir = t.TempDir()
	s := session{Servers: mcp.Open(cfg)}
	t.Cleanup(func() { s.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.Wait(ctx)
	set, err := tool.NewSet(s.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	s.set = set
	return s
}

// state checks how the only server is.
func (s session) state(t *testing.T, want mcp.State) mcp.Status {
	t.Helper()
	st := s.Status()[0]
	if st.State != want {
		t.Fatalf("the server is %s (%s), want %s", st.State, st.Error, want)
	}
	return st
}

func (s session) call(t *testing.T, name, input string) tool.Result {
	t.Helper()
	return s.callIn(t, t.Context(), name, input)
}

func (s session) callIn(t *testing.T, ctx context.Context, name, input string) tool.Result {
	t.Helper()
	began := time.Now()
	r := s.set.Run(ctx, tool.Call{ID: "c1", Name: name, Input: []byte(input)})
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the call of %s took %v", name, took)
	}
	return r
}

func text(r tool.Result) string {
	var out []string
	for _, b := range r.Content {
		out = append(out, b.Text)
	}
	return strings.Join(out, "\n")
}

// good checks a result that worked.
func good(t *testing.T, r tool.Result, want string) {
	t.Helper()
	if r.IsError || !strings.Contains(text(r), want) {
		t.Fatalf("got error %t: %.300s, want %q", r.IsError, text(r), want)
	}
}

// bad checks a result that did not, and everything that it has to say.
func bad(t *testing.T, r tool.Result, class string, want ...string) {
	t.Helper()
	if !r.IsError || r.Class != class {
		t.Fatalf("got error %t of class %q: %.300s, want class %s", r.IsError, r.Class, text(r), class)
	}
	for _, w := range want {
		if !strings.Contains(text(r), w) {
			t.Errorf("the result does not say %q: %.600s", w, text(r))
		}
	}
}

// notes is a file in which a server tells what it did.
type notes string

func newNotes(t *testing.T) notes { return notes(filepath.Join(t.TempDir(), "notes")) }

func (n notes) env() map[string]string { return map[string]string{"MCP_TEST_NOTE": string(n)} }

func (n notes) read() string {
	data, _ := os.ReadFile(string(n))
	return string(data)
}

// await waits until the notes hold a text.
func (n notes) await(t *testing.T, want string) {
	t.Helper()
	for range 500 {
		if strings.Contains(n.read(), want) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the server never noted %q, only: %s", want, n.read())
}

func TestProperServer(t *testing.T) {
	s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "proper", "sdk", nil)}})
	st := s.state(t, mcp.Connected)
	if st.Version != "2026-07-28" || st.Tools != 8 {
		t.Errorf("got version %s and %d tools", st.Version, st.Tools)
	}
	good(t, s.call(t, "mcp__proper__echo", `{"text":"hello"}`), "hello")
}

func callOf(t tool.Tool) tool.Call {
	return tool.Call{ID: "c", Name: t.Spec().Name, Input: []byte(`{}`)}
}
