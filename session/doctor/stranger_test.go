package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
)

// strange are files as strangers break them. Each is found, healed, and keeps
// all words that are not part of what was broken.
var strange = []struct {
	name    string
	rule    Rule
	formats []Format
	lost    int // texts that nobody can bring back
	breakIt func(b *broken)
}{
	{"only the last bracket is missing", TornLine, all, 0, func(b *broken) {
		b.lines[b.spots.final] = strings.TrimSuffix(b.lines[b.spots.final], "}")
	}},
	{"a record spread over lines", TornLine, all, 0, func(b *broken) {
		b.lines[b.spots.final] = strings.ReplaceAll(b.lines[b.spots.final], `,"`, ",\n  \"")
	}},
	{"pieces of a torn record are no records", FusedLine, []Format{Claude, Pi}, 2, func(b *broken) {
		line := b.lines[b.spots.call]
		b.lines[b.spots.call] = line[:len(line)-9] + b.lines[b.spots.result]
		b.lines = slices.Delete(b.lines, b.spots.result, b.spots.result+1)
	}},
	{"a name of a tool that the API refuses", BadToolName, all, 0, func(b *broken) {
		b.set(b.spots.call, paths[b.format].call+"/name", `"files.read it"`)
	}},
	{"a call without a name", BadToolName, all, 0, func(b *broken) { b.set(b.spots.call, paths[b.format].call+"/name", `""`) }},
	{"a model that is a number", WrongShape, []Format{Claude, Pi}, 0, func(b *broken) { b.set(b.spots.prompt, "/message/model", `7`) }},
	{"a flag that is a text", WrongShape, []Format{Claude, Pi}, 0, func(b *broken) {
		b.set(b.spots.result, paths[b.format].result+map[Format]string{Claude: "/is_error", Pi: "/isError"}[b.format], `"false"`)
	}},
	{"a time that is a number", WrongShape, []Format{Codex, Pi}, 0, func(b *broken) { b.set(b.spots.final, "/timestamp", `1796033997`) }},
	{"a number of a run that is a text", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.final, "/run", `"1"`) }},
	{"a text without its block", WrongShape, []Format{Claude, Pi}, 0, func(b *broken) {
		b.set(b.spots.final, paths[b.format].content+"/0", b.get(b.spots.final, paths[b.format].content+"/0/text"))
	}},
	{"a block without its list", WrongShape, []Format{Claude}, 0, func(b *broken) {
		b.set(b.spots.final, "/message/content", b.get(b.spots.final, "/message/content/0"))
	}},
	{"a message without id", WrongShape, []Format{Pi}, 0, func(b *broken) { b.splice(b.spots.final, cut, "/id", "") }},
	{"a message of an unknown type", WrongShape, []Format{Claude, Pi}, 0, func(b *broken) { b.set(b.spots.final, "/type", `"tool"`) }},
	{"a first prompt of no type", WrongShape, []Format{Claude, Pi}, 0, func(b *broken) { b.set(b.spots.prompt, "/type", `""`) }},
	{"an answer whose type and role are unknown", WrongShape, []Format{Claude, Pi}, 0, func(b *broken) {
		b.set(b.spots.final, "/type", `"x"`)
		b.set(b.spots.final, "/message/role", `"x"`)
	}},
	{"a result whose type and role are unknown", WrongShape, []Format{Claude, Pi}, 0, func(b *broken) {
		b.set(b.spots.result, "/type", `"system"`)
		b.set(b.spots.result, "/message/role", `"tool"`)
	}},
	{"a message without role", WrongRole, []Format{Pi}, 0, func(b *broken) { b.splice(b.spots.result, cut, "/message/role", "") }},
	{"a root that moved to the end", OutOfOrder, []Format{Claude, Pi}, 0, func(b *broken) {
		_, parent := b.parentPath()
		root := slices.IndexFunc(b.lines, func(l string) bool { return strings.Contains(l, `"`+parent[1:]+`":null`) })
		b.lines = append(slices.Delete(slices.Clone(b.lines), root, root+1), b.lines[root])
	}},
	{"all lines in reverse", OutOfOrder, []Format{Claude, Pi}, 0, func(b *broken) { slices.Reverse(b.lines) }},
	{"a link to the beginning that was lost", MissingParent, []Format{Claude, Pi}, 0, func(b *broken) {
		_, parent := b.parentPath()
		b.set(b.spots.think, parent, `null`)
	}},
	{"a record without its type", WrongShape, []Format{Codex}, 0, func(b *broken) { b.set(b.spots.prompt, "/type", `null`) }},
	{"a record whose type is another thing", WrongShape, []Format{Codex}, 0, func(b *broken) { b.set(b.spots.result, "/type", `{"a":1}`) }},
	{"words of the developer that are empty", EmptyText, []Format{Codex}, 0, func(b *broken) { b.set(2, "/payload/content/0/text", `" "`) }},
	{"words of the developer that are a list", WrongShape, []Format{Codex}, 0, func(b *broken) { b.set(2, "/payload/content/0/text", `["a"]`) }},
	{"an output that is null", WrongShape, []Format{Codex}, 1, func(b *broken) { b.set(b.spots.result, "/payload/output", `null`) }},
	{"an output that is a number", WrongShape, []Format{Codex}, 1, func(b *broken) { b.set(b.spots.result, "/payload/output", `7`) }},
	{"a prompt that is stored twice", DuplicateRecord, []Format{Codex}, 0, func(b *broken) {
		b.lines = slices.Insert(slices.Clone(b.lines), b.spots.final, b.lines[b.spots.prompt])
	}},
	{"a call id of more than 64 characters", BadCallID, []Format{Codex}, 0, func(b *broken) {
		b.set(b.spots.call, "/payload/call_id", string(quote(strings.Repeat("x", 65))))
		b.set(b.spots.result, "/payload/call_id", string(quote(strings.Repeat("x", 65))))
	}},
	{"a time that is none", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.final, "/time", `""`) }},
	{"a signature that is a number", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.think, paths[Daruma].think+"/signature", `7`) }},
	{"a number among the blocks", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.splice(b.spots.final, follow, "/body/message/blocks/0", `7`) }},
	{"an output without its list", WrongShape, []Format{Daruma}, 0, func(b *broken) {
		b.set(b.spots.result, "/body/block/content", b.get(b.spots.result, "/body/block/content/0/text"))
	}},
	{"usage that cannot be read", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.final, "/body/spent", `[1]`) }},
	{"an event without its type", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.final, "/type", `null`) }},
	{"an event of a result that does not name the call", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.result, "/body/call", `[]`) }},
	{"a result that does not name its call", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.splice(b.spots.result, cut, "/body/block/tool_use_id", "") }},
	{"the message of results is missing", Unanswered, []Format{Daruma}, 0, func(b *broken) {
		end := b.spots.results[1] + 1
		b.lines = slices.Delete(slices.Clone(b.lines), end, end+1)
	}},
	{"a result that lost its type", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.result, "/body/block/type", `7`) }},
	{"an event of results whose type is an object", WrongShape, []Format{Daruma}, 0, func(b *broken) { b.set(b.spots.result+1, "/type", `{}`) }},
	{"a text block without type", WrongShape, []Format{Claude, Pi, Daruma}, 0, func(b *broken) {
		b.splice(b.spots.final, cut, paths[b.format].content+"/0/type", "")
	}},
	{"a text block whose type is a number", WrongShape, []Format{Claude, Pi, Daruma}, 0, func(b *broken) {
		b.set(b.spots.final, paths[b.format].content+"/0/type", `7`)
	}},
	{"thinking without its words", Unsigned, []Format{Claude, Pi}, 0, func(b *broken) { b.splice(b.spots.think, cut, paths[b.format].think+"/thinking", "") }},
	{"thinking whose words are a list", Unsigned, []Format{Claude, Pi}, 0, func(b *broken) { b.set(b.spots.think, paths[b.format].think+"/thinking", `[1]`) }},
	{"events in another order", OutOfOrder, []Format{Daruma}, 0, func(b *broken) { slices.Reverse(b.lines) }},
	{"two events that changed places", OutOfOrder, []Format{Daruma}, 0, func(b *broken) {
		b.lines[b.spots.result], b.lines[b.spots.result+1] = b.lines[b.spots.result+1], b.lines[b.spots.result]
	}},
	{"a result that hangs on the last record", MissingParent, []Format{Claude}, 0, func(b *broken) {
		id, parent := b.parentPath()
		last := len(b.lines) - 1
		for !strings.Contains(b.lines[last], `"`+parent[1:]+`"`) {
			last--
		}
		b.set(b.spots.results[1], parent, b.get(last, id))
	}},
	{"a message that is a text", WrongShape, []Format{Pi}, 1, func(b *broken) { b.set(b.spots.final, "/message", `"x"`) }},
	{"a result of parallel calls with a strange id", Orphan, []Format{Claude}, 0, func(b *broken) {
		b.set(b.spots.results[1], "/message/content/0/tool_use_id", `"toolu_foreign"`)
	}},
	{"a result with the id of its neighbour", Orphan, []Format{Claude}, 0, func(b *broken) {
		b.set(b.spots.results[1], "/message/content/0/tool_use_id", b.get(b.spots.results[2], "/message/content/0/tool_use_id"))
	}},
	{"a call with the id of its neighbour", DuplicateCall, []Format{Claude}, 0, func(b *broken) {
		b.set(b.spots.calls[1], "/message/content/0/id", b.get(b.spots.calls[0], "/message/content/0/id"))
	}},
	{"a member that the API does not know", ExtraMember, []Format{Claude}, 0, func(b *broken) {
		b.set(b.spots.result, "/message/content/0/foo", `1`)
	}},
	{"a link of a result that was lost", MissingParent, []Format{Claude, Pi}, 0, func(b *broken) {
		_, parent := b.parentPath()
		b.set(b.spots.result, parent, `null`)
	}},
	{"a link to a record without a name", MissingParent, []Format{Claude, Pi}, 0, func(b *broken) {
		_, parent := b.parentPath()
		b.set(b.spots.second, parent, `""`)
	}},
	{"an old result that moved to the end", OutOfOrder, []Format{Claude}, 0, func(b *broken) {
		old := b.spots.results[1]
		b.lines = append(slices.Delete(slices.Clone(b.lines), old, old+1), b.lines[old])
	}},
	{"a block of the user that the API does not know", UnknownBlock, []Format{Claude, Daruma}, 0, func(b *broken) {
		content := paths[b.format].content
		if v, _ := locate([]byte(b.lines[b.spots.prompt]), content); b.lines[b.spots.prompt][v.start] == '"' {
			b.set(b.spots.prompt, content, `[{"type":"text","text":`+b.get(b.spots.prompt, content)+`}]`)
		}
		b.splice(b.spots.prompt, follow, content+"/0", `{"type":"hologram","x":1}`)
	}},
	{"a call in the result of another", Misplaced, []Format{Claude, Pi}, 1, func(b *broken) {
		b.set(b.spots.result, paths[b.format].result+"/content", `[{"type":"tool_use","id":"a","name":"b","input":{}}]`)
	}},
	{"a call of the server without its result", UnknownBlock, []Format{Claude}, 1, func(b *broken) {
		b.set(b.spots.said, "/message/content/0", `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`)
	}},
	{"words behind the first of several results", DisplacedResult, []Format{Claude}, 0, func(b *broken) {
		b.splice(b.spots.results[1], follow, "/message/content/0", `{"type":"text","text":"and this"}`)
		b.splice(b.spots.results[2], follow, "/message/content/0", `{"type":"text","text":"and that"}`)
	}},
	{"hidden thinking without data", Altered, []Format{Claude, Daruma}, 0, func(b *broken) {
		b.set(b.spots.think, paths[b.format].think, `{"type":"redacted_thinking","data":""}`)
	}},
	{"marks of the cache", CacheMark, []Format{Claude}, 0, func(b *broken) {
		for _, line := range append(slices.Clone(b.spots.results), b.spots.said, b.spots.final) {
			b.set(line, "/message/content/0/cache_control", `{"type":"ephemeral"}`)
		}
	}},
	{"a mark on thinking", CacheMark, []Format{Claude}, 0, func(b *broken) {
		b.set(b.spots.think, "/message/content/0/cache_control", `{"type":"ephemeral"}`)
	}},
}

