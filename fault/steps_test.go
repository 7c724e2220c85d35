package fault

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// statuses sends the bodies one after the other and gives the statuses.
func statuses(c *client, bodies ...obj) string {
	var out []string
	for _, b := range bodies {
		out = append(out, fmt.Sprint(c.ask(b).status))
	}
	return strings.Join(out, " ")
}

func TestConditions(t *testing.T) {
	plain := ask(user("x"))
	big := ask(user(strings.Repeat("word ", 2000)))
	withCall := ask(user("x"), assistant([]any{call("t1", "Bash", obj{"command": "ls -l"})}), user([]any{with(result("t1", "no such file"), "is_error", true)}))
	pictured := ask(user([]any{image("image/png", png)}))
	signed := ask(user("x"), assistant([]any{thinkingBlock(testModel, "h"), text("said this")}), user("y"))
	other := with(plain, "model", "claude-other")
	still := with(plain, "stream", false)
	for _, tt := range []struct {
		when   string
		bodies []obj
		want   string
	}{
		{"n 2", []obj{plain, plain, plain}, "200 529 200"},
		{"n 2..", []obj{plain, plain, plain}, "200 529 529"},
		{"nth 2, tokens > 1000", []obj{big, plain, big, big}, "200 200 529 200"},
		{`model "*-other"`, []obj{plain, other}, "200 529"},
		{"purpose main, not stream", []obj{plain, still}, "200 529"},
		{"results", []obj{plain, withCall}, "200 529"},
		{"all-results >= 1", []obj{plain, withCall}, "200 529"},
		{"failed", []obj{plain, withCall}, "200 529"},
		{`result-of shell, result "such"`, []obj{plain, withCall}, "200 529"},
		{`result-of shell, not result "such"`, []obj{plain, withCall}, "200 200"},
		{`not result "directories", result-of shell`, []obj{plain, withCall}, "200 529"},
		{`result-of read, result "such"`, []obj{withCall}, "200"},
		{`called shell "ls", not called shell "rm"`, []obj{plain, withCall}, "200 529"},
		{"first", []obj{withCall, plain}, "200 529"},
		{"body > 5KB", []obj{plain, big}, "200 529"},
		{"max-tokens < 500", []obj{plain, with(plain, "max_tokens", 400)}, "200 529"},
		{"messages 3", []obj{plain, withCall}, "200 529"},
		{"media", []obj{plain, pictured}, "200 529"},
		{"signatures", []obj{plain, signed}, "200 529"},
		{`said "said this"`, []obj{plain, signed}, "200 529"},
		{`seen "no such"`, []obj{plain, withCall}, "200 529"},
		{`contains "ls -l"`, []obj{plain, withCall}, "200 529"},
		{`user "^x$"`, []obj{big, plain}, "200 529"},
		{"thinking", []obj{plain, with(plain, "thinking", obj{"type": "adaptive"})}, "200 529"},
		{"offers shell", []obj{with(plain, "tools", []any{}), plain}, "200 529"},
		{"not offers shell", []obj{plain, with(plain, "tools", []any{})}, "200 529"},
		{`header x-api-key "k*"`, []obj{plain}, "529"},
		{`header x-other`, []obj{plain}, "200"},
		{"chance 0%", []obj{plain, plain}, "200 200"},
		{"chance 100%", []obj{plain, plain}, "529 529"},
	} {
		_, c := serve(t, "step s always\n  when "+tt.when+"\n  status 529\n")
		if got := statuses(c, tt.bodies...); got != tt.want {
			t.Errorf("when %s: got %s, want %s", tt.when, got, tt.want)
		}
	}
}

func TestUntilAndAfter(t *testing.T) {
	small := ask(user("x"))
	big := ask(user(strings.Repeat("word ", 2000)))
	pictured := ask(user([]any{image("image/png", png)}))
	signed := ask(user("x"), assistant([]any{thinkingBlock(testModel, "h"), text("y")}), user("z"))
	other := with(small, "model", "claude-other")
	for _, tt := range []struct {
		until  string
		bodies []obj
		want   string
	}{
		{"body < 5KB", []obj{small, big, big, small, big}, "200 413 413 200 200"},
		{"max-tokens < 500", []obj{small, small, with(small, "max_tokens", 400), small}, "413 413 200 200"},
		{"not signatures", []obj{signed, signed, small}, "413 413 200"},
		{"not media", []obj{pictured, pictured, small}, "413 413 200"},
		{"model-changed", []obj{small, small, other, small}, "413 413 200 200"},
	} {
		srv, c := serve(t, "step s\n  until "+tt.until+"\n  status 413\n")
		if got := statuses(c, tt.bodies...); got != tt.want {
			t.Errorf("until %s: got %s, want %s", tt.until, got, tt.want)
		}
		if l := srv.Report().Landing[0]; l.Fired != 2 || l.fate() != "fired 2" {
			t.Errorf("until %s: %v", tt.until, l)
		}
	}
	_, c := serve(t, "step late\n  when after early\n  status 500\nstep early times 2\n  when n 2..\n  status 529\n")
	if got := statuses(c, small, small, small, small, small); got != "200 529 500 529 200" {
		t.Errorf("after: %s", got)
	}
}

