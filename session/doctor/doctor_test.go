package doctor

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// open reads data as a file of that name would be read.
func open(t testing.TB, path string, data []byte) *File {
	t.Helper()
	f, err := parse(path, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func healed(t testing.TB, f *File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Heal(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func rulesOf(r Report, severity Severity) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Severity == severity {
			out = append(out, fmt.Sprintf("%s:%d", f.Rule, f.Line))
		}
	}
	return out
}

// stories says what breaks in the real files: what their story tells.
var stories = map[string][]string{
	"testdata/claude/killed.jsonl": {"call_without_result:9"},
	"testdata/codex/killed.jsonl":  {"call_without_result:15"},
	"testdata/pi/killed.jsonl":     {"call_without_result:6", "call_without_result:6"},
}

func TestRealFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil || len(paths) < 25 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			r := f.Report()
			if want := Format(filepath.Base(filepath.Dir(path))); r.Format != want {
				t.Errorf("format %s", r.Format)
			}
			if diff := cmp.Diff(stories[filepath.ToSlash(path)], rulesOf(r, Breaks)); diff != "" {
				t.Errorf("what breaks (-want +got):\n%s\n%s", diff, r)
			}
			if r.Messages < 2 {
				t.Errorf("%d messages", r.Messages)
			}
			mustBeSound(t, f)
			if r.Count(Breaks)+r.Count(Risky) == 0 && !bytes.Equal(healed(t, f), f.doc.bytes()) {
				t.Errorf("a file without faults was changed:\n%s", f.Diff())
			}
		})
	}
}

// mustBeSound holds a file to what healing promises, and returns the report on
// the healed file.
func mustBeSound(t testing.TB, f *File) {
	t.Helper()
	out := healed(t, f)
	again := open(t, f.Path, out)
	again.parent, again.DropThinking = f.parent, f.DropThinking
	r := again.Report()
	if breaks := rulesOf(r, Breaks); len(breaks) > 0 {
		t.Errorf("the healed file breaks: %v\nfirst report:\n%s\ndiff:\n%s\nsecond report:\n%s", breaks, f.Report(), f.Diff(), r)
	}
	c := again.Conversation()
	if problems := message.Check(c.Messages, again.Rules()); len(problems) > 0 && len(c.Messages) > 0 {
		t.Errorf("the healed conversation: %v\n%s", problems, f.Diff())
	}
	if twice := healed(t, again); !bytes.Equal(out, twice) {
		t.Errorf("healing twice gives another file:\n%s\n%s", f.Report(), again.Diff())
	}
	if diff := cmp.Diff(texts(f.Healed()), texts(c)); diff != "" {
		t.Errorf("Healed is not what the healed file holds:\n%s", diff)
	}
}

func texts(c Conversation) []string {
	var out []string
	for _, m := range c.Messages {
		for i := range m.Blocks {
			b := &m.Blocks[i]
			out = append(out, fmt.Sprint(m.Role, " ", b.Type, " ", b.PlainText(), b.ID, b.ToolUseID))
		}
	}
	return out
}

