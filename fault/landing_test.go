package fault

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A fault that was still to come when the client left has not landed, and strikes the next time.
func TestFaultBehindTheClientsBackIsNoLanding(t *testing.T) {
	bubble(t, "layer slow\n  delay events 10s\nstep cut\n  cut tool 2 reset"+twoCalls, Options{}, func(t *testing.T, r *Running, c *client) {
		ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
		defer cancel()
		c.send(ctx, ask(user("x")))
		synctest.Wait()
		if m := r.Report().Missed(); len(m) != 1 || m[0] != "cut" {
			t.Errorf("missed %v", m)
		}
		if g := c.ask(ask(user("x"))); g.err == nil {
			t.Error("the cut did not strike the next request")
		}
		if m := r.Report().Missed(); len(m) != 0 {
			t.Errorf("missed %v", m)
		}
	})
}

func TestDialingCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemoryNet()
		r := New(parsed(t, ""), Options{}).Serve(m)
		h := m.Client()
		c := &client{t, r.URL, h}
		for _, err := range []error{syscall.ECONNREFUSED, &net.DNSError{Err: "no such host", Name: "fault.test", IsNotFound: true}} {
			m.Fail(err)
			if g := c.ask(ask(user("x"))); !errors.Is(g.err, err) {
				t.Errorf("got %v, want %v", g.err, err)
			}
		}
		m.Fail(nil)
		if g := c.ask(ask(user("x"))); g.status != 200 {
			t.Errorf("back on line: %d %v", g.status, g.err)
		}
		h.CloseIdleConnections()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A call that max_tokens cut off is made again when the client asks for it, as a new call.
func TestCutCallIsMadeAgain(t *testing.T) {
	_, c := serve(t, "model\n  rule write\n    when first\n    say \"I write it.\"\n    call write file_path=\"a.txt\" content=\""+strings.Repeat("0123456789", 20)+"\"\n")
	body := with(with(ask(user("x")), "tools", []any{toolNamed("Write", "file_path", "content")}), "max_tokens", 30)
	g := c.ask(body)
	if g.stop != "max_tokens" || len(g.inputs) != 1 {
		t.Fatalf("got %s %q", g.stop, g.inputs)
	}
	for name, messages := range map[string][]any{
		"call dropped": {user("x"), assistant([]any{text(g.text)}), user("Your tool call was cut off and was not run. Make it again, whole, or in smaller pieces.")},
		"call answered": {user("x"), assistant([]any{text(g.text), call("toolu_x", "Write", obj{})}),
			user([]any{with(result("toolu_x", "not run: the input was cut"), "is_error", true), text("The call was truncated. Try again with smaller pieces.")})},
	} {
		again := c.ask(with(with(body, "max_tokens", 500), "messages", messages))
		if again.stop != "tool_use" || again.text != "" || len(again.inputs) != 1 || !strings.HasSuffix(again.inputs[0], `789"}`) {
			t.Errorf("%s: got %s %q %q", name, again.stop, again.text, again.inputs)
		}
	}
}

func TestSummaryIsShorterThanTheConversation(t *testing.T) {
	var messages []any
	for range 12 {
		messages = append(messages, user("do it"))
		messages = append(messages, assistant([]any{text("Working on the next part of it now.")}))
	}
	messages = append(messages, user("Your task is to create a detailed summary of the conversation so far."))
	_, c := serve(t, "")
	g := c.ask(with(ask(), "messages", messages))
	if len(g.text) == 0 || len(g.text) > 600 {
		t.Errorf("%d characters: %s", len(g.text), g.text)
	}
}

// What a client lists of calls after a compaction counts as called.
func TestCalledReadsLists(t *testing.T) {
	_, c := serve(t, "model\n  rule again\n    when called shell \"go test\"\n    say \"it ran\"\n  rule start\n    when first\n    say \"start\"\n")
	if g := c.ask(ask(user("Calls so far:\n- Bash {\"command\":\"go test ./...\"}"))); g.text != "it ran" {
		t.Errorf("got %q", g.text)
	}
	if g := c.ask(ask(user("a list:\n- Bash is a shell"))); g.text != "start" {
		t.Errorf("got %q", g.text)
	}
}

// A summary that says "go on" somewhere, and quotes an answer, asks for no continuation.
func TestSummaryIsNoContinuation(t *testing.T) {
	srv, c := serve(t, "model\n  rule look\n    when not called shell\n    say \"The test says that something is wrong, so I look at it.\"\n    call shell command=\"ls\"\n  rule next\n    say \"next\"\n  rule never\n    when user \"never\"\n    say \"x\"\n")
	g := c.ask(ask(user("fix it")))
	summary := "This conversation was shortened: the old part was cut off.\n" + strings.Repeat("It was long. ", 20) + g.text +
		"\n- called Bash {\"command\":\"ls\"}\n" + strings.Repeat("It was long. ", 20) + "Go on with the task from here."
	if g := c.ask(ask(user(summary))); g.text != "next" {
		t.Errorf("got %q", g.text)
	}
	if p := srv.Report().Problems; len(p) > 0 {
		t.Errorf("problems %q", p)
	}
}

func TestModelWithoutARuleThatFits(t *testing.T) {
	srv, c := serve(t, "model\n  rule a\n    when user \"never\"\n    say \"x\"\n")
	if g := c.ask(ask(user("y"))); g.text != "Done." {
		t.Errorf("got %q", g.text)
	}
	if p := srv.Report().Problems; len(p) != 1 || !strings.Contains(p[0], "no rule of the model fits") {
		t.Errorf("problems %q", p)
	}
}
