package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/daruma-agent/daruma/message"
)

// mostPasses bounds the looks at a file. Each pass repairs one layer, since
// what is seen of a layer is only true once those below it are whole.
const mostPasses = 40

// cure is what was found in a file and what became of it.
type cure struct {
	found   []Finding // with the lines of the original
	doc     *doc
	patient patient
}

func (f *File) cure() *cure {
	if f.cured == nil {
		f.cured = f.treat()
	}
	return f.cured
}

// known is a finding without its repair, which can be compared.
type known struct {
	rule    Rule
	line    int
	message string
	what    string
}

// treat looks, repairs the lowest layer that needs it, and looks again, until
// nothing is left that can be repaired.
func (f *File) treat() *cure {
	c := &cure{doc: f.doc}
	seen := map[known]bool{}
	for range mostPasses {
		c.patient = f.patient(c.doc)
		x := f.look(c.doc, c.patient)
		p := newPlan(c.doc)
		for _, found := range x.found {
			if k := (known{found.Rule, found.Line, found.Message, found.What}); !seen[k] {
				seen[k] = true
				c.found = append(c.found, found)
			}
			if found.mend != nil {
				found.mend(p)
			}
		}
		if p.empty() {
			f.verify(c, x)
			return c
		}
		c.patient.settle(p)
		c.doc = p.apply(c.patient.seal)
	}
	c.patient = f.patient(c.doc)
	c.found = append(c.found, c.doc.finding(f.Format, Unhealed, -1,
		"the repairs of this file do not come to an end; go back to an older copy of it, or start a new session", nil))
	return c
}

// look examines d layer by layer and stops behind the first one with repairs.
func (f *File) look(d *doc, pat patient) *examiner {
	x := &examiner{format: f.Format, doc: d, patient: pat, model: f.Model}
	layers := []func(){
		func() { x.lines(f) },
		func() { x.found = append(x.found, pat.structure()...); x.parentFile(f) },
		func() { x.read(f); x.blocks() },
		func() { x.ids(x.pairing()) },
		func() { x.pairs(x.pairing()) },
		x.first,
		func() { x.found = append(x.found, pat.infos()...); x.sizes() },
	}
	for _, layer := range layers {
		layer()
		for _, found := range x.found {
			if found.mend != nil {
				return x
			}
		}
	}
	return x
}

// read takes the conversation, once the records are whole.
func (x *examiner) read(f *File) {
	x.talk = x.patient.talk()
	for i := len(x.talk) - 1; i >= 0 && x.model == ""; i-- {
		x.model = x.talk[i].msg.Model
	}
	x.strip = f.DropThinking || x.patient.refused()
}

// verify holds the cure to its promise: a conversation that breaks no rule, or
// a finding that says so.
func (f *File) verify(c *cure, x *examiner) {
	msgs := make([]*message.Message, len(x.talk))
	for i := range x.talk {
		msgs[i] = x.talk[i].msg
	}
	left := false
	for _, found := range x.found {
		left = left || found.Severity == Breaks
	}
	if left || len(msgs) == 0 {
		return
	}
	for _, problem := range message.Check(msgs, f.Rules()) {
		e := &x.talk[problem.Message]
		found := c.doc.finding(f.Format, Unhealed, e.line(), "a rule of the API is still broken: "+problem.String(), nil)
		c.found = append(c.found, found)
	}
}

// Heal writes the healed file to w. A file that needs nothing is written as it
// is. What cannot be healed is in the report, and stays as it was.
func (f *File) Heal(w io.Writer) error {
	if _, err := w.Write(f.cure().doc.bytes()); err != nil {
		return fmt.Errorf("write healed session: %w", err)
	}
	return nil
}

// HealedPath is where [File.HealTo] writes when it is given no path: beside
// the original, as NAME.healed.jsonl.
func (f *File) HealedPath() string {
	return strings.TrimSuffix(f.Path, filepath.Ext(f.Path)) + ".healed.jsonl"
}

// HealTo writes the healed file to path, or to [File.HealedPath] if path is
// empty, and returns where it is. The file appears whole or not at all. The
// original is never overwritten.
func (f *File) HealTo(path string) (string, error) {
	if path == "" {
		path = f.HealedPath()
	}
	if same(path, f.Path) {
		return "", fmt.Errorf("write healed session: %s is the original, which is never touched; give another path", path)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".healed-*")
	if err != nil {
		return "", fmt.Errorf("write healed session: %w", err)
	}
	err = errors.Join(f.Heal(tmp), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write healed session: %w", err), os.Remove(tmp.Name()))
	}
	return path, nil
}

// same reports whether both paths lead to one file, by whatever name.
func same(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	one, errA := os.Stat(a)
	two, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(one, two)
}

// lines looks at the bytes of each line.
func (x *examiner) lines(f *File) {
	for i, l := range x.doc.lines {
		if !l.whole {
			x.line(f, i, l)
		}
	}
	if n := len(x.doc.lines) - 1; n >= 0 && !bytes.HasSuffix(x.doc.lines[n].raw, []byte("\n")) && len(x.found) == 0 {
		x.find(NoLineEnd, nil, n, func(p *plan) { p.replace(n, x.doc.lines[n].text()) }, "the last line has no line break")
	}
}

func (x *examiner) line(f *File, i int, l *line) {
	if l.blank() {
		l.whole = true
		return
	}
	text := l.text()
	m := mendBytes(text)
	records := [][]byte{m.text}
	var fault Rule
	if !isObject(m.text) {
		fault = TornLine
		if records = salvage(m.text, beginnings[f.Format]); len(records) > 0 {
			fault = FusedLine
		}
	} else if f.Format == Daruma && !checksumFits(text) {
		fault = WrongChecksum
	}
	if len(text) > maxLineSize {
		x.find(LargeLine, nil, i, nil, "the line has %d bytes", len(text))
	}
	if len(m.faults) == 0 && fault == "" {
		l.whole = true
		return
	}
	mend := func(p *plan) { p.replace(i, records...) }
	if len(records) == 0 || len(bytes.TrimSpace(m.text)) == 0 {
		mend = func(p *plan) { p.drop(i) }
		if len(bytes.TrimSpace(m.text)) == 0 {
			fault = ""
		}
	}
	for _, rule := range m.faults {
		x.find(rule, nil, i, mend, "%s", lineFaults[rule])
	}
	if fault != "" && (fault != WrongChecksum || len(m.faults) == 0) {
		x.find(fault, nil, i, mend, lineFaults[fault], len(text))
	}
}

var lineFaults = map[Rule]string{
	ByteOrderMark:    "the file begins with a byte order mark",
	BadUTF8:          "bytes that are no UTF-8",
	HalfSurrogate:    "half of a surrogate pair",
	NUL:              "a NUL character in a text",
	NULBytes:         "NUL bytes",
	ControlCharacter: "a control character that is not escaped",
	TornLine:         "%d bytes that are no whole JSON object",
	FusedLine:        "%d bytes that are not one JSON object, but hold whole ones",
	WrongChecksum:    "the checksum does not fit to the %d bytes of the line",
}

// beginnings are how records of each format begin, to find one behind what is
// left of another.
var beginnings = map[Format][][]byte{
	Claude: {[]byte(`{"parentUuid"`), []byte(`{"type"`), []byte(`{"uuid"`)},
	Codex:  {[]byte(`{"timestamp"`)},
	Pi:     {[]byte(`{"type"`)},
	Daruma: {[]byte(`{"v"`)},
}
