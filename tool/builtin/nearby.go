package builtin

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// nearby explains to the model why old is not in content: what is there that is
// most like it, and in what it differs.
func nearby(content, old string) string {
	content = strings.ReplaceAll(strings.TrimPrefix(content, bom), "\r\n", "\n")
	if bare := numbered().ReplaceAllString(old, ""); bare != old && strings.Contains(content, bare) {
		return "It has the line numbers of Read in it: leave them out"
	}
	lines := strings.Split(content, "\n")
	wanted := strings.Split(strings.Trim(old, "\n"), "\n")
	if text := unshown(lines, old); text != "" {
		return text
	}
	for _, way := range []struct {
		same func(string) string
		text string
	}{
		{strings.TrimSpace, "the whitespace at the ends of lines, such as tabs or spaces of the indentation"},
		{func(s string) string { return strings.Join(strings.Fields(s), "") }, "whitespace"},
		{typography, "typographic characters, such as quotation marks, dashes or special spaces"},
		{func(s string) string { return strings.ToLower(strings.TrimSpace(s)) }, "upper and lower case"},
	} {
		if at := findLines(lines, wanted, way.same); at >= 0 {
			return fmt.Sprintf("It is like %s but for %s. There the file has:\n%s",
				lineRange(at, len(wanted)), way.text, excerpt(lines, at, len(wanted)))
		}
	}
	if at := findLines(lines, wanted, norm.NFC.String); at >= 0 {
		return fmt.Sprintf("It looks like %s, where letters with marks are composed otherwise. %s", lineRange(at, len(wanted)), asWritten(lines[at:at+len(wanted)]))
	}
	key, at := "", -1
	for _, l := range wanted { // the longest line says most
		if len(strings.TrimSpace(l)) > len(key) {
			key = strings.TrimSpace(l)
		}
	}
	if at = mostAlike(lines, key); at < 0 {
		return "Nothing in the file is like it: read the file again"
	}
	return fmt.Sprintf("The line most like it is line %d:\n%s", at+1, excerpt(lines, max(0, at-1), 3))
}

// unshown explains what differs only in what Read does not show: control
// characters, a \r within a line, bytes that are not UTF-8.
func unshown(lines []string, old string) string {
	bare := tool.Clean(old)
	for strings.Contains(bare, "\uFFFD\uFFFD") { // several bytes are shown as one
		bare = strings.ReplaceAll(bare, "\uFFFD\uFFFD", "\uFFFD")
	}
	if strings.TrimSpace(bare) == "" {
		return ""
	}
	var shown strings.Builder
	ends := make([]int, len(lines)) // of each line in shown
	for i, l := range lines {
		shown.WriteString(tool.Clean(l) + "\n")
		ends[i] = shown.Len()
	}
	at := strings.Index(shown.String(), bare)
	if at < 0 {
		return ""
	}
	last := len(lines) - 1
	from := sort.Search(last, func(i int) bool { return ends[i] > at })
	to := sort.Search(last, func(i int) bool { return ends[i] >= at+len(bare) })
	where, there := lineRange(from, to-from+1), lines[from:to+1]
	if !utf8.ValidString(strings.Join(there, "")) {
		return fmt.Sprintf("It looks like %s, where there are bytes that are not UTF-8 and cannot be written in old_string. "+
			"Take the text beside them, or change the file with Bash", where)
	}
	return fmt.Sprintf("It looks like %s, where there are characters that Read does not show. %s", where, asWritten(there))
}

// asWritten shows lines so that every character of them can be told and sent.
func asWritten(lines []string) string {
	return "Written as a JSON string, as old_string can be, the file has there:\n" + tool.Middle(inASCII(strings.Join(lines, "\n")), 1500, 500, " … ")
}

// inASCII writes text as a JSON string of nothing but ASCII.
func inASCII(text string) string {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return strconv.QuoteToASCII(text) // cannot be: it is valid
	}
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case r < 0x7f:
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

var numbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^ *[0-9]+\t`) })

// typography folds what editors and models put in the place of plain characters.
func typography(s string) string {
	return strings.TrimSpace(plainly.Replace(s))
}

var plainly = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", "'", "’", "'", "–", "-", "—", "-", "−", "-",
	"\u00a0", " ", "\u202f", " ", "\u200b", "", "…", "...")

// findLines finds a run of lines that is the same as wanted after folding.
func findLines(lines, wanted []string, same func(string) string) int {
	folded := make([]string, len(wanted))
	empty := true
	for i, l := range wanted {
		folded[i] = same(l)
		empty = empty && folded[i] == ""
	}
	if empty {
		return -1
	}
next:
	for at := 0; at+len(wanted) <= len(lines); at++ {
		for i := range wanted {
			// The first and the last line may be parts of theirs.
			l := same(lines[at+i])
			switch {
			case l == folded[i]:
			case i == 0 && strings.HasSuffix(l, folded[i]):
			case i == len(wanted)-1 && strings.HasPrefix(l, folded[i]):
			case len(wanted) == 1 && strings.Contains(l, folded[i]):
			default:
				continue next
			}
		}
		return at
	}
	return -1
}

// mostAlike finds the line that shares most pairs of characters with key, if it
// shares half of them.
func mostAlike(lines []string, key string) int {
	want := pairs(key)
	if len(want) == 0 {
		return -1
	}
	best, score := -1, 0.5
	for i, l := range lines[:min(len(lines), 200_000)] {
		if len(l) > 4*len(key)+40 {
			continue
		}
		have := pairs(strings.TrimSpace(l))
		common := 0
		for p, n := range want {
			common += min(n, have[p])
		}
		if s := 2 * float64(common) / float64(max(1, len(key)-1+len(strings.TrimSpace(l))-1)); s > score {
			best, score = i, s
		}
	}
	return best
}

func pairs(s string) map[[2]byte]int {
	m := map[[2]byte]int{}
	for i := 1; i < len(s); i++ {
		m[[2]byte{s[i-1], s[i]}]++
	}
	return m
}

func lineRange(at, n int) string {
	if n == 1 {
		return fmt.Sprintf("line %d", at+1)
	}
	return fmt.Sprintf("lines %d to %d", at+1, at+n)
}

// excerpt shows lines as they are, so that they can be copied: at most ten.
func excerpt(lines []string, at, n int) string {
	end := min(len(lines), at+min(n, 10))
	return tool.Middle(strings.Join(lines[at:end], "\n"), 1500, 500, " … ")
}
