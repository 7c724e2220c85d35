package doctor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
)

// spotsOf are the lines of the everyday files that faults are put into, from 0.
type spotsOf struct {
	prompt, think, said, call, result, final, second int // second: a later prompt
	calls                                            []int
	results                                          []int // of calls in parallel
}

var spots = map[Format]spotsOf{
	Claude: {2, 5, 6, 7, 8, 9, 13, []int{16, 17, 18}, []int{21, 19, 20}},
	Codex:  {7, 10, 12, 13, 16, 19, 26, nil, nil},
	Pi:     {4, 5, 5, 5, 6, 7, 8, []int{9, 9, 9}, []int{10, 11, 12}},
	Daruma: {2, 3, 3, 3, 4, 6, 7, []int{8, 8}, []int{9, 10}},
}

// Paths of blocks in the lines above.
var paths = map[Format]struct {
	content, think, said, call, id, input, result, resultID, output, role, model, signature string
}{
	Claude: {"/message/content", "/message/content/0", "/message/content/0", "/message/content/0", "/id", "/input", "/message/content/0", "/tool_use_id", "/content", "/message/role", "/message/model", "/signature"},
	Codex:  {"/payload/content", "/payload", "/payload/content/0", "/payload", "/call_id", "/arguments", "/payload", "/call_id", "/output", "/payload/role", "", "/encrypted_content"},
	Pi:     {"/message/content", "/message/content/0", "/message/content/1", "/message/content/2", "/id", "/arguments", "/message", "/toolCallId", "/content", "/message/role", "/message/model", "/thinkingSignature"},
	Daruma: {"/body/message/blocks", "/body/message/blocks/0", "/body/message/blocks/1", "/body/message/blocks/2", "/id", "/input", "/body/block", "/tool_use_id", "/content", "/body/message/role", "/body/message/model", "/signature"},
}

// broken is a file that is being broken.
type broken struct {
	t      *testing.T
	format Format
	lines  []string
	spots  spotsOf
}

func (b *broken) seal(line []byte) string {
	if b.format == Daruma {
		line = (&journal{}).seal(line)
	}
	return string(line)
}

func (b *broken) splice(line int, op op, path, value string) {
	b.t.Helper()
	was := b.lines[line]
	b.lines[line] = b.seal(applySplices([]byte(was), []splice{{op, path, []byte(value)}}))
	if b.lines[line] == was {
		b.t.Fatalf("nothing at %s of line %d: %s", path, line+1, was)
	}
}

func (b *broken) set(line int, path, value string) { b.splice(line, set, path, value) }

func (b *broken) get(line int, path string) string {
	b.t.Helper()
	v, ok := locate([]byte(b.lines[line]), path)
	if !ok {
		b.t.Fatalf("nothing at %s of line %d: %s", path, line+1, b.lines[line])
	}
	return b.lines[line][v.start:v.end]
}

func (b *broken) parentPath() (id, parent string) {
	switch b.format {
	case Claude:
		return "/uuid", "/parentUuid"
	case Pi:
		return "/id", "/parentId"
	}
	return "", ""
}

// unlink takes a line out, and lets what hung on it hang on what it hung on.
func (b *broken) unlink(line int) {
	if id, parent := b.parentPath(); id != "" {
		old, to := b.get(line, id), b.get(line, parent)
		for i := range b.lines {
			if v, ok := locate([]byte(b.lines[i]), parent); ok && b.lines[i][v.start:v.end] == old {
				b.set(i, parent, to)
			}
		}
	}
	b.lines = slices.Delete(b.lines, line, line+1)
}

// link puts a line with an id of its own behind another one, and into the thread.
func (b *broken) link(after int, text string) {
	b.lines = slices.Insert(b.lines, after+1, text)
	if id, parent := b.parentPath(); id != "" {
		old := b.get(after, id)
		b.set(after+1, id, map[Format]string{
			Claude: fmt.Sprintf(`"00000000-aaaa-4bbb-8ccc-%012d"`, len(b.lines)), Pi: fmt.Sprintf(`"%08x"`, len(b.lines)),
		}[b.format])
		b.set(after+1, parent, old)
		for i := after + 2; i < len(b.lines); i++ {
			if v, ok := locate([]byte(b.lines[i]), parent); ok && b.lines[i][v.start:v.end] == old {
				b.set(i, parent, b.get(after+1, id))
				break
			}
		}
	}
}

func (b *broken) data() []byte { return []byte(strings.Join(b.lines, "\n") + "\n") }

var all = []Format{Claude, Codex, Pi, Daruma}

