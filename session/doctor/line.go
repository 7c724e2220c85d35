package doctor

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// line is one line of a file: its exact bytes, and where it stood.
type line struct {
	raw   []byte // with its line break
	no    int    // in the file as it was opened, from 1; 0 for a line that was added
	whole bool   // known to be one sound JSON object
	rec   any    // what a reader made of it, once
}

// text is the line without its line break.
func (l *line) text() []byte { return bytes.TrimRight(l.raw, "\r\n") }

func (l *line) blank() bool { return len(bytes.TrimSpace(l.raw)) == 0 }

// doc is a file as its lines. A doc never changes; [plan.apply] makes a new
// one, which shares the lines that stayed.
type doc struct{ lines []*line }

func splitLines(data []byte) *doc {
	d := &doc{}
	for no := 1; len(data) > 0; no++ {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		d.lines = append(d.lines, &line{raw: data[:end:end], no: no})
		data = data[end:]
	}
	return d
}

func (d *doc) bytes() []byte {
	var out []byte
	for _, l := range d.lines {
		out = append(out, l.raw...)
	}
	return out
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// mended is what became of the bytes of a line.
type mended struct {
	text   []byte
	faults []Rule
}

func (m *mended) fault(r Rule) {
	if !slices.Contains(m.faults, r) {
		m.faults = append(m.faults, r)
	}
}

// mendBytes repairs what is wrong with a line below the level of JSON: bytes
// that are no UTF-8, halves of surrogate pairs, NUL and bare control
// characters. Each becomes U+FFFD, the mark for a character that was lost.
func mendBytes(in []byte) mended {
	m := mended{text: in}
	if rest, ok := bytes.CutPrefix(in, byteOrderMark); ok {
		in, m.text = rest, rest
		m.fault(ByteOrderMark)
	}
	var out []byte // nil as long as nothing differs
	from := 0      // what comes before it is in out
	put := func(i, n int, with string) {
		out = append(append(out, in[from:i]...), with...)
		from = i + n
	}
	inString := false
	for i := 0; i < len(in); {
		c, n := in[i], 1
		switch {
		case c == '"':
			inString = !inString
		case c == '\\' && inString:
			var with string
			var rule Rule
			if n, with, rule = mendEscape(in[i:]); rule != "" {
				m.fault(rule)
				put(i, n, with)
			}
		case c == 0:
			m.fault(NULBytes)
			put(i, 1, map[bool]string{true: `\ufffd`}[inString])
		case c < 0x20 && inString:
			m.fault(ControlCharacter)
			put(i, 1, `\u00`+string("0123456789abcdef"[c>>4])+string("0123456789abcdef"[c&15]))
		case c >= utf8.RuneSelf:
			var r rune
			if r, n = utf8.DecodeRune(in[i:]); r == utf8.RuneError && n == 1 {
				m.fault(BadUTF8)
				put(i, 1, "\uFFFD")
			}
		}
		i += n
	}
	if out != nil {
		m.text = append(out, in[from:]...)
	}
	return m
}

// mendEscape reads the escape sequence at the start of in: its length, and if
// it stands for no character, what takes its place and which rule it breaks.
func mendEscape(in []byte) (n int, with string, rule Rule) {
	unit, ok := escapeUnit(in)
	switch {
	case !ok:
		return min(2, len(in)), "", ""
	case unit == 0:
		return 6, `\ufffd`, NUL
	case unit < 0xD800 || unit > 0xDFFF:
		return 6, "", ""
	}
	if low, ok := escapeUnit(in[6:]); unit < 0xDC00 && ok && 0xDC00 <= low && low <= 0xDFFF {
		return 12, "", ""
	}
	return 6, `\ufffd`, HalfSurrogate
}

func escapeUnit(in []byte) (uint64, bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(in[2:6]), 16, 16)
	return unit, err == nil
}

// isObject reports whether text is exactly one JSON object.
func isObject(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 1 && text[0] == '{' && jsontext.Value(text).IsValid(lax)
}

