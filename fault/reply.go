package fault

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// replySpec is a reply as the script writes it.
type replySpec struct {
	items []replyItem
	stop  *stopSpec
}

type replyItem struct {
	do   string // say, think, redacted, call, call-raw, block, summary or go-on
	tool string // call: the tool or ability
	id   string // call: the id, or empty
	args []callArg
	text template
	fill int // say, think: tokens of prose to add
}

type callArg struct {
	key     string
	value   template
	literal bool // a JSON number or word, not a string
}

// reply reads the lines of a rule or of a reply block.
func (p *parser) reply(n *node) *replySpec {
	spec := &replySpec{}
	for _, kid := range n.kids {
		if p.err != nil {
			return spec
		}
		c := p.line(kid)
		switch kid.name {
		case "when":
			if n.name != "rule" {
				p.fail(kid.at, "a reply has no conditions: expected say, think, redacted, call, call-raw, block, summary, go-on or stop")
			}
			continue
		case "stop":
			spec.stop = p.stop(c)
		default:
			spec.items = append(spec.items, p.replyItem(kid, c))
		}
		c.done()
	}
	return spec
}

func (p *parser) replyItem(n *node, c *cursor) replyItem {
	item := replyItem{do: n.name}
	switch n.name {
	case "say", "think":
		item.text = c.template("the text")
		if c.more() {
			t := c.next("fill=TOKENS")
			fill, err := strconv.Atoi(t.text)
			if t.key != "fill" || err != nil || fill < 0 || fill > 1e6 {
				p.fail(t.at, "expected fill=TOKENS, such as fill=3000")
			}
			item.fill = fill
		}
	case "redacted":
		item.text = c.template("the data")
	case "call", "call-raw":
		item.tool = p.id(c, "tool or ability")
		if c.peek() == "as" {
			c.next("")
			item.id = c.string("the id of the call").text
		}
		if n.name == "call-raw" {
			item.text = c.template("the raw text of the input")
		}
		for n.name == "call" && c.more() {
			item.args = append(item.args, p.callArg(c))
		}
	case "block":
		t := c.string("a content block as JSON")
		var v map[string]any
		if json.Unmarshal([]byte(t.text), &v) != nil || str(v, "type") == "" {
			p.fail(t.at, "expected a JSON object with a type")
		}
		item.text = template{{text: t.text}}
	case "summary", "go-on":
	default:
		p.fail(n.at, "unknown statement ", n.name, ": expected when, say, think, redacted, call, call-raw, block, summary, go-on or stop")
	}
	return item
}

func (p *parser) callArg(c *cursor) callArg {
	t := c.next("an argument, such as command=\"ls\"")
	if t.key == "" {
		p.fail(t.at, "expected an argument, such as command=\"ls\"")
	}
	a := callArg{key: t.key, literal: t.kind == word}
	if !a.literal {
		a.value = p.template(t)
		return a
	}
	if !jsontext.Value(t.text).IsValid() {
		p.fail(t.at, "the value of ", t.key, " is no JSON number, true, false or null: expected a string in quotes")
	}
	a.value = template{{text: t.text}}
	return a
}

// answer is what the model says to one request: the whole of it, before limits and faults.
type answer struct {
	rule   string // id of the rule that gave it, or ""
	name   string // for the report: the rule, or in brackets what the server says by itself
	model  string // that signed the thinking
	parts  []part
	stop   stopSpec
	key    string // of the conversation that it answers
	paused bool
	// cutShort: it was sent, and a limit cut it.
	cutShort bool
}

// part is one content block of an answer.
type part struct {
	kind  string // text, thinking, redacted_thinking, tool_use, or that of a raw block
	text  string // text, thinking or data
	id    string
	name  string
	input string         // tool_use: JSON text, exactly as sent; broken if the script wants so
	raw   jsontext.Value // a block as the script wrote it
	model string         // thinking: who signs it
	cut   bool           // truncated here
}

// measured gives the text whose length counts as output.
func (p *part) measured() *string {
	switch p.kind {
	case "tool_use":
		return &p.input
	case "text", "thinking", "redacted_thinking":
		return &p.text
	}
	return new(string)
}

// limit cuts the answer after so many characters and reports whether it had to.
func (a *answer) limit(chars int) bool {
	for i := range a.parts {
		text := a.parts[i].measured()
		runes := []rune(*text)
		if len(runes) <= chars {
			chars -= len(runes)
			continue
		}
		a.parts = append([]part(nil), a.parts[:i+1]...) // the untruncated answer is remembered: leave it whole
		cut := &a.parts[i]
		*cut.measured() = string(runes[:chars])
		cut.cut = true
		if chars == 0 {
			a.parts = a.parts[:i]
		}
		return true
	}
	return false
}

// outputChars is the length of the whole output in characters.
func (a *answer) outputChars() int {
	n := 0
	for i := range a.parts {
		n += len([]rune(*a.parts[i].measured()))
	}
	return n
}

// text is what the answer says in text blocks.
func (a *answer) text() string {
	var b strings.Builder
	for _, p := range a.parts {
		if p.kind == "text" {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// block is the content block as the API writes it, empty as at the start of a stream or whole.
func (p *part) block(whole bool) jsontext.Value {
	if p.raw != nil {
		return p.raw
	}
	text := ""
	if whole {
		text = p.text
	}
	switch p.kind {
	case "thinking":
		signature := ""
		if whole && !p.cut {
			signature = sign(p.model, p.text)
		}
		return encode(struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}{"thinking", text, signature})
	case "redacted_thinking":
		return encode(struct {
			Type string `json:"type"`
			Data string `json:"data"`
		}{"redacted_thinking", p.text})
	case "tool_use":
		input := jsontext.Value("{}")
		if whole {
			input = wholeMembers(p.input)
		}
		return encode(struct {
			Type  string         `json:"type"`
			ID    string         `json:"id"`
			Name  string         `json:"name"`
			Input jsontext.Value `json:"input"`
		}{"tool_use", p.id, p.name, input})
	}
	return encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
}

// wholeMembers gives the members of an object that are complete. An answer that is not streamed cannot
// show half a member, so a cut input loses its last one.
func wholeMembers(input string) jsontext.Value {
	if jsontext.Value(input).IsValid() {
		return jsontext.Value(input)
	}
	dec := jsontext.NewDecoder(strings.NewReader(input))
	var members []string
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return jsontext.Value("{}")
	}
	for {
		key, err := dec.ReadValue()
		if err != nil || key.Kind() != '"' {
			break
		}
		name := string(key)
		value, err := dec.ReadValue()
		if err != nil {
			break
		}
		members = append(members, name+":"+string(value))
	}
	return jsontext.Value("{" + strings.Join(members, ",") + "}")
}

// encode writes v as JSON. All that is encoded here is made of strings, numbers and valid JSON.
func encode(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		b = []byte(`{"type":"error","error":{"type":"api_error","message":` + strconv.Quote(err.Error()) + `}}`)
	}
	return b
}