func TestStrangers(t *testing.T) {
	for _, s := range strange {
		for _, format := range s.formats {
			t.Run(fmt.Sprint(s.name, " ", format), func(t *testing.T) {
				b := &broken{t: t, format: format, lines: everyday(t, format), spots: spots[format]}
				before := said(open(t, "s.jsonl", b.data()).Conversation())
				s.breakIt(b)
				f := open(t, "s.jsonl", b.data())
				if r := f.Report(); r.Sound || !r.Healable || !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Rule == s.rule }) {
					t.Fatalf("%s\n%s", r, f.Diff())
				}
				mustBeSound(t, f)
				after := strings.Join(said(f.Healed()), "\n")
				lost := slices.DeleteFunc(before, func(text string) bool { return strings.Contains(after, text) })
				if len(lost) > s.lost {
					t.Errorf("lost: %q\n%s\n%s", lost, f.Report(), f.Diff())
				}
			})
		}
	}
}

// said is what was said in a conversation, but for thinking.
func said(c Conversation) []string {
	var out []string
	for _, m := range c.Messages {
		for i := range m.Blocks {
			if b := &m.Blocks[i]; b.Type == message.Text || b.Type == message.ToolResult {
				out = append(out, b.PlainText())
			}
		}
	}
	return out
}

// TestNothingIsLeft holds that a file without a whole record is not healed to
// an empty one that passes for a session.
func TestNothingIsLeft(t *testing.T) {
	for _, format := range all {
		line := everyday(t, format)[spots[format].prompt]
		f := open(t, "s.jsonl", []byte(line[:len(line)/2]))
		if _, _, err := f.HealTo(t.TempDir() + "/out.jsonl"); !errors.Is(err, ErrNothingLeft) {
			t.Errorf("%s: %v", format, err)
		}
		if r := f.Report(); r.Sound || r.Healable || !strings.Contains(r.String(), "nothing is left") {
			t.Errorf("%s: %s", format, r)
		}
	}
}

