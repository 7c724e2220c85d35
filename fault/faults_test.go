package fault

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

const twoCalls = `
model
  rule all
    think "let me think about this for a while"
    say "Grüße: I will look at two files at once."
    call shell command="cat a.go"
    call shell command="cat b.go"
`

// Every position of the language, met by a real client on a real socket.
func TestPositions(t *testing.T) {
	for _, tt := range []struct {
		at    string
		check func(*got) bool
	}{
		{"start", func(g *got) bool { return g.raw == "" }},
		{"event 0", func(g *got) bool { return g.raw == "" }},
		{"event 1", func(g *got) bool { return len(g.events) == 1 && g.events[0] == "message_start" }},
		{"event 2", func(g *got) bool { return len(g.events) == 2 && g.events[1] == "content_block_start" }},
		{"byte 512", func(g *got) bool { return len(g.raw) == 512 }},
		{"random", func(g *got) bool { return len(g.raw) > 0 && !g.stopped }},
		{"json", func(g *got) bool { return !strings.HasSuffix(g.raw, "\n") && len(g.events) == 2 }},
		{"utf8", func(g *got) bool { return !utf8.ValidString(g.raw) }},
		{"text", func(g *got) bool { return g.text != "" && !strings.HasSuffix(g.text, "once.") }},
		{"text 30", func(g *got) bool { return len([]rune(g.text)) >= 30 && len(g.inputs) == 0 }},
		{"thinking", func(g *got) bool {
			return g.thinking != "" && g.text == "" && !strings.Contains(g.raw, "signature_delta")
		}},
		{"tool-start", func(g *got) bool { return len(g.inputs) == 1 && g.inputs[0] == "" }},
		{"tool", func(g *got) bool { return len(g.inputs) == 1 && g.inputs[0] == `{"command":` }},
		{"tool 2", func(g *got) bool { return len(g.inputs) == 2 && g.inputs[1] == `{"command":` }},
		{"tool 2 12", func(g *got) bool { return len(g.inputs) == 2 && g.inputs[1] == `{"command":"cat b.go"}` }},
		{"tool-start 2", func(g *got) bool { return len(g.inputs) == 2 && g.inputs[1] == "" }},
		{"block 1", func(g *got) bool { return len(g.content) == 1 && strings.Contains(g.raw, "signature_delta") }},
		{"block 3", func(g *got) bool { return len(g.content) == 3 && g.inputs[0] == `{"command":"cat a.go"}` }},
		{"before-delta", func(g *got) bool { return len(g.inputs) == 2 && g.stop == "" }},
		{"before-stop", func(g *got) bool { return g.stop == "tool_use" && !g.stopped }},
		{"end", func(g *got) bool { return g.stopped }},
	} {
		for _, how := range []string{"end", "close", "reset"} {
			t.Run(tt.at+" "+how, func(t *testing.T) {
				srv, c := serve(t, "seed 7\nstep cut\n  cut "+tt.at+" "+how+twoCalls)
				g := c.ask(ask(user("go")))
				checkBreak(t, g, how)
				if how != "reset" && !tt.check(g) { // a reset may swallow bytes that were on their way
					t.Errorf("events %v, text %q, inputs %q, %d bytes: %q", g.events, g.text, g.inputs, len(g.raw), g.raw)
				}
				if m := srv.Report().Missed(); len(m) > 0 {
					t.Errorf("missed %v", m)
				}
				if again := c.ask(ask(user("go"))); !again.stopped || again.err != nil {
					t.Errorf("the second try was not healthy: %v", again.err)
				}
			})
		}
	}
}

// checkBreak looks at how the connection ended.
func checkBreak(t *testing.T, g *got, how string) {
	t.Helper()
	switch how {
	case "end":
		if g.err != nil {
			t.Errorf("a clean end gave %v", g.err)
		}
	case "close":
		if !errors.Is(g.err, io.ErrUnexpectedEOF) && !errors.Is(g.err, io.EOF) {
			t.Errorf("a close gave %v", g.err)
		}
	case "reset":
		if !errors.Is(g.err, syscall.ECONNRESET) && !errors.Is(g.err, io.ErrUnexpectedEOF) {
			t.Errorf("a reset gave %v", g.err)
		}
	}
}

