package anthropic

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// collect runs one request to its end.
func collect(ctx context.Context, c *Client, r *model.Request) (events []model.Event, err error) {
	for e, failed := range c.Stream(ctx, r) {
		if failed != nil {
			return events, failed
		}
		events = append(events, e)
	}
	return events, nil
}

var hello = &model.Request{Model: "m", MaxTokens: 10, Messages: []*message.Message{message.NewText("1", "hi")}}

// answerTo reads body as the answer to a request.
func answerTo(t *testing.T, body func() io.Reader) (*model.Answer, []model.Event, error) {
	t.Helper()
	events, err := collect(t.Context(), mustNew(t, Config{Transport: answering(body)}), hello)
	var a model.Answer
	for _, e := range events {
		a.Add(e)
	}
	return &a, events, err
}

func text1(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

// sse writes one event for each line.
func sse(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("event: " + typeOf([]byte(line)) + "\ndata: " + line + "\n\n")
	}
	return b.String()
}

const (
	start    = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}`
	textOpen = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	textHi   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
	close0   = `{"type":"content_block_stop","index":0}`
	endTurn  = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`
	stop     = `{"type":"message_stop"}`
)

// rich holds every event, block and delta type, among things that nobody knows.
var rich = ": hello\n\n" + sse(start, `{"type":"ping"}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"let me "}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see 日本 \ud83d\ude00"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
	close0,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"a_later_event","index":"seven"}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Über \"this\"\n"}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"x"}}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"a_later_delta","text":"not this"}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"command\": "}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"ls\"}"}}`,
	`{"type":"content_block_stop","index":3}`,
	`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"Now","input":{},"caller":{"type":"direct"}}}`,
	`{"type":"content_block_stop","index":4}`,
	`{"type":"content_block_start","index":5,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}`,
	`{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"go\"}"}}`,
	`{"type":"content_block_stop","index":5}`,
	`{"type":"content_block_start","index":6,"content_block":{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"url":"u"}]}}`,
	`{"type":"content_block_stop","index":6}`,
	`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"cyber","explanation":"It may harm."}},"usage":{"input_tokens":30,"cache_read_input_tokens":900,"output_tokens":40}}`,
	stop,
)

func richBlocks() blocks {
	return blocks{
		{Type: message.Thinking, Text: "let me see 日本 😀", Signature: "c2ln", Model: "m-1"},
		{Type: message.RedactedThinking, Data: "xyz", Model: "m-1"},
		{Type: message.Text, Text: "Über \"this\"\n", Model: "m-1",
			Raw: jsontext.Value(`{"type":"text","text":"Über \"this\"\n","citations":[{"type":"char_location","cited_text":"x"}]}`)},
		{Type: message.ToolUse, ID: "toolu_1", Name: "Bash", Input: jsontext.Value(`{"command": "ls"}`), Model: "m-1"},
		{Type: message.ToolUse, ID: "toolu_2", Name: "Now", Input: jsontext.Value(`{}`), Model: "m-1",
			Raw: jsontext.Value(`{"type":"tool_use","id":"toolu_2","name":"Now","input":{},"caller":{"type":"direct"}}`)},
		{Type: "server_tool_use", ID: "srv_1", Name: "web_search", Model: "m-1",
			Raw: jsontext.Value(`{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"go"}}`)},
		{Type: "web_search_tool_result", Model: "m-1",
			Raw: jsontext.Value(`{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"url":"u"}]}`)},
	}
}

