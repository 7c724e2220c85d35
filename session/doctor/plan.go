package doctor

import (
	"bytes"
	"slices"
)

// change is what happens to one line.
type change struct {
	drop    bool
	splices []splice
	whole   [][]byte // the line becomes these
	after   [][]byte // lines that follow it
}

// plan is a set of changes to the lines of a doc. Repairs of different
// findings add to one plan.
type plan struct {
	doc     *doc
	changes map[int]*change
	top     [][]byte
	gone    map[place]bool // blocks that were taken out
}

func newPlan(d *doc) *plan {
	return &plan{doc: d, changes: map[int]*change{}, gone: map[place]bool{}}
}

func (p *plan) empty() bool { return len(p.changes) == 0 && len(p.top) == 0 }

func (p *plan) at(line int) *change {
	c := p.changes[line]
	if c == nil {
		c = &change{}
		p.changes[line] = c
	}
	return c
}

// take notes that the block at a place goes, and reports whether all blocks of
// its array in e now do.
func (p *plan) take(e *entry, at place) (first, last bool) {
	if p.gone[at] {
		return false, false
	}
	p.gone[at] = true
	for _, other := range e.at {
		if other.line == at.line && other.list == at.list && !p.gone[other] {
			return true, false
		}
	}
	return true, true
}

func (p *plan) drop(line int) { p.at(line).drop = true }

func (p *plan) dropped(line int) bool {
	c := p.changes[line]
	return c != nil && c.drop
}

func (p *plan) replace(line int, with ...[]byte) { p.at(line).whole = with }

// insert adds a line after another one, or before all others (-1).
func (p *plan) insert(line int, text []byte) {
	if line < 0 {
		p.top = append(p.top, text)
		return
	}
	c := p.at(line)
	c.after = append(c.after, text)
}

// arrange puts lines into an order. What has to go in front of lines that stand
// before it moves there; all others stay where they are.
func (p *plan) arrange(order []int) {
	anchor := len(p.doc.lines)
	var moved [][]int // with the line that they come before, backwards
	for _, n := range slices.Backward(order) {
		if n < anchor {
			anchor = n
			continue
		}
		moved = append(moved, []int{n, anchor})
	}
	for _, m := range slices.Backward(moved) {
		p.insert(m[1]-1, p.doc.lines[m[0]].text())
		p.at(m[0]).whole = [][]byte{}
	}
}

func (p *plan) set(line int, path string, value []byte) { p.splice(line, splice{set, path, value}) }

func (p *plan) cut(line int, path string) { p.splice(line, splice{op: cut, path: path}) }

func (p *plan) splice(line int, s splice) {
	c := p.at(line)
	c.splices = append(c.splices, s)
}

// planned returns the value that path of line is about to get.
func (p *plan) planned(line int, path string) ([]byte, bool) {
	if c := p.changes[line]; c != nil {
		for _, s := range c.splices {
			if s.op == set && s.path == path {
				return s.value, true
			}
		}
	}
	return nil, false
}

// apply makes the doc with the changes. Lines without a change are the same
// lines as before; seal finishes each line that is new.
func (p *plan) apply(seal func([]byte) []byte) *doc {
	out := &doc{lines: make([]*line, 0, len(p.doc.lines)+len(p.top))}
	add := func(no int, text []byte) {
		if n := len(out.lines); n > 0 && !bytes.HasSuffix(out.lines[n-1].raw, []byte("\n")) {
			last := *out.lines[n-1]
			last.raw = append(slices.Clone(last.raw), '\n')
			out.lines[n-1] = &last
		}
		out.lines = append(out.lines, &line{raw: append(seal(slices.Clone(text)), '\n'), no: no})
	}
	for _, text := range p.top {
		add(0, text)
	}
	for i, l := range p.doc.lines {
		c := p.changes[i]
		switch {
		case c == nil:
			out.lines = append(out.lines, l)
			continue
		case c.drop:
		case c.whole != nil:
			for k, text := range c.whole {
				no := l.no
				if k > 0 {
					no = 0
				}
				add(no, text)
			}
		case c.splices != nil:
			add(l.no, applySplices(l.text(), c.splices))
		default:
			out.lines = append(out.lines, l)
		}
		for _, text := range c.after {
			add(0, text)
		}
	}
	return out
}