func TestElapsedAndInFlight(t *testing.T) {
	bubble(t, "scale 2\nstep outage\n  until elapsed > 10m\n  status 529\nstep expired always\n  when elapsed > 30m\n  status 401\n", Options{}, func(t *testing.T, _ *Running, c *client) {
		var got []string
		for range 8 {
			got = append(got, statuses(c, ask(user("x"))))
			time.Sleep(9 * time.Minute)
		}
		if s := strings.Join(got, " "); s != "529 529 529 200 200 200 200 401" {
			t.Errorf("got %s", s)
		}
	})
	bubble(t, "step crowd always\n  when in-flight > 2\n  status 429\nlayer slow\n  when not in-flight > 2\n  delay headers 1m\n", Options{}, func(t *testing.T, _ *Running, c *client) {
		var mu sync.Mutex
		count := map[int]int{}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				g := c.ask(ask(user("x")))
				mu.Lock()
				defer mu.Unlock()
				count[g.status]++
			})
		}
		wg.Wait()
		if count[200] < 2 || count[429] == 0 {
			t.Errorf("statuses %v", count)
		}
		if s := statuses(c, ask(user("x"))); s != "200" {
			t.Errorf("alone: %s", s)
		}
	})
}

// Layers lie over whatever else happens, also over each other.
func TestLayers(t *testing.T) {
	srv, c := serve(t, "layer tiny\n  chunk 7\nlayer noisy\n  when n 2..\n  noise comments\n  header x-noise \"yes\"\nstep cut\n  when n 3\n  cut tool close"+twoCalls)
	first, second, third := c.ask(ask(user("x"))), c.ask(ask(user("x"))), c.ask(ask(user("x")))
	if !first.stopped || strings.Contains(first.raw, ": comment") {
		t.Errorf("first: %s", first.raw)
	}
	if !second.stopped || !strings.Contains(second.raw, ": comment") || second.header.Get("X-Noise") != "yes" {
		t.Errorf("second: %s", second.raw)
	}
	if third.err == nil || !strings.Contains(third.raw, ": comment") || third.stopped {
		t.Errorf("third: %s", third.raw)
	}
	r := srv.Report()
	if got := r.Requests[2].Steps; strings.Join(got, " ") != "tiny noisy cut" {
		t.Errorf("steps %v", got)
	}
}

// A rule that is used up still answers the conversation that it has answered before.
func TestOnceMeansOnceForTheConversation(t *testing.T) {
	_, c := serve(t, "model\n  rule a once\n    say \"first\"\n  rule b\n    say \"other\"\n")
	for _, tt := range []struct{ ask, want string }{{"x", "first"}, {"x", "first"}, {"y", "other"}, {"x", "first"}} {
		if g := c.ask(ask(user(tt.ask))); g.text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.ask, g.text, tt.want)
		}
	}
}

func TestJudgeCanIgnore(t *testing.T) {
	srv, c := serve(t, "judge ignore blank-text\njudge record prefill\n")
	if g := c.ask(ask(user([]any{text(" ")}), assistant("a"))); g.status != 200 {
		t.Errorf("got %s", g.raw)
	}
	if v := srv.Report().Violations; len(v) != 1 || v[0].Rule != "prefill" {
		t.Errorf("violations %v", v)
	}
}

// A broken request is refused before a fault of the stream is spent on it, but behind an overloaded edge.
func TestRefusalsAndSteps(t *testing.T) {
	srv, c := serve(t, "step cut\n  cut text\nstep busy\n  when n 2\n  status 529\n")
	bad := ask(user([]any{text("")}))
	if got := statuses(c, bad, bad, ask(user("x"))); got != "400 529 200" {
		t.Errorf("got %s", got)
	}
	if m := srv.Report().Missed(); len(m) > 0 {
		t.Errorf("missed %v", m)
	}
}

func TestReport(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	logged := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	script := "window 200k\nstep busy times 2\n  status 529\nstep never\n  when n 99\n  status 500\nlayer slow\n  delay first 2s\n"
	bubble(t, script, Options{Log: logged}, func(t *testing.T, srv *Running, c *client) {
		c.ask(ask(user("x")))
		c.post(context.Background(), "/v1/messages", []byte("{}"), http.Header{"X-Daruma-Source": {"hook"}})
		c.ask(ask(user([]any{text("")})))
		r := srv.Report()
		want := `#1 0ms POST /v1/messages claude-test-1 main, 37 tokens in 225 bytes, max_tokens 1000 → 529 (status) by slow, busy
#2 2000ms POST /v1/messages → 529 (status) by slow, busy, broke field, broke field, broke field
#3 4000ms POST /v1/messages claude-test-1 main, 43 tokens in 249 bytes, max_tokens 1000 → 400 (refused) by slow, broke empty-text
violation: request 2 broke field: model: Field required
violation: request 2 broke field: max_tokens: Field required
violation: request 2 broke field: messages: Field required
violation: request 3 broke empty-text: messages: text content blocks must be non-empty
step busy: fired 2 of 2
step never: not reached
layer slow: fired 3
limit window: not reached
`
		if got := r.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		var back Report
		if err := json.Unmarshal(r.JSON(), &back); err != nil || len(back.Requests) != 3 || back.Landing[0].Fired != 2 {
			t.Errorf("JSON: %v\n%s", err, r.JSON())
		}
		if m := r.Missed(); len(m) != 1 || m[0] != "never" {
			t.Errorf("missed %v", m)
		}
		if len(lines) != 3 || lines[0] != r.Requests[0].String() {
			t.Errorf("log %q", lines)
		}
	})
}

// Clients may come all at once.
func TestManyAtOnce(t *testing.T) {
	srv, c := serve(t, "step busy times 10\n  status 529\nlayer tiny\n  chunk 50"+twoCalls)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() { c.ask(ask(user("x"))) })
	}
	wg.Wait()
	if r := srv.Report(); len(r.Requests) != 40 || len(r.Missed()) > 0 {
		t.Errorf("report:\n%s", r)
	}
}