// TestBase64IsRewritten holds that an image in another base64 is kept.
func TestBase64IsRewritten(t *testing.T) {
	for _, data := range []string{pixel[:40] + "\n" + pixel[40:], "data:image/png;base64," + pixel, strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(pixel, "="))} {
		if data == pixel {
			continue
		}
		b := &broken{t: t, format: Claude, lines: everyday(t, Claude), spots: spots[Claude]}
		b.set(b.spots.result, "/message/content/0/content",
			`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":`+string(quote(data))+`}}]`)
		mustHeal(t, b.data(), BrokenMedia)
		if out := string(healed(t, open(t, "s.jsonl", b.data()))); !strings.Contains(out, `"`+pixel+`"`) {
			t.Errorf("the image did not stay: %.60s", data)
		}
	}
}

// A type that is no text is not made one: {"type":"7"} would be refused, too.
func TestTypesAreNotMadeUp(t *testing.T) {
	for _, format := range []Format{Claude, Pi} {
		b := &broken{t: t, format: format, lines: everyday(t, format), spots: spots[format]}
		b.set(b.spots.final, paths[format].content+"/0", `{"type":7}`)
		f := open(t, "s.jsonl", b.data())
		mustBeSound(t, f)
		for _, m := range f.Healed().Messages {
			for _, block := range m.Blocks {
				if block.Type == "7" {
					t.Errorf("%s:\n%s", format, f.Diff())
				}
			}
		}
	}
}