// salvage returns the whole records within a line that is none: a write that
// was cut, followed by the next record on the same line, still holds the next
// one. Objects that are no records are pieces of one that was torn.
func salvage(text []byte, format Format) [][]byte {
	marks := beginnings[format]
	const tries = 64 // a line of nothing but beginnings is no record
	var found [][]byte
	for try := 0; len(text) > 0 && try < tries; try++ {
		dec := jsontext.NewDecoder(bytes.NewBuffer(text), lax)
		if dec.PeekKind() == jsontext.KindBeginObject {
			if value, err := dec.ReadValue(); err == nil {
				if isRecord(value, format) {
					found = append(found, slices.Clone(value))
				}
				text = bytes.TrimSpace(text[dec.InputOffset():])
				continue
			}
		}
		next := -1
		for _, mark := range marks {
			if at := bytes.Index(text[1:], mark); at >= 0 && (next < 0 || at+1 < next) {
				next = at + 1
			}
		}
		if next < 0 {
			break
		}
		text = text[next:]
	}
	return found
}

// lines looks at the bytes of each line.
func (x *examiner) lines(f *File) {
	for i := 0; i < len(x.doc.lines); i++ {
		l := x.doc.lines[i]
		if l.whole {
			continue
		}
		first := i // i goes on
		if more, record := x.spread(f.Format, i); more > 0 {
			x.find(TornLine, nil, i, func(p *plan) {
				p.replace(first, record)
				for k := range more {
					p.drop(first + 1 + k)
				}
			}, "a record that is spread over %d lines", more+1)
			x.found[len(x.found)-1].Repair = "it becomes one line again"
			i += more
			continue
		}
		x.line(f, i, l)
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
		if records = salvage(m.text, f.Format); len(records) > 0 {
			fault = FusedLine
		} else if closed := closeRecord(m.text, f.Format); closed != nil {
			x.find(TornLine, nil, i, func(p *plan) { p.replace(i, closed) }, "a record that lacks only its last brackets")
			x.found[len(x.found)-1].Repair = "the brackets are added"
			return
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

// needs are the members that every record of a format has; of each group one.
var needs = map[Format][][]string{
	Claude: {{"type"}, {"uuid", "sessionId", "leafUuid", "summary"}},
	Codex:  {{"type"}, {"payload"}},
	Pi:     {{"type"}, {"id"}, {"timestamp", "parentId"}},
	Daruma: {{"v"}, {"body"}, {"crc"}},
}

// isRecord reports whether an object is a record of its own: blocks of a torn
// record are objects too.
func isRecord(object []byte, format Format) bool {
	for _, group := range needs[format] {
		if !slices.ContainsFunc(group, func(name string) bool { _, ok := locate(object, "/"+name); return ok }) {
			return false
		}
	}
	return true
}

// spread reads a record that stands on several lines, as editors and bare line
// breaks leave it: how many lines follow the first, and the record.
func (x *examiner) spread(format Format, i int) (more int, record []byte) {
	const mostLines, mostBytes, mostTries = 4000, 8 << 20, 64
	text := x.doc.lines[i].text()
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] != '{' || isObject(mendBytes(text).text) {
		return 0, nil
	}
	joined := slices.Clone(text)
	open := bytes.Count(text, []byte{'{'}) - bytes.Count(text, []byte{'}'}) // about: texts may hold some
	for k, tries := 1, 0; k < mostLines && i+k < len(x.doc.lines) && len(joined) < mostBytes && tries < mostTries; k++ {
		next := x.doc.lines[i+k].text()
		if isObject(next) && isRecord(next, format) {
			return 0, nil
		}
		joined = append(append(joined, '\n'), next...)
		open += bytes.Count(next, []byte{'{'}) - bytes.Count(next, []byte{'}'})
		if !bytes.HasSuffix(bytes.TrimRight(next, " \t"), []byte{'}'}) || open > 0 && tries > mostTries/2 {
			continue
		}
		tries++
		whole := mendBytes(joined).text
		if isObject(whole) && isRecord(whole, format) {
			value := jsontext.Value(bytes.TrimSpace(whole))
			if value.Compact(lax) != nil {
				return 0, nil
			}
			return k, value
		}
	}
	return 0, nil
}

// closeRecord adds the brackets that a record lacks when nothing else is missing.
func closeRecord(text []byte, format Format) []byte {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), lax)
	for {
		if _, err := dec.ReadToken(); err != nil {
			break
		}
	}
	closed := slices.Clone(text)
	for depth := dec.StackDepth(); depth > 0; depth-- {
		kind, _ := dec.StackIndex(depth)
		closed = append(closed, map[jsontext.Kind]byte{'{': '}', '[': ']'}[kind])
	}
	if len(closed) == len(text) || !isObject(closed) || !isRecord(closed, format) {
		return nil
	}
	return closed
}
