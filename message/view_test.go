package message

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/daruma-agent/daruma/failure"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func call(id string) Block {
	return Block{Type: ToolUse, ID: id, Name: "Read", Input: jsontext.Value(`{"file_path":"a"}`), Model: "m"}
}

func text(s string) Block    { return Block{Type: Text, Text: s} }
func result(id string) Block { return TextResult(id, "out of "+id, false) }
func think(model, sig string) Block {
	return Block{Type: Thinking, Text: "hm", Signature: sig, Model: model}
}

func history(blocks ...any) []*Message {
	var out []*Message
	for i := 0; i < len(blocks); i += 2 {
		m := &Message{ID: fmt.Sprintf("m%d", i/2), Role: blocks[i].(Role), Blocks: blocks[i+1].([]Block)}
		out = append(out, m)
	}
	return out
}

type bs = []Block

var cases = []struct {
	name    string
	history []*Message
	broken  Rule // the first rule that Check names
	want    []*Message
}{
	{
		name:    "sound",
		history: history(User, bs{text("hi")}, Assistant, bs{call("a"), call("b")}, User, bs{result("a"), result("b"), text("go")}),
	},
	{
		name:    "results in two user messages are one turn",
		history: history(User, bs{text("hi")}, Assistant, bs{call("a"), call("b")}, User, bs{result("a")}, User, bs{result("b")}),
	},
	{
		name:    "call without result",
		history: history(User, bs{text("hi")}, Assistant, bs{call("a"), call("b")}, User, bs{result("b"), text("and?")}),
		broken:  RuleUnanswered,
		want:    history(User, bs{text("hi")}, Assistant, bs{call("a"), call("b")}, User, bs{TextResult("a", MissingResult, true), result("b"), text("and?")}),
	},
	{
		name:    "result that came late",
		history: history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{text("wait")}, Assistant, bs{text("ok")}, User, bs{result("a"), text("there")}),
		broken:  RuleUnanswered,
		want:    history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{result("a"), text("wait")}, Assistant, bs{text("ok")}, User, bs{text("there")}),
	},
	{
		name:    "orphan result at the start",
		history: history(User, bs{result("x"), text("hi")}, Assistant, bs{text("ok")}, User, bs{text("go")}),
		broken:  RuleOrphan,
		want:    history(User, bs{text("hi")}, Assistant, bs{text("ok")}, User, bs{text("go")}),
	},
	{
		name:    "second result",
		history: history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{result("a"), result("a")}),
		broken:  RuleDoubleResult,
		want:    history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{result("a")}),
	},
	{
		name:    "result after text",
		history: history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{text("first"), result("a")}),
		broken:  RuleResultOrder,
		want:    history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{result("a"), text("first")}),
	},
	{
		name: "an id used twice",
		history: history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{result("a")},
			Assistant, bs{call("a")}, User, bs{TextResult("a", "second", false)}),
		broken: RuleUniqueID,
		want: history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{result("a")},
			Assistant, bs{call("a_2")}, User, bs{TextResult("a_2", "second", false)}),
	},
	{
		name:    "thinking of another model, unsigned thinking, thinking alone",
		history: history(User, bs{text("hi")}, Assistant, bs{think("other", "s"), think("m", ""), text("ok")}, User, bs{text("go")}, Assistant, bs{think("m", "s")}, User, bs{text("and")}),
		broken:  RuleSignature,
		want:    history(User, bs{text("hi")}, Assistant, bs{text("ok")}, User, bs{text("go"), text("and")}),
	},
	{
		name:    "thinking and its call in two records",
		history: history(User, bs{text("hi")}, Assistant, bs{think("m", "s")}, Assistant, bs{call("a")}, User, bs{result("a")}),
		broken:  RuleThinkingLast,
		want:    history(User, bs{text("hi")}, Assistant, bs{think("m", "s"), call("a")}, User, bs{result("a")}),
	},
	{
		name:    "empty text",
		history: history(User, bs{text("hi")}, Assistant, bs{text(" \n"), call("a")}, User, bs{TextResult("a", "", false)}),
		broken:  RuleText,
		want:    history(User, bs{text("hi")}, Assistant, bs{call("a")}, User, bs{TextResult("a", emptyResult, false)}),
	},
	{
		name:    "input that is no object",
		history: history(User, bs{text("hi")}, Assistant, bs{{Type: ToolUse, ID: "a", Name: "Read", Input: jsontext.Value(`{"fi`)[:0]}}, User, bs{result("a")}),
		broken:  RuleInput,
		want:    history(User, bs{text("hi")}, Assistant, bs{{Type: ToolUse, ID: "a", Name: "Read", Input: jsontext.Value(`{}`)}}, User, bs{result("a")}),
	},
	{
		name:    "input that was cut",
		history: history(User, bs{text("hi")}, Assistant, bs{{Type: ToolUse, ID: "a", Name: "Read", Input: jsontext.Value(`{"file_path":"b`)}}, User, bs{result("a")}),
		broken:  RuleInput,
		want:    history(User, bs{text("hi")}, Assistant, bs{{Type: ToolUse, ID: "a", Name: "Read", Input: jsontext.Value(`{"INVALID_JSON":"{\"file_path\":\"b"}`)}}, User, bs{result("a")}),
	},
	{
		name:    "begins and ends with the assistant",
		history: history(Assistant, bs{text("ok")}),
		broken:  RuleFirst,
		want:    history(User, bs{text(missingStart)}, Assistant, bs{text("ok")}, User, bs{text(Resume)}),
	},
	{
		name:    "nothing at all",
		history: nil,
		broken:  RuleEmpty,
		want:    history(User, bs{text(missingStart)}),
	},
	{
		name:    "too many images",
		history: history(User, bs{{Type: Image, Media: &Media{Data: "AAAA"}}, {Type: Image, Media: &Media{Data: "BBBB"}}, {Type: Image, Media: &Media{Data: "CCCC"}}}),
		broken:  RuleMediaCount,
		want: history(User, bs{text("[image removed: a request can carry no more, and this was among the oldest]"),
			{Type: Image, Media: &Media{Data: "BBBB"}}, {Type: Image, Media: &Media{Data: "CCCC"}}}),
	},
}

