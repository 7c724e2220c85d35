package doctor

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Diff shows the repair as a unified diff, made for reading: of a line only
// what changes and a little around it, secrets and long data shortened. It is
// empty when nothing changes.
func (f *File) Diff() string {
	var b strings.Builder
	next := 0 // line of the original that comes next
	flush := func(to int) {
		for ; next < to; next++ {
			l := f.doc.lines[next]
			hunk(&b, l.no, l.text(), nil)
		}
	}
	for _, l := range f.cure().doc.lines {
		if l.no == 0 {
			hunk(&b, after(f.doc, next), nil, l.text())
			continue
		}
		flush(l.no - 1)
		was := f.doc.lines[next]
		if was != l && !bytes.Equal(was.raw, l.raw) {
			hunk(&b, l.no, was.text(), l.text())
		}
		next++
	}
	flush(len(f.doc.lines))
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("--- %s\n+++ %s\n", f.Path, f.HealedPath()) + b.String()
}

func after(d *doc, next int) int {
	if next == 0 {
		return 0
	}
	return d.lines[next-1].no
}

// hunk writes one change: a line that goes, comes, or becomes another.
func hunk(b *strings.Builder, no int, was, is []byte) {
	switch {
	case was == nil:
		fmt.Fprintf(b, "@@ after line %d @@\n+%s\n", no, shown(is))
	case is == nil:
		fmt.Fprintf(b, "@@ line %d @@\n-%s\n", no, shown(was))
	case bytes.Equal(was, is):
		fmt.Fprintf(b, "@@ line %d @@\n-%s (without line break)\n+%s\n", no, clip(shown(was), shownAround), clip(shown(is), shownAround))
	default:
		before, end := common(was, is)
		fmt.Fprintf(b, "@@ line %d @@\n-%s\n+%s\n", no, window(was, before, end), window(is, before, end))
	}
}

const (
	shownAround = 60  // bytes of a changed line on both sides of the change
	shownMost   = 400 // of what changed, and of a line that comes or goes
)

// common returns how many bytes both lines share at their beginning and end.
func common(a, b []byte) (before, end int) {
	most := min(len(a), len(b))
	for before < most && a[before] == b[before] {
		before++
	}
	for end < most-before && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return before, end
}

// window shows the changed part of a line with a little around it.
func window(line []byte, before, end int) string {
	from, to := max(0, before-shownAround), min(len(line), len(line)-end+shownAround)
	for 0 < from && from < before && (idByte(line[from]) || line[from] == '.' || line[from] == '/' || line[from] == '+') {
		from++ // half of a secret would not be known as one
	}
	text := shown(line[from:to])
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}

var (
	longData = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z0-9+/_=-]{120,}`) })
	secrets  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(sk-[A-Za-z0-9_-]{4}|gh[pousr]_|xox[abp]-|AKIA|AIza|glpat-)[A-Za-z0-9_-]{8,}|(?i:(bearer |api[_-]?key["' :=\\]+|password["' :=\\]+|token["' :=\\]+))[A-Za-z0-9._~+/=-]{12,}`)
	})
)

// shown makes bytes fit for a screen.
func shown(line []byte) string {
	if most := 20 * shownMost; len(line) > 2*most { // what is between is never shown
		line = slices.Concat(line[:most], line[len(line)-most:])
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || 0x80 <= r && r < 0xA0 {
			return '\uFFFD' // a control character could steer the terminal
		}
		return r
	}, string(line))
	text = secrets().ReplaceAllString(text, "$1$2‹hidden›")
	text = longData().ReplaceAllStringFunc(text, func(s string) string {
		return fmt.Sprintf("%s‹%d characters›", s[:12], len(s)-12)
	})
	return clip(text, shownMost)
}

// clip keeps the beginning and the end of a long text.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head, tail := text[:most*3/4], text[len(text)-most/4:]
	return strings.ToValidUTF8(head, "") + "…" + strings.ToValidUTF8(tail, "")
}
