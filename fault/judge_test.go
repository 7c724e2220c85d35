package fault

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

const testModel = "claude-test-1"

func thinkingBlock(model, s string) obj {
	return obj{"type": "thinking", "thinking": s, "signature": sign(model, s)}
}

func image(mediaType string, data []byte) obj {
	return obj{"type": "image", "source": obj{"type": "base64", "media_type": mediaType, "data": base64.StdEncoding.EncodeToString(data)}}
}

var png = []byte("\x89PNG\r\n\x1a\n and the rest")

// validConversation uses everything that a client may send.
func validConversation() obj {
	mark := obj{"type": "ephemeral"}
	body := ask(
		user([]any{text("look"), image("image/png", png)}),
		assistant([]any{thinkingBlock(testModel, "hm"), text("two calls"), call("toolu_1", "Bash", obj{"command": "a"})}),
		assistant([]any{call("toolu_2", "Bash", obj{})}), // merged with the message before
		user([]any{result("toolu_1", "ok")}),
		user([]any{ // merged too, so the results still stand together
			obj{"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": []any{text("bad"), image("image/png", png)}},
			with(text("and now?"), "cache_control", mark),
		}),
		obj{"role": "system", "content": "from here on in French"},
		assistant("thinking aloud"),
		user("go on then"),
		obj{"role": "system", "content": []any{text("and in short")}},
	)
	body["system"] = []any{with(text("be brief"), "cache_control", mark)}
	body["tool_choice"] = obj{"type": "auto", "disable_parallel_tool_use": true}
	body["thinking"] = obj{"type": "enabled", "budget_tokens": 500}
	body["metadata"] = obj{"user_id": "u"}
	body["temperature"] = 1
	return body
}

func TestValidConversationIsAccepted(t *testing.T) {
	srv, c := serve(t, "")
	if g := c.ask(validConversation()); g.status != 200 || g.text != "Done." {
		t.Errorf("got %d %s", g.status, g.raw)
	}
	if v := srv.Report().Violations; len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}

type violationCase struct {
	rule string
	body any
	want string // part of the message
}

