package anthropic

import (
	"bytes"
	"io"
	"testing"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

type blocks = []message.Block

func user(id string, b ...message.Block) *message.Message {
	return &message.Message{ID: id, Role: message.User, Blocks: b}
}

func assistant(id string, b ...message.Block) *message.Message {
	return &message.Message{ID: id, Role: message.Assistant, Blocks: b}
}

func text(s string) message.Block { return message.Block{Type: message.Text, Text: s} }

func bodyOf(t *testing.T, r *model.Request) []byte {
	t.Helper()
	c := mustNew(t, Config{})
	b, err := c.encodeRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(b.reader())
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(all)) != b.size() {
		t.Errorf("size() = %d, the body has %d bytes", b.size(), len(all))
	}
	return all
}

func sameJSON(t *testing.T, want string, got []byte) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatalf("the body is no JSON: %v\n%s", err, got)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("body (-want +got):\n%s\n%s", diff, got)
	}
}

func TestRequestBody(t *testing.T) {
	raw := jsontext.Value(`{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"go"}}`)
	r := &model.Request{
		Model: "claude-x", MaxTokens: 8000, Fast: true, Try: 2,
		Thinking: model.Thinking{Mode: model.ThinkingEnabled, Budget: 4000},
		System:   []string{"You are careful.", "", "It is Monday.", "The tree is clean."},
		Tools: []model.Tool{
			{Name: "Read", Description: "Reads a file.", Schema: jsontext.Value(`{"type":"object","required":["file_path"]}`)},
			{Name: "Now"},
		},
		Messages: []*message.Message{
			user("1", text("hi \xff\"there\"")),
			user("2", text(""), message.Block{Type: message.Image, Media: &message.Media{Type: "image/png", Data: "AAAA"}}),
			assistant("3",
				message.Block{Type: message.Thinking, Text: "hm", Signature: "s"},
				message.Block{Type: message.RedactedThinking, Data: "d"},
				text("I look."),
				message.Block{Type: "server_tool_use", Raw: raw},
			),
			message.NewFailure("f", "API Error: overloaded", &failure.Error{Kind: failure.Overloaded}),
			assistant("4",
				message.Block{Type: message.ToolUse, ID: "a", Name: "Read", Input: jsontext.Value(`{"file_path":"/x"}`), Model: "claude-x"},
				message.Block{Type: message.ToolUse, ID: "b", Name: "Now"},
			),
			user("5", message.TextResult("a", "no such file", true)),
			user("6", message.Block{Type: message.ToolResult, ToolUseID: "b", Content: blocks{
				text("see"), text(""), {Type: message.Document, Media: &message.Media{URL: "https://x/y.pdf", Title: "y"}},
			}}, message.Block{Type: message.Document, Media: &message.Media{FileID: "file_1"}}),
		},
	}
	sameJSON(t, `{
	"model": "claude-x", "max_tokens": 8000, "stream": true, "speed": "fast",
	"thinking": {"type": "enabled", "budget_tokens": 4000},
	"system": [
		{"type": "text", "text": "You are careful.", "cache_control": {"type": "ephemeral"}},
		{"type": "text", "text": "It is Monday."},
		{"type": "text", "text": "The tree is clean.", "cache_control": {"type": "ephemeral"}}
	],
	"tools": [
		{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object", "required": ["file_path"]}},
		{"name": "Now", "input_schema": {"type": "object"}}
	],
	"messages": [
		{"role": "user", "content": [
			{"type": "text", "text": "hi \ufffd\"there\""},
			{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}, "cache_control": {"type": "ephemeral"}}
		]},
		{"role": "assistant", "content": [
			{"type": "thinking", "thinking": "hm", "signature": "s"},
			{"type": "redacted_thinking", "data": "d"},
			{"type": "text", "text": "I look."},
			{"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "go"}},
			{"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "/x"}},
			{"type": "tool_use", "id": "b", "name": "Now", "input": {}}
		]},
		{"role": "user", "content": [
			{"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": "no such file"},
			{"type": "tool_result", "tool_use_id": "b", "content": [
				{"type": "text", "text": "see"},
				{"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}, "title": "y"}
			]},
			{"type": "document", "source": {"type": "file", "file_id": "file_1"}, "cache_control": {"type": "ephemeral"}}
		]}
	]}`, bodyOf(t, r))
}

func TestThinkingModes(t *testing.T) {
	for mode, want := range map[model.ThinkingMode]string{
		model.ThinkingDefault:  `{"model":"m","stream":true,"messages":[]}`,
		model.ThinkingAdaptive: `{"model":"m","stream":true,"thinking":{"type":"adaptive"},"messages":[]}`,
		model.ThinkingDisabled: `{"model":"m","stream":true,"thinking":{"type":"disabled"},"messages":[]}`,
		model.ThinkingEnabled:  `{"model":"m","stream":true,"thinking":{"type":"enabled","budget_tokens":7},"messages":[]}`,
	} {
		got := bodyOf(t, &model.Request{Model: "m", Thinking: model.Thinking{Mode: mode, Budget: 7}})
		if string(got) != want {
			t.Errorf("%q: %s", mode, got)
		}
	}
}

