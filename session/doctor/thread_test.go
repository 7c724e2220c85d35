package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestNewestBranchStays holds that a file whose lines were put in another
// order goes on with what was said last, not with the longest thread.
func TestNewestBranchStays(t *testing.T) {
	rows := map[Format]string{
		Claude: `{"type":"user","uuid":"6f1a9d6e-1111-4222-8333-444455556666","parentUuid":%s,"isSidechain":false,"timestamp":"2027-01-01T00:00:00.000Z","message":{"role":"user","content":"I start again."}}`,
		Pi:     `{"type":"message","id":"0badcafe","parentId":%s,"timestamp":"2027-01-01T00:00:00.000Z","message":{"role":"user","content":[{"type":"text","text":"I start again."}]}}`,
	}
	for format, row := range rows {
		b := &broken{t: t, format: format, lines: everyday(t, format), spots: spots[format]}
		_, parent := b.parentPath()
		b.lines = append(b.lines, fmt.Sprintf(row, b.get(b.spots.second, parent)))
		mustBeSound(t, open(t, "s.jsonl", b.data()))
		slices.Reverse(b.lines)
		f := open(t, "s.jsonl", b.data())
		mustBeSound(t, f)
		words := said(f.Healed())
		if last := words[len(words)-1]; last != "I start again." {
			t.Errorf("%s goes on from %q", format, last)
		}
	}
}

// TestBoundaryHangsOnNothing holds that a compaction stays the beginning of
// what is sent, with a link of its own and after its id was used twice.
func TestBoundaryHangsOnNothing(t *testing.T) {
	lines := linesOf(t, Claude, "compacted")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"compact_boundary"`) })
	want := len(said(open(t, "s.jsonl", []byte(strings.Join(lines, "\n")+"\n")).Healed()))
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"parentUuid":null`) })
	for path, like := range map[string]int{"/parentUuid": first + 2, "/uuid": first} {
		b := &broken{t: t, format: Claude, lines: slices.Clone(lines)}
		b.set(at, path, b.get(like, "/uuid"))
		f := open(t, "s.jsonl", b.data())
		if r := f.Report(); r.Sound {
			t.Errorf("%s: %s", path, r)
		}
		mustBeSound(t, f)
		if got := len(said(f.Healed())); got != want {
			t.Errorf("%s: %d texts, want %d\n%s", path, got, want, f.Diff())
		}
	}
}

// TestCompactionStoredTwice holds that a copy of a compaction at the end does not take away what was said since.
func TestCompactionStoredTwice(t *testing.T) {
	for format, mark := range map[Format]string{Codex: `"type":"compacted"`, Daruma: `"type":"compaction"`} {
		compactionTwice(t, format, mark)
	}
}

func compactionTwice(t *testing.T, format Format, mark string) {
	lines := linesOf(t, format, "compacted")
	if format == Daruma {
		lines = shrunkJournal(t)
	}
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, mark) })
	want := said(open(t, "s.jsonl", []byte(strings.Join(lines, "\n")+"\n")).Healed())
	f := open(t, "s.jsonl", []byte(strings.Join(append(lines, lines[at]), "\n")+"\n"))
	mustBeSound(t, f)
	if got := said(f.Healed()); !slices.Equal(got, want) {
		t.Errorf("%q\n%s", got, f.Report())
	}
}

// TestCompactionOfPi holds that a compaction without type or id still stands
// for what was before it.
func TestCompactionOfPi(t *testing.T) {
	lines := linesOf(t, Pi, "compacted")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"firstKeptEntryId"`) })
	want := said(open(t, "s.jsonl", []byte(strings.Join(lines, "\n")+"\n")).Healed())
	for path, value := range map[string]string{"/type": `null`, "/id": `{"a":1}`} {
		b := &broken{t: t, format: Pi, lines: slices.Clone(lines)}
		b.set(at, path, value)
		f := open(t, "s.jsonl", b.data())
		mustBeSound(t, f)
		if got := said(f.Healed()); !slices.Equal(got, want) {
			t.Errorf("%s: %q\n%s", path, got, f.Diff())
		}
	}
}