func TestDecodeEverything(t *testing.T) {
	a, events, err := answerTo(t, text1(rich))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(richBlocks(), a.Blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	want := model.Usage{Input: 30, Output: 40, CacheRead: 900}
	if a.ID != "msg_1" || a.Model != "m-1" || a.RequestID != "req_1" || a.Stop != model.StopRefusal || a.Detail != "cyber: It may harm." || a.Usage != want {
		t.Errorf("answer = %+v", a)
	}
	if events[1].Kind != model.EventAlive {
		t.Errorf("the ping became %+v", events[1])
	}
	// What was decoded is echoed as it came.
	echo := bodyOf(t, &model.Request{Messages: []*message.Message{assistant("1", a.Blocks...)}})
	for _, b := range richBlocks() {
		if !strings.Contains(string(echo), string(b.Raw)) {
			t.Errorf("%s is not echoed in %s", b.Raw, echo)
		}
	}
}

// TestSplitAnywhere: packets end where they like.
func TestSplitAnywhere(t *testing.T) {
	_, want, err := answerTo(t, text1(rich))
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"LF": rich, "CRLF": strings.ReplaceAll(rich, "\n", "\r\n"), "CR": strings.ReplaceAll(rich, "\n", "\r"),
		"BOM": "\uFEFF" + rich, "DONE": rich + "data: [DONE]\n\n",
	}
	for name, stream := range forms {
		step := 1
		if testing.Short() || name != "LF" && name != "CRLF" {
			step = 7
		}
		for i := 0; i <= len(stream); i += step {
			_, got, err := answerTo(t, func() io.Reader {
				return io.MultiReader(strings.NewReader(stream[:i]), strings.NewReader(stream[i:]))
			})
			if err != nil || !reflect.DeepEqual(want, got) {
				t.Fatalf("%s split at %d: %v\n%s", name, i, err, cmp.Diff(want, got))
			}
		}
		_, got, err := answerTo(t, func() io.Reader { return iotest.OneByteReader(strings.NewReader(stream)) })
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%s byte by byte: %v\n%s", name, err, diff)
		}
	}
}

// TestCutAnywhere: a stream that ends at any byte before the stop reason is a
// failure, and from there on it is complete.
func TestCutAnywhere(t *testing.T) {
	known := strings.Index(rich, `event: message_delta`)
	complete := known + strings.Index(rich[known:], "\n\n")
	for i := range len(rich) {
		_, events, err := answerTo(t, text1(rich[:i]))
		whole := len(events) > 0 && events[len(events)-1].Kind == model.EventStop
		switch e := failure.As(err); {
		case i >= complete:
			if err != nil || !whole {
				t.Fatalf("cut at %d: %v", i, err)
			}
		case e == nil || whole:
			t.Fatalf("cut at %d: taken for complete", i)
		case len(events) > 0 && (e.Kind != failure.Network || e.Rule != RuleCut):
			t.Fatalf("cut at %d: %s %s: %v", i, e.Kind, e.Rule, err)
		}
	}
}