// TestMarks holds where cache marks go: at most four, on the last block that
// can bear one of the last two user turns, never on thinking or empty text.
func TestMarks(t *testing.T) {
	const mark = `,"cache_control":{"type":"ephemeral"}`
	for _, tc := range []struct {
		name string
		r    *model.Request
		want string
	}{
		{"tools without system", &model.Request{Tools: []model.Tool{{Name: "A"}, {Name: "B"}}},
			`,"tools":[{"name":"A","input_schema":{"type":"object"}},{"name":"B","input_schema":{"type":"object"}` + mark + `}],"messages":[]}`},
		{"one system part, one mark", &model.Request{System: []string{"s"}},
			`,"system":[{"type":"text","text":"s"` + mark + `}],"messages":[]}`},
		{"three user turns", &model.Request{Messages: []*message.Message{
			user("1", text("a")), assistant("2", text("b")), user("3", text("c")), assistant("4", text("d")), user("5", text("e")), user("6", text("")),
		}}, `,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"text","text":"b"}]},` +
			`{"role":"user","content":[{"type":"text","text":"c"` + mark + `}]},{"role":"assistant","content":[{"type":"text","text":"d"}]},` +
			`{"role":"user","content":[{"type":"text","text":"e"` + mark + `}]}]}`},
		{"raw at the end", &model.Request{Messages: []*message.Message{user("1", text("a"), message.Block{Type: "later", Raw: jsontext.Value(`{"type":"later"}`)})}},
			`,"messages":[{"role":"user","content":[{"type":"text","text":"a"` + mark + `},{"type":"later"}]}]}`},
		{"nothing that can be marked", &model.Request{Messages: []*message.Message{user("1", message.Block{Type: "later", Raw: jsontext.Value(`{"type":"later"}`)})}},
			`,"messages":[{"role":"user","content":[{"type":"later"}]}]}`},
	} {
		got := string(bodyOf(t, tc.r))
		if want := `{"model":"","stream":true` + tc.want; got != want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, want)
		}
		if n := bytes.Count([]byte(got), []byte("cache_control")); n > 4 {
			t.Errorf("%s: %d marks", tc.name, n)
		}
	}
}

// TestEncodedOnce: a message has one encoding for its life, in every request
// and every client, and requests share its bytes.
func TestEncodedOnce(t *testing.T) {
	m, m2 := user("1", text("hello")), assistant("2", text("ho"))
	one, err := mustNew(t, Config{}).encodeRequest(&model.Request{Messages: []*message.Message{m, m2, user("3", text("x")), assistant("4", text("x")), user("5", text("x"))}})
	if err != nil {
		t.Fatal(err)
	}
	two, err := mustNew(t, Config{}).encodeRequest(&model.Request{Messages: []*message.Message{m2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range []*message.Message{m, m2} {
		enc := encodingOf(msg)
		if again := encodingOf(msg); again != enc {
			t.Error("a message was encoded twice")
		}
		if !holds(one, enc.blocks) {
			t.Errorf("the first request copied %s", enc.blocks)
		}
	}
	if !holds(two, encodingOf(m2).blocks) {
		t.Error("the second request copied the message")
	}
	c := mustNew(t, Config{})
	a, _ := c.prefixes.get([]string{"s"}, []model.Tool{{Name: "A"}})
	b, _ := c.prefixes.get([]string{"s"}, []model.Tool{{Name: "A"}})
	if &a[0] != &b[0] {
		t.Error("system and tools were encoded twice")
	}
	other, _ := c.prefixes.get([]string{"s"}, []model.Tool{{Name: "A", Description: "d"}})
	if bytes.Equal(a, other) {
		t.Error("a changed tool got the old encoding")
	}
}

func holds(b body, piece []byte) bool {
	for _, p := range b {
		if len(p) > 0 && &p[0] == &piece[0] {
			return true
		}
	}
	return false
}

func TestBodyCanBeReadAgain(t *testing.T) {
	b := body{[]byte("ab"), []byte("c"), nil, []byte("def")}
	first := b.reader()
	_, _ = io.CopyN(io.Discard, first, 3)
	again, err := b.again()
	if err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(first)
	whole, _ := io.ReadAll(again)
	if string(rest) != "def" || string(whole) != "abcdef" {
		t.Errorf("rest %q, whole %q", rest, whole)
	}
}

func TestBrokenCharactersAreReplaced(t *testing.T) {
	got := bodyOf(t, &model.Request{Messages: []*message.Message{assistant("1",
		message.Block{Type: message.ToolUse, ID: "a", Name: "N", Input: jsontext.Value("{\"half\":\"\\ud83d\",\"byte\":\"\xff\",\"byte\":1}")},
	)}})
	if !jsontext.Value(got).IsValid(jsontext.AllowDuplicateNames(true)) {
		t.Errorf("not valid: %s", got)
	}
}

func TestUnsendable(t *testing.T) {
	for name, r := range map[string]*model.Request{
		"cut input":     {Messages: []*message.Message{assistant("x1", message.Block{Type: message.ToolUse, ID: "a", Input: jsontext.Value(`{"a":`)})}},
		"unknown block": {Messages: []*message.Message{user("x1", message.Block{Type: "hologram"})}},
		"empty medium":  {Messages: []*message.Message{user("x1", message.Block{Type: message.Image})}},
		"role":          {Messages: []*message.Message{{ID: "x1", Role: "system", Blocks: blocks{text("x")}}}},
		"schema":        {Tools: []model.Tool{{Name: "x1", Schema: jsontext.Value(`{`)}}},
	} {
		events, err := collect(t.Context(), mustNew(t, Config{}), r)
		if e := failure.As(err); len(events) > 0 || e == nil || e.Kind != failure.InvalidRequest || e.Rule != RuleUnsendable || !bytes.Contains([]byte(e.Message), []byte(`"x1"`)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
