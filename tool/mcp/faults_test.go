package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/mcp"
)

// Servers that are wrong from the start: each is known as failed, with its own
// words, in a bounded time, and stands in nobody's way.
func TestBadStarts(t *testing.T) {
	t.Parallel()
	quick := mcp.Config{Startup: 6 * time.Second}
	for _, c := range []struct {
		name, mode string
		state      mcp.State
		says       []string
	}{
		{"C150 C207 exits at once", "exits", mcp.Failed, []string{"exit code 3", "cannot read the configuration"}},
		{"C207 alive without an answer", "mute", mcp.Failed, []string{"did not answer within 6s"}},
		{"an answer to another call", "wrongid", mcp.Failed, []string{"did not answer within"}},
		{"tools/list fails", "listerror", mcp.Failed, []string{"does not list its tools", "database is away"}},
		{"no tools", "notools", mcp.Connected, nil},
		{"no tools at all", "nocaps", mcp.Connected, nil},
		{"a list without end", "pages", mcp.Connected, nil},
		{"stray lines", "stray", mcp.Connected, nil},
		{"flood on stderr", "flood", mcp.Connected, nil},
		{"silent about the newer era", "ignores", mcp.Connected, nil},
		{"ended by the newer era", "oldstyle", mcp.Connected, nil},
		{"slow", "slow", mcp.Connected, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := quick
			cfg.Servers = []mcp.Server{program(t, "it", c.mode, nil), program(t, "proper", "sdk", nil)}
			began := time.Now()
			s := open(t, cfg)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			st := s.state(t, c.state)
			for _, want := range c.says {
				if !strings.Contains(st.Error, want) {
					t.Errorf("the error does not say %q: %s", want, st.Error)
				}
			}
			if strings.Contains(st.Error, "hunter2") {
				t.Errorf("a secret is in the error: %s", st.Error)
			}
			good(t, s.call(t, "mcp__proper__echo", `{"text":"hello"}`), "hello")
			if c.mode == "stray" || c.mode == "flood" || c.mode == "ignores" || c.mode == "oldstyle" || c.mode == "slow" {
				good(t, s.call(t, "mcp__it__echo", `{"text":"hello"}`), "hello")
			}
			if c.mode == "stray" && !strings.Contains(strings.Join(s.Status()[0].Warnings, ";"), "3 lines on stdout") {
				t.Errorf("the stray lines are not told: %q", s.Status()[0].Warnings)
			}
		})
	}
	t.Run("C150 there is no such program", func(t *testing.T) {
		t.Parallel()
		cfg := quick
		cfg.Servers = []mcp.Server{{Name: "it", Kind: mcp.Stdio, Command: "no-such-program-at-all"}}
		if st := open(t, cfg).state(t, mcp.Failed); !strings.Contains(st.Error, "no-such-program-at-all") {
			t.Errorf("the error does not name it: %s", st.Error)
		}
	})
	t.Run("disabled", func(t *testing.T) {
		t.Parallel()
		one := program(t, "it", "sdk", nil)
		one.Disabled = true
		if n := len(open(t, mcp.Config{Servers: []mcp.Server{one}}).Tools()); n != 0 {
			t.Errorf("a server that is disabled offers %d tools", n)
		}
	})
}

// A server that comes too late has no tools in the session and is known as such.
func TestLateServer(t *testing.T) {
	t.Parallel()
	s := mcp.Open(mcp.Config{Servers: []mcp.Server{program(t, "late", "slow", nil)}, Grace: 200 * time.Millisecond})
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.Wait(ctx)
	if tools, st := s.Tools(), s.Status()[0]; len(tools) != 0 || st.State != mcp.Pending {
		t.Fatalf("got %d tools, state %s", len(tools), st.State)
	}
	s.Wait(t.Context())
	if st := s.Status()[0]; st.State != mcp.Connected || st.Tools != 0 || len(s.Tools()) != 0 {
		t.Errorf("later: %+v, %d tools", st, len(s.Tools()))
	}
}