func TestPositionsWithoutStream(t *testing.T) {
	for at, check := range map[string]func(string) bool{
		"byte 20": func(s string) bool { return len(s) == 20 },
		"json":    func(s string) bool { return len(s) > 20 && !strings.HasSuffix(s, "}") },
		"utf8":    func(s string) bool { return !utf8.ValidString(s) },
		"random":  func(s string) bool { return len(s) > 0 && !strings.HasSuffix(s, "}}") },
	} {
		_, c := serve(t, "step cut\n  cut "+at+twoCalls)
		g := c.ask(with(ask(user("go")), "stream", false))
		if !check(g.raw) || g.err != nil {
			t.Errorf("%s: %v %q", at, g.err, g.raw)
		}
	}
}

// A position that an answer does not have leaves the step waiting for one that has it.
func TestStepWaitsForItsPosition(t *testing.T) {
	srv, c := serve(t, `
step cut
  cut tool reset
model
  rule chat
    when user "hello"
    say "hello"
  rule work
    call shell command="ls"
`)
	if g := c.ask(ask(user("hello"))); !g.stopped {
		t.Error("cut an answer without a tool call")
	}
	if m := srv.Report().Missed(); len(m) != 1 {
		t.Errorf("missed %v", m)
	}
	if g := c.ask(ask(user("work"))); g.stopped {
		t.Error("did not cut the tool call")
	}
	if m := srv.Report().Missed(); len(m) != 0 {
		t.Errorf("missed %v", m)
	}
}

func TestAnswersWithoutModel(t *testing.T) {
	for _, tt := range []struct {
		name, step string
		check      func(*got) bool
	}{
		{"default body", "status 529", func(g *got) bool { return g.status == 529 && g.failure == "overloaded_error" }},
		{"message with a hole", `status 400 invalid_request_error "no \"${model}\""`, func(g *got) bool {
			return strings.Contains(g.raw, `no \"claude-test-1\"`) && strings.Contains(g.raw, "req_")
		}},
		{"html", "status 502 html", func(g *got) bool {
			return g.status == 502 && strings.HasPrefix(g.raw, "<html>") && strings.HasPrefix(g.header.Get("Content-Type"), "text/html")
		}},
		{"html with 200", `status 200 html "<p>login</p>"`, func(g *got) bool { return g.status == 200 && g.raw == "<p>login</p>" }},
		{"empty", "status 200 empty", func(g *got) bool { return g.status == 200 && g.raw == "" }},
		{"empty stream", "status 200 empty\n  header content-type \"text/event-stream\"", func(g *got) bool {
			return g.raw == "" && g.header.Get("Content-Type") == "text/event-stream"
		}},
		{"text", `status 503 text "busy"`, func(g *got) bool { return g.raw == "busy" }},
		{"json", "status 429 json <<END\n    {\"error\":{\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}}\n    END", func(g *got) bool {
			return g.raw == `{"error":{"details":{"error_code":"enforced_spend_limit_reached"}}}`
		}},
		{"headers", "status 429\n  header retry-after \"-3\"\n  header anthropic-ratelimit-requests-reset \"${rfc3339+1h}\"\n  header content-type none", func(g *got) bool {
			at, err := time.Parse(time.RFC3339, g.header.Get("Anthropic-Ratelimit-Requests-Reset"))
			return g.header.Get("Retry-After") == "-3" && err == nil && time.Until(at) > 59*time.Minute && g.header["Content-Type"] == nil
		}},
		{"date", "status 429\n  header retry-after \"${http-date+30s}\"", func(g *got) bool {
			at, err := time.Parse(time.RFC1123, g.header.Get("Retry-After"))
			return err == nil && time.Until(at) > 20*time.Second
		}},
		{"wrong content type", `header content-type "text/plain"`, func(g *got) bool { return g.status == 200 && strings.HasPrefix(g.raw, "event: message_start") }},
		{"close", "close headers", func(g *got) bool { return errors.Is(g.err, io.EOF) }},
		{"reset", "reset headers", func(g *got) bool { return errors.Is(g.err, syscall.ECONNRESET) || errors.Is(g.err, io.EOF) }},
		{"raw stream", "sse <<END\n    event: message_start\n    data: {\"type\":\"message_start\"}\n\n    END", func(g *got) bool {
			return len(g.events) == 1 && strings.HasSuffix(g.raw, "}\n\n")
		}},
		{"reply", "reply\n    think \"only thoughts\"", func(g *got) bool { return g.thinking == "only thoughts" && g.text == "" && g.stopped }},
		{"empty reply", "reply", func(g *got) bool { return len(g.content) == 0 && g.stop == "end_turn" && g.stopped }},
		{"invented stop", `stop "meteor"`, func(g *got) bool { return g.stop == "meteor" }},
		{"no stop reason", "stop null", func(g *got) bool { return g.stop == "" && g.stopped }},
		{"refusal", `stop refusal category="cyber"`, func(g *got) bool {
			return strings.Contains(g.raw, `"stop_details":{"type":"refusal","category":"cyber"`)
		}},
		{"stop sequence", `stop stop_sequence sequence="END"`, func(g *got) bool { return strings.Contains(g.raw, `"stop_sequence":"END"`) }},
		{"wrong usage", "usage input=0 output=7", func(g *got) bool { return g.input == 0 && g.output == 7 }},
		{"other model", `answer-model "claude-cheap"`, func(g *got) bool { return strings.Contains(g.raw, `"model":"claude-cheap"`) }},
		{"truncated", "truncate 3 chars", func(g *got) bool { return g.thinking == "let" && g.stop == "max_tokens" && g.stopped }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv, c := serve(t, "step fault\n  "+tt.step+twoCalls)
			if g := c.ask(ask(user("go"))); !tt.check(g) {
				t.Errorf("got %d %v %v\n%s", g.status, g.err, g.header, g.raw)
			}
			if m := srv.Report().Missed(); len(m) > 0 {
				t.Errorf("missed %v", m)
			}
		})
	}
}

