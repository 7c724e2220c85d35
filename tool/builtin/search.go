package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/tool"
)

const (
	maxHits   = 10_000 // lines kept of one file
	maxColumn = 500    // characters of a line
	maxKept   = 8 << 20
)

// query is what Grep looks for.
type query struct {
	re            *regexp.Regexp
	literal       []byte // is in every match; empty: not known
	folded        bool   // it is so in lower case, and matches in any
	multiline     bool
	only          bool
	lines         bool // the lines are wanted, not just their number
	first         bool // only whether there is a match is wanted
	before, after int

	kept atomic.Int64 // bytes of lines, so that a search cannot fill the memory
}

// hit is a line to show.
type hit struct {
	line  int
	match bool
	text  string
}

// findings is what was found in one file.
type findings struct {
	name    string
	changed time.Time
	matches int // lines, or matches if only these are wanted
	hits    []hit
	more    bool // hits were left out
	large   bool // it was not searched, being too large
	locked  bool // it was not searched, since this user may not read it
}

func newQuery(in grepInput) (*query, error) {
	expr := in.Pattern
	switch {
	case in.Pattern == "":
		return nil, refuse(ClassPattern, "the pattern is empty")
	case in.Before < 0 || in.After < 0 || in.Around < 0 || in.Offset < 0:
		return nil, refuse(tool.ClassBadInput, "-A, -B, -C and offset must not be negative")
	case in.Multiline:
		expr = "(?sm:" + expr + ")"
	}
	if in.Fold {
		expr = "(?i:" + expr + ")"
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, refuse(ClassPattern, "%v. Patterns have RE2 syntax: look-around and back-references are not known, "+
			`and ( ) [ ] { } * + ? . | ^ $ \ mean themselves only behind a \`, err)
	}
	q := &query{
		re: re, multiline: in.Multiline, only: in.Only, lines: in.Mode == modeContent, first: in.Mode == modeFiles,
		// More than is kept of a file is not shown, and a sum must not overflow.
		before: min(max(in.Before, in.Around), maxHits), after: min(max(in.After, in.Around), maxHits),
	}
	if tree, err := syntax.Parse(expr, syntax.Perl); err == nil {
		l := required(tree.Simplify())
		q.literal, q.folded = []byte(l.text), l.folded
	}
	return q, nil
}

// literal is a text that matches contain, or, if it is folded, contain when
// they are written in lower case.
type literal struct {
	text   string
	folded bool
}

// required returns the longest text that every match of re contains. Looking
// for it first is much faster than the expression.
func required(re *syntax.Regexp) (best literal) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return literal{string(re.Rune), false}
		}
		// Letters beyond ASCII are left out, and k and s, which have partners there.
		parts := strings.FieldsFunc(strings.ToLower(string(re.Rune)), func(r rune) bool { return r >= utf8.RuneSelf || r == 'k' || r == 's' })
		for _, part := range parts {
			if len(part) > len(best.text) {
				best = literal{part, true}
			}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if l := required(sub); len(l.text) > len(best.text) {
				best = l
			}
		}
	}
	return best
}

// search looks into all files at once, as far as there are processors, and
// returns what was found in the order of files.
func (q *query) search(ctx context.Context, p place, files []entry) []findings {
	results := make([]findings, len(files))
	var next atomic.Int64
	var workers sync.WaitGroup
	var fault atomic.Value // a panic would end the program if nobody here took it
	for range min(runtime.GOMAXPROCS(0), 8, max(1, len(files))) {
		workers.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					fault.Store(fmt.Sprint(v))
				}
			}()
			var buf buffers // for one file after the other
			defer buf.close()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(files) || ctx.Err() != nil {
					return
				}
				results[i] = q.file(p, files[i], &buf)
			}
		})
	}
	workers.Wait()
	if v := fault.Load(); v != nil {
		panic(v) // to the tool set, as of every tool
	}
	return slices.DeleteFunc(results, func(f findings) bool { return f.matches == 0 && !f.large && !f.locked })
}

// buffers are memory for the contents of one file, and its folder.
type buffers struct {
	folder
	data, lower []byte
}

// file searches one file. One that cannot be read, or is no text, has nothing
// in it: a search over many files does not fail for one.
func (q *query) file(p place, e entry, buf *buffers) findings {
	f := findings{name: e.name, changed: e.info.ModTime()}
	if !e.info.Mode().IsRegular() || e.info.Size() > maxWhole {
		f.large = e.info.Mode().IsRegular()
		return f
	}
	at, err := buf.place(p, e.name)
	var data []byte
	if err == nil {
		data, _, err = at.loadInto(buf.data)
	}
	if err != nil {
		f.locked = errors.Is(err, fs.ErrPermission)
		return f
	}
	if buf.data = data; bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 {
		return f
	}
	data = bytes.TrimPrefix(data, []byte(bom))
	if bytes.Contains(data, []byte("\r\n")) {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	}
	hay := data
	if q.folded {
		buf.lower = appendLower(buf.lower[:0], data)
		hay = buf.lower
	}
	switch {
	case !bytes.Contains(hay, q.literal):
	case q.multiline:
		q.spans(&f, data)
	default:
		q.byLine(&f, data, hay)
	}
	return f // what was found was copied
}

// appendLower appends data with its ASCII letters in lower case, each byte in
// its place.
func appendLower(dst, data []byte) []byte {
	dst = append(dst, data...)
	for i, c := range dst {
		if c-'A' < 26 {
			dst[i] = c | 0x20
		}
	}
	return dst
}

// byLine tests the lines in which the literal is. hay is data as it is
// searched for that.
func (q *query) byLine(f *findings, data, hay []byte) {
	var matched []int
	for at, n := 0, 0; at < len(data); n++ {
		begin := at
		if len(q.literal) > 0 {
			i := bytes.Index(hay[at:], q.literal)
			if i < 0 {
				break
			}
			begin = at + bytes.LastIndexByte(data[at:at+i], '\n') + 1
			n += bytes.Count(data[at:begin], []byte("\n"))
		}
		end := len(data)
		if i := bytes.IndexByte(data[begin:], '\n'); i >= 0 {
			end = begin + i
		}
		line := data[begin:end]
		at = end + 1
		if q.only && q.lines {
			for _, m := range q.re.FindAll(line, -1) {
				f.matches++
				q.keep(f, hit{n + 1, true, string(m)})
			}
			continue
		}
		if q.re.Match(line) {
			f.matches++
			if matched = append(matched, n); q.first {
				return
			}
		}
	}
	if len(matched) > 0 && q.lines {
		q.context(f, splitLines(data), matched)
	}
}

// spans finds matches that may go over several lines. All of these are shown.
func (q *query) spans(f *findings, data []byte) {
	lines := splitLines(data)
	line, at := 0, 0
	var matched []int
	limit := maxHits
	if q.first {
		limit = 1
	}
	for _, m := range q.re.FindAllIndex(data, limit) {
		f.matches++
		line += bytes.Count(data[at:m[0]], []byte("\n"))
		at = m[0]
		if q.only && q.lines {
			q.keep(f, hit{line + 1, true, string(data[m[0]:m[1]])})
			continue
		}
		// A line end at the end of a match does not make the next line match.
		last := line + bytes.Count(bytes.TrimSuffix(data[m[0]:m[1]], []byte("\n")), []byte("\n"))
		for i := line; i <= last && i < len(lines); i++ {
			if len(matched) == 0 || matched[len(matched)-1] < i {
				matched = append(matched, i)
			}
		}
	}
	q.context(f, lines, matched)
}

// context keeps the matched lines and those around them.
func (q *query) context(f *findings, lines [][]byte, matched []int) {
	if !q.lines {
		return
	}
	next := 0 // the first line that is not kept yet
	for n, i := range matched {
		for j := max(next, i-q.before); j <= min(i+q.after, len(lines)-1); j++ {
			if n+1 < len(matched) && j >= matched[n+1] {
				break // it comes as a match
			}
			q.keep(f, hit{j + 1, j == i, string(lines[j][:min(len(lines[j]), 4*maxColumn+4)])})
			next = j + 1
		}
	}
}

func (q *query) keep(f *findings, h hit) {
	if len(f.hits) >= maxHits || q.kept.Load() > maxKept {
		f.more = true
		return
	}
	h.text = tool.Middle(h.text, maxColumn, 0, "… [line cut here]")
	q.kept.Add(int64(len(h.text)))
	f.hits = append(f.hits, h)
}

func splitLines(data []byte) [][]byte {
	lines := bytes.Split(data, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
