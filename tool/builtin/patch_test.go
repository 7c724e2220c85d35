package builtin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// apply is the other direction of patch, written as plainly as can be.
func apply(old string, hunks []Hunk) (string, error) {
	lines := trimEmpty(strings.SplitAfter(old, "\n"))
	var out strings.Builder
	at := 0
	for _, h := range hunks {
		start := h.OldStart - 1
		if h.OldLines == 0 {
			start++
		}
		if start < at || start > len(lines) {
			return "", fmt.Errorf("hunk at %d, after %d of %d lines", start, at, len(lines))
		}
		out.WriteString(strings.Join(lines[at:start], ""))
		at = start
		oldLines, newLines := 0, 0
		for i, l := range h.Lines {
			if l == noEnd {
				continue
			}
			text := l[1:] + "\n"
			if i+1 < len(h.Lines) && h.Lines[i+1] == noEnd {
				text = l[1:]
			}
			if l[0] != '+' {
				if at >= len(lines) || lines[at] != text {
					return "", fmt.Errorf("line %d is not %q", at+1, text)
				}
				at++
				oldLines++
			}
			if l[0] != '-' {
				out.WriteString(text)
				newLines++
			}
		}
		if oldLines != h.OldLines || newLines != h.NewLines {
			return "", fmt.Errorf("hunk counts %d and %d lines, has %d and %d", h.OldLines, h.NewLines, oldLines, newLines)
		}
	}
	out.WriteString(strings.Join(lines[at:], ""))
	return out.String(), nil
}

func TestPatch(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for name, c := range map[string]struct {
		old, text string
		want      []Hunk
	}{
		"same":   {ten, ten, nil},
		"create": {"", "a\nb\n", []Hunk{{0, 0, 1, 2, []string{"+a", "+b"}}}},
		"empty":  {"a\n", "", []Hunk{{1, 1, 0, 0, []string{"-a"}}}},
		"middle": {ten, strings.Replace(ten, "5", "five", 1), []Hunk{{2, 7, 2, 7, []string{" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"}}}},
		"ends": {ten, "zero\n" + strings.TrimSuffix(ten, "10\n"), []Hunk{
			{1, 3, 1, 4, []string{"+zero", " 1", " 2", " 3"}},
			{7, 4, 8, 3, []string{" 7", " 8", " 9", "-10"}},
		}},
		"near": {ten, strings.NewReplacer("2", "two", "9", "nine").Replace(ten), []Hunk{
			{1, 10, 1, 10, []string{" 1", "-2", "+two", " 3", " 4", " 5", " 6", " 7", " 8", "-9", "+nine", " 10"}},
		}},
		"no end": {"a\nb", "a\nb\n", []Hunk{{1, 2, 1, 2, []string{" a", "-b", noEnd, "+b"}}}},
	} {
		if diff := cmp.Diff(c.want, patch(c.old, c.text)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	// Too different for the shortest way, and still right.
	var a, b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	if got, err := apply(a.String(), patch(a.String(), b.String())); err != nil || got != b.String() {
		t.Errorf("large patch: %v", err)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd")
	f.Add("", "x")
	f.Add("x\n\n\nx\n", "\nx\n\n")
	f.Add(strings.Repeat("a\nb\n", 20), strings.Repeat("b\na\n", 20))
	f.Fuzz(func(t *testing.T, old, text string) {
		got, err := apply(old, patch(old, text))
		if err != nil || got != text {
			t.Fatalf("patch of %q to %q gives %q: %v", old, text, got, err)
		}
	})
}

func FuzzSubstitute(f *testing.F) {
	f.Add("a\r\nb\nc\r\n", "b\nc", "x\ny", true)
	f.Add("\uFEFFaa", "a", "\r\n", false)
	f.Add("\r\r\n\n", "\r\n", "", true)
	f.Fuzz(func(t *testing.T, content, old, text string, all bool) {
		plain := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		if old == "" || plain(old) == plain(text) {
			return
		}
		n := strings.Count(plain(content), plain(old))
		got, where, err := substitute(content, old, text, all)
		if (err == nil) != (n == 1 || n > 1 && all) {
			t.Fatalf("%d times, all %v: %v", n, all, err)
		}
		if err != nil {
			if err.Error() == "" {
				t.Fatal("no reason")
			}
			return
		}
		if where == "" || !strings.Contains(content, "\r") && !strings.Contains(text, "\r") && got != strings.ReplaceAll(content, plain(old), text) {
			t.Fatalf("%q at %s", got, where)
		}
	})
}