func TestEventsGoneWrong(t *testing.T) {
	for _, tt := range []struct {
		name, step string
		check      func(*got) bool
	}{
		{"no message_stop", "drop message_stop", func(g *got) bool { return !g.stopped && g.stop == "tool_use" }},
		{"no block stops", "drop content_block_stop all", func(g *got) bool { return count(g, "content_block_stop") == 0 && g.stopped }},
		{"no start", "drop message_start", func(g *got) bool { return count(g, "message_start") == 0 }},
		{"two starts", "repeat message_start", func(g *got) bool { return count(g, "message_start") == 2 }},
		{"second delta twice", "repeat content_block_delta 2", func(g *got) bool { return strings.Count(g.thinking, "while") == 2 }},
		{"reordered", "swap 1 2", func(g *got) bool { return g.events[0] == "content_block_start" && g.events[1] == "message_start" }},
		{"replaced", "replace message_delta \"{\\\"type\\\":\\\"message_delta\\\",\\\"usage\\\":null}\"", func(g *got) bool { return g.stop == "" && g.stopped }},
		{"cut data", "mangle cut content_block_delta", func(g *got) bool {
			return strings.Contains(g.raw, "data: {\"type\":\"content_block_delta\"") && len(g.thinking) < 20
		}},
		{"padded data", "mangle pad content_block_delta", func(g *got) bool { return strings.Contains(g.raw, "        \n") }},
		{"line break in data", "mangle newline message_stop", func(g *got) bool { return !g.stopped }},
		{"control byte", "mangle control content_block_delta", func(g *got) bool { return strings.Contains(g.raw, "\x01") }},
		{"pings", "noise pings 50", func(g *got) bool { return count(g, "ping") > 500 && g.stopped }},
		{"comments", "noise comments 2", func(g *got) bool { return strings.Count(g.raw, ": comment") > 20 && g.stopped }},
		{"unknown events", "noise unknown-events", func(g *got) bool { return count(g, "future_event") > 10 && g.stopped }},
		{"unknown deltas", "noise unknown-deltas", func(g *got) bool { return strings.Contains(g.raw, "future_delta") && len(g.inputs) == 2 }},
		{"crlf", "line-ends crlf", func(g *got) bool { return strings.Contains(g.raw, "\r\n\r\n") && g.stopped }},
		{"cr", "line-ends cr", func(g *got) bool { return strings.Contains(g.raw, "\r\r") && !strings.Contains(g.raw, "\n") }},
		{"no event lines", "event-lines off", func(g *got) bool { return !strings.Contains(g.raw, "event:") && g.stopped }},
		{"one character each", "pieces 1", func(g *got) bool {
			return count(g, "content_block_delta") > 100 && g.inputs[1] == `{"command":"cat b.go"}`
		}},
		{"byte by byte", "chunk 1", func(g *got) bool { return g.stopped && len(g.inputs) == 2 }},
		{"error event", `error text overloaded_error "Overloaded"`, func(g *got) bool { return g.failure == "overloaded_error" && g.text != "" && !g.stopped }},
		{"error inside json", `error json overloaded_error "Overloaded"`, func(g *got) bool { return g.failure == "overloaded_error" && !g.stopped }},
		{"error at the start", `error start overloaded_error "Overloaded"`, func(g *got) bool { return g.events[0] == "error" && len(g.events) == 1 }},
		{"error after all", `error end api_error "late"`, func(g *got) bool { return g.stopped && g.failure == "api_error" }},
		{"error and on", `error block 1 api_error "odd" go-on`, func(g *got) bool { return g.stopped && g.failure == "api_error" }},
		{"raw bytes", "send event 1 <<END\n    data: {broken\n\n    END", func(g *got) bool { return strings.Contains(g.raw, "data: {broken\n\n") && g.stopped }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv, c := serve(t, "step fault\n  "+tt.step+twoCalls)
			if g := c.ask(ask(user("go"))); g.err != nil || !tt.check(g) {
				t.Errorf("got %d %v %v\n%s", g.status, g.err, g.events, g.raw)
			}
			if m := srv.Report().Missed(); len(m) > 0 {
				t.Errorf("missed %v", m)
			}
		})
	}
}

