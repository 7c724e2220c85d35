package anthropic

import (
	"bufio"
	"bytes"
	"io"
)

// maxEvent bounds one line and one event of a stream.
const maxEvent = 32 << 20

// sseEvent is one server-sent event. Its slices are valid until the next one is
// read.
type sseEvent struct {
	name []byte // of its event: line; empty if it had none
	data []byte // its data: lines, joined by line feeds
	cut  bool   // the stream ended before the blank line that ends an event
}

// eventReader reads server-sent events: lines end in LF, CR or CRLF, comments
// and unknown fields are passed over, and so are events without data.
type eventReader struct {
	lines   *bufio.Scanner
	begun   bool // the first line, which may bear a byte order mark, is read
	skipLF  bool // the last line ended in CR: an LF that follows belongs to it
	scanned int  // bytes of the unfinished line that hold no line end
	event   sseEvent
	hasData bool
}

func newEventReader(r io.Reader) *eventReader {
	e := &eventReader{lines: bufio.NewScanner(r)}
	e.lines.Buffer(make([]byte, 0, 32<<10), maxEvent)
	e.lines.Split(e.split)
	return e
}

// split finds the next line. It remembers how far it looked, so that a long
// line that arrives in small pieces costs its length once.
func (e *eventReader) split(data []byte, atEOF bool) (advance int, line []byte, err error) {
	skip := 0
	if e.skipLF && len(data) > 0 {
		e.skipLF = false
		if data[0] == '\n' {
			skip = 1
		}
	}
	data = data[skip:]
	fresh := data[e.scanned:]
	end := bytes.IndexByte(fresh, '\n')
	if end >= 0 {
		fresh = fresh[:end]
	}
	if cr := bytes.IndexByte(fresh, '\r'); cr >= 0 {
		end, e.skipLF = cr, true
	}
	switch {
	case end >= 0:
		end += e.scanned
		e.scanned = 0
		return skip + end + 1, data[:end], nil
	case atEOF && len(data) > 0:
		e.scanned = 0
		return skip + len(data), data, nil
	}
	e.scanned = len(data)
	return skip, nil, nil
}

// next returns the next event. The error is io.EOF where the stream ended in
// good order, and otherwise what broke it.
func (e *eventReader) next() (sseEvent, error) {
	e.event = sseEvent{name: e.event.name[:0], data: e.event.data[:0]}
	e.hasData = false
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if !e.begun {
			e.begun = true
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		if len(line) > 0 {
			e.field(line)
			if len(e.event.data) > maxEvent {
				return sseEvent{}, bufio.ErrTooLong
			}
			continue
		}
		if e.hasData {
			return e.event, nil
		}
		e.event.name = e.event.name[:0]
	}
	if e.hasData {
		e.hasData, e.event.cut = false, true
		return e.event, nil
	}
	if err := e.lines.Err(); err != nil {
		return sseEvent{}, err
	}
	return sseEvent{}, io.EOF
}

func (e *eventReader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.event.name = append(e.event.name[:0], value...)
	case "data":
		if e.hasData {
			e.event.data = append(e.event.data, '\n')
		}
		e.event.data = append(e.event.data, value...)
		e.hasData = true
	}
}
