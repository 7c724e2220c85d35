package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// edit changes the list of events.
type edit struct {
	do    string // drop, repeat, replace, swap, mangle, noise or no-event-lines
	how   string
	event string // the type of the event
	k     int    // which of this type, from 1; 0: every one
	other int
	text  template
}

// eventEdit reads `drop EVENT [K]` and its like; more reads what follows.
func eventEdit(more func(*parser, *cursor, *edit)) func(*parser, *effects, *cursor) {
	return func(p *parser, e *effects, c *cursor) {
		d := edit{do: c.node.name}
		p.eventName(c, &d)
		if more != nil {
			more(p, c, &d)
		}
		e.edits = append(e.edits, d)
	}
}

var eventNames = []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping"}

func (p *parser) eventName(c *cursor, d *edit) {
	d.event = c.choice(eventNames...)
	d.k = c.optionalNumber(1)
	if c.peek() == "all" {
		c.next("")
		d.k = 0
	}
}

// apply changes the frames; ok is false if the event is not there.
func (d *edit) apply(frames []frame, s *scene) (out []frame, ok bool) {
	switch d.do {
	case "swap":
		if d.k < 1 || d.other < 1 || d.k > len(frames) || d.other > len(frames) {
			return frames, false
		}
		frames[d.k-1], frames[d.other-1] = frames[d.other-1], frames[d.k-1]
		return frames, true
	case "noise":
		return d.noise(frames), true
	case "no-event-lines":
		for i := range frames {
			frames[i].bare = true
		}
		return frames, true
	}
	seen := 0
	for _, f := range frames {
		if f.event != d.event {
			out = append(out, f)
			continue
		}
		seen++
		if d.k != 0 && seen != d.k {
			out = append(out, f)
			continue
		}
		ok = true
		switch d.do {
		case "drop":
		case "repeat":
			out = append(out, f, f)
		case "replace":
			f.data = d.text.expand(s)
			out = append(out, f)
		case "mangle":
			f.data = mangled(f.data, d.how)
			out = append(out, f)
		}
	}
	return out, ok
}

// mangled breaks the JSON of an event in one of the ways that gateways have been seen to do.
func mangled(data, how string) string {
	half := len(data) / 2
	switch how {
	case "cut":
		return data[:half]
	case "pad":
		return data[:half] + strings.Repeat(" ", len(data)-half)
	case "newline": // a raw line break inside a string: the rest lands on a line without "data:"
		return data[:half] + "\n" + data[half:]
	default: // an unescaped control byte inside of a string
		i := strings.LastIndex(data, `":"`)
		if i < 0 {
			i = 0
		}
		i = min(i+3, len(data))
		return data[:i] + "\x01" + data[i:]
	}
}

// noise puts k things that a client has to ignore after every event but the last.
func (d *edit) noise(frames []frame) []frame {
	var out []frame
	for i, f := range frames {
		out = append(out, f)
		if i == len(frames)-1 {
			break
		}
		for n := range d.k {
			out = append(out, d.noisy(f, i*d.k+n))
		}
	}
	return out
}

func (d *edit) noisy(after frame, n int) frame {
	switch d.how {
	case "comments":
		return frame{raw: fmt.Sprintf(": comment %d\n\n", n)}
	case "unknown-events":
		return event("future_event", struct {
			Type string `json:"type"`
			N    int    `json:"n"`
		}{"future_event", n})
	case "unknown-deltas":
		if after.delta { // a delta makes sense only inside of a block
			f := after
			f.data = `{"type":"content_block_delta","index":` + strconv.Itoa(after.block-1) + `,"delta":{"type":"future_delta","future":"` + strconv.Itoa(n) + `"}}`
			f.chars, f.delta = 0, false
			return f
		}
	}
	return event("ping", typed{"ping"})
}

// plainFrames is raw text as a stream of one piece, cut into events at blank lines so that positions
// such as `event 3` work in it.
func plainFrames(text string) []frame {
	var out []frame
	for piece := range strings.SplitAfterSeq(text, "\n\n") {
		if piece != "" {
			out = append(out, frame{raw: piece})
		}
	}
	return slices.Clip(out)
}