func TestConversationOfParallelCalls(t *testing.T) {
	for _, format := range []string{"claude", "codex", "pi"} {
		f, err := Open("testdata/" + format + "/everyday.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		c := f.Conversation()
		var calls []int
		for _, m := range c.Messages {
			if n := len(m.Calls()); n > 0 {
				calls = append(calls, n)
			}
		}
		if diff := cmp.Diff([]int{1, 3, 1, 1, 1}, calls); diff != "" {
			t.Errorf("%s: calls of each answer (-want +got):\n%s", format, diff)
		}
		for i, m := range c.Messages {
			for j := range m.Blocks {
				if c.Lines[i][j] < 1 {
					t.Errorf("%s: block %d.%d has no line", format, i, j)
				}
			}
		}
	}
}

func TestCompacted(t *testing.T) {
	first := map[string]string{
		"claude": "This session is being continued",
		"codex":  "What is in notes.txt?",
		"pi":     "<analysis>",
	}
	for format, want := range first {
		f, err := Open("testdata/" + format + "/compacted.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		c := f.Conversation()
		if got := c.Messages[0].PlainText(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: begins with %q", format, got)
		}
		text := strings.Join(texts(c), "\n")
		if strings.Contains(text, "It has three lines") {
			t.Errorf("%s: what was compacted is still sent", format)
		}
	}
}

func TestFork(t *testing.T) {
	f, err := Open("testdata/codex/forked.child.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(texts(f.Conversation()), "\n")
	if !strings.Contains(text, "What is in notes.txt?") || !strings.Contains(text, "Which line names a person?") {
		t.Errorf("the fork lacks its beginning:\n%s", text)
	}

	dir := t.TempDir()
	parent, err := os.ReadFile("testdata/codex/forked.parent.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(parent), "\n")
	broken := strings.Join(append(lines[:16:16], lines[17:]...), "") // without the output of the call
	child, err := os.ReadFile("testdata/codex/forked.child.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	child = bytes.Replace(child, []byte(`"end_byte_offset":15661`), fmt.Appendf(nil, `"end_byte_offset":%d`, len(broken)), 1)
	write(t, filepath.Join(dir, "parent.jsonl"), []byte(broken))
	write(t, filepath.Join(dir, "child.jsonl"), child)

	for _, name := range []string{"parent", "child"} {
		f, err := Open(filepath.Join(dir, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		r := f.Report()
		if !strings.Contains(r.String(), string(Unanswered)) {
			t.Errorf("%s: no call without result:\n%s", name, r)
		}
		mustBeSound(t, f)
		if warned := strings.Contains(r.String(), "set end_byte_offset"); warned != (name == "parent") {
			t.Errorf("%s: warned of the fork: %v\n%s", name, warned, r)
		}
	}

	// The offset that the report names is one that the fork can use.
	p, err := Open(filepath.Join(dir, "parent.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := healed(t, p)
	if end := p.offsetIn(p.cure().doc, len(broken)); end != len(out) {
		t.Errorf("offset %d in a file of %d bytes, all of which the fork reads", end, len(out))
	}

	write(t, filepath.Join(dir, "parent.jsonl"), []byte(broken[:len(broken)-100]))
	c, err := Open(filepath.Join(dir, "child.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Report(); r.Sound || r.Healable || !strings.Contains(r.String(), string(ForkBase)) {
		t.Errorf("a parent that became shorter:\n%s", r)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// everyday returns the lines of the everyday file of a format.
func everyday(t testing.TB, format Format) []string { return linesOf(t, format, "everyday") }

func linesOf(t testing.TB, format Format, name string) []string {
	t.Helper()
	if format == Daruma {
		return journalLines(t)
	}
	data, err := os.ReadFile(filepath.Join("testdata", string(format), name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// pixel is a sound image.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

// signed is a signature as long as real ones.
const signed = "djE6Zjc1NTM2YjNkNDFiZjBkNDlhMDNiODY0ZTMwYzYyYzVk"

// journalLines is a journal of daruma: a read, two calls in parallel with an
// image, a second run with a compaction.
func journalLines(t testing.TB) []string {
	t.Helper()
	when := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	var lines []string
	run := 1
	add := func(b session.Body) {
		when = when.Add(time.Second)
		e := session.Event{Version: session.Version, Seq: uint64(len(lines) + 1), Time: when, Session: "s1", Run: run, Body: b}
		line, err := session.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	prompt := func(id, text string) { add(&session.Message{Message: message.NewText(id, text)}) }
	answer := func(id string, blocks ...message.Block) {
		for i := range blocks {
			blocks[i].Model = "claude-sonnet-4-5"
		}
		add(&session.Commit{Message: &message.Message{ID: id, Role: message.Assistant, Model: "claude-sonnet-4-5", Blocks: blocks}})
	}
	call := func(id string) message.Block {
		return message.Block{Type: message.ToolUse, ID: id, Name: "Read", Input: jsontext.Value(`{"file_path":"notes.txt"}`)}
	}
	text := func(s string) message.Block { return message.Block{Type: message.Text, Text: s} }
	think := message.Block{Type: message.Thinking, Text: "I read.", Signature: signed}

	add(&session.Start{Model: "claude-sonnet-4-5", Dir: "/home/user/project"})
	add(&session.RunStart{})
	prompt("m1", "What is in notes.txt?")
	answer("m2", think, text("I'll read it."), call("toolu_1"))
	add(&session.Result{Call: "toolu_1", Name: "Read", Block: message.TextResult("toolu_1", "buy rice", false)})
	add(&session.Results{ID: "m3", Caller: "m2", Calls: []string{"toolu_1"}})
	answer("m4", text("It says: buy rice."))
	prompt("m5", "And the others?")
	answer("m6", think, call("toolu_2"), call("toolu_3"))
	picture := message.TextResult("toolu_2", "a picture", false)
	picture.Content = append(picture.Content, message.Block{Type: message.Image, Media: &message.Media{Type: "image/png", Data: pixel}})
	add(&session.Result{Call: "toolu_2", Name: "Read", Block: picture})
	add(&session.Result{Call: "toolu_3", Name: "Read", Block: message.TextResult("toolu_3", "no such file", true)})
	add(&session.Results{ID: "m7", Caller: "m6", Calls: []string{"toolu_2", "toolu_3"}})
	answer("m8", text("One is a picture, one is missing."))
	add(&session.End{Reason: loop.Completed, Text: "One is a picture, one is missing."})
	return lines
}

// shrunkJournal is the journal after a compaction and one more turn.
func shrunkJournal(t testing.TB) []string {
	lines := journalLines(t)
	add := func(b session.Body) {
		when := time.Date(2026, 11, 30, 10, 0, len(lines), 0, time.UTC)
		line, err := session.Encode(session.Event{Version: 1, Time: when, Seq: uint64(len(lines) + 1), Session: "s1", Run: 2, Body: b})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
	}
	add(&session.Compaction{Rung: "summary", New: []*message.Message{message.NewSynthetic("m9", "They talked of notes.")}, Order: []string{"m9", "m6", "m7", "m8"}})
	add(&session.Message{Message: message.NewText("m10", "Go on.")})
	return lines
}

func TestJournalIsFoldedAsSessionDoes(t *testing.T) {
	for _, lines := range [][]string{journalLines(t), shrunkJournal(t)} {
		data := []byte(strings.Join(lines, "\n") + "\n")
		var events []session.Event
		for e, err := range session.Read(bytes.NewReader(data)) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		f := open(t, "s1.jsonl", data)
		if f.Format != Daruma {
			t.Fatalf("format %s", f.Format)
		}
		same := []cmp.Option{cmpopts.IgnoreUnexported(message.Message{}), cmpopts.IgnoreFields(message.Message{}, "Synthetic", "Stop"), cmpopts.EquateEmpty()}
		if diff := cmp.Diff(session.Fold(events).Messages, f.Conversation().Messages, same...); diff != "" {
			t.Errorf("(-fold +doctor):\n%s", diff)
		}
		if r := f.Report(); !r.Sound || !bytes.Equal(healed(t, f), data) {
			t.Errorf("a sound journal:\n%s\n%s", r, f.Diff())
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty": "", "words": "not a session\nat all\n", "json": `{"a":1}` + "\n", "utf16": "\xFF\xFE{\x00", "blank": "\n\n",
	} {
		path := filepath.Join(dir, name)
		write(t, path, []byte(content))
		if _, err := Open(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a folder was opened")
	}
}

// TestOpenRefuses holds that what may have no end is not read.
func TestOpenRefuses(t *testing.T) {
	huge := filepath.Join(t.TempDir(), "huge.jsonl")
	write(t, huge, nil)
	if err := os.Truncate(huge, maxFile+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{huge, os.DevNull, t.TempDir()} {
		if _, err := Open(path); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestHealTo(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("testdata/claude/killed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s.jsonl")
	write(t, path, data)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.HealTo(path); err == nil {
		t.Error("the original was overwritten")
	}
	if err := os.Symlink(path, filepath.Join(dir, "link")); err == nil {
		if _, _, err := f.HealTo(filepath.Join(dir, "link")); err == nil {
			t.Error("the original was overwritten by another name")
		}
	}
	to, _, err := f.HealTo("")
	if err != nil || to != filepath.Join(dir, "s.healed.jsonl") {
		t.Fatal(to, err)
	}
	got, err := os.ReadFile(to)
	if err != nil || !bytes.Equal(got, healed(t, f)) {
		t.Errorf("%v: not what Heal writes", err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, data) {
		t.Error("the original was changed")
	}
	if again, _, err := f.HealTo(""); err != nil || again != to {
		t.Errorf("the same copy again: %v", err)
	}
	for n := 1; n < 3; n++ { // somebody went on with the copy
		older := append(bytes.Clone(got), strings.Repeat("{}\n", n)...)
		write(t, to, older)
		if _, _, err := f.HealTo(filepath.Join(dir, ".", "s.healed.jsonl")); !errors.Is(err, os.ErrExist) {
			t.Errorf("a file that was named was overwritten: %v", err)
		}
		_, aside, err := f.HealTo("")
		if want := filepath.Join(dir, fmt.Sprintf("s.healed.%d.jsonl", n)); err != nil || aside != want {
			t.Errorf("the older copy went to %s, not to %s: %v", aside, want, err)
		}
		kept, _ := os.ReadFile(aside)
		now, _ := os.ReadFile(to)
		if !bytes.Equal(kept, older) || !bytes.Equal(now, got) {
			t.Errorf("the older copy has %d bytes of %d, the new one %d of %d", len(kept), len(older), len(now), len(got))
		}
	}
	if _, _, err := f.HealTo(dir); err == nil {
		t.Error("a folder was overwritten")
	}
	if _, _, err := f.HealTo(filepath.Join(dir, "none", "x.jsonl")); err == nil {
		t.Error("wrote into a folder that is not there")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".healed-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReportIsJSON(t *testing.T) {
	f, err := Open("testdata/claude/killed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(f.Report())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"format":"claude"`, `"severity":"breaks"`, `"rule":"call_without_result"`, `"line":9`, `"healable":true`, `"sound":false`} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("lacks %s: %s", want, out)
		}
	}
}

func TestDiffHides(t *testing.T) {
	b := everyday(t, Claude)
	key := "sk-ant-" + strings.Repeat("k3y", 12)
	for _, gap := range []int{0, 20, 45, 70} {
		lines := slices.Clone(b)
		lines[8] = strings.Replace(lines[8], "buy rice", key+strings.Repeat(" ", gap)+`\ud83d\u001b[2J`+strings.Repeat("QUJD", 200), 1)
		diff := open(t, "s.jsonl", []byte(strings.Join(lines, "\n")+"\n")).Diff()
		if strings.Contains(diff, "k3yk3yk3y") || strings.Contains(diff, strings.Repeat("QUJD", 40)) || len(diff) > 1200 {
			t.Errorf("gap %d: %d bytes\n%s", gap, len(diff), diff)
		}
	}
}

func BenchmarkReport20MB(b *testing.B) {
	lines := everyday(b, Claude)
	var data bytes.Buffer
	link := ""
	for n := 0; data.Len() < 20<<20; n++ {
		for _, l := range lines {
			for _, id := range []string{"uuid", "parentUuid", "id", "tool_use_id"} {
				l = strings.ReplaceAll(l, `"`+id+`":"`, fmt.Sprintf(`"%s":"n%d-`, id, n))
			}
			if strings.Contains(l, `"parentUuid":null`) && link != "" {
				l = strings.Replace(l, `"parentUuid":null`, `"parentUuid":"`+link+`"`, 1)
			}
			data.WriteString(l + "\n")
		}
		link = fmt.Sprintf("n%d-8a7c4001-1338-470c-a70b-62e903b59297", n)
	}
	b.SetBytes(int64(data.Len()))
	for b.Loop() {
		f := open(b, "big.jsonl", data.Bytes())
		if r := f.Report(); !r.Sound || r.Calls < 4000 {
			b.Fatal(rulesOf(r, Breaks)[:min(5, len(rulesOf(r, Breaks)))], r.Calls)
		}
	}
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
