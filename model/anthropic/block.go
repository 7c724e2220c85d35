package anthropic

import (
	"bytes"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// openBlock is a block that is being written.
type openBlock struct {
	block     message.Block
	start     jsontext.Value // as content_block_start sent it, and what it held already:
	startText string
	startIn   jsontext.Value
	raw       bool // the block says more than message.Block can hold: it is echoed raw
	text      []byte
	input     []byte
	citations []jsontext.Value
}

type wireBlock struct {
	Type      message.BlockType `json:"type"`
	Text      string            `json:"text"`
	Thinking  string            `json:"thinking"`
	Signature string            `json:"signature"`
	Data      string            `json:"data"`
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Input     jsontext.Value    `json:"input"`
	Citations jsontext.Value    `json:"citations"`
	More      jsontext.Value    `json:",embed"`
}

func openBlockFrom(start jsontext.Value, model string) *openBlock {
	start, _ = mendValue(start)
	var w wireBlock
	if err := json.Unmarshal(start, &w, lenient); err != nil {
		// A type of a later version, which uses these names in another way.
		w = wireBlock{Type: message.BlockType(typeOf(start))}
	}
	o := &openBlock{start: start, block: message.Block{Type: w.Type, Model: model}}
	switch w.Type {
	case message.Text:
		o.startText = w.Text
		o.raw = len(w.Citations) > 0 && w.Citations.Kind() != 'n' && string(w.Citations) != "[]"
	case message.Thinking:
		o.startText, o.block.Signature = w.Thinking, w.Signature
	case message.RedactedThinking:
		o.block.Data = w.Data
	case message.ToolUse:
		o.block.ID, o.block.Name, o.startIn = w.ID, w.Name, w.Input
	default:
		o.block.ID, o.block.Name = w.ID, w.Name
		o.raw = true
	}
	o.raw = o.raw || len(w.More) > 0 && string(w.More) != "{}"
	return o
}

// representable reports whether message.Block holds all that such a block says.
func representable(t message.BlockType) bool {
	switch t {
	case message.Text, message.Thinking, message.RedactedThinking, message.ToolUse:
		return true
	}
	return false
}

// finish returns the complete block.
func (o *openBlock) finish() message.Block {
	b := o.block
	changed := map[string]jsontext.Value{}
	switch b.Type {
	case message.Text:
		b.Text = string(o.text)
		changed["text"] = quote(b.Text)
	case message.Thinking:
		b.Text = string(o.text)
		changed["thinking"], changed["signature"] = quote(b.Text), quote(b.Signature)
	case message.ToolUse:
		b.Input = o.inputOr(o.startIn)
		changed["input"] = b.Input
	default:
		if len(o.input) > 0 {
			changed["input"] = o.inputOr(nil)
		}
		if len(o.text) > 0 {
			changed["text"] = quote(string(o.text))
		}
	}
	if len(o.citations) > 0 {
		changed["citations"] = o.allCitations()
	}
	if o.raw || len(o.citations) > 0 {
		b.Raw = rebuild(o.start, changed)
	}
	if b.Raw == nil && !representable(b.Type) {
		b.Raw = o.start // its input was cut; as it began it can at least be echoed
	}
	return b
}

// inputOr joins the input. An empty one is that of the start, or {}; one that
// is cut or no JSON stays as it came, for the caller to see.
func (o *openBlock) inputOr(start jsontext.Value) jsontext.Value {
	joined := jsontext.Value(bytes.TrimSpace(o.input))
	if len(joined) == 0 {
		joined = start
	}
	if len(joined) == 0 || joined.Kind() == 'n' {
		return jsontext.Value(`{}`)
	}
	mended, _ := mendValue(joined)
	return mended
}

// allCitations joins those of the start with those of the deltas.
func (o *openBlock) allCitations() jsontext.Value {
	var w struct {
		Citations []jsontext.Value `json:"citations"`
	}
	_ = json.Unmarshal(o.start, &w, lenient) // of another shape: then the deltas are all
	all := append(w.Citations, o.citations...)
	out := []byte("[")
	for i, citation := range all {
		if i > 0 {
			out = append(out, ',')
		}
		citation, _ = mendValue(citation)
		out = append(out, citation...)
	}
	return append(out, ']')
}

// rebuild returns the object start with the changed members in the place of its
// own, and the others as they were. It returns nil where that makes no valid
// JSON: a cut input cannot be echoed.
func rebuild(start jsontext.Value, changed map[string]jsontext.Value) jsontext.Value {
	in := jsontext.NewDecoder(bytes.NewReader(start), lenient)
	if _, err := in.ReadToken(); err != nil {
		return nil
	}
	out := []byte("{")
	member := func(name []byte, value jsontext.Value) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	for in.PeekKind() == '"' {
		name, err := in.ReadValue()
		if err != nil {
			return nil
		}
		name = name.Clone()
		value, err := in.ReadValue()
		if err != nil {
			return nil
		}
		var plain string
		if json.Unmarshal(name, &plain, lenient) == nil && changed[plain] != nil {
			value = changed[plain]
			delete(changed, plain)
		}
		member(name, value)
	}
	for _, name := range []string{"text", "thinking", "signature", "input", "citations"} {
		if value := changed[name]; value != nil {
			member(quote(name), value)
		}
	}
	out = append(out, '}')
	if raw := jsontext.Value(out); raw.IsValid(lenient) {
		return raw
	}
	return nil
}
