package fault

import (
	"math/rand/v2"
	"strings"
)

// position is a place in the bytes of an answer.
type position struct {
	name string
	n    int
	n2   int
}

const positionNames = "start, event N, byte N, random, json, utf8, text [CHARS], thinking [CHARS], tool [K [CHARS]], tool-start [K], " +
	"block K, before-delta, before-stop or end"

// position reads a position. Numbers that may be left out are 1.
func (p *parser) position(c *cursor) position {
	t := c.next("a position: " + positionNames)
	pos := position{name: t.text, n: 1, n2: 1}
	switch t.text {
	case "start", "random", "json", "utf8", "before-delta", "before-stop", "end":
	case "event", "byte", "block":
		pos.n = c.number("a number after " + t.text)
	case "text", "thinking", "tool-start":
		pos.n = c.optionalNumber(1)
	case "tool":
		pos.n = c.optionalNumber(1)
		pos.n2 = c.optionalNumber(1)
	default:
		p.fail(t.at, "unknown position ", t.text, ": expected ", positionNames)
	}
	return pos
}

// layout is the list of events with the byte at which each one ends.
type layout struct {
	frames []frame
	bytes  []string
	ends   []int
	stream bool
}

func newLayout(frames []frame, lineEnd string, stream bool) *layout {
	l := &layout{frames: frames, stream: stream}
	total := 0
	for i := range frames {
		b := frames[i].bytes()
		if lineEnd != "" && lineEnd != "\n" {
			b = strings.ReplaceAll(b, "\n", lineEnd)
		}
		total += len(b)
		l.bytes = append(l.bytes, b)
		l.ends = append(l.ends, total)
	}
	return l
}

func (l *layout) total() int {
	if len(l.ends) == 0 {
		return 0
	}
	return l.ends[len(l.ends)-1]
}

// roundUp moves a byte to the end of the event that it is in.
func (l *layout) roundUp(at int) int {
	for _, end := range l.ends {
		if at > 0 && at <= end {
			return end
		}
	}
	return at
}

// find gives the byte of a position; ok is false if this answer has no such place.
func (l *layout) find(p position, r *rand.Rand) (at int, ok bool) {
	switch p.name {
	case "start":
		return 0, true
	case "byte":
		return p.n, p.n <= l.total()
	case "random":
		if l.total() < 2 {
			return 0, false
		}
		return 1 + r.IntN(l.total()-1), true
	case "json":
		return l.insideString()
	case "utf8":
		return l.insideCharacter()
	case "end":
		return l.total(), true
	}
	if !l.stream {
		return 0, false
	}
	if p.name == "event" && p.n == 0 {
		return 0, true
	}
	return l.findEvent(p)
}

// findEvent finds the positions that only a stream has.
func (l *layout) findEvent(p position) (at int, ok bool) {
	chars, tool, lastBlock := 0, 0, 0
	for i := range l.frames {
		f := &l.frames[i]
		begin := 0
		if i > 0 {
			begin = l.ends[i-1]
		}
		if f.block != 0 && f.block != lastBlock { // what stands between blocks belongs to none
			lastBlock = f.block
			if f.kind == "tool_use" {
				tool++
				chars = 0
			}
		}
		switch p.name {
		case "event":
			if i+1 == p.n {
				return l.ends[i], true
			}
		case "block":
			if f.event == "content_block_stop" && f.block == p.n {
				return l.ends[i], true
			}
		case "text", "thinking":
			if f.delta && f.kind == p.name {
				chars += f.chars
				if chars >= p.n {
					return l.ends[i], true
				}
			}
		case "tool":
			if f.kind == "tool_use" && tool == p.n && f.delta {
				chars += f.chars
				if chars >= p.n2 {
					return l.ends[i], true
				}
			}
		case "tool-start":
			if f.kind == "tool_use" && tool == p.n && f.event == "content_block_start" {
				return l.ends[i], true
			}
		case "before-delta":
			if f.event == "message_delta" {
				return begin, true
			}
		case "before-stop":
			if f.event == "message_stop" {
				return begin, true
			}
		}
	}
	return 0, false
}

// insideString is the middle of a string that carries content: in a stream that of the first delta.
func (l *layout) insideString() (at int, ok bool) {
	begin := 0
	for i := range l.frames {
		b := l.bytes[i]
		if l.frames[i].delta || !l.stream {
			// A bare ":" between two quotes cannot occur inside of a JSON string, so the last one
			// stands before the last string.
			if open := strings.LastIndex(b, `":"`); open >= 0 {
				length := strings.IndexByte(b[open+3:], '"')
				return begin + open + 3 + max(0, length/2), true
			}
		}
		begin = l.ends[i]
	}
	return 0, false
}

func (l *layout) insideCharacter() (at int, ok bool) {
	begin := 0
	for i := range l.frames {
		for k := range len(l.bytes[i]) {
			if l.bytes[i][k] >= 0xC0 {
				return begin + k + 1, true
			}
		}
		begin = l.ends[i]
	}
	return 0, false
}