// faults is every fault that is looked for, and how a file gets it.
var faults = []struct {
	name    string
	rule    Rule
	formats []Format
	breakIt func(b *broken)
}{
	{"torn in the middle", TornLine, all, func(b *broken) { b.lines[b.spots.call] = b.lines[b.spots.call][:60] }},
	{"torn at the end", TornLine, all, func(b *broken) { n := len(b.lines) - 1; b.lines[n] = b.lines[n][:50] }},
	{"two records on a line", FusedLine, all, func(b *broken) {
		n := b.spots.result
		b.lines[n-1] = b.lines[n-1][:70] + b.lines[n]
		b.lines = slices.Delete(b.lines, n, n+1)
	}},
	{"whole records on one line", FusedLine, all, func(b *broken) {
		n := b.spots.result
		b.lines[n-1] += b.lines[n]
		b.lines = slices.Delete(b.lines, n, n+1)
	}},
	{"byte order mark", ByteOrderMark, all, func(b *broken) { b.lines[0] = "\xEF\xBB\xBF" + b.lines[0] }},
	{"no UTF-8", BadUTF8, all, func(b *broken) { b.word(b.spots.prompt, "\xFF\xFE") }},
	{"half surrogate", HalfSurrogate, all, func(b *broken) { b.word(b.spots.prompt, `\ud83d`) }},
	{"low surrogate", HalfSurrogate, all, func(b *broken) { b.word(b.spots.final, `\udc00`) }},
	{"NUL escaped", NUL, all, func(b *broken) { b.word(b.spots.result, `\u0000`) }},
	{"NUL bytes", NULBytes, all, func(b *broken) { b.word(b.spots.prompt, "\x00\x00") }},
	{"a hole", NULBytes, all, func(b *broken) { b.lines = slices.Insert(b.lines, b.spots.final, strings.Repeat("\x00", 300)) }},
	{"control character", ControlCharacter, all, func(b *broken) { b.word(b.spots.prompt, "\x01") }},
	{"checksum", WrongChecksum, []Format{Daruma}, func(b *broken) {
		b.lines[b.spots.prompt] = strings.Replace(b.lines[b.spots.prompt], "notes.txt", "notes.TXT", 1)
	}},
	{"wrong shape", WrongShape, all, func(b *broken) { b.set(b.spots.final, parentOf(paths[b.format].content), `[1,2]`) }},
	{"a block of the wrong shape", WrongShape, []Format{Claude, Pi}, func(b *broken) { b.set(b.spots.final, paths[b.format].content+"/0", `{"type":7}`) }},
	{"no header", MissingHeader, []Format{Codex, Pi}, func(b *broken) { b.lines = b.lines[1:] }},
	{"header in the second line", MissingHeader, []Format{Codex, Pi}, func(b *broken) { b.lines[0], b.lines[1] = b.lines[1], b.lines[0] }},
	{"a record twice", DuplicateRecord, []Format{Claude, Pi}, func(b *broken) {
		b.lines = slices.Insert(b.lines, b.spots.second+1, b.lines[b.spots.second])
	}},
	{"an id twice", DuplicateRecord, []Format{Claude, Pi}, func(b *broken) {
		id, _ := b.parentPath()
		b.set(b.spots.second, id, b.get(b.spots.prompt, id))
	}},
	{"link to nowhere", MissingParent, []Format{Claude, Pi}, func(b *broken) {
		_, parent := b.parentPath()
		b.set(b.spots.second, parent, `"ffffffff"`)
	}},
	{"root in the middle gone", MissingParent, []Format{Claude, Pi}, func(b *broken) {
		b.lines = slices.Delete(b.lines, b.spots.final, b.spots.final+1)
	}},
	{"circle", Cycle, []Format{Claude, Pi}, func(b *broken) {
		id, parent := b.parentPath()
		b.set(b.spots.call, parent, b.get(b.spots.second, id))
	}},
	{"circle of one", Cycle, []Format{Claude, Pi}, func(b *broken) {
		id, parent := b.parentPath()
		b.set(b.spots.final, parent, b.get(b.spots.final, id))
	}},
	{"role", WrongRole, []Format{Claude, Codex, Daruma}, func(b *broken) { b.set(b.spots.prompt, paths[b.format].role, `"tool"`) }},
	{"no content", EmptyMessage, []Format{Claude, Pi, Daruma}, func(b *broken) { b.set(b.spots.final, paths[b.format].content, `[]`) }},
	{"no content of an item", EmptyText, []Format{Codex}, func(b *broken) { b.set(b.spots.final, paths[b.format].content, `[]`) }},
	{"empty text", EmptyText, all, func(b *broken) { b.set(b.spots.said, paths[b.format].said+"/text", `""`) }},
	{"white space", EmptyText, all, func(b *broken) { b.set(b.spots.final, paths[b.format].content+"/0/text", `" \n\t"`) }},
	{"empty prompt", EmptyText, all, func(b *broken) {
		if b.format == Claude {
			b.set(b.spots.second, paths[b.format].content, `" "`)
			return
		}
		b.set(b.spots.second, paths[b.format].content+"/0/text", `" "`)
	}},
	{"empty text in a result", EmptyText, []Format{Claude, Pi, Daruma}, func(b *broken) {
		b.set(b.spots.result, paths[b.format].result+paths[b.format].output, `[{"type":"text","text":""}]`)
	}},
	{"input is a text", NoObject, all, func(b *broken) { b.set(b.spots.call, paths[b.format].call+paths[b.format].input, `"{\"cmd\": \"ca"`) }},
	{"input is a list", NoObject, []Format{Claude, Pi, Daruma}, func(b *broken) { b.set(b.spots.call, paths[b.format].call+paths[b.format].input, `["x"]`) }},
	{"no input", NoObject, []Format{Claude, Pi}, func(b *broken) { b.splice(b.spots.call, cut, paths[b.format].call+paths[b.format].input, "") }},
	{"call id", BadCallID, all, func(b *broken) {
		b.set(b.spots.call, paths[b.format].call+paths[b.format].id, `"fn:read 1"`)
		b.set(b.spots.result, paths[b.format].result+paths[b.format].resultID, `"fn:read 1"`)
		b.also(`"fn:read 1"`)
	}},
	{"empty call id", BadCallID, all, func(b *broken) {
		b.set(b.spots.call, paths[b.format].call+paths[b.format].id, `""`)
		b.set(b.spots.result, paths[b.format].result+paths[b.format].resultID, `""`)
		b.also(`""`)
	}},
	{"empty error", EmptyError, []Format{Claude, Pi, Daruma}, func(b *broken) {
		p := paths[b.format].result
		b.set(b.spots.result, p+map[Format]string{Claude: "/is_error", Pi: "/isError", Daruma: "/is_error"}[b.format], "true")
		b.set(b.spots.result, p+paths[b.format].output, map[Format]string{Claude: `""`, Pi: `[]`, Daruma: `[]`}[b.format])
	}},
	{"unsigned", Unsigned, all, func(b *broken) { b.set(b.spots.think, paths[b.format].think+paths[b.format].signature, `""`) }},
	{"signature cut off", Altered, all, func(b *broken) { b.set(b.spots.think, paths[b.format].think+paths[b.format].signature, `"djE6Zj"`) }},
	{"signature altered", Altered, all, func(b *broken) {
		b.set(b.spots.think, paths[b.format].think+paths[b.format].signature, `"djE6Zjc1 NTM2YjNkNDFiZjBkNDlhMDNiODY0ZTMwYzYyYzVk!"`)
	}},
	{"words of the reasoning altered", Altered, []Format{Codex}, func(b *broken) { b.set(b.spots.think, "/payload/summary/0/text", `"Something else."`) }},
	{"another model", Foreign, []Format{Claude, Pi, Daruma}, func(b *broken) {
		if b.format == Daruma {
			b.set(b.spots.think, paths[b.format].think+"/model", `"claude-opus-4-1"`)
			return
		}
		b.set(b.spots.think, paths[b.format].model, `"claude-opus-4-1"`)
	}},
	{"thinking apart", SplitThinking, []Format{Claude}, func(b *broken) { b.set(b.spots.think, "/message/id", `"msg_other"`) }},
	{"thinking alone", SplitThinking, []Format{Claude, Codex, Pi, Daruma}, func(b *broken) { b.alone() }},
	{"call of the user", Misplaced, []Format{Claude}, func(b *broken) {
		b.set(b.spots.second, "/message/content", `[{"type":"tool_use","id":"toolu_x","name":"Bash","input":{}}]`)
	}},
	{"text too long", LargeText, all, func(b *broken) {
		b.word(b.spots.result, strings.Repeat("0123456789abcde ", 1<<17))
	}},
	{"error as answer", ErrorAsAnswer, all, func(b *broken) {
		b.set(b.spots.final, paths[b.format].content+"/0/text", `"API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}"`)
	}},
	{"no result", Unanswered, all, func(b *broken) { b.unlink(b.spots.result) }},
	{"one of three results", Unanswered, []Format{Claude, Pi, Daruma}, func(b *broken) { b.unlink(b.spots.results[1]) }},
	{"none of three results", Unanswered, []Format{Claude, Pi}, func(b *broken) {
		results := slices.Clone(b.spots.results)
		slices.Sort(results)
		for _, n := range slices.Backward(results) {
			b.unlink(n)
		}
	}},
	{"no call", Orphan, []Format{Claude, Codex}, func(b *broken) { b.unlink(b.spots.call) }},
	{"no call among others", Orphan, []Format{Pi, Daruma}, func(b *broken) { b.splice(b.spots.call, cut, paths[b.format].call, "") }},
	{"one of three calls", Orphan, []Format{Claude}, func(b *broken) { b.unlink(b.spots.calls[1]) }},
	{"a result twice", SecondResult, []Format{Claude, Codex, Pi}, func(b *broken) { b.link(b.spots.result, b.lines[b.spots.result]) }},
	{"a call id twice", DuplicateCall, []Format{Claude, Codex, Pi}, func(b *broken) { b.twice() }},
	{"a call twice", DuplicateCall, []Format{Claude, Codex}, func(b *broken) { b.link(b.spots.call, b.lines[b.spots.call]) }},
	{"result after the prompt", DisplacedResult, []Format{Claude, Codex, Pi}, func(b *broken) {
		text := b.lines[b.spots.result]
		b.unlink(b.spots.result)
		b.link(b.spots.second-1, text)
	}},
	{"result before its call", DisplacedResult, []Format{Codex}, func(b *broken) {
		text := b.lines[b.spots.result]
		b.unlink(b.spots.result)
		b.link(b.spots.prompt, text)
	}},
	{"note between call and result", DisplacedResult, []Format{Claude, Pi, Codex}, func(b *broken) { b.link(b.spots.call, b.lines[b.spots.second]) }},
	{"no first prompt", WrongFirst, all, func(b *broken) {
		b.unlink(b.spots.prompt)
		if b.format == Codex {
			b.unlink(3) // the environment is told as the user
		}
	}},
}