var testRules = Rules{Model: "m", Media: MediaLimits{Count: 2, Bytes: 100}}

func TestView(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			problems := Check(tc.history, testRules)
			if tc.broken == "" {
				tc.want = tc.history
				if len(problems) > 0 {
					t.Fatalf("Check: %v", problems)
				}
			} else if len(problems) == 0 || problems[0].Rule != tc.broken {
				t.Fatalf("Check = %v, want %s first", problems, tc.broken)
			}
			before := clone(tc.history)
			got, fixes := View(tc.history, testRules)
			if (tc.broken != "") != (len(fixes) > 0) {
				t.Errorf("fixes = %v", fixes)
			}
			if diff := cmp.Diff(tc.want, got, blocksOnly...); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.history, blocksOnly...); diff != "" {
				t.Errorf("the history itself was changed:\n%s", diff)
			}
			mustHold(t, tc.history, testRules)
		})
	}
}

var blocksOnly = []cmp.Option{
	cmpopts.IgnoreUnexported(Message{}),
	cmpopts.IgnoreFields(Message{}, "ID", "Synthetic"),
	cmpopts.EquateEmpty(),
}

func TestViewHidesFailures(t *testing.T) {
	h := history(User, bs{text("hi")})
	h = append(h, NewFailure("f", "it failed", &failure.Error{Kind: failure.Overloaded}))
	h = append(h, NewText("u2", "again"))
	got, fixes := View(h, testRules)
	if len(got) != 2 || got[0] != h[0] || got[1] != h[2] || len(fixes) != 0 {
		t.Errorf("View = %v, %v: want the two user messages untouched", got, fixes)
	}
}

// mustHold asserts the laws of View on one history.
func mustHold(t *testing.T, h []*Message, rules Rules) {
	t.Helper()
	once, _ := View(h, rules)
	if problems := Check(once, rules); len(problems) > 0 {
		t.Fatalf("the view breaks rules: %v", problems)
	}
	twice, fixes := View(once, rules)
	if len(fixes) > 0 || !cmp.Equal(once, twice, cmpopts.IgnoreUnexported(Message{}), cmpopts.EquateEmpty()) {
		t.Fatalf("View is not idempotent: %v", fixes)
	}
	if calls(h) != calls(once) {
		t.Fatalf("calls: %d before, %d after", calls(h), calls(once))
	}
}

func calls(h []*Message) int {
	n := 0
	for _, m := range h {
		if m.Role == Assistant && m.Failure == nil {
			n += len(m.Calls())
		}
	}
	return n
}

func clone(h []*Message) []*Message {
	var out []*Message
	for _, m := range h {
		c := &Message{ID: m.ID, Role: m.Role, Blocks: append([]Block(nil), m.Blocks...), Failure: m.Failure}
		for i := range c.Blocks {
			c.Blocks[i].Content = append([]Block(nil), c.Blocks[i].Content...)
		}
		out = append(out, c)
	}
	return out
}

// FuzzView builds histories from bytes: two for each block, what it is and in
// whose message it stands.
func FuzzView(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 2, 0, 3, 1, 4, 0, 5, 1})
	f.Add([]byte{0x21, 0x35, 0x46, 0x12, 0x99, 0xf0, 0x22, 0x31})
	f.Fuzz(func(t *testing.T, data []byte) {
		mustHold(t, fromBytes(data), testRules)
	})
}

func fromBytes(data []byte) []*Message {
	kinds := []func(id string) Block{
		func(string) Block { return text("words") },
		func(string) Block { return text(" ") },
		call,
		func(id string) Block { b := call(id + " "); b.Input = jsontext.Value(`[1]`); return b },
		result,
		func(id string) Block { return TextResult(id, "", true) },
		func(string) Block { return think("m", "s") },
		func(string) Block { return think("other", "s") },
		func(string) Block { return think("m", "") },
		func(string) Block { return Block{Type: Image, Media: &Media{Data: "AAAA"}} },
		func(string) Block { return Block{Type: Image} },
		func(id string) Block {
			b := result(id)
			b.Content = append(b.Content, Block{Type: Image, Media: &Media{Data: "AAAA", Width: 9000}})
			return b
		},
		func(string) Block {
			return Block{Type: "server_tool_use", Raw: jsontext.Value(`{"type":"server_tool_use"}`)}
		},
	}
	var out []*Message
	for len(data) >= 2 {
		v := binary.LittleEndian.Uint16(data)
		data = data[2:]
		role := User
		if v&1 == 1 {
			role = Assistant
		}
		b := kinds[int(v>>3&31)%len(kinds)](fmt.Sprintf("id%d", v>>8&3))
		if n := len(out); v&2 != 0 && n > 0 && out[n-1].Role == role {
			out[n-1].Blocks = append(out[n-1].Blocks, b)
			continue
		}
		m := &Message{ID: fmt.Sprintf("m%d", len(out)), Role: role, Blocks: []Block{b}}
		if v>>12 == 0xf {
			m.Blocks = nil
		}
		out = append(out, m)
	}
	return out
}
