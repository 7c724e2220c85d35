package doctor

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lax reads JSON as the agents do: what is no UTF-8 is mended, of members with
// one name the last holds.
var lax = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// op is what a splice does.
type op int

const (
	set    op = iota // the value becomes another one; a member that is missing is added
	cut              // the value goes, with its name and its comma
	follow           // a new element comes after this one
)

// splice is a change of one value inside a line. All other bytes of the line
// stay as they were, so that a healed file can be compared with its original.
type splice struct {
	op    op
	path  string // names and indices, each after a slash
	value []byte // JSON
}

// span is where a value stands; from is where its name begins.
type span struct{ from, start, end int }

// applySplices changes line. What overlaps an inner change is left for the
// next look at the file.
func applySplices(line []byte, splices []splice) []byte {
	type located struct {
		splice
		span
		missing bool
	}
	var all []located
	for _, s := range splices {
		if at, ok := locate(line, s.path); ok {
			all = append(all, located{splice: s, span: at})
			continue
		}
		parent, _ := splitPath(s.path)
		if at, ok := locate(line, parent); ok && s.op == set && line[at.start] == '{' {
			all = append(all, located{splice: s, span: span{at.end - 1, at.end - 1, at.end - 1}, missing: true})
		}
	}
	slices.SortStableFunc(all, func(a, b located) int { return cmp.Compare(b.start, a.start) })
	out, edge := slices.Clone(line), len(line)+1
	for _, s := range all {
		if s.end > edge {
			continue
		}
		edge = s.from
		switch {
		case s.missing:
			out = addMember(out, s.start, s.path, s.value)
		case s.op == set:
			out = slices.Replace(out, s.start, s.end, s.value...)
		case s.op == follow:
			out = slices.Insert(out, s.end, append([]byte{','}, s.value...)...)
		default:
			out = cutValue(out, s.span)
		}
	}
	return out
}

func addMember(line []byte, brace int, path string, value []byte) []byte {
	_, name := splitPath(path)
	member := append(strconv.AppendQuote(nil, name), ':')
	member = append(member, value...)
	if before := bytes.TrimRight(line[:brace], " \t"); len(before) > 0 && before[len(before)-1] != '{' {
		member = append([]byte{','}, member...)
	}
	return slices.Insert(line, brace, member...)
}

func cutValue(line []byte, at span) []byte {
	from, end := at.from, at.end
	next := end
	for next < len(line) && isSpace(line[next]) {
		next++
	}
	if next < len(line) && line[next] == ',' {
		return slices.Delete(line, from, next+1)
	}
	before := from
	for before > 0 && isSpace(line[before-1]) {
		before--
	}
	if before > 0 && line[before-1] == ',' {
		from = before - 1
	}
	return slices.Delete(line, from, end)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func splitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// locate finds the value at path in line.
func locate(line []byte, path string) (span, bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(line), lax)
	from := -1
	for path != "" {
		name, rest, _ := strings.Cut(path[1:], "/")
		var ok bool
		if from, ok = enter(dec, name); !ok {
			return span{}, false
		}
		path = ""
		if rest != "" {
			path = "/" + rest
		}
	}
	value, err := dec.ReadValue()
	if err != nil {
		return span{}, false
	}
	end := int(dec.InputOffset())
	start := end - len(value)
	if from < 0 {
		from = start
	}
	return span{from, start, end}, true
}

// enter goes down one level: dec stands before the value called name. It
// returns where the name begins, or -1 for an element, which has none.
func enter(dec *jsontext.Decoder, name string) (int, bool) {
	switch dec.PeekKind() {
	case jsontext.KindBeginObject:
		if _, err := dec.ReadToken(); err != nil {
			return 0, false
		}
		for dec.PeekKind() == jsontext.KindString {
			token, err := dec.ReadValue()
			if err != nil {
				return 0, false
			}
			from := int(dec.InputOffset()) - len(token)
			if unquote(token) == name {
				return from, true
			}
			if dec.SkipValue() != nil {
				return 0, false
			}
		}
	case jsontext.KindBeginArray:
		n, err := strconv.Atoi(name)
		if _, bad := dec.ReadToken(); bad != nil || err != nil {
			return 0, false
		}
		for ; n > 0; n-- {
			if dec.PeekKind() == jsontext.KindEndArray || dec.SkipValue() != nil {
				return 0, false
			}
		}
		return -1, dec.PeekKind() != jsontext.KindEndArray
	}
	return 0, false
}

// quote returns s as a JSON string.
func quote(s string) []byte {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return []byte(`""`)
	}
	return b
}

func unquote(b []byte) string {
	out, err := jsontext.AppendUnquote(nil, b)
	if err != nil {
		return strings.ToValidUTF8(string(out), "\uFFFD")
	}
	return string(out)
}