func TestCallFaults(t *testing.T) {
	t.Parallel()
	t.Run("isError", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "sdk", nil)}})
		bad(t, s.call(t, "mcp__it__fail", `{}`), mcp.ClassTool, "the table is locked")
	})
	t.Run("arguments that do not fit", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "sdk", nil)}})
		bad(t, s.call(t, "mcp__it__echo", `{"text":5}`), tool.ClassBadInput, "`text` must be string")
		bad(t, s.call(t, "mcp__it__echo", `{"txet":"a"}`), tool.ClassBadInput, "did you mean `text`")
	})
	t.Run("refused by the server", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "unknown", nil)}})
		bad(t, s.call(t, "mcp__it__echo", `{}`), mcp.ClassRefused, "no such thing")
	})
	t.Run("no result", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "garbled", nil)}})
		bad(t, s.call(t, "mcp__it__echo", `{}`), mcp.ClassRefused, "no result", "unknown")
		s.state(t, mcp.Connected)
	})
	t.Run("C151 the server dies", func(t *testing.T) {
		t.Parallel()
		n := newNotes(t)
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "dies", n.env())}})
		r := s.call(t, "mcp__it__echo", `{"text":"x"}`)
		bad(t, r, mcp.ClassLost, "died during the call", "exit code 2", "outcome is unknown", "check what it did before you repeat it", "index out of range")
		if len(text(r)) > 2_000 || strings.Contains(text(r), "sk-abcdef") {
			t.Errorf("too long, or with a secret: %s", text(r))
		}
		if got := strings.Count(n.read(), "tools/call"); got != 1 {
			t.Errorf("a call that changes things reached the server %d times", got)
		}
		// What only reads is called once more, and no more than that.
		r = s.call(t, "mcp__it__look", `{}`)
		bad(t, r, mcp.ClassLost, "called twice", "may be repeated")
		if got := strings.Count(n.read(), "tools/call look"); got != 2 {
			t.Errorf("a call that reads reached the server %d times", got)
		}
	})
	t.Run("C147 it comes back, for all calls at once", func(t *testing.T) {
		t.Parallel()
		n := newNotes(t)
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "comesback", n.env())}})
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() { good(t, s.call(t, "mcp__it__look", `{}`), "nil") })
		}
		wait.Wait()
		if got := strings.Count(n.read(), "start "); got != 2 {
			t.Errorf("the server was started %d times", got)
		}
		bad(t, s.call(t, "mcp__it__echo", `{}`), mcp.ClassUnavailable, "no longer offers the tool echo", "not called")
	})
	t.Run("C148 it died between two calls", func(t *testing.T) {
		t.Parallel()
		n := newNotes(t)
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "sdk", n.env())}})
		bad(t, s.call(t, "mcp__it__die", `{}`), mcp.ClassLost, "exit code 7")
		good(t, s.call(t, "mcp__it__echo", `{"text":"second life"}`), "second life")
		pids := n.pids()
		if len(pids) != 2 {
			t.Fatalf("lives: %v", pids)
		}
		second, err := os.FindProcess(pids[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Kill(); err != nil {
			t.Fatal(err)
		}
		for range 500 {
			if s.Status()[0].State == mcp.Failed {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.state(t, mcp.Failed)
		good(t, s.call(t, "mcp__it__echo", `{"text":"third life"}`), "third life")
		s.state(t, mcp.Connected)
	})
	t.Run("more progress than anybody reads", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "chatty", nil)}})
		told := 0
		good(t, s.set.Run(t.Context(), tool.Call{Name: "mcp__it__echo", Progress: func(string) { told++ }}), "done")
		if told == 0 || told > 500 {
			t.Errorf("of 20,000 notices %d were handed on", told)
		}
	})
	t.Run("C151 cancelled", func(t *testing.T) {
		t.Parallel()
		n := newNotes(t)
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "sdk", n.env())}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			n.await(t, "hang")
			cancel()
		}()
		bad(t, s.callIn(t, ctx, "mcp__it__hang", `{}`), tool.ClassAborted, "cancelled", "told so")
		n.await(t, "cancelled")
		good(t, s.call(t, "mcp__it__echo", `{"text":"still here"}`), "still here")
		if got := strings.Count(n.read(), "start "); got != 1 {
			t.Errorf("a cancelled call cost the server its life: %d starts", got)
		}
	})
	t.Run("C024 no answer in time", func(t *testing.T) {
		t.Parallel()
		n := newNotes(t)
		one := program(t, "it", "sdk", n.env())
		one.Timeout = time.Second
		s := open(t, mcp.Config{Servers: []mcp.Server{one}})
		bad(t, s.call(t, "mcp__it__hang", `{}`), tool.ClassTimeout, "did not answer within", "told to stop", "unknown")
		n.await(t, "cancelled")
		good(t, s.call(t, "mcp__it__echo", `{"text":"still here"}`), "still here")
	})
	t.Run("no progress", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "hangs", nil)}, IdleStdio: time.Second})
		bad(t, s.call(t, "mcp__it__echo", `{}`), mcp.ClassSilent, "fell silent")
	})
	t.Run("progress is life", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "progress", nil)}, IdleStdio: time.Second})
		var got strings.Builder
		r := s.set.Run(t.Context(), tool.Call{Name: "mcp__it__echo", Progress: func(text string) { got.WriteString(text) }})
		good(t, r, "done")
		if !strings.Contains(got.String(), "step 4\n") {
			t.Errorf("the progress is not told: %q", got.String())
		}
	})
	t.Run("a server that reads nothing any more", func(t *testing.T) {
		t.Parallel()
		one := program(t, "it", "deaf", nil)
		one.Timeout = time.Second
		s := open(t, mcp.Config{Servers: []mcp.Server{one}, Startup: 4 * time.Second})
		large := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
		for range 2 {
			bad(t, s.call(t, "mcp__it__echo", large), tool.ClassTimeout, "did not answer")
		}
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	t.Run("C168 15 MB of text", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "huge", nil)}})
		s.set.Spill = t.TempDir()
		r := s.call(t, "mcp__it__echo", `{}`)
		good(t, r, "the whole text is in "+s.set.Spill)
		if len(text(r)) > 60_000 {
			t.Errorf("%d bytes reach the model", len(text(r)))
		}
	})
	t.Run("C168 more than is read", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "toohuge", nil)}})
		bad(t, s.call(t, "mcp__it__echo", `{}`), mcp.ClassRefused, "at most 16777216 are read")
		s.state(t, mcp.Connected)
	})
	t.Run("C098 it wants to ask a person (older era)", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "elicits", nil)}})
		r := s.call(t, "mcp__it__echo", `{}`)
		good(t, r, "does not support elicitation")
		if n := strings.Count(text(r), `"error"`); n != 2 {
			t.Errorf("%d of 2 questions were refused: %s", n, text(r))
		}
	})
	t.Run("C098 it wants to ask a person (newer era)", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "sdk", nil)}})
		bad(t, s.call(t, "mcp__it__ask", `{}`), mcp.ClassInput, "nobody can be asked", "not completed")
	})
	t.Run("what is no text", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "sdk", nil)}})
		r := s.call(t, "mcp__it__picture", `{}`)
		for _, want := range []string{
			"image/png with 10 bytes, which is not shown: it is broken", "image/tiff with", "audio of type audio/wav with 3 bytes",
			"[resource file:///a.txt; a]", "[resource file:///b.txt]\ninside",
		} {
			good(t, r, want)
		}
		if b := r.Content[0]; b.Type != message.Image || b.Media.Width != 1 || b.Media.Data != onePixel {
			t.Errorf("the picture is not shown: %+v", b)
		}
	})
}