func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// word puts raw bytes into the first text of a line.
func (b *broken) word(line int, raw string) {
	b.t.Helper()
	for _, mark := range []string{`"text":"`, `"content":"`, `"output":"`} {
		if i := strings.Index(b.lines[line], mark); i >= 0 {
			at := i + len(mark)
			b.lines[line] = b.seal([]byte(b.lines[line][:at] + raw + b.lines[line][at:]))
			return
		}
	}
	b.t.Fatalf("no text in line %d: %s", line+1, b.lines[line])
}

// also gives the events of a journal that name a call the same id.
func (b *broken) also(id string) {
	if b.format == Daruma {
		b.set(b.spots.result, "/body/call", id)
		b.set(b.spots.result+1, "/body/calls/0", id)
	}
}

// alone leaves nothing of an answer but its thinking.
func (b *broken) alone() {
	if b.format == Codex || b.format == Claude {
		b.unlink(b.spots.result)
		b.unlink(b.spots.call)
		b.unlink(b.spots.said)
		if b.format == Claude {
			b.unlink(b.spots.said) // the answer that followed
		} else {
			b.unlink(b.spots.final - 3)
		}
		return
	}
	b.set(b.spots.final, paths[b.format].content, "["+b.get(b.spots.think, paths[b.format].think)+"]")
}

