package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	sound   bool // the doc keeps all rules
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

func (f *Finding) key() known { return known{f.Rule, f.Line, f.Message, f.What} }

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
			if k := found.key(); !seen[k] {
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
// findings that say so.
func (f *File) verify(c *cure, x *examiner) {
	c.sound = true
	for _, left := range x.found {
		if left.Severity != Breaks {
			continue
		}
		c.sound = false
		for i := range c.found { // its repair had nothing to take hold of
			if c.found[i].key() == left.key() {
				c.found[i].mend, c.found[i].Repair = nil, ""
			}
		}
	}
	if len(x.doc.lines) == 0 {
		c.sound = false
		c.found = append(c.found, c.doc.finding(f.Format, Unhealed, -1, "no record of this file is whole, so nothing is left to go on with", nil))
	}
	if !c.sound || len(x.talk) == 0 {
		return
	}
	for _, problem := range message.Check(messages(x.talk), f.Rules()) {
		c.sound = false
		line := x.talk[problem.Message].line()
		c.found = append(c.found, c.doc.finding(f.Format, Unhealed, line, "a rule of the API is still broken: "+problem.String(), nil))
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

// ErrNothingLeft says that no record of a file is whole: no copy is written.
var ErrNothingLeft = errors.New("no record of the file is whole, so nothing is left to go on with")

// HealedPath is where [File.HealTo] writes when it is given no path: beside
// the original, as NAME.healed.jsonl.
func (f *File) HealedPath() string {
	return strings.TrimSuffix(f.Path, filepath.Ext(f.Path)) + ".healed.jsonl"
}

// HealTo writes the healed file to path, or to [File.HealedPath] if path is
// empty, and returns where it is. The file appears whole or not at all. The
// original is never overwritten, and no other file either ([os.ErrExist]): a
// healed copy that somebody went on with holds what is nowhere else. One that
// stands at HealedPath makes room for the new one, and aside is where it is now.
func (f *File) HealTo(path string) (healed, aside string, err error) {
	own := path == ""
	if own {
		path = f.HealedPath()
	}
	switch there, err := f.stands(path); {
	case len(f.cure().doc.lines) == 0:
		return "", "", fmt.Errorf("write healed session: %w", ErrNothingLeft)
	case same(path, f.Path):
		return "", "", fmt.Errorf("write healed session: %s is the original, which is never touched; give another path", path)
	case there:
		return path, "", nil
	case err != nil && !own:
		return "", "", fmt.Errorf("write healed session: %w: %s; somebody may have gone on with it: move it away, or give another path", err, path)
	case err != nil:
		if aside, err = makeRoom(path); err != nil {
			return "", "", fmt.Errorf("write healed session: %w", err)
		}
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".healed-*")
	if err != nil {
		return "", aside, fmt.Errorf("write healed session: %w", err)
	}
	err = errors.Join(f.Heal(tmp), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", aside, errors.Join(fmt.Errorf("write healed session: %w", err), os.Remove(tmp.Name()))
	}
	return path, aside, nil
}

// stands reports whether the healed file is at path already. Anything else there
// is [os.ErrExist].
func (f *File) stands(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, nil
	}
	if was, err := readRegular(path, info); err == nil && bytes.Equal(was, f.cure().doc.bytes()) {
		return true, nil
	}
	return false, os.ErrExist
}

// makeRoom moves the file at path to NAME.N.jsonl beside it, with the first N
// that is free.
func makeRoom(path string) (aside string, err error) {
	for n := 1; ; n++ {
		aside = fmt.Sprintf("%s.%d.jsonl", strings.TrimSuffix(path, ".jsonl"), n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, os.Rename(path, aside)
		} else if err != nil {
			return "", err
		}
	}
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