func TestListedTools(t *testing.T) {
	t.Parallel()
	t.Run("C233 malformed schemas", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "badschema", nil)}})
		if got := strings.Join(s.set.Names(), " "); got != "mcp__it__good mcp__it__any mcp__it__none" {
			t.Errorf("got %s", got)
		}
		warnings := strings.Join(s.Status()[0].Warnings, "\n")
		for _, want := range []string{
			`"text" is not used: its input schema has the type string`, `"nested" is not used: its input schema is malformed`,
			`"typo" is not used: its input schema is malformed: .a has the type "strnig"`, `"list" is not used: its input schema is no JSON object`,
			`"names" is not used: its input schema has a property named "a b"`, `"any": the anyOf at the top of its schema is left out`,
		} {
			if !strings.Contains(warnings, want) {
				t.Errorf("no warning says %s:\n%s", want, warnings)
			}
		}
		for _, spec := range s.set.Specs() {
			var schema map[string]any
			if json.Unmarshal(spec.Schema, &schema) != nil || schema["type"] != "object" || schema["anyOf"] != nil {
				t.Errorf("the schema of %s is %s", spec.Name, spec.Schema)
			}
		}
	})
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		servers := []mcp.Server{program(t, "my__server v1.0", "names", nil), program(t, "my server:v1.0", "names", nil)}
		s := open(t, mcp.Config{Servers: servers, NameLimit: 64})
		names := s.set.Names()
		if len(names) != 10 || names[0] != "mcp__my_server_v1_0__a_b_c" || names[1] != "mcp__my_server_v1_0__a_b_c_2" || names[5] != "mcp__my_server_v1_0_2__a_b_c" {
			t.Errorf("got %q", names)
		}
		for _, n := range names {
			if len(n) > 64 || strings.Trim(n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
				t.Errorf("the name %q is none for an API", n)
			}
		}
		if d := s.set.Specs()[4].Description; len(d) > 2_200 {
			t.Errorf("a description has %d bytes", len(d))
		}
	})
	t.Run("effects and access", func(t *testing.T) {
		t.Parallel()
		s := open(t, mcp.Config{Servers: []mcp.Server{program(t, "it", "sdk", nil)}})
		for name, want := range map[string]tool.Effect{"echo": tool.Unsafe, "look": tool.Pure, "set": tool.Idempotent} {
			if got := s.set.Effect("mcp__it__"+name, nil); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
			if got := s.set.Access("mcp__it__"+name, nil); got.Kind != tool.AccessOther {
				t.Errorf("the access of %s is %s", name, got.Kind)
			}
		}
	})
}
