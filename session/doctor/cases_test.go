package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cases are faults that users of agents have reported, by the number that the
// project gives them.
var cases = []struct {
	id      string
	rule    Rule
	format  Format
	breakIt func(b *broken)
}{
	{"C004", Unanswered, Claude, func(b *broken) { b.unlink(b.spots.result) }},
	{"C005", Unanswered, Claude, func(b *broken) { // an id with the prefix of another provider, one of a batch unanswered
		b.lines = strings.Split(strings.ReplaceAll(strings.Join(b.lines, "\n"), "toolu_01", "toolu_vrtx_01"), "\n")
		b.unlink(b.spots.results[0])
	}},
	{"C058", BadCallID, Pi, func(b *broken) {
		b.set(b.spots.call, "/message/content/2/id", `""`)
		b.set(b.spots.result, "/message/toolCallId", `""`)
	}},
	{"C059", DuplicateCall, Pi, func(b *broken) { // the same answer, appended twice
		b.link(b.spots.result, b.lines[b.spots.call])
		b.link(b.spots.result+1, b.lines[b.spots.result])
	}},
	{"C061", DuplicateCall, Pi, func(b *broken) { // call_0 in every turn
		for i := range b.lines {
			b.lines[i] = toolID.ReplaceAllString(b.lines[i], "call_0")
		}
		b.lines = slices.Delete(b.lines, 8, 14) // but for the batch
		b.set(8, "/parentId", b.get(7, "/id"))
	}},
	{"C063", Unanswered, Claude, func(b *broken) { // a summary, and a call whose result was dropped
		b.lines = linesOf(b.t, Claude, "compacted")
		b.unlink(47)
	}},
	{"C078", BrokenMedia, Claude, func(b *broken) { b.picture("image/png", "") }},
	{"C080", BrokenMedia, Claude, func(b *broken) { b.picture("image/png", base64Of([]byte("<svg xmlns='http://www.w3.org/2000/svg'/>"))) }},
	{"C081", EmptyText, Claude, func(b *broken) {
		b.set(b.spots.second, "/message/content", `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+pixel+
			`"}},{"type":"text","text":"","cache_control":{"type":"ephemeral"}}]`)
	}},
	{"C109", FusedLine, Claude, func(b *broken) { // the disk was full, and later it was not
		n := b.spots.result
		b.lines[n] = b.lines[n][:100] + b.lines[n+1]
		b.lines = slices.Delete(b.lines, n+1, n+2)
	}},
	{"C112", ErrorAsAnswer, Claude, func(b *broken) {
		b.set(b.spots.final, "/message/content/0/text", `"API Error: 500 internal"`)
		b.set(b.spots.final, "/message/stop_reason", `"stop_sequence"`)
	}},
	{"C192", DisplacedResult, Claude, func(b *broken) { b.link(b.spots.call, b.lines[b.spots.second]) }},
	{"C218", Unanswered, Codex, func(b *broken) { b.lines = b.lines[:b.spots.result] }},
	{"C220", BrokenMedia, Claude, func(b *broken) { b.picture("image/png", "data:image/png;base64,"+pixel) }},
	{"C223", Orphan, Claude, func(b *broken) { // the history was cut behind a call
		b.lines = slices.Delete(b.lines, 0, b.spots.result)
		b.set(0, "/parentUuid", "null")
	}},
	{"C224", Orphan, Claude, func(b *broken) {
		b.set(b.spots.final, "/message/content", `[{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},{"type":"text","text":"Found."}]`)
	}},
	{"C236", NUL, Codex, func(b *broken) { b.word(b.spots.result, `\u0000`) }},
}

var toolID = regexp.MustCompile(`toolu_01[A-Za-z0-9]+`)

func (b *broken) picture(mime, data string) {
	b.set(b.spots.result, "/message/content/0/content",
		fmt.Sprintf(`[{"type":"image","source":{"type":"base64","media_type":%q,"data":%q}}]`, mime, data))
}

func TestCases(t *testing.T) {
	for _, c := range cases {
		t.Run(c.id, func(t *testing.T) {
			b := &broken{t: t, format: c.format, lines: everyday(t, c.format), spots: spots[c.format]}
			c.breakIt(b)
			f := open(t, "broken.jsonl", b.data())
			r := f.Report()
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Rule == c.rule && f.Healable() }) || !r.Healable {
				t.Errorf("%s:\n%s", c.rule, r)
			}
			mustBeSound(t, f)
			mustKeepCalls(t, f)
		})
	}
}

// TestC110 holds that what cannot be a session is refused with a reason, and
// not by a parser.
func TestC110(t *testing.T) {
	if _, err := parse("empty.jsonl", nil); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Error(err)
	}
}

// TestC229 holds that blocks that are not known, or hidden, stay byte for byte.
func TestC229(t *testing.T) {
	b := &broken{t: t, format: Claude, lines: everyday(t, Claude), spots: spots[Claude]}
	b.set(b.spots.think, "/message/content/0", `{"type":"redacted_thinking","data":"`+signed+`"}`)
	b.set(b.spots.said, "/message/content/0", `{"type":"from_tomorrow","x":[1,2]}`)
	f := open(t, "s.jsonl", b.data())
	if r := f.Report(); !r.Sound || string(healed(t, f)) != string(b.data()) || !strings.Contains(r.String(), string(UnknownBlock)) {
		t.Errorf("%s\n%s", r, f.Diff())
	}
}

// TestCutOff holds that a journal of daruma whose last run was cut off in the
// middle of its calls is sound: going on with it is what it is made for.
func TestCutOff(t *testing.T) {
	lines := everyday(t, Daruma)[:spots[Daruma].call+1]
	f := open(t, "s.jsonl", []byte(strings.Join(lines, "\n")+"\n"))
	r := f.Report()
	if !r.Sound || !strings.Contains(r.String(), string(Unanswered)) || !strings.Contains(r.String(), "the run was cut off there") {
		t.Errorf("%s", r)
	}
	mustBeSound(t, f)
}
