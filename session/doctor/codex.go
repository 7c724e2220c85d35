package doctor

import (
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// codexRecord is what matters of a line of Codex CLI.
type codexRecord struct {
	Time    string         `json:"timestamp"`
	Type    string         `json:"type"`
	Payload jsontext.Value `json:"payload"`
	Meta    struct {
		Summary bool `json:"compaction_output"`
	} `json:"metadata"`

	bad  bool
	lost string // the type that it had, when it lost it
	item codexItem
}

// codexItem is an item of the Responses API, or what is read of other payloads.
type codexItem struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Summary   []codexPart    `json:"summary"`
	Encrypted string         `json:"encrypted_content"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Input     jsontext.Value `json:"input"`
	CallID    string         `json:"call_id"`
	Output    jsontext.Value `json:"output"`

	raw jsontext.Value
}

type codexPart struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	ImageURL jsontext.Value `json:"image_url"`
	FileData string         `json:"file_data"`
	FileID   string         `json:"file_id"`
}

// codex is a session of Codex CLI: items in order, each a line.
type codex struct {
	doc     *doc
	path    string
	parent  *parent
	recs    []*codexRecord // by line
	meta    int            // the line of session_meta, or -1
	entries []entry
	read    bool
}

func readCodex(d *doc, from *parent, path string) *codex {
	c := &codex{doc: d, path: path, parent: from, meta: -1}
	for i, l := range d.lines {
		r := codexLine(l)
		c.recs = append(c.recs, r)
		if r != nil && !r.bad && r.Type == "session_meta" && c.meta < 0 {
			c.meta = i
		}
	}
	return c
}

func codexLine(l *line) *codexRecord {
	if r, ok := l.rec.(*codexRecord); ok {
		return r
	}
	if l.blank() {
		return nil
	}
	r := &codexRecord{}
	err := json.Unmarshal(l.text(), r, lax)
	if err == nil {
		r.lost = lostCodexType(r.Type, r.Payload)
	}
	if err != nil || r.Type == "" || r.Payload.Kind() != jsontext.KindBeginObject {
		r.bad = true
	} else if r.Type == "response_item" {
		r.bad = readItem(r.Payload, &r.item) != nil
	}
	l.rec = r
	return r
}

func readItem(raw jsontext.Value, item *codexItem) error {
	item.raw = raw
	return json.Unmarshal(raw, item, lax)
}

func (c *codex) talk() []entry {
	if c.read {
		return c.entries
	}
	c.read = true
	if c.parent != nil {
		for k, l := range c.parent.lines() {
			c.take(codexLine(l), -1-k)
		}
	}
	for i, r := range c.recs {
		c.take(r, i)
	}
	return c.entries
}

func (c *codex) take(r *codexRecord, line int) {
	switch {
	case r == nil || r.bad:
	case r.Type == "response_item":
		c.item(&r.item, line, "/payload")
	case r.Type == "compacted":
		c.compacted(r, line)
	}
}

// compacted lets the items that it names stand for all before it.
func (c *codex) compacted(r *codexRecord, line int) {
	var body struct {
		Message string           `json:"message"`
		History []jsontext.Value `json:"replacement_history"`
	}
	if json.Unmarshal(r.Payload, &body, lax) != nil {
		return
	}
	if len(body.History) > 0 {
		c.entries = nil
		for k, raw := range body.History {
			var item codexItem
			if readItem(raw, &item) == nil {
				c.item(&item, line, fmt.Sprintf("/payload/replacement_history/%d", k))
			}
		}
		return
	}
	// Older versions keep what the user said, and the summary.
	if body.Message == "" {
		return
	}
	kept := c.entries[:0:0]
	for _, e := range c.entries {
		if e.msg.Role == message.User && !e.msg.HasResults() {
			kept = append(kept, e)
		}
	}
	c.entries = kept
	e := c.open(message.User, "", line)
	e.add(message.Block{Type: message.Text, Text: body.Message}, place{line: line, path: "/payload/message", bare: true}, nil)
}

// open returns the entry that the next block belongs to: one message for all
// that the model answered at once, and for what follows it.
func (c *codex) open(role message.Role, id string, line int) *entry {
	if n := len(c.entries); n == 0 || c.entries[n-1].msg.Role != role {
		c.entries = append(c.entries, entry{msg: &message.Message{ID: id, Role: role}})
	}
	e := &c.entries[len(c.entries)-1]
	e.lines = append(e.lines, line)
	if e.msg.ID == "" {
		e.msg.ID = id
	}
	return e
}

func (c *codex) item(item *codexItem, line int, path string) {
	at := place{line: line, path: path}
	if i := strings.LastIndex(path, "/replacement_history/"); i >= 0 {
		at.list = path[:i+len("/replacement_history")]
	}
	switch item.Type {
	case "message":
		c.words(item, at)
	case "reasoning":
		b := message.Block{Type: message.Thinking, Text: item.thought(), Signature: item.Encrypted}
		c.open(message.Assistant, item.ID, line).add(b, at, nil)
	case "function_call", "custom_tool_call":
		b := message.Block{Type: message.ToolUse, ID: item.CallID, Name: item.Name}
		if item.Type == "custom_tool_call" {
			b.Input = append(append(jsontext.Value(`{"input":`), orNull(item.Input)...), '}') // free text by design
		} else if item.Arguments.Kind() == jsontext.KindString {
			b.Input = jsontext.Value(strings.TrimSpace(unquote(item.Arguments)))
			if !isObject(b.Input) {
				b.Input = jsontext.Value(quote(string(b.Input)))
			}
		} else {
			b.Input = item.Arguments
		}
		c.open(message.Assistant, item.ID, line).add(b, at, nil)
	case "function_call_output", "custom_tool_call_output":
		b := message.Block{Type: message.ToolResult, ToolUseID: item.CallID, Content: codexContent(item.Output)}
		var d *doc
		if line >= 0 {
			d = c.doc
		}
		c.open(message.User, item.ID, line).add(b, at, c.inner(&b, at, d))
	case "local_shell_call":
		b := message.Block{Type: message.ToolUse, ID: item.CallID, Name: item.Type, Input: jsontext.Value(`{}`)}
		c.open(message.Assistant, item.ID, line).add(b, at, nil)
	default:
		c.open(message.Assistant, item.ID, line).add(message.Block{Type: message.BlockType(item.Type), Raw: item.raw}, at, nil)
	}
}

func orNull(v jsontext.Value) jsontext.Value {
	if len(v) == 0 {
		return jsontext.Value("null")
	}
	return v
}

func (c *codex) inner(b *message.Block, at place, d *doc) []place {
	if d == nil {
		d = &doc{}
		at.line = -1
	}
	return innerPlaces(b, at, d, at.path+"/output")
}

// words adds a message. What the developer says is no part of the talk.
func (c *codex) words(item *codexItem, at place) {
	switch item.Role {
	case "developer", "system":
	case "assistant":
		c.open(message.Assistant, item.ID, at.line).say(item, at)
	default:
		c.open(message.User, item.ID, at.line).say(item, at)
	}
}

// say adds what a message holds.
func (e *entry) say(item *codexItem, at place) {
	if item.Content.Kind() == jsontext.KindString {
		b := message.Block{Type: message.Text, Text: unquote(item.Content)}
		e.add(b, place{line: at.line, path: at.path + "/content", bare: true}, nil)
		return
	}
	parts := codexContent(item.Content)
	for k, b := range parts {
		e.add(b, at.element(at.path+"/content", k), nil)
	}
	if len(parts) == 0 { // an item without content is a text without words
		e.add(message.Block{Type: message.Text}, at, nil)
	}
}

func codexContent(v jsontext.Value) []message.Block {
	switch v.Kind() {
	case jsontext.KindString:
		if text := unquote(v); text != "" {
			return []message.Block{{Type: message.Text, Text: text}}
		}
	case jsontext.KindBeginArray:
		var raw []jsontext.Value
		if json.Unmarshal(v, &raw, lax) != nil {
			return nil
		}
		out := make([]message.Block, 0, len(raw))
		for _, one := range raw {
			out = append(out, codexBlock(one))
		}
		return out
	}
	return nil
}

func codexBlock(raw jsontext.Value) message.Block {
	var part codexPart
	if json.Unmarshal(raw, &part, lax) != nil || part.Type == "" {
		return message.Block{Raw: raw.Clone()}
	}
	switch part.Type {
	case "input_text", "output_text", "text":
		return message.Block{Type: message.Text, Text: part.Text}
	case "input_image":
		return message.Block{Type: message.Image, Media: dataURL(unquote(part.ImageURL))}
	case "input_file":
		if part.FileData == "" {
			return message.Block{Type: message.Document, Media: &message.Media{FileID: part.FileID + "?"}}
		}
		return message.Block{Type: message.Document, Media: dataURL(part.FileData)}
	}
	return message.Block{Type: message.BlockType(part.Type), Raw: raw.Clone()}
}
