package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/daruma-agent/daruma/message"
)

// Report is what there is to tell of a file.
type Report struct {
	Path     string    `json:"path"`
	Format   Format    `json:"format"`
	Lines    int       `json:"lines"`
	Bytes    int       `json:"bytes"`
	Messages int       `json:"messages"` // that would be sent
	Calls    int       `json:"calls"`
	Tokens   int       `json:"tokens"` // estimated
	Findings []Finding `json:"findings"`
	// Sound says that nothing breaks; Healable that a healed copy is sound.
	Sound    bool `json:"sound"`
	Healable bool `json:"healable"`
}

// Report examines the file. Findings come in the order of its lines.
func (f *File) Report() Report {
	c := f.cure()
	r := Report{Path: f.Path, Format: f.Format, Lines: len(f.doc.lines), Sound: true, Healable: c.sound}
	for _, l := range f.doc.lines {
		r.Bytes += len(l.raw)
	}
	msgs := messages(f.patient(f.doc).talk())
	for _, m := range msgs {
		r.Calls += len(m.Calls())
	}
	r.Messages, r.Tokens = len(msgs), message.Estimate(msgs)
	r.Findings = append(slices.Clone(c.found), f.forkWarning(c.doc)...)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	for _, found := range r.Findings {
		r.Sound = r.Sound && found.Severity != Breaks
	}
	return r
}

// Count returns how many findings have a severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// String tells the report in plain words: what was read, what was found, each
// rule once with its lines, and what to do next.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: a session of %s, %s, %s, about %d tokens\n", r.Path, r.Format.Agent(),
		count(r.Lines, "line"), count(r.Messages, "message"), r.Tokens)
	for _, severity := range []Severity{Breaks, Risky, Info} {
		r.group(&b, severity)
	}
	b.WriteString("\n" + r.Next() + "\n")
	return b.String()
}

var headings = map[Severity]string{
	Breaks: "Breaks the session",
	Risky:  "Risky",
	Info:   "Good to know",
}

// mostShown bounds the lines of one rule.
const mostShown = 10

func (r Report) group(b *strings.Builder, severity Severity) {
	byRule := map[Rule][]Finding{}
	var order []Rule
	for _, f := range r.Findings {
		if f.Severity != severity {
			continue
		}
		if byRule[f.Rule] == nil {
			order = append(order, f.Rule)
		}
		byRule[f.Rule] = append(byRule[f.Rule], f)
	}
	if len(order) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", headings[severity])
	for _, rule := range order {
		found := byRule[rule]
		fmt.Fprintf(b, "  %s (%s, %d)\n", rules[rule].title, rule, len(found))
		for _, f := range found[:min(len(found), mostShown)] {
			fmt.Fprintf(b, "    %s%s\n", f.where(), f.What)
		}
		if more := len(found) - mostShown; more > 0 {
			fmt.Fprintf(b, "    … and %d more\n", more)
		}
		if found[0].Effect != "" {
			fmt.Fprintf(b, "    then:   %s\n", found[0].Effect)
		}
		if found[0].Repair != "" {
			fmt.Fprintf(b, "    repair: %s\n", found[0].Repair)
		}
	}
}

func (f Finding) where() string {
	if f.Line == 0 {
		return ""
	}
	return "line " + strconv.Itoa(f.Line) + ": "
}

// Next says what to do, in one line.
func (r Report) Next() string {
	switch breaks := r.Count(Breaks); {
	case breaks == 0 && r.Count(Risky) == 0:
		return "Nothing stands in the way of going on with this session."
	case breaks == 0:
		return "The session can go on; a healed copy is safer."
	case r.Healable:
		return fmt.Sprintf("A healed copy removes %s; the original stays as it is. Look at the diff first.", count(breaks, "fault"))
	}
	left := 0
	for _, f := range r.Findings {
		if f.Severity == Breaks && !f.Healable() {
			left++
		}
	}
	return fmt.Sprintf("%s cannot be healed here; the healed copy has the rest.", strings.ToUpper(count(left, "fault")[:1])+count(left, "fault")[1:])
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
