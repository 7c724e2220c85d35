package anthropic

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json/jsontext"
)

// longHistory is 1,000 messages of 2.3 MB: calls, results, thinking, words.
func longHistory() []*message.Message {
	line := "func (s *stream) flush() { // waits for the \"consumer\", not for the server\n\treturn\n}\n"
	output := strings.Repeat(line, 4000/len(line))
	var msgs []*message.Message
	for i := 0; i < 1000; i += 2 {
		id := fmt.Sprintf("toolu_%d", i)
		user := message.NewText(fmt.Sprint("u", i), "Go on, please.")
		if i > 0 {
			last := fmt.Sprintf("toolu_%d", i-2)
			user.Blocks = append([]message.Block{message.TextResult(last, output, false)}, user.Blocks...)
		}
		msgs = append(msgs, user, &message.Message{ID: fmt.Sprint("a", i), Role: message.Assistant, Blocks: []message.Block{
			{Type: message.Thinking, Text: "I should look at the file first.", Signature: strings.Repeat("sig0", 60)},
			{Type: message.Text, Text: "I will read the file."},
			{Type: message.ToolUse, ID: id, Name: "Read", Input: jsontext.Value(`{"file_path":"/src/stream.go","offset":10}`)},
		}})
	}
	return append(msgs, message.NewText("end", "And now?"))
}

func benchRequest(msgs []*message.Message) *model.Request {
	r := &model.Request{Model: "claude-sonnet-5", MaxTokens: 8000, System: []string{strings.Repeat("Be careful. ", 500)}, Messages: msgs}
	for i := range 20 {
		r.Tools = append(r.Tools, model.Tool{
			Name: fmt.Sprint("Tool", i), Description: strings.Repeat("Does things. ", 40),
			Schema: jsontext.Value(`{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}`),
		})
	}
	return r
}

// forget returns the same conversation without anything that was remembered.
func forget(msgs []*message.Message) []*message.Message {
	out := make([]*message.Message, len(msgs))
	for i, m := range msgs {
		out[i] = &message.Message{ID: m.ID, Role: m.Role, Blocks: m.Blocks}
	}
	return out
}

func buildOnce(b *testing.B, c *Client, r *model.Request) int64 {
	pieces, err := c.encodeRequest(r)
	if err != nil {
		b.Fatal(err)
	}
	req, err := c.post(b.Context(), "/v1/messages", r, pieces, Key{})
	if err != nil {
		b.Fatal(err)
	}
	return req.ContentLength
}

// BenchmarkRequest compares a request whose history was encoded before, which
// is every turn but the first of a process, with encoding everything; "sent"
// adds the reading of the body in the portions of net/http.
func BenchmarkRequest(b *testing.B) {
	msgs := longHistory()
	b.Run("warm", func(b *testing.B) {
		c, r := mustNew(b, Config{}), benchRequest(msgs)
		b.SetBytes(buildOnce(b, c, r))
		b.ReportAllocs()
		for b.Loop() {
			buildOnce(b, c, r)
		}
	})
	b.Run("warm/sent", func(b *testing.B) {
		c, r := mustNew(b, Config{}), benchRequest(msgs)
		b.SetBytes(buildOnce(b, c, r))
		b.ReportAllocs()
		buf := make([]byte, 32<<10)
		for b.Loop() {
			pieces, _ := c.encodeRequest(r)
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, pieces.reader(), buf)
		}
	})
	b.Run("cold", func(b *testing.B) {
		b.SetBytes(buildOnce(b, mustNew(b, Config{}), benchRequest(msgs)))
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			c, r := mustNew(b, Config{}), benchRequest(forget(msgs))
			b.StartTimer()
			buildOnce(b, c, r)
		}
	})
}

func mustNew(tb testing.TB, cfg Config) *Client {
	tb.Helper()
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// longAnswer is a stream of n deltas, 130 bytes each.
func longAnswer(n int) string {
	var b strings.Builder
	b.WriteString("event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n")
	b.WriteString("event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n")
	for i := range n {
		text := " the loop"
		if i%10 == 0 {
			text = `\n\t\"quoted\" words`
		}
		b.WriteString("event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}` + "\n\n")
	}
	b.WriteString("event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n")
	b.WriteString("event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20000}}` + "\n\n")
	b.WriteString("event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n")
	return b.String()
}

// transport answers every request with what it returns.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// answering is a transport that answers 200 with body, without a network.
func answering(body func() io.Reader) transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Request: r, ContentLength: -1,
			Header: http.Header{"Content-Type": {"text/event-stream"}, "Request-Id": {"req_1"}},
			Body:   io.NopCloser(body()),
		}, nil
	}
}

// BenchmarkDecode reads an answer of 20,000 deltas through the whole client:
// watchdogs, queue and all, and adds it up.
func BenchmarkDecode(b *testing.B) {
	stream := longAnswer(20_000)
	c := mustNew(b, Config{Transport: answering(func() io.Reader { return strings.NewReader(stream) })})
	r := &model.Request{Model: "m", MaxTokens: 10}
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		var a model.Answer
		for e, err := range c.Stream(b.Context(), r) {
			if err != nil {
				b.Fatal(err)
			}
			a.Add(e)
		}
		if a.Stop != model.StopEndTurn {
			b.Fatal(a.Stop)
		}
	}
}
