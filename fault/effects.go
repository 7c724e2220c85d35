package fault

import (
	"net/http"
	"strconv"
	"strings"
)

// effect reads one line of a step that is no condition.
func (p *parser) effect(e *effects, n *node) {
	if p.err != nil {
		return
	}
	read, ok := effectReaders[n.name]
	if !ok {
		p.fail(n.at, "unknown statement ", n.name, " in a step: expected ", effectNames)
		return
	}
	c := p.line(n)
	read(p, e, c)
	if n.name != "reply" {
		c.done()
	}
}

const effectNames = "when, until, status, header, delay, stall, close, reset, pings, cut, error, send, drop, repeat, swap, " +
	"replace, mangle, noise, line-ends, event-lines, chunk, pieces, usage, stop, truncate, answer-model, reply or sse"

var effectReaders map[string]func(*parser, *effects, *cursor)

// Filled by init: `effect` reads the table and `reply` leads back to the parser.
func init() {
	effectReaders = map[string]func(*parser, *effects, *cursor){
		"status": (*parser).statusEffect,
		"header": (*parser).headerEffect,
		"delay":  (*parser).delayEffect,
		"stall":  (*parser).stallEffect,
		"close": func(_ *parser, e *effects, c *cursor) {
			c.choice("headers")
			e.ends = append(e.ends, ending{how: "close"})
		},
		"reset": func(_ *parser, e *effects, c *cursor) {
			c.choice("headers")
			e.ends = append(e.ends, ending{how: "reset"})
		},
		"pings": (*parser).pingsEffect,
		"cut": func(p *parser, e *effects, c *cursor) {
			m := mark{at: p.position(c), do: "cut", how: "end"}
			if c.more() {
				m.how = c.choice("end", "close", "reset")
			}
			e.marks = append(e.marks, m)
		},
		"error": (*parser).errorEffect,
		"send": func(p *parser, e *effects, c *cursor) {
			m := mark{at: p.position(c), do: "send", text: p.rawText(c)}
			e.marks = append(e.marks, m)
		},
		"drop":    eventEdit(nil),
		"repeat":  eventEdit(nil),
		"replace": eventEdit(func(p *parser, c *cursor, d *edit) { d.text = c.template("the data of the event") }),
		"swap": func(_ *parser, e *effects, c *cursor) {
			d := edit{do: "swap", k: c.number("the number of an event")}
			d.other = c.number("the number of another event")
			e.edits = append(e.edits, d)
		},
		"mangle": func(p *parser, e *effects, c *cursor) {
			d := edit{do: "mangle", how: c.choice("cut", "pad", "newline", "control")}
			p.eventName(c, &d)
			e.edits = append(e.edits, d)
		},
		"noise": func(p *parser, e *effects, c *cursor) {
			d := edit{do: "noise", how: c.choice("pings", "comments", "unknown-events", "unknown-deltas")}
			d.k = max(1, c.optionalNumber(1))
			e.edits = append(e.edits, d)
		},
		"line-ends": func(_ *parser, e *effects, c *cursor) {
			e.lineEnd = map[string]string{"crlf": "\r\n", "lf": "\n", "cr": "\r"}[c.choice("crlf", "lf", "cr")]
		},
		"event-lines": func(_ *parser, e *effects, c *cursor) {
			c.choice("off")
			e.edits = append(e.edits, edit{do: "no-event-lines"})
		},
		"chunk":  func(_ *parser, e *effects, c *cursor) { e.chunk = max(1, c.number("a number of bytes")) },
		"pieces": func(_ *parser, e *effects, c *cursor) { e.pieces = max(1, c.number("a number of characters")) },
		"usage":  (*parser).usageEffect,
		"stop":   func(p *parser, e *effects, c *cursor) { e.stop = p.stop(c) },
		"truncate": func(_ *parser, e *effects, c *cursor) {
			t := truncation{n: c.number("a number of tokens or characters")}
			t.chars = c.choice("tokens", "chars") == "chars"
			e.truncate = &t
		},
		"answer-model": func(_ *parser, e *effects, c *cursor) { e.model = c.string("the name of a model").text },
		"reply":        func(p *parser, e *effects, c *cursor) { e.reply = p.reply(c.node); c.blockOnly() },
		"sse":          func(p *parser, e *effects, c *cursor) { t := p.rawText(c); e.sse = &t },
	}
}

// blockOnly is for statements whose line holds nothing more, with or without a block.
func (c *cursor) blockOnly() {
	if c.more() {
		c.p.fail(c.node.args[c.i].at, "expected the end of the line")
	}
}

// rawText reads bytes for the stream: a heredoc is taken as whole lines.
func (p *parser) rawText(c *cursor) template {
	t := c.string("the raw text to send")
	if t.heredoc {
		t.text += "\n"
	}
	return p.template(t)
}

