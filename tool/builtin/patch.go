package builtin

import (
	"fmt"
	"slices"
	"strings"
)

// Hunk is a piece of a patch. Its lines begin with a space, a minus or a plus as
// in a unified diff, where a last line without an end is followed by a line that
// begins with a backslash.
type Hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

const (
	around   = 3   // lines of context around a change
	maxEdits = 400 // beyond it the cheapest patch is not looked for
	noEnd    = `\ No newline at end of file`
)

// step is one line of a difference: kept, taken out or put in.
type step struct {
	kind byte // ' ', '-', '+'
	text string
}

// patch returns the difference from old to text in hunks.
func patch(old, text string) []Hunk {
	steps := difference(strings.SplitAfter(old, "\n"), strings.SplitAfter(text, "\n"))
	var hunks []Hunk
	oldLine, newLine := 1, 1
	var h *Hunk
	quiet := 0 // kept lines since the last change
	for i, s := range steps {
		if s.kind != ' ' && h == nil {
			from := max(0, i-min(around, quiet))
			hunks = append(hunks, Hunk{OldStart: oldLine - (i - from), NewStart: newLine - (i - from)})
			h = &hunks[len(hunks)-1]
			for _, before := range steps[from:i] {
				h.add(before)
			}
		}
		if s.kind == ' ' {
			quiet++
		} else {
			quiet = 0
		}
		if h != nil && quiet > around && !changesWithin(steps[i:], around+1) {
			h = nil
		}
		if h != nil {
			h.add(s)
		}
		if s.kind != '+' {
			oldLine++
		}
		if s.kind != '-' {
			newLine++
		}
	}
	for i := range hunks {
		hunks[i].settle()
	}
	return hunks
}

func changesWithin(steps []step, n int) bool {
	return slices.ContainsFunc(steps[:min(len(steps), n)], func(s step) bool { return s.kind != ' ' })
}

func (h *Hunk) add(s step) {
	if s.kind != '+' {
		h.OldLines++
	}
	if s.kind != '-' {
		h.NewLines++
	}
	text, ended := strings.CutSuffix(s.text, "\n")
	h.Lines = append(h.Lines, string(s.kind)+text)
	if !ended {
		h.Lines = append(h.Lines, noEnd)
	}
}

// settle follows the custom that an empty side starts one line before.
func (h *Hunk) settle() {
	if h.OldLines == 0 {
		h.OldStart--
	}
	if h.NewLines == 0 {
		h.NewStart--
	}
}

// difference finds a short way from a to b. Lines carry their ends, so the last
// element of a text that ends with a line end is empty and is no line.
func difference(a, b []string) []step {
	a, b = trimEmpty(a), trimEmpty(b)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var steps []step
	keep := func(lines []string) {
		for _, l := range lines {
			steps = append(steps, step{' ', l})
		}
	}
	keep(a[:head])
	steps = append(steps, shortest(a[head:len(a)-tail], b[head:len(b)-tail])...)
	keep(a[len(a)-tail:])
	return steps
}

func trimEmpty(lines []string) []string {
	if n := len(lines); n > 0 && lines[n-1] == "" {
		return lines[:n-1]
	}
	return lines
}

// shortest is Myers' greedy algorithm: far[k] is how far a path gets on diagonal
// k with d edits. Where too many edits are needed, everything is replaced.
func shortest(a, b []string) []step {
	limit := min(len(a)+len(b), maxEdits)
	far := make([]int, 2*limit+3)
	at := func(k int) *int { return &far[k+limit+1] }
	var rounds [][]int
	for d := 0; d <= limit; d++ {
		rounds = append(rounds, slices.Clone(far))
		for k := -d; k <= d; k += 2 {
			x := *at(k - 1) + 1
			if k == -d || k != d && *at(k - 1) < *at(k + 1) {
				x = *at(k + 1)
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			*at(k) = x
			if x >= len(a) && x-k >= len(b) {
				return retrace(a, b, rounds, limit)
			}
		}
	}
	var steps []step
	for _, l := range a {
		steps = append(steps, step{'-', l})
	}
	for _, l := range b {
		steps = append(steps, step{'+', l})
	}
	return steps
}

// retrace walks back from the end through what each round had reached.
func retrace(a, b []string, rounds [][]int, limit int) []step {
	var steps []step
	x, y := len(a), len(b)
	for d := len(rounds) - 1; d >= 0; d-- {
		at := func(k int) int { return rounds[d][k+limit+1] }
		k := x - y
		down := k == -d || k != d && at(k-1) < at(k+1)
		prev := k - 1
		if down {
			prev = k + 1
		}
		px, py := 0, 0
		if d > 0 {
			px = at(prev)
			py = px - prev
		}
		for x > px && y > py {
			x, y = x-1, y-1
			steps = append(steps, step{' ', a[x]})
		}
		if d == 0 {
			break
		}
		if down {
			y--
			steps = append(steps, step{'+', b[y]})
		} else {
			x--
			steps = append(steps, step{'-', a[x]})
		}
	}
	slices.Reverse(steps)
	return steps
}

// stat says how many lines a patch puts in and takes out.
func stat(hunks []Hunk) string {
	in, out := 0, 0
	for _, h := range hunks {
		for _, l := range h.Lines {
			switch l[0] {
			case '+':
				in++
			case '-':
				out++
			}
		}
	}
	return fmt.Sprintf("+%d −%d lines", in, out)
}