func TestNoEventLines(t *testing.T) {
	var bare strings.Builder
	for line := range strings.Lines(rich) {
		if !strings.HasPrefix(line, "event:") {
			bare.WriteString(line)
		}
	}
	a, _, err := answerTo(t, text1(bare.String()))
	if diff := cmp.Diff(richBlocks(), a.Blocks); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestMalformedStreams(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		kind         failure.Kind
		rule, says   string
	}{
		{"second start", sse(start, start), failure.ServerError, RuleMalformed, "second message_start"},
		{"block before start", sse(textOpen), failure.ServerError, RuleMalformed, "before message_start"},
		{"delta before start", sse(endTurn), failure.ServerError, RuleMalformed, "before message_start"},
		{"stop before start", sse(stop), failure.ServerError, RuleMalformed, "before message_start"},
		{"gap", sse(start, strings.Replace(textOpen, `:0`, `:1`, 1)), failure.ServerError, RuleMalformed, "block 1 begins where block 0 should"},
		{"two open", sse(start, textOpen, strings.Replace(textOpen, `:0`, `:1`, 1)), failure.ServerError, RuleMalformed, "while block 0 is open"},
		{"no block", sse(start, `{"type":"content_block_start","index":0}`), failure.ServerError, RuleMalformed, "without a content_block"},
		{"delta for none", sse(start, textHi), failure.ServerError, RuleMalformed, "text_delta for block 0"},
		{"delta for another", sse(start, textOpen, strings.Replace(textHi, `:0`, `:3`, 1)), failure.ServerError, RuleMalformed, "block 3"},
		{"stop for none", sse(start, close0), failure.ServerError, RuleMalformed, "content_block_stop for block 0"},
		{"stop while open", sse(start, textOpen, endTurn, stop), failure.ServerError, RuleMalformed, "while block 0 is open"},
		{"stop without reason", sse(start, textOpen, close0, stop), failure.ServerError, RuleMalformed, "without a stop reason"},
		{"broken JSON", sse(start) + "event: content_block_start\ndata: {\"type\":\"content_bl\n\n", failure.ServerError, RuleMalformed, "broken JSON"},
		{"wrong shape", sse(start, textOpen, `{"type":"content_block_delta","index":0,"delta":"hi"}`), failure.ServerError, RuleMalformed, "broken JSON"},
		{"half an event", sse(start, textOpen) + "event: content_block_delta\ndata: {\"type\":\"content", failure.Network, RuleCut, "ended before"},
		{"open block, then end", sse(start, textOpen, endTurn), failure.Network, RuleCut, "ended before"},
		{"only a start", sse(start), failure.Network, RuleCut, "ended before"},
		{"done too early", sse(start, textOpen, textHi) + "data: [DONE]\n\n", failure.Network, RuleCut, "ended before"},
		{"error event", sse(start, textOpen, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_9"}`), failure.Overloaded, "", "Overloaded"},
		{"error of a gateway", sse(start) + `data: {"error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n", failure.Overloaded, "", "Overloaded"},
		{"error event without JSON", sse(start) + "event: error\ndata: upstream connect error or disconnect/reset before headers\n\n", failure.ServerError, "", "upstream"},
		{"another API", `data: {"id":"chatcmpl-1","object":"chat.completion.chunk"}` + "\n\ndata: [DONE]\n\n", failure.ServerError, "foreign-answer", "no answer began"},
		{"comments only", ": a\n\n: b\n\n", failure.ServerError, "foreign-answer", "no answer began"},
		{"empty", "", failure.ServerError, "foreign-answer", "empty"},
		{"white space", " \n\n ", failure.ServerError, "foreign-answer", "empty"},
		{"page", "<!doctype html><html><title>Sign in</title></html>", failure.ServerError, "", "Sign in"},
		{"foreign JSON", `{"hello":"world"}`, failure.ServerError, "foreign-answer", "not a message"},
		{"JSON error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, failure.Overloaded, "", "Overloaded"},
		{"message without stop", `{"type":"message","content":[]}`, failure.ServerError, RuleMalformed, "without a stop reason"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, events, err := answerTo(t, text1(tc.stream))
			e := failure.As(err)
			if e == nil {
				t.Fatalf("no error, %d events", len(events))
			}
			if e.Kind != tc.kind || tc.rule != "" && e.Rule != tc.rule || !strings.Contains(e.Message, tc.says) {
				t.Errorf("kind %s, rule %s, retry %s: %s", e.Kind, e.Rule, e.Retry, e.Message)
			}
			if e.RequestID == "" {
				t.Error("the failure does not name the request")
			}
		})
	}
}

// TestComplete: what the server does after it said why it stopped changes
// nothing.
func TestComplete(t *testing.T) {
	for name, after := range map[string]string{
		"message_stop":      sse(stop),
		"only the end":      "",
		"done":              "data: [DONE]\n\n",
		"error":             sse(`{"type":"error","error":{"type":"api_error","message":"x"}}`),
		"rubbish":           "data: {\n\n",
		"unfinished stop":   "event: message_stop\ndata: {\"type\":\"message_stop\"}",
		"stop, then a lot":  sse(stop, start, start, close0),
		"nonsense at close": sse(close0),
	} {
		a, _, err := answerTo(t, text1(sse(start, textOpen, textHi, close0, endTurn)+after))
		if err != nil || a.Stop != model.StopEndTurn || a.Usage.Output != 15 || len(a.Blocks) != 1 {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
	}
}

func TestToolInput(t *testing.T) {
	for _, tc := range []struct{ start, deltas, want string }{
		{`{}`, ``, `{}`},
		{`null`, ``, `{}`},
		{`{"a":1}`, ``, `{"a":1}`},
		{`{}`, `{"type":"input_json_delta","partial_json":" {\"a\": 2} "}`, `{"a": 2}`},
		{`{}`, `{"type":"input_json_delta","partial_json":"{\"a\":\"cu"}`, `{"a":"cu`},
		{`{}`, `{"type":"input_json_delta","partial_json":"[1]"}`, `[1]`},
		{`{}`, `{"type":"input_json_delta","partial_json":"{\"a\":\"\\ud83d\"}"}`, "{\"a\":\"\uFFFD\"}"},
	} {
		lines := []string{start, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"N","input":` + tc.start + `}}`}
		if tc.deltas != "" {
			lines = append(lines, `{"type":"content_block_delta","index":0,"delta":`+tc.deltas+`}`)
		}
		a, _, err := answerTo(t, text1(sse(append(lines, close0, endTurn, stop)...)))
		if err != nil || len(a.Blocks) != 1 || string(a.Blocks[0].Input) != tc.want {
			t.Errorf("%s + %s: %v, %+v", tc.start, tc.deltas, err, a.Blocks)
		}
	}
}

func TestUsage(t *testing.T) {
	usage := func(start, delta string) model.Usage {
		t.Helper()
		a, _, err := answerTo(t, text1(sse(
			`{"type":"message_start","message":{"usage":`+start+`}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+delta+`}`, stop)))
		if err != nil {
			t.Fatal(err)
		}
		return a.Usage
	}
	for _, tc := range []struct {
		start, delta string
		want         model.Usage
	}{
		{`{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":1}`, `{"output_tokens":9}`, model.Usage{Input: 25, CacheRead: 5, Output: 9}},
		{`{"input_tokens":0}`, `{"input_tokens":12.0,"output_tokens":9}`, model.Usage{Input: 12, Output: 9}},
		{`{"input_tokens":500}`, `{"input_tokens":12,"cache_read_input_tokens":480,"output_tokens":9}`, model.Usage{Input: 12, CacheRead: 480, Output: 9}},
		{`{"input_tokens":500}`, `{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9}`, model.Usage{Input: 500, Output: 9}},
		{`null`, `{"input_tokens":null,"output_tokens":-1}`, model.Usage{}},
	} {
		if got := usage(tc.start, tc.delta); got != tc.want {
			t.Errorf("%s, %s: %+v, want %+v", tc.start, tc.delta, got, tc.want)
		}
	}
}

// TestWholeMessage: a gateway that does not stream answers with one object.
func TestWholeMessage(t *testing.T) {
	a, events, err := answerTo(t, text1(`{"id":"msg_2","type":"message","role":"assistant","model":"m-2","content":[
		{"type":"text","text":"Hi"},{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"/a"}}],
		"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":30}}`))
	want := blocks{
		{Type: message.Text, Text: "Hi", Model: "m-2"},
		{Type: message.ToolUse, ID: "toolu_1", Name: "Read", Input: jsontext.Value(`{"file_path":"/a"}`), Model: "m-2"},
	}
	if diff := cmp.Diff(want, a.Blocks); err != nil || diff != "" || a.Stop != model.StopToolUse || a.Usage.Input != 12 {
		t.Errorf("%v, %+v\n%s", err, a, diff)
	}
	if events[2].Kind != model.EventDelta || events[2].Text != "Hi" {
		t.Errorf("no delta for the text: %+v", events[2])
	}
}

// FuzzDecode: whatever a server sends, a stream ends, in EventStop or in a
// failure, and never both.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(rich))
	f.Add([]byte(sse(start, textOpen, textHi, close0, endTurn, stop)))
	f.Add([]byte(`{"type":"message","content":[{"type":"text"},1],"stop_reason":"x"}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		_, events, err := answerTo(t, text1(string(stream)))
		stopped := len(events) > 0 && events[len(events)-1].Kind == model.EventStop
		if stopped == (err != nil) {
			t.Fatalf("stopped %v, err %v", stopped, err)
		}
		if err != nil && failureIn(err) == nil {
			t.Fatalf("%T is no failure", err)
		}
	})
}