// statusEffect reads `status 529 [TYPE MESSAGE]` or `status 502 html|text|json [BODY]` or `status 200 empty`.
func (p *parser) statusEffect(e *effects, c *cursor) {
	code := c.number("a status code")
	if code < 200 || code > 599 {
		p.fail(c.node.at, "status has to be from 200 to 599")
	}
	e.status = &canned{code: code, contentType: "application/json"}
	switch kind := c.peek(); kind {
	case "":
		e.status.errType = typeOfStatus(code)
		e.status.body = template{{text: http.StatusText(code)}}
		if code == 529 { // has no text of its own in the standard
			e.status.body = template{{text: "Overloaded"}}
		}
	case "empty":
		c.next("")
	case "html", "text", "json":
		c.next("")
		e.status.contentType = map[string]string{"html": "text/html; charset=utf-8", "text": "text/plain; charset=utf-8", "json": "application/json"}[kind]
		page := "<html><head><title>" + strconv.Itoa(code) + "</title></head><body><h1>" + http.StatusText(code) + "</h1></body></html>"
		e.status.body = template{{text: page}}
		if kind != "html" || c.more() {
			e.status.body = c.template("the body")
		}
	default:
		e.status.errType = c.next("an error type").text
		e.status.body = c.template("the message of the error")
	}
}

func (p *parser) headerEffect(e *effects, c *cursor) {
	h := header{name: http.CanonicalHeaderKey(c.next("the name of a header").text)}
	if !validHeaderName(h.name) {
		p.fail(c.node.at, "expected the name of a header, such as retry-after")
	}
	if c.peek() == "none" {
		c.next("")
		h.remove = true
	} else {
		t := c.string("the value of the header, or none")
		if strings.ContainsAny(t.text, "\r\n\x00") {
			p.fail(t.at, "a header value has to be one line")
		}
		h.value = p.template(t)
	}
	e.headers = append(e.headers, h)
}

func validHeaderName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

func (p *parser) delayEffect(e *effects, c *cursor) {
	what := c.choice("headers", "first", "events")
	d := c.duration("a time")
	switch what {
	case "headers":
		e.waits.headers += d
	case "first":
		e.waits.first += d
	case "events":
		e.waits.events += d
	}
}

func (p *parser) stallEffect(e *effects, c *cursor) {
	if c.peek() != "headers" {
		m := mark{at: p.position(c), do: "stall"}
		if c.more() {
			m.wait = c.duration("how long, or nothing: until the client leaves")
		}
		e.marks = append(e.marks, m)
		return
	}
	c.next("")
	s := ending{how: "stall"}
	if c.more() {
		s.wait = c.duration("how long, or nothing: until the client leaves")
	}
	e.ends = append(e.ends, s)
}

// pingsEffect reads `pings POS [TIME] [every TIME]`.
func (p *parser) pingsEffect(e *effects, c *cursor) {
	m := mark{at: p.position(c), do: "pings", every: pingEvery}
	if c.more() && c.peek() != "every" {
		m.wait = c.duration("how long, or nothing: until the client leaves")
	}
	if c.more() {
		c.choice("every")
		if m.every = c.duration("the time between pings"); m.every == 0 {
			p.fail(c.node.at, "pings every 0s would flood for ever: expected a time above 0")
		}
	}
	e.marks = append(e.marks, m)
}

func (p *parser) errorEffect(e *effects, c *cursor) {
	m := mark{at: p.position(c), do: "error", how: c.next("an error type, such as overloaded_error").text}
	m.text = c.template("the message of the error")
	if c.more() {
		c.choice("go-on")
		m.goOn = true
	}
	e.marks = append(e.marks, m)
}

func (p *parser) usageEffect(e *effects, c *cursor) {
	keys := map[string]string{"input": "input_tokens", "output": "output_tokens", "cache-read": "cache_read_input_tokens", "cache-write": "cache_creation_input_tokens"}
	e.usage = map[string]int{}
	for {
		t := c.next("input=N, output=N, cache-read=N or cache-write=N")
		n, err := strconv.Atoi(t.text)
		if keys[t.key] == "" || err != nil {
			p.fail(t.at, "expected input=N, output=N, cache-read=N or cache-write=N")
		}
		e.usage[keys[t.key]] = n
		if !c.more() {
			return
		}
	}
}

var stopReasons = []string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"}

// stop reads a stop reason: a word is one that the API knows or null, a string is any other.
func (p *parser) stop(c *cursor) *stopSpec {
	s := &stopSpec{}
	t := c.next("a stop reason")
	s.reason = t.text
	known := t.text == "null" || t.kind == quoted
	for _, r := range stopReasons {
		known = known || r == t.text
	}
	if !known {
		p.fail(t.at, "unknown stop reason ", strconv.Quote(t.text), ": expected one of ", strings.Join(stopReasons, ", "), ", null, or an invented one in quotes")
	}
	if t.text == "null" {
		s.reason = ""
	}
	for c.more() {
		switch t := c.next(""); t.key {
		case "sequence":
			s.sequence = t.text
		case "category":
			s.category = t.text
		case "explanation":
			s.explanation = t.text
		default:
			p.fail(t.at, "expected sequence=, category= or explanation=")
		}
	}
	return s
}
