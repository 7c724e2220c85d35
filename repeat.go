package daruma

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// When a call leads nowhere: it was made so often, with the same result, and
// nothing changed in between.
const (
	mostFailures = 3  // in a row, with the same failure
	mostReads    = 5  // since something was changed, in a row or not
	mostChanges  = 10 // in a row, of a call that succeeds and changes something
	mostCircles  = 3  // of calls that alternate …
	widestCircle = 4  // … between so many
	mostSeen     = 64 // calls that are remembered
	// Who waits for something asks again and again: calls that take so long may
	// be made so many times as often.
	takesTime = 5 * time.Second
	patient   = 5
)

// repeats remembers the calls of a run and notices those that lead nowhere
// (corpus: doom-loop). The zero value is ready.
type repeats struct {
	seen []made // oldest first
	made int    // how many in all
}

// made is one call as far as repetition goes.
type made struct {
	call   digest // tool and input
	result digest
	failed bool
	change bool // it succeeded, and may have changed something
	slow   bool // it took its time
}

type digest [sha256.Size]byte

// add remembers what came of a call.
func (p *repeats) add(c *call, result message.Block, took time.Duration) {
	p.made++
	m := made{call: c.key(), failed: result.IsError, slow: took >= takesTime}
	m.change = !m.failed && c.effect != tool.Pure
	text := []byte(result.PlainText())
	if m.failed { // numbers of lines, times and ports do not make it another failure
		text = bytes.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return -1
			}
			return r
		}, text)
	}
	m.result = sha256.Sum256(text)
	p.seen = append(p.seen, m)
	p.seen = p.seen[max(0, len(p.seen)-mostSeen):]
}

// forgetReads forgets what was read: to read it once more is no repetition when
// the conversation no longer holds it.
func (p *repeats) forgetReads() {
	p.seen = slices.DeleteFunc(p.seen, func(m made) bool { return !m.failed && !m.change })
}

// again remembers that a call was not run since it leads nowhere.
func (p *repeats) again(c *call) {
	key := c.key()
	for _, m := range slices.Backward(p.seen) {
		if m.call == key {
			p.seen = append(p.seen, m)
			return
		}
	}
}

// nowhere tells how often c was made with the same result; 0 if it may run.
func (p *repeats) nowhere(c *call) int {
	key := c.key()
	row, same, circling := 0, 0, p.circles(key)
	inRow, steady := true, true
	var first *made
	for i := len(p.seen) - 1; i >= 0; i-- {
		m := &p.seen[i]
		switch {
		case m.call != key:
			inRow, steady = false, steady && !m.change
			continue
		case first == nil:
			first = m
		case m.result != first.result || m.failed != first.failed:
			inRow, steady = false, false
		}
		if inRow {
			row++
		}
		if steady {
			same++
		}
	}
	if first == nil {
		return 0
	}
	factor := 1
	if first.slow {
		factor = patient
	}
	switch {
	case circling:
		return mostCircles
	case first.failed && row >= factor*mostFailures, first.change && row >= factor*mostChanges:
		return row
	case !first.change && same >= factor*mostReads:
		return same
	}
	return 0
}

// circles reports whether the newest calls go round in a circle that next
// would begin once more.
func (p *repeats) circles(next digest) bool {
	for width := 2; width <= widestCircle; width++ {
		from := len(p.seen) - width*mostCircles
		if from < 0 || p.seen[from].call != next {
			continue
		}
		round, closed := p.seen[from:from+width], true
		if !slices.ContainsFunc(round, func(m made) bool { return m.call != next }) {
			continue // the same call in a row has its own bounds
		}
		if slices.ContainsFunc(round, func(m made) bool { return m.slow }) {
			continue // a wait is in it
		}
		for i, m := range p.seen[from:] {
			closed = closed && m == round[i%width]
		}
		if closed {
			return true
		}
	}
	return false
}

// key is what makes two calls the same: the tool, and the input however it is
// written; of a tool that does not exist, its name alone.
func (c *call) key() digest {
	input := slices.Clone(c.Input)
	if c.unknown {
		input = nil
	}
	if v := jsontext.Value(input); v.Canonicalize() == nil {
		input = v
	}
	return sha256.Sum256(append([]byte(c.Name+"\x00"), input...))
}
