package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// TestPulse holds what is said about work that goes on, and from when.
func TestPulse(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	two := &message.Message{Role: message.Assistant, Blocks: []message.Block{
		{Type: message.ToolUse, ID: "a", Name: "Bash"}, {Type: message.ToolUse, ID: "b", Name: "Agent"},
	}}
	type at struct {
		after time.Duration
		body  session.Body
	}
	for _, c := range []struct {
		name   string
		events []at
		now    time.Duration
		want   string
	}{
		{"nothing yet", nil, time.Hour, ""},
		{"soon", []at{{0, &session.Begin{}}}, 2 * time.Second, ""},
		{"no answer", []at{{0, &session.Begin{}}}, 25 * time.Second, "waiting for the model · 25s"},
		{"answers", []at{{0, &session.Begin{}}, {4 * time.Second, &session.Delta{}}}, 5 * time.Second, "the model answers · 5s"},
		{"falls silent", []at{{0, &session.Begin{}}, {4 * time.Second, &session.Delta{Thinking: true}}}, 20 * time.Second, "the model thinks · 20s, nothing new for 16s"},
		{"taken back", []at{{0, &session.Begin{}}, {time.Second, &session.Retract{}}}, 9 * time.Second, "at work · 8s"},
		{"two calls", []at{{0, &session.Commit{Message: two}}, {time.Second, &session.Progress{Call: "b", Text: "one\n\x1b[2Jtwo\n"}}}, 8 * time.Second, "Agent, one of 2 calls · 8s · two"},
		{"one is left", []at{{0, &session.Commit{Message: two}}, {time.Second, &session.Result{Call: "b"}}}, 90 * time.Second, "Bash · 1m30s"},
		{"allowed late", []at{{0, &session.Commit{Message: two}}, {time.Minute, &session.Permission{Call: "a", Allowed: true}}, {time.Minute, &session.Result{Call: "b"}}}, 65 * time.Second, "Bash · 5s"},
		{"waits", []at{{0, &session.Waiting{Cause: failure.RateLimit, Status: 429, Attempt: 1, Of: 10, Until: start.Add(20 * time.Second)}}}, 8 * time.Second, "⏸ rate limit (429) · try 1 of 10 in 12s (at 03:04:25)"},
		{"over", []at{{0, &session.Begin{}}, {time.Second, &session.End{}}}, time.Hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pulse
			for _, e := range c.events {
				p.event(session.Event{Body: e.body}, start.Add(e.after))
			}
			if got := p.text(start.Add(c.now)); got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

// TestTick holds that a log without a terminal is never silent for long, and
// not filled either.
func TestTick(t *testing.T) {
	var out bytes.Buffer
	r := &renderer{out: &out}
	r.event(session.Event{Body: &session.Begin{}})
	start := time.Now()
	r.spoke = start
	var said []int
	for s := range 200 {
		before := out.Len()
		now := start.Add(time.Duration(s) * time.Second)
		if r.tick(now); out.Len() > before {
			said, r.spoke = append(said, s), now
		}
	}
	if len(said) != 3 || said[0] != 20 || said[1] != 60 || said[2] != 140 {
		t.Errorf("said something after %v seconds", said)
	}
	if !strings.HasPrefix(out.String(), "… waiting for the model · 20s\n") {
		t.Errorf("%q", out.String())
	}
}

// TestFit shortens to columns, of which some letters take two.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{{"abc", 0, "abc"}, {"abc", 4, "abc"}, {"abcd", 4, "abc…"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"", 1, ""}} {
		if got := fit(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d columns: %q, not %q", c.text, c.columns, got, c.want)
		}
	}
}

// TestSpan leaves out noughts at the end, and nothing else.
func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{50 * time.Minute: "50m", 2 * time.Hour: "2h", time.Hour + 5*time.Second: "1h0m5s", 30 * time.Second: "30s", 100 * time.Minute: "1h40m", 4600 * time.Millisecond: "4.6s", 0: "0s"} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
}

// TestWrap breaks lines between words only.
func TestWrap(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"short", "note: a b", "note: a b"},
		{"long", "note: one two three four five", "note: one two three\n  four five"},
		{"exact", "note: one two three four", "note: one two three\n  four"},
		{"indented", "  └ one two three four five", "  └ one two three\n    four five"},
		{"painted", "\x1b[2mnote: one two three four\x1b[0m", "\x1b[2mnote: one two three\n  four\x1b[0m"},
		{"a word too long", "note: /a/very/long/path/that/is/one/word x", "note:\n  /a/very/long/path/that/is/one/word\n  x"},
		{"wide", "日本語の 日本語の 日本語の", "日本語の 日本語の\n  日本語の"},
		{"several lines", "one two three four five\n  six", "one two three four\n  five\n  six"},
	} {
		if got := wrap(c.text, 20, 2); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
	if long := strings.Repeat("word ", 50); wrap(long, 0, 2) != long {
		t.Error("wrapped where nobody knows the width")
	}
}

// TestProse breaks what the model says between words, and leaves code and tables
// as they are.
func TestProse(t *testing.T) {
	var out bytes.Buffer
	r := &renderer{out: &out, stream: true, lines: true, width: func() int { return 20 }}
	text := "one two three four five\n- one two three four five\n```\nf(one, two, three, four, five)\n```\n| one | two | three | four |\n\nend\x1b[2J of it that is long"
	for _, c := range text { // in the smallest pieces
		r.event(session.Event{Body: &session.Delta{Text: string(c)}})
	}
	r.event(session.Event{Body: &session.Commit{}})
	want := "one two three four\nfive\n- one two three four\n  five\n```\nf(one, two, three, four, five)\n```\n| one | two | three | four |\n\nend of it that is\nlong\n"
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}

// TestVoid says of an answer that was taken back how many letters of it stand on
// the screen, not how many bytes.
func TestVoid(t *testing.T) {
	var out bytes.Buffer
	r := &renderer{out: &out, stream: true, lines: true}
	r.event(session.Event{Body: &session.Begin{}})
	r.event(session.Event{Body: &session.Delta{Text: "日本語"}})
	r.event(session.Event{Body: &session.Retract{}})
	if !strings.HasPrefix(out.String(), "日本語\n✗ the last 3 characters no longer count") {
		t.Errorf("%q", out.String())
	}
}

// TestSlowHooks: agents side by side ask the same hook, and the one that takes
// long is told of, whichever ends first.
func TestSlowHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Duration
		began := time.Now()
		observe := slowHooks(func(string) { told = append(told, time.Since(began)) })
		slow, quick := hook.Entry{Name: "check", Asked: 1}, hook.Entry{Name: "check", Asked: 2}
		observe(slow, nil)
		time.Sleep(slowHook / 2)
		observe(quick, nil)
		time.Sleep(time.Millisecond)
		observe(quick, &hook.Result{})
		time.Sleep(slowHook)
		observe(slow, &hook.Result{})
		time.Sleep(10 * slowHook)
		if len(told) != 1 || told[0] != slowHook {
			t.Errorf("told at %v", told)
		}
	})
}
