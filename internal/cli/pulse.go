package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// pulseAfter is how long something goes on before the screen says that it does.
	pulseAfter = 3 * time.Second
	// silenceAfter is how long a stream says nothing before that is told.
	silenceAfter = 10 * time.Second
	// firstSilence and lastSilence bound how long a log without a terminal stays
	// without a line: each time twice as long as before.
	firstSilence = 20 * time.Second
	lastSilence  = 5 * time.Minute
)

// pulse is what goes on at the moment, as far as events tell.
type pulse struct {
	since time.Time // of what goes on
	heard time.Time // of the last sign of the model
	model string    // what it does; empty if it is not asked
	wait  *session.Waiting
	calls []pulseCall
}

// pulseCall is a call that runs.
type pulseCall struct {
	id, name, last string
	since          time.Time
}

// event takes in what happened at now.
func (p *pulse) event(e session.Event, now time.Time) {
	switch b := e.Body.(type) {
	case *session.Begin:
		p.turn("waiting for the model", now)
	case *session.Block:
		p.heard = now
	case *session.Delta:
		p.heard, p.model = now, "the model answers"
		if b.Thinking {
			p.model = "the model thinks"
		}
	case *session.Waiting:
		p.wait = b
	case *session.Commit:
		p.turn("", now)
		p.begin(b.Message, now)
	case *session.Continue:
		p.turn("", now)
		p.begin(b.Message, now)
	case *session.Progress:
		for i := range p.calls {
			if text := strings.TrimSpace(tool.Clean(b.Text)); p.calls[i].id == b.Call && text != "" {
				p.calls[i].last = lastTold(text[strings.LastIndexByte(text, '\n')+1:])
			}
		}
	case *session.Permission: // a person may have thought about it
		for i := range p.calls {
			if p.calls[i].id == b.Call {
				p.calls[i].since = now
			}
		}
	case *session.Result:
		p.calls = slices.DeleteFunc(p.calls, func(c pulseCall) bool { return c.id == b.Call })
		p.since = now
	case *session.Retract, *session.RunStart:
		p.turn("", now)
	case *session.End:
		*p = pulse{}
	}
}

// lastTold is a line of progress; the input of a sub-agent's call is told like
// that of any other.
func lastTold(line string) string {
	name, input, ok := strings.Cut(line, " ")
	if value := jsontext.Value(input); ok && strings.HasPrefix(input, "{") && value.IsValid() {
		return name + " " + brief(value)
	}
	return line
}

func (p *pulse) turn(model string, now time.Time) {
	p.since, p.heard, p.model, p.wait = now, now, model, nil
}

func (p *pulse) begin(m *message.Message, now time.Time) {
	if m == nil {
		return
	}
	for _, c := range m.Calls() {
		p.calls = append(p.calls, pulseCall{id: c.ID, name: c.Name, since: now})
	}
}

// text says on one short line what goes on; empty if nothing does, or not for
// long enough to be told.
func (p *pulse) text(now time.Time) string {
	switch {
	case p.wait != nil && now.Before(p.wait.Until):
		return waitText(p.wait, p.wait.Until.Sub(now))
	case p.since.IsZero() || now.Sub(p.since) < pulseAfter:
		return ""
	case p.model != "":
		text := fmt.Sprintf("%s · %s", p.model, whole(now.Sub(p.since)))
		if silent := now.Sub(p.heard); p.heard != p.since && silent >= silenceAfter {
			text += fmt.Sprintf(", nothing new for %s", whole(silent))
		}
		return text
	case len(p.calls) == 0:
		return "at work · " + whole(now.Sub(p.since))
	}
	c := p.calls[0]
	for _, other := range p.calls { // the one that runs longest, and of those one that says something
		if c.last == "" && other.last != "" {
			c = other
		}
	}
	text := fmt.Sprintf("%s · %s", c.name, whole(now.Sub(c.since)))
	if n := len(p.calls); n > 1 {
		text = fmt.Sprintf("%s, one of %d calls · %s", c.name, n, whole(now.Sub(c.since)))
	}
	if c.last != "" {
		text += " · " + clip(c.last, 60)
	}
	return text
}

// waitText tells a wait: why, which try of how many, how long, until when.
func waitText(b *session.Waiting, left time.Duration) string {
	why := strings.ReplaceAll(string(b.Cause), "_", " ")
	if b.Status != 0 {
		why += fmt.Sprintf(" (%d)", b.Status)
	}
	return fmt.Sprintf("⏸ %s · try %s in %s (at %s)", why, nOfM(b.Attempt, b.Of), span(max(left, 0)), b.Until.Local().Format(time.TimeOnly))
}

// span is a time without the noughts at its end: 50m, 2h, 1m5s.
func span(d time.Duration) string {
	s := round(d).String()
	if cut, ok := strings.CutSuffix(s, "m0s"); ok {
		s = cut + "m"
	}
	if cut, ok := strings.CutSuffix(s, "h0m"); ok {
		s = cut + "h"
	}
	return s
}

func whole(d time.Duration) string { return d.Round(time.Second).String() }

// fit shortens text to so many columns; 0 means that nobody knows how many
// there are.
func fit(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	used := 0
	for i, c := range text {
		if used += runeWidth(c); used > columns-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// runeWidth is how many columns c takes: two for the wide letters of East Asia
// and for pictures.
func runeWidth(c rune) int {
	switch {
	case c >= 0x1100 && c <= 0x115f, c >= 0x2e80 && c <= 0xa4cf, c >= 0xac00 && c <= 0xd7a3, c >= 0xf900 && c <= 0xfaff,
		c >= 0xfe30 && c <= 0xfe6f, c >= 0xff00 && c <= 0xff60, c >= 0xffe0 && c <= 0xffe6, c >= 0x1f300 && c <= 0x1faff, c >= 0x20000 && c <= 0x3fffd:
		return 2
	}
	return 1
}

// wrap breaks a line between words where it would not fit; what follows is
// indented like its beginning, and by hang more.
func wrap(text string, columns, hang int) string {
	if columns < 20 {
		return text
	}
	if first, rest, ok := strings.Cut(text, "\n"); ok {
		return wrap(first, columns, hang) + "\n" + wrap(rest, columns, hang)
	}
	out := ""
	plain := strings.TrimLeft(styles().ReplaceAllString(text, ""), " ")
	indent := strings.Repeat(" ", min(len(styles().ReplaceAllString(text, ""))-len(plain)+hang, columns/2))
	used := 0
	for i, word := range strings.SplitAfter(text, " ") {
		size := 0
		for _, c := range strings.TrimRight(styles().ReplaceAllString(word, ""), " ") {
			size += runeWidth(c)
		}
		if i > 0 && used > len(indent) && used+size > columns {
			out = strings.TrimRight(out, " ") + "\n" + indent
			used = len(indent)
		}
		out += word
		used += size
		if strings.HasSuffix(word, " ") {
			used++
		}
	}
	return out
}

// styles are the colours of paint.
var styles = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-9]*m") })
