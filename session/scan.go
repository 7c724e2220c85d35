package session

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// A large journal is mostly text that the conversation no longer holds. So its
// lines are checked, but looked at only as far as this file can without
// decoding them: what it does not understand at once is decoded as ever.

// span is where a line is.
type span struct {
	at   int64
	size int
}

// head is what stands before the body in an event's line.
type head struct {
	seq     uint64
	session string
	run     int
	kind    Type
}

// scan visits the lines of a journal, with their line ends. A line is valid
// until visit returns.
func scan(r io.Reader, visit func(at span, line []byte) error) error {
	in := bufio.NewReaderSize(r, 1<<18)
	var long []byte // a line that is longer than the buffer
	var at int64
	for {
		part, err := in.ReadSlice('\n')
		if len(long) > 0 || errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			part = long
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) > maxLine {
				return fmt.Errorf("a line has more than %d bytes", maxLine)
			}
			continue
		}
		if len(part) > 0 {
			if bad := visit(span{at, len(part)}, part); bad != nil {
				return bad
			}
		}
		at += int64(len(part))
		long = long[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// intact reports whether the checksum of a line fits, and returns what it is
// the checksum of.
func intact(line []byte) (body []byte, ok bool) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) <= sumLength {
		return nil, false
	}
	body, sum := line[:len(line)-sumLength], line[len(line)-sumLength:]
	var want [sumLength]byte
	return body, bytes.Equal(sum, fmt.Appendf(want[:0], sumFormat, crc32.Checksum(body, table)))
}

// glance reads the head of a line as this build writes it, and returns what
// follows the type: the body, or less than two bytes without one.
func glance(line []byte) (h head, body []byte, ok bool) {
	r := reader{rest: line, ok: true}
	r.need(`{"v":`)
	r.number()
	if r.have(`,"seq":`) {
		h.seq = r.number()
	}
	r.need(`,"time":"`)
	r.text()
	if r.have(`,"session":"`) {
		h.session = string(r.text())
	}
	if r.have(`,"run":`) {
		h.run = int(r.number())
	}
	if r.have(`,"turn":`) {
		r.number()
	}
	r.need(`,"type":"`)
	h.kind = Type(r.text())
	r.need(`,"body":`)
	return h, r.rest, r.ok
}

// reader takes known words from the beginning of a line. Once something else
// stands there, ok is false for good.
type reader struct {
	rest []byte
	ok   bool
}

func (r *reader) have(word string) bool {
	if !r.ok || len(r.rest) < len(word) || string(r.rest[:len(word)]) != word {
		return false
	}
	r.rest = r.rest[len(word):]
	return true
}

func (r *reader) need(word string) { r.ok = r.have(word) }

// number takes decimal digits.
func (r *reader) number() uint64 {
	n := 0
	for n < len(r.rest) && '0' <= r.rest[n] && r.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseUint(string(r.rest[:n]), 10, 63)
	r.ok = r.ok && err == nil
	r.rest = r.rest[n:]
	return v
}

// text takes the rest of a string that needs no decoding, and its end.
func (r *reader) text() []byte {
	for i, c := range r.rest {
		switch {
		case c == '"':
			text := r.rest[:i]
			r.rest = r.rest[i+1:]
			return text
		case c == '\\' || c < ' ' || c >= 0x80:
			r.ok = false
			return nil
		}
	}
	r.ok = false
	return nil
}
