package daruma_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json/jsontext"
)

// cannedAnswer is a whole answer, without a network: what a benchmark measures
// is our own work.
const cannedAnswer = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Done."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

`

// nullTransport reads every request to its end and answers at once.
type nullTransport struct{ sent int64 }

func (n *nullTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.Copy(io.Discard, r.Body)
	n.sent += sent
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(cannedAnswer)), Request: r,
	}, err
}

// longHistory is a session of n messages of about 2.3 KB: calls and results.
func longHistory(n int) *session.History {
	h := &session.History{Session: "bench"}
	add := func(m *message.Message) {
		h.Apply(session.Event{Body: &session.Message{Message: m}})
	}
	add(message.NewText("m1", "Do the task."))
	for i := 2; i < n; i += 2 {
		call := fmt.Sprintf("toolu_%d", i)
		add(&message.Message{ID: fmt.Sprintf("m%d", i), Role: message.Assistant, Model: "claude-sonnet-5", Blocks: []message.Block{
			{Type: message.Text, Text: "I read the next file."},
			{Type: message.ToolUse, ID: call, Name: "Read", Input: jsontext.Value(`{"file_path":"a.go"}`)},
		}})
		add(&message.Message{ID: fmt.Sprintf("m%d", i+1), Role: message.User, Blocks: []message.Block{
			message.TextResult(call, strings.Repeat("\tif err := run(ctx, \"name\"); err != nil { // why\n", 96), false),
		}})
	}
	return h
}

// BenchmarkTurn is one whole turn of an agent, from the prompt to the end of
// the run, behind histories of different lengths and without a journal. The time
// may grow only with the bytes that must be sent.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			transport := &nullTransport{}
			history := longHistory(n)
			turn := func() {
				past := *history // each turn stands behind the same history
				past.Messages = slices.Clone(history.Messages)
				benchTurn(b, benchAgent(b, transport, &past))
			}
			turn() // the first turn encodes what later ones find done
			transport.sent = 0
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(transport.sent)/float64(b.N)/1e6, "MB-sent/op")
		})
	}
}

// BenchmarkSession is a session of 400 turns, each with a result of 2.3 KB: the
// time of its last hundred turns beside that of its first, and the bytes sent.
func BenchmarkSession(b *testing.B) {
	transport := &nullTransport{}
	var took, sent [4]float64
	for b.Loop() {
		history := longHistory(2)
		agent := benchAgent(b, transport, history)
		for i := range 400 {
			history.Apply(session.Event{Body: &session.Message{Message: message.NewText(history.NextID(), strings.Repeat("some words of a result\n", 100))}})
			began, before := time.Now(), transport.sent
			benchTurn(b, agent)
			took[i/100] += float64(time.Since(began).Microseconds())
			sent[i/100] += float64(transport.sent - before)
		}
	}
	turns := 100 * float64(b.N)
	b.ReportMetric(took[0]/turns, "us-first-hundred")
	b.ReportMetric(took[3]/turns, "us-last-hundred")
	b.ReportMetric(sent[3]/sent[0], "bytes-ratio")
}

func benchAgent(b *testing.B, transport *nullTransport, history *session.History) *daruma.Agent {
	wire, err := anthropic.New(anthropic.Config{BaseURL: "http://null.test", APIKey: "any", Transport: transport})
	if err != nil {
		b.Fatal(err)
	}
	agent, err := daruma.New(daruma.Config{Wire: wire, Models: []string{"claude-sonnet-5"}, History: history})
	if err != nil {
		b.Fatal(err)
	}
	return agent
}

func benchTurn(b *testing.B, agent *daruma.Agent) {
	result, err := daruma.Collect(agent.Run(b.Context(), "Go on."))
	if err != nil || result.Err() != nil {
		b.Fatal(err, result.Err())
	}
}

// BenchmarkResume is reading a session of 1,000 messages from its journal.
func BenchmarkResume(b *testing.B) {
	var file bytes.Buffer
	for i, m := range longHistory(1000).Messages {
		line, err := session.Encode(session.Event{Version: session.Version, Seq: uint64(i + 1), Body: &session.Message{Message: m}})
		if err != nil {
			b.Fatal(err)
		}
		file.Write(line)
	}
	b.SetBytes(int64(file.Len()))
	for b.Loop() {
		var h session.History
		for e, err := range session.Read(bytes.NewReader(file.Bytes())) {
			if err != nil {
				b.Fatal(err)
			}
			h.Apply(e)
		}
	}
}