// twice gives the second call of the file the id of the first.
func (b *broken) twice() {
	p := paths[b.format]
	call, result := b.spots.calls, b.spots.results
	path := p.call
	if b.format == Codex {
		call, result = []int{32}, []int{38}
	}
	id := b.get(b.spots.call, p.call+p.id)
	b.set(call[0], path+p.id, id)
	b.set(result[0], p.result+p.resultID, id)
}

func TestFaults(t *testing.T) {
	for _, fault := range faults {
		for _, format := range fault.formats {
			t.Run(fault.name+"/"+string(format), func(t *testing.T) {
				b := &broken{t: t, format: format, lines: everyday(t, format), spots: spots[format]}
				fault.breakIt(b)
				mustHeal(t, b.data(), fault.rule)
			})
		}
	}
}

// mustHeal holds that a fault is found, explained, healed, and nothing lost.
func mustHeal(t *testing.T, data []byte, rule Rule) {
	t.Helper()
	f := open(t, "broken.jsonl", data)
	r := f.Report()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Rule == rule })
	if i < 0 {
		t.Fatalf("%s was not found:\n%s", rule, r)
	}
	found := r.Findings[i]
	if found.What == "" || found.Effect == "" || found.Repair == "" || !found.Healable() || found.Severity == Info {
		t.Errorf("not explained: %+v", found)
	}
	if !r.Healable {
		t.Errorf("cannot be healed:\n%s", r)
	}
	mustBeSound(t, f)
	if diff := f.Diff(); !strings.HasPrefix(diff, "--- broken.jsonl\n+++ broken.healed.jsonl\n@@ ") {
		t.Errorf("diff:\n%s", diff)
	}
	mustKeepCalls(t, f)
	mustKeepLines(t, f)
}