func pairCases() []violationCase {
	u, a := user, assistant
	c1 := call("t1", "Bash", obj{"command": "ls"})
	lots := []any{}
	for range 5 {
		lots = append(lots, with(text("x"), "cache_control", obj{"type": "ephemeral"}))
	}
	return []violationCase{
		{"first-user", ask(a("hi"), u("ho")), `messages: first message must use the "user" role`},
		{"unanswered-call", ask(u("x"), a([]any{c1}), u("y")), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each"},
		{"unanswered-call", ask(u("x"), a("ack"), a([]any{c1}), u("y")), "messages.2: `tool_use` ids were found"},
		{"result-first", ask(u("x"), a([]any{c1}), u([]any{text("wait"), result("t1", "ok")})), "messages.1: `tool_use` ids were found without"},
		{"orphan-result", ask(u([]any{result("t9", "ok")})), "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t9. Each"},
		{"orphan-result", ask(u("x"), a([]any{c1}), u([]any{result("t1", "ok")}), a("so"), u([]any{result("t1", "again")})), "messages.4.content.0: unexpected"},
		{"duplicate-call", ask(u("x"), a([]any{c1}), u([]any{result("t1", "ok")}), a([]any{c1}), u([]any{result("t1", "ok")})), "messages.3.content.0: `tool_use` ids must be unique"},
		{"duplicate-result", ask(u("x"), a([]any{c1}), u([]any{result("t1", "ok"), result("t1", "ok")})), "each tool_use must have a single result"},
		{"empty-text", ask(u([]any{text("")})), "messages: text content blocks must be non-empty"},
		{"blank-text", ask(u([]any{text(" \n ")})), "must contain non-whitespace text"},
		{"empty-text", ask(u("x"), a([]any{c1}), u([]any{obj{"type": "tool_result", "tool_use_id": "t1", "content": []any{text("")}}})), "must be non-empty"},
		{"empty-content", ask(u([]any{})), "messages.0: all messages must have non-empty content"},
		{"empty-content", ask(u("")), "messages.0: all messages must have non-empty content"},
		{"prefill", ask(u("x"), a("so far")), "This model does not support assistant message prefill. The conversation must end with a user message."},
		{"call-input", ask(u("x"), a([]any{with(c1, "input", "ls")}), u([]any{result("t1", "ok")})), "messages.1.content.0.tool_use.input: Input should be a valid dictionary"},
		{"call-id", ask(u("x"), a([]any{call("t 1", "Bash", obj{})}), u([]any{result("t 1", "ok")})), "tool_use.id: String should match pattern"},
		{"is-error", ask(u("x"), a([]any{c1}), u([]any{with(result("t1", "ok"), "is_error", "yes")})), "is_error: Input should be a valid boolean"},
		{"block-place", ask(u([]any{c1}), u([]any{result("t1", "x")})), "`tool_use` blocks can only be in `assistant` messages"},
		{"block-type", ask(u([]any{obj{"type": "txt"}})), "messages.0.content.0: Input tag 'txt'"},
		{"role", ask(obj{"role": "system", "content": "x"}, u("y")), "Unexpected role \"system\""},
		{"role", ask(u("x"), a("y"), obj{"role": "system", "content": "z"}, u("x")), "messages.2: a system message must follow a user message"},
		{"role", ask(u("x"), obj{"role": "system", "content": "z"}, u("y")), "messages.1: a system message must be the last message"},
		{"role", ask(u("x"), obj{"role": "system", "content": "z"}, obj{"role": "system", "content": "z"}), "messages.1: a system message must be the last message"},
		{"block-place", ask(u("x"), obj{"role": "system", "content": []any{c1}}), "`tool_use` blocks cannot be in `system` messages"},
		{"unknown-field", ask(u([]any{with(text("x"), "index", 0)})), "messages.0.content.0.text.index: Extra inputs are not permitted"},
		{"unknown-field", ask(with(u("x"), "id", "m1")), "messages.0.id: Extra inputs are not permitted"},
		{"cache-control", ask(u(lots)), "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{"cache-control", ask(u([]any{text("x"), with(text(""), "cache_control", obj{"type": "ephemeral"})})), "messages.0.content.1.text: cache_control cannot be set for empty text blocks"},
		{"cache-control", ask(u("x"), a([]any{with(thinkingBlock(testModel, "h"), "cache_control", obj{"type": "ephemeral"}), text("y")}), u("z")), "thinking.cache_control: Extra inputs are not permitted"},
		{"thinking-signature", ask(u("x"), a([]any{obj{"type": "thinking", "thinking": "h"}, text("y")}), u("z")), "messages.1.content.0.thinking.signature: Field required"},
		{"thinking-signature", ask(u("x"), a([]any{obj{"type": "thinking", "thinking": "h", "signature": "AAAA"}, text("y")}), u("z")), "messages.1.content.0: Invalid `signature` in `thinking` block"},
		{"foreign-signature", ask(u("x"), a([]any{thinkingBlock("claude-other", "h"), text("y")}), u("z")), "Invalid `signature` in `thinking` block"},
		{"thinking-changed", ask(u("x"), a([]any{with(thinkingBlock(testModel, "h"), "thinking", "hh"), text("y")}), u("z")), "blocks in the latest assistant message cannot be modified"},
		{"thinking-last", ask(u("x"), a([]any{text("y"), thinkingBlock(testModel, "h")}), u("z")), "The final block in an assistant message cannot be `thinking`."},
		{"server-call", ask(u("x"), a([]any{obj{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": obj{}}}), u("y")), "was found without a corresponding `web_search_tool_result` block"},
		{"server-call", ask(u("x"), a([]any{obj{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []any{}}}), u("y")), "unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1"},
	}
}

func fieldCases() []violationCase {
	ok := ask(user("x"))
	without := func(key string) obj {
		m := maps.Clone(ok)
		delete(m, key)
		return m
	}
	schema := func(s obj) obj { return with(ok, "tools", []any{obj{"name": "t", "input_schema": s}}) }
	pages := strings.Repeat("<< /Type /Page >>\n", 101)
	doc := obj{"type": "document", "source": obj{"type": "base64", "media_type": "application/pdf", "data": base64.StdEncoding.EncodeToString([]byte(pages))}}
	many := []any{}
	for range 101 {
		many = append(many, image("image/png", png))
	}
	return []violationCase{
		{"json", []byte(`{"model":`), "The request body is not valid JSON"},
		{"json", []byte(`[]`), "not valid JSON: expected an object"},
		{"json", []byte(`{"model":"\ud83d"}`), "not valid JSON"},
		{"field", without("model"), "model: Field required"},
		{"field", without("messages"), "messages: Field required"},
		{"field", without("max_tokens"), "max_tokens: Field required"},
		{"field", with(ok, "messages", []any{}), "messages: at least one message is required"},
		{"field", with(ok, "temperature", "hot"), "temperature: Input should be a valid number"},
		{"max-tokens", with(ok, "max_tokens", 0), "max_tokens: Input should be greater than or equal to 1"},
		{"max-tokens", with(ok, "thinking", obj{"type": "enabled", "budget_tokens": 1000}), "`max_tokens` must be greater than `thinking.budget_tokens`."},
		{"output-cap", with(ok, "max_tokens", 64001), "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for claude-test-1"},
		{"stream-flag", with(ok, "stream", "yes"), "stream: Input should be a valid boolean"},
		{"unknown-field", with(ok, "maxTokens", 5), "maxTokens: Extra inputs are not permitted"},
		{"tool-name", with(ok, "tools", []any{shellTool(), shellTool()}), "tools: Tool names must be unique."},
		{"tool-name", with(ok, "tools", []any{with(shellTool(), "name", "my tool")}), "tools.0.custom.name: String should match pattern"},
		{"tool-schema", schema(obj{"type": "string"}), "input_schema.type: Input should be 'object'"},
		{"tool-schema", schema(obj{"type": "object", "properties": obj{"a": obj{"type": "object", "required": "a"}}}), "JSON schema is invalid"},
		{"tool-schema", schema(obj{"type": "object", "properties": obj{"required": []any{"a"}}}), "JSON schema is invalid"},
		{"tool-choice", with(ok, "tool_choice", obj{"type": "maybe"}), "tool_choice: Input tag 'maybe'"},
		{"tool-choice", with(ok, "tool_choice", obj{"type": "tool", "name": "Nope"}), "Tool 'Nope' not found in provided tools"},
		{"tool-choice", with(without("tools"), "tool_choice", obj{"type": "auto"}), "tool_choice may only be specified while providing tools"},
		{"media-count", ask(user(many)), "Too much media: 0 document pages + 101 images > 100"},
		{"media-size", ask(user([]any{image("image/png", append(png, make([]byte, 4<<20)...))})), "image exceeds 5 MB maximum: "},
		{"media-empty", ask(user([]any{image("image/png", nil)})), "messages.0.content.0.image.source.base64: image cannot be empty"},
		{"media-type", ask(user([]any{image("image/svg", png)})), "media_type: Input should be 'image/jpeg'"},
		{"media-type", ask(user([]any{image("image/jpeg", png)})), "but the image appears to be a image/png image"},
		{"media-data", ask(user([]any{image("image/png", []byte("nothing"))})), "Could not process image"},
		{"media-data", ask(user([]any{obj{"type": "image", "source": obj{"type": "base64", "media_type": "image/png", "data": "data:image"}}})), "invalid base64 data"},
		{"media-pages", ask(user([]any{doc})), "messages.0.content.0.pdf.source.base64.data: A maximum of 100 PDF pages may be provided."},
		{"model-unknown", with(ok, "model", "gpt"), "model: gpt"},
	}
}

func TestViolations(t *testing.T) {
	script := "models \"claude-*\"\noutput 64000\n"
	srv, c := serve(t, script)
	lenient, lc := serve(t, script+"judge record\n")
	seen := map[string]bool{"version-header": true, "auth-header": true, "thinking-missing": true} // below
	for i, tt := range append(pairCases(), fieldCases()...) {
		seen[tt.rule] = true
		g := c.ask(tt.body)
		want := 400
		if tt.rule == "model-unknown" {
			want = 404
		}
		if g.status != want || !strings.Contains(refusal(g), tt.want) {
			t.Errorf("%s: got %d %q, want %q", tt.rule, g.status, refusal(g), tt.want)
		}
		if v := srv.Report().Requests[i].Violations; len(v) == 0 || !slices.ContainsFunc(v, func(v Violation) bool { return v.Rule == tt.rule }) {
			t.Errorf("%s: recorded %v", tt.rule, v)
		}
		if g := lc.ask(tt.body); g.status != 200 {
			t.Errorf("%s: refused although only recorded: %d", tt.rule, g.status)
		}
	}
	if len(lenient.Report().Violations) < len(pairCases()) {
		t.Errorf("recorded only %d violations", len(lenient.Report().Violations))
	}
	for _, rule := range ruleNames {
		if !seen[rule] {
			t.Errorf("no case breaks the rule %s", rule)
		}
	}
}

// refusal takes the words out of an error body.
func refusal(g *got) string {
	var m obj
	if json.Unmarshal([]byte(g.raw), &m) != nil {
		return g.raw
	}
	return str(object(m["error"]), "message")
}

func TestHeadersAreJudged(t *testing.T) {
	_, c := serve(t, "")
	raw, err := json.Marshal(ask(user("x")))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		header http.Header
		status int
	}{
		{http.Header{"X-Api-Key": nil}, 401},
		{http.Header{"X-Api-Key": nil, "Authorization": {"Bearer t"}}, 200},
		{http.Header{"Anthropic-Version": nil}, 400},
	} {
		if g := c.post(context.Background(), "/v1/messages", raw, tt.header); g.status != tt.status {
			t.Errorf("%v: got %d %s", tt.header, g.status, g.raw)
		}
	}
}

// Thinking of the latest answer is compared with what was really said, found by its calls.
func TestThinkingOfTheLatestAnswer(t *testing.T) {
	_, c := serve(t, `
model
  rule work
    when first
    think "one"
    call shell command="a"
    think "two"
    call shell command="b"
`)
	g := c.ask(ask(user("x")))
	if len(g.content) != 4 {
		t.Fatalf("got %s", g.raw)
	}
	var results []any
	for _, b := range g.content {
		if id := str(object(b), "id"); id != "" {
			results = append(results, result(id, "ok"))
		}
	}
	echo := func(blocks ...int) obj {
		var content []any
		for _, i := range blocks {
			content = append(content, g.content[i])
		}
		return with(ask(user("x"), assistant(content), user(results)), "thinking", obj{"type": "enabled", "budget_tokens": 100})
	}
	for _, tt := range []struct {
		body obj
		want string
	}{
		{echo(0, 1, 2, 3), ""},
		{echo(2, 1, 0, 3), "cannot be modified"},
		{echo(1, 2, 3), "cannot be modified"},
		{echo(1, 3), "When `thinking` is enabled, a final `assistant` message must start with a thinking block"},
		{with(echo(1, 3), "thinking", obj{"type": "adaptive"}), ""},
	} {
		g := c.ask(tt.body)
		if (tt.want == "") != (g.status == 200) || !strings.Contains(refusal(g), tt.want) {
			t.Errorf("want %q, got %d %s", tt.want, g.status, refusal(g))
		}
	}
}

func TestPrefillAndPause(t *testing.T) {
	_, c := serve(t, "prefill allow\n")
	if g := c.ask(ask(user("x"), assistant("so far"))); g.status != 200 {
		t.Errorf("allowed prefill: %d %s", g.status, g.raw)
	}
	if g := c.ask(ask(user("x"), assistant("so far\n"))); !strings.Contains(refusal(g), "trailing whitespace") {
		t.Errorf("trailing whitespace: %d %s", g.status, g.raw)
	}
	_, c = serve(t, "step pause\n  reply\n    say \"searching\"\n    stop pause_turn\n")
	if g := c.ask(ask(user("x"))); g.stop != "pause_turn" {
		t.Fatalf("got %s", g.raw)
	}
	if g := c.ask(ask(user("x"), assistant([]any{text("searching")}))); g.status != 200 {
		t.Errorf("resuming a pause: %d %s", g.status, g.raw)
	}
}

func FuzzJudge(f *testing.F) {
	for _, tt := range append(pairCases(), fieldCases()...) {
		if raw, err := json.Marshal(tt.body); err == nil && len(raw) < 1<<14 {
			f.Add(raw)
		}
	}
	script, err := Parse("fuzz", "window 100 sum\njudge record\nmodel\n  rule a\n    when seen \"(?P<x>x)\", called shell \"x\"\n    summary\n")
	if err != nil {
		f.Fatal(err)
	}
	m := newMemory()
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.NewRequest("POST", "http://fault.test/v1/messages", nil)
		if err != nil {
			t.Fatal(err)
		}
		q := readRequest(r, raw)
		script.judged(q, m)
		sc := (&scene{req: q}).with(nil, "")
		if q.badJSON == nil {
			script.think(sc, m, func(string) {})
			q.summary()
		}
	})
}