func count(g *got, event string) int {
	n := 0
	for _, e := range g.events {
		if e == event {
			n++
		}
	}
	return n
}

// A client that leaves ends the handler, wherever it waits: Close in the cleanup waits for handlers.
func TestClientLeaves(t *testing.T) {
	for _, step := range []string{
		"stall headers", "delay headers 1h", "delay first 1h", "delay events 1h", "stall text", "pings start", "pings text 1h every 20ms",
	} {
		t.Run(step, func(t *testing.T) {
			srv, c := serve(t, "step hang\n  "+step+twoCalls)
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond)
			defer cancel()
			if g := c.send(ctx, ask(user("go"))); g.err == nil {
				t.Errorf("no error: %s", g.raw)
			}
			deadline := time.Now().Add(5 * time.Second)
			for srv.Report().Requests[0].End == "" && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if r := srv.Report(); r.Requests[0].End != "client left" || len(r.Missed()) > 0 {
				t.Errorf("report:\n%s", r)
			}
		})
	}
}

func TestCountingAndModels(t *testing.T) {
	_, c := serve(t, `
models "claude-test-1" "claude-other-*"
step hidden
  when path "/v1/models/*"
  status 500
`)
	raw, err := json.Marshal(obj{"model": "claude-test-1", "messages": []any{user("how long is this?")}})
	if err != nil {
		t.Fatal(err)
	}
	if g := c.post(context.Background(), "/v1/messages/count_tokens", raw, nil); g.status != 200 || !strings.HasPrefix(g.raw, `{"input_tokens":`) {
		t.Errorf("count_tokens: %d %s", g.status, g.raw)
	}
	get := func(path string) string {
		resp, err := c.http.Get(c.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Status[:3] + " " + string(b)
	}
	if s := get("/v1/models"); !strings.Contains(s, `"id":"claude-test-1"`) || strings.Contains(s, "other") {
		t.Errorf("models: %s", s)
	}
	if s := get("/v1/models/claude-test-1"); !strings.HasPrefix(s, "500") {
		t.Errorf("the step for this path did not fire: %s", s)
	}
	if s := get("/v1/models/claude-other-9"); !strings.HasPrefix(s, "200") {
		t.Errorf("model: %s", s)
	}
	if s := get("/v1/models/gone"); !strings.HasPrefix(s, "404") {
		t.Errorf("unknown model: %s", s)
	}
	if s := get("/elsewhere"); !strings.HasPrefix(s, "404") {
		t.Errorf("unknown path: %s", s)
	}
}
