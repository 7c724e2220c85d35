package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
)

// parent is the file that a fork of Codex begins in: the child holds new
// records only, and the parent is read up to a byte.
type parent struct {
	id   string
	end  int    // byte up to which the child reads it
	path string // empty: not found
	doc  *doc   // what the child reads of it
	size int
	kids []kid // of the file itself
}

// kid is a fork that reads the beginning of this file.
type kid struct {
	path string
	end  int
}

func (p *parent) lines() []*line {
	if p.doc == nil {
		return nil
	}
	return p.doc.lines
}

// codexMeta is what links the files of a fork.
type codexMeta struct {
	Type    string `json:"type"`
	Payload struct {
		ID   string `json:"id"`
		Base *struct {
			Thread string `json:"thread_id"`
			End    int    `json:"end_byte_offset"`
		} `json:"history_base"`
	} `json:"payload"`
}

func readMeta(d *doc) *codexMeta {
	for _, l := range d.lines[:min(len(d.lines), 20)] {
		var m codexMeta
		if json.Unmarshal(l.text(), &m, lax) == nil && m.Type == "session_meta" {
			return &m
		}
	}
	return nil
}

// mostSiblings bounds how many files are looked at for forks.
const mostSiblings = 500

// findParent looks beside the file, and in the folders of other days, for what
// it was forked from and for what was forked from it.
func findParent(path string, d *doc) *parent {
	meta := readMeta(d)
	if meta == nil {
		return nil
	}
	p := &parent{}
	if base := meta.Payload.Base; base != nil {
		p.id, p.end = base.Thread, base.End
	}
	dir := filepath.Dir(path)
	beside, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	others, _ := filepath.Glob(filepath.Join(dir, "..", "..", "..", "[0-9]*", "[0-9]*", "[0-9]*", "rollout-*.jsonl"))
	all := append(beside, others...)
	for _, name := range all[:min(len(all), mostSiblings)] {
		if same(name, path) {
			continue
		}
		other := firstRecord(name)
		switch {
		case other == nil:
		case p.id != "" && other.Payload.ID == p.id && p.path == "":
			p.path = name
		case other.Payload.Base != nil && other.Payload.Base.Thread == meta.Payload.ID:
			p.kids = append(p.kids, kid{name, other.Payload.Base.End})
		}
	}
	if data, err := os.ReadFile(p.path); p.path != "" && err == nil {
		p.size = len(data)
		p.doc = splitLines(data[:min(max(p.end, 0), len(data))])
		// A child of a child has its own beginning elsewhere; what is here is
		// what can be judged.
	}
	if p.id == "" && len(p.kids) == 0 {
		return nil
	}
	return p
}

// firstRecord reads the beginning of a file, which is all that links need.
func firstRecord(name string) *codexMeta {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256<<10)
	n, _ := f.Read(head)
	head = head[:n]
	if end := bytes.IndexByte(head, '\n'); end >= 0 {
		head = head[:end+1]
	}
	return readMeta(splitLines(head))
}

// parentFile finds what is wrong between a fork and its parent.
func (x *examiner) parentFile(f *File) {
	if f.parent == nil {
		return
	}
	p := f.parent
	switch {
	case p.id == "":
	case p.path == "":
		found := x.doc.finding(x.format, ForkBase, 0, fmt.Sprintf("it goes on from session %s, which is not beside it, so its beginning could not be checked", p.id), nil)
		found.Severity, found.Effect = Risky, "Codex cannot resume it without that file"
		x.found = append(x.found, found)
	case p.end > p.size:
		x.found = append(x.found, x.doc.finding(x.format, ForkBase, 0,
			fmt.Sprintf("it reads %d bytes of its parent %s, which has only %d: the parent was changed after the fork; put back the parent as it was", p.end, filepath.Base(p.path), p.size), nil))
	}
	for _, kid := range p.kids {
		x.found = append(x.found, x.doc.finding(x.format, ForkChild, 0, fmt.Sprintf("%s is a fork of it and reads its first %d bytes", filepath.Base(kid.path), kid.end), nil))
	}
}

// forkWarning compares the healed file with what its forks read of it.
func (f *File) forkWarning(healed *doc) []Finding {
	if f.parent == nil {
		return nil
	}
	var out []Finding
	before, after := f.doc.bytes(), healed.bytes()
	for _, kid := range f.parent.kids {
		if kid.end > len(before) || bytes.HasPrefix(after, before[:max(kid.end, 0)]) {
			continue
		}
		found := healed.finding(f.Format, ForkChild, -1, fmt.Sprintf("the healed copy differs before byte %d, up to which the fork %s reads this file", kid.end, filepath.Base(kid.path)), nil)
		found.Severity = Risky
		found.Effect = fmt.Sprintf("keep the original in its place, or set end_byte_offset in the first line of the fork to %d when you replace it", f.offsetIn(healed, kid.end))
		out = append(out, found)
	}
	return out
}

// offsetIn returns where in the healed file the lines end that stood before a
// byte of the original.
func (f *File) offsetIn(healed *doc, end int) int {
	lines, at := 0, 0
	for _, l := range f.doc.lines {
		if at += len(l.raw); at > end {
			break
		}
		lines = l.no
	}
	offset, sum := 0, 0
	for _, l := range healed.lines {
		sum += len(l.raw)
		if l.no > lines {
			break
		}
		offset = sum
	}
	return offset
}