// mustKeepCalls holds that no call goes, but for a copy of one.
func mustKeepCalls(t *testing.T, f *File) {
	t.Helper()
	ids := map[string]bool{}
	for _, m := range f.Healed().Messages {
		for _, call := range m.Calls() {
			ids[call.ID] = true
		}
	}
	before := map[string]bool{}
	for _, m := range f.Conversation().Messages {
		if m.Role != message.Assistant {
			continue
		}
		for _, call := range m.Calls() {
			before[call.ID] = true
		}
	}
	if len(ids) < len(before) {
		t.Errorf("%d calls of %d are left", len(ids), len(before))
	}
}

// mustKeepLines holds that few lines differ from the original.
func mustKeepLines(t *testing.T, f *File) {
	t.Helper()
	same := 0
	now := map[string]bool{}
	for _, l := range bytes.Split(healed(t, f), []byte("\n")) {
		now[string(l)] = true
	}
	for _, l := range f.doc.lines {
		if now[string(l.text())] {
			same++
		}
	}
	if most := 10; same < len(f.doc.lines)-most {
		t.Errorf("only %d of %d lines are as they were:\n%s", same, len(f.doc.lines), f.Diff())
	}
}

func TestCompactionFaults(t *testing.T) {
	claude := &broken{t: t, format: Claude, lines: linesOf(t, Claude, "compacted")}
	claude.unlink(31) // the summary
	claude.lines = claude.lines[:31]
	mustHeal(t, claude.data(), BrokenCompaction)

	pi := &broken{t: t, format: Pi, lines: linesOf(t, Pi, "compacted")}
	pi.set(14, "/firstKeptEntryId", `"ffffffff"`)
	mustHeal(t, pi.data(), BrokenCompaction)

	pi = &broken{t: t, format: Pi, lines: linesOf(t, Pi, "compacted")}
	pi.set(14, "/summary", `""`)
	mustHeal(t, pi.data(), BrokenCompaction)

	codex := &broken{t: t, format: Codex, lines: linesOf(t, Codex, "compacted")}
	codex.lines = codex.lines[:60]
	if r := open(t, "x.jsonl", codex.data()).Report(); !strings.Contains(r.String(), string(BrokenCompaction)) {
		t.Errorf("a summary without its compaction:\n%s", r)
	}
}

// TestCallBeforeCompaction breaks what a compaction of daruma still sends.
func TestCallBeforeCompaction(t *testing.T) {
	b := &broken{t: t, format: Daruma, lines: shrunkJournal(t), spots: spots[Daruma]}
	b.unlink(b.spots.results[0])
	mustHeal(t, b.data(), Unanswered)
}

func TestRefusedThinking(t *testing.T) {
	b := &broken{t: t, format: Claude, lines: linesOf(t, Claude, "everyday")}
	other := &broken{t: t, format: Claude, lines: linesOf(t, Claude, "errors")}
	b.link(len(b.lines)-2, other.lines[13])
	b.set(len(b.lines)-2, "/message/content/0/text", "\"API Error: 400 messages.1.content.0: Invalid `signature` in `thinking` block\"")
	mustHeal(t, b.data(), RefusedThinking)

	f := open(t, "s.jsonl", []byte(strings.Join(everyday(t, Claude), "\n")+"\n"))
	f.DropThinking = true
	mustBeSound(t, f)
	for _, m := range f.Healed().Messages {
		for _, block := range m.Blocks {
			if block.Type == "thinking" {
				t.Fatal("thinking was kept")
			}
		}
	}
}

func TestFaultsTogether(t *testing.T) {
	for _, format := range all {
		b := &broken{t: t, format: format, lines: everyday(t, format), spots: spots[format]}
		b.word(b.spots.final, `\ud83d`)
		b.set(b.spots.call, paths[format].call+paths[format].input, `"x"`)
		b.unlink(b.spots.result)
		b.unlink(b.spots.prompt)
		b.lines = append(b.lines, b.lines[len(b.lines)-1][:40])
		mustHeal(t, b.data(), Unanswered)
	}
}
