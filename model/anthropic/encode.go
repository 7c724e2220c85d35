package anthropic

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// body is a request body in pieces. Most pieces belong to the messages of the
// history and are shared by all requests: they are read, never written.
type body [][]byte

func (b *body) add(piece []byte)  { *b = append(*b, piece) }
func (b *body) text(piece string) { *b = append(*b, []byte(piece)) }

func (b body) size() int64 {
	n := 0
	for _, piece := range b {
		n += len(piece)
	}
	return int64(n)
}

func (b body) reader() io.ReadCloser { return &bodyReader{rest: b} }

func (b body) again() (io.ReadCloser, error) { return b.reader(), nil }

type bodyReader struct {
	rest body
	at   int // in the first piece of rest
}

func (r *bodyReader) Read(p []byte) (n int, err error) {
	for n < len(p) && len(r.rest) > 0 {
		k := copy(p[n:], r.rest[0][r.at:])
		n += k
		if r.at += k; r.at == len(r.rest[0]) {
			r.rest, r.at = r.rest[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *bodyReader) Close() error { return nil }

// cacheMark is spliced in before the closing brace of a block.
var cacheMark = []byte(`,"cache_control":{"type":"ephemeral"}`)

// marksOnMessages leaves two of the four marks that a request may bear to the
// system prompt or the tools.
const marksOnMessages = 2

// encodeRequest returns the body that asks r.
func (c *Client) encodeRequest(r *model.Request) (body, error) {
	room, err := c.OutputRoom(r)
	if err != nil {
		return nil, err
	}
	head := append([]byte(`{"model":`), quote(r.Model)...)
	if room > 0 {
		head = strconv.AppendInt(append(head, `,"max_tokens":`...), int64(room), 10)
	}
	head = strconv.AppendBool(append(head, `,"stream":`...), !r.Unstreamed)
	if r.Fast {
		head = append(head, `,"speed":"fast"`...)
	}
	return c.encodeRest(appendThinking(head, r.Thinking), r)
}

// encodeCount returns the body that asks for the size of r.
func (c *Client) encodeCount(r *model.Request) (body, error) {
	head := append([]byte(`{"model":`), quote(r.Model)...)
	return c.encodeRest(appendThinking(head, r.Thinking), r)
}

func appendThinking(head []byte, t model.Thinking) []byte {
	if t.Mode == model.ThinkingDefault {
		return head
	}
	head = append(append(head, `,"thinking":{"type":`...), quote(string(t.Mode))...)
	if t.Mode == model.ThinkingEnabled {
		head = strconv.AppendInt(append(head, `,"budget_tokens":`...), int64(t.Budget), 10)
	}
	return append(head, '}')
}

// encodeRest adds what both bodies share: system, tools and messages.
func (c *Client) encodeRest(head []byte, r *model.Request) (body, error) {
	prefix, err := c.prefixes.get(r.System, r.Tools)
	if err != nil {
		return nil, err
	}
	b := make(body, 0, 16+2*len(r.Messages))
	b.add(head)
	b.add(prefix)
	if err := b.messages(r.Messages); err != nil {
		return nil, err
	}
	b.text("}")
	return b, nil
}

// What stands between messages. Neighbours of one role are one message on the
// wire, so a message is closed only where the next one opens.
var (
	comma         = []byte(",")
	openUser      = []byte(`]},{"role":"user","content":[`)
	openAssistant = []byte(`]},{"role":"assistant","content":[`)
)

func (b *body) messages(msgs []*message.Message) error {
	b.text(`,"messages":[`)
	marked := markedMessages(msgs)
	var role message.Role
	for i, m := range msgs {
		enc := encodingOf(m)
		switch {
		case enc.err != nil:
			return enc.err
		case len(enc.blocks) == 0:
			continue
		case m.Role == role:
			b.add(comma)
		default:
			open := openAssistant
			if m.Role == message.User {
				open = openUser
			}
			if role == "" {
				open = open[len("]},"):]
			}
			b.add(open)
			role = m.Role
		}
		if slices.Contains(marked[:], i) {
			b.add(enc.blocks[:enc.mark])
			b.add(cacheMark)
			b.add(enc.blocks[enc.mark:])
		} else {
			b.add(enc.blocks)
		}
	}
	if role != "" {
		b.text("]}")
	}
	b.text("]")
	return nil
}

// markedMessages returns the indices of the messages that bear a mark: of the
// last user turns the last message that can. Two marks, because the next
// request finds the older one where this one had its newest.
func markedMessages(msgs []*message.Message) [marksOnMessages]int {
	var marked [marksOnMessages]int
	for i := range marked {
		marked[i] = -1
	}
	n, done := 0, false // done: this turn has its mark
	for i := len(msgs) - 1; i >= 0 && n < len(marked); i-- {
		enc := encodingOf(msgs[i])
		switch {
		case len(enc.blocks) == 0: // not sent, so it ends no turn
		case msgs[i].Role != message.User:
			done = false
		case !done && enc.mark > 0:
			marked[n], done = i, true
			n++
		}
	}
	return marked
}

// encoding is a message as the wire has it: its blocks, joined by commas. It is
// made once for each message and kept with it.
type encoding struct {
	blocks []byte
	mark   int // where a cache mark goes: before the brace that ends the last block that may bear one; 0 is nowhere
	err    error
}

type encodingKey struct{}

func encodingOf(m *message.Message) *encoding {
	return m.Memo(encodingKey{}, encodeMessage).(*encoding)
}

func encodeMessage(m *message.Message) any {
	enc := &encoding{}
	switch {
	case m.Failure != nil:
		return enc // shown to people, never sent
	case m.Role != message.User && m.Role != message.Assistant:
		return &encoding{err: fmt.Errorf("encode message %q: role %q is neither user nor assistant", m.ID, m.Role)}
	}
	size := 0
	for i := range m.Blocks {
		size += roughSize(&m.Blocks[i])
	}
	enc.blocks = make([]byte, 0, size)
	for i := range m.Blocks {
		block := &m.Blocks[i]
		before := len(enc.blocks)
		if before > 0 {
			enc.blocks = append(enc.blocks, ',')
		}
		start := len(enc.blocks)
		var err error
		if enc.blocks, err = appendBlock(enc.blocks, block); err != nil {
			return &encoding{err: fmt.Errorf("encode message %q, block %d: %w", m.ID, i, err)}
		}
		switch {
		case len(enc.blocks) == start:
			enc.blocks = enc.blocks[:before] // nothing to send, no comma either
		case markable(block):
			enc.mark = len(enc.blocks) - 1
		}
	}
	return enc
}

// roughSize is a little more than most blocks need.
func roughSize(b *message.Block) int {
	n := 128 + len(b.Text) + len(b.Text)/16 + len(b.Signature) + len(b.Data) + len(b.Input) + len(b.Raw)
	if b.Media != nil {
		n += len(b.Media.Data) + len(b.Media.Title)
	}
	for i := range b.Content {
		n += roughSize(&b.Content[i])
	}
	return n
}

// markable: thinking and empty text must not bear a mark, and what is echoed
// is echoed unchanged.
func markable(b *message.Block) bool {
	switch b.Type {
	case message.Text, message.Image, message.Document, message.ToolResult, message.ToolUse:
		return len(b.Raw) == 0
	}
	return false
}

// appendBlock appends b, or nothing where there is nothing that the API would
// accept (text without a character). Whoever changes a block drops its Raw, so
// a Raw that is there is what the model sent.
func appendBlock(dst []byte, b *message.Block) ([]byte, error) {
	if len(b.Raw) > 0 {
		return appendValue(dst, b.Raw)
	}
	switch b.Type {
	case message.Text:
		if b.Text == "" {
			return dst, nil
		}
		return append(appendString(append(dst, `{"type":"text","text":`...), b.Text), '}'), nil
	case message.Thinking:
		dst = appendString(append(dst, `{"type":"thinking","thinking":`...), b.Text)
		return append(appendString(append(dst, `,"signature":`...), b.Signature), '}'), nil
	case message.RedactedThinking:
		return append(appendString(append(dst, `{"type":"redacted_thinking","data":`...), b.Data), '}'), nil
	case message.ToolUse:
		return appendCall(dst, b)
	case message.ToolResult:
		return appendResult(dst, b)
	case message.Image, message.Document:
		return appendMedium(dst, b)
	}
	return dst, fmt.Errorf("type %q is not known here and has no raw form to echo", b.Type)
}

func appendCall(dst []byte, b *message.Block) ([]byte, error) {
	dst = appendString(append(dst, `{"type":"tool_use","id":`...), b.ID)
	dst = appendString(append(dst, `,"name":`...), b.Name)
	dst = append(dst, `,"input":`...)
	if len(b.Input) == 0 {
		return append(dst, "{}}"...), nil
	}
	dst, err := appendValue(dst, b.Input)
	if err != nil {
		return dst, fmt.Errorf("input of call %q: %w", b.ID, err)
	}
	return append(dst, '}'), nil
}

func appendResult(dst []byte, b *message.Block) ([]byte, error) {
	dst = appendString(append(dst, `{"type":"tool_result","tool_use_id":`...), b.ToolUseID)
	if b.IsError {
		dst = append(dst, `,"is_error":true`...)
	}
	if len(b.Content) == 1 && b.Content[0].Type == message.Text && len(b.Content[0].Raw) == 0 {
		dst = appendString(append(dst, `,"content":`...), b.Content[0].Text)
		return append(dst, '}'), nil
	}
	if len(b.Content) == 0 {
		return append(dst, '}'), nil
	}
	dst = append(dst, `,"content":[`...)
	first := len(dst)
	for i := range b.Content {
		before := len(dst)
		if before > first {
			dst = append(dst, ',')
		}
		start := len(dst)
		var err error
		if dst, err = appendBlock(dst, &b.Content[i]); err != nil {
			return dst, err
		}
		if len(dst) == start {
			dst = dst[:before]
		}
	}
	return append(dst, "]}"...), nil
}

func appendMedium(dst []byte, b *message.Block) ([]byte, error) {
	m := b.Media
	if m == nil {
		return dst, fmt.Errorf("%s without data", b.Type)
	}
	dst = appendString(append(dst, `{"type":`...), string(b.Type))
	switch {
	case m.Data != "":
		dst = appendString(append(dst, `,"source":{"type":"base64","media_type":`...), m.Type)
		dst = appendString(append(dst, `,"data":`...), m.Data)
	case m.URL != "":
		dst = appendString(append(dst, `,"source":{"type":"url","url":`...), m.URL)
	default:
		dst = appendString(append(dst, `,"source":{"type":"file","file_id":`...), m.FileID)
	}
	dst = append(dst, '}')
	if m.Title != "" && b.Type == message.Document {
		dst = appendString(append(dst, `,"title":`...), m.Title)
	}
	return append(dst, '}'), nil
}

// appendString quotes s. Bytes that are no UTF-8 become U+FFFD: the API refuses
// the whole request for one of them.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error only tells of the replacement
	return dst
}

func quote(s string) []byte { return appendString(nil, s) }

// lenient accepts what careless peers write: bytes that are no UTF-8, halves of
// surrogate pairs, names that occur twice.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

var errNotJSON = errors.New("it is not JSON")

// appendValue appends a value that is JSON already, mended where its characters
// are broken.
func appendValue(dst []byte, v jsontext.Value) ([]byte, error) {
	sound, ok := mendValue(v)
	if !ok {
		return dst, errNotJSON
	}
	return append(dst, sound...), nil
}

// mendValue returns v with broken characters replaced, or false if v is no JSON.
func mendValue(v jsontext.Value) (jsontext.Value, bool) {
	if v.IsValid() {
		return v, true
	}
	mended := slices.Clone(v)
	if err := mended.Format(lenient); err != nil {
		return v, false
	}
	return mended, true
}

// prefixCache keeps the encoded system prompts and tools of the last requests.
// Main loop, sub-agents and side requests differ in them and take turns, and
// comparing costs next to nothing while the strings are the same ones.
type prefixCache struct {
	mu      sync.Mutex
	entries [8]*prefix
	next    int
}

type prefix struct {
	system  []string
	tools   []model.Tool
	encoded []byte
}

func (p *prefix) is(system []string, tools []model.Tool) bool {
	return p != nil && slices.Equal(p.system, system) && slices.EqualFunc(p.tools, tools, func(a, b model.Tool) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
	})
}

func (c *prefixCache) get(system []string, tools []model.Tool) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.entries {
		if p.is(system, tools) {
			return p.encoded, nil
		}
	}
	encoded, err := encodePrefix(system, tools)
	if err != nil {
		return nil, err
	}
	c.entries[c.next] = &prefix{slices.Clone(system), slices.Clone(tools), encoded}
	c.next = (c.next + 1) % len(c.entries)
	return encoded, nil
}

// encodePrefix encodes the part of a request that comes before the messages in
// the provider's cache: tools, then system. The first system part is the most
// stable, so it bears a mark besides the last; without a system prompt the
// last tool does.
func encodePrefix(system []string, tools []model.Tool) ([]byte, error) {
	system = slices.DeleteFunc(slices.Clone(system), func(s string) bool { return s == "" })
	var dst []byte
	for i, part := range system {
		dst = append(dst, separator(i, `,"system":[`)...)
		dst = appendString(append(dst, `{"type":"text","text":`...), part)
		if i == 0 || i == len(system)-1 {
			dst = append(dst, cacheMark...)
		}
		dst = append(dst, '}')
	}
	if len(system) > 0 {
		dst = append(dst, ']')
	}
	for i, tool := range tools {
		dst = append(dst, separator(i, `,"tools":[`)...)
		dst = appendString(append(dst, `{"name":`...), tool.Name)
		if tool.Description != "" {
			dst = appendString(append(dst, `,"description":`...), tool.Description)
		}
		dst = append(dst, `,"input_schema":`...)
		schema := tool.Schema
		if len(schema) == 0 {
			schema = jsontext.Value(`{"type":"object"}`)
		}
		var err error
		if dst, err = appendValue(dst, schema); err != nil {
			return nil, fmt.Errorf("encode tool %q: its schema: %w", tool.Name, err)
		}
		if i == len(tools)-1 && len(system) == 0 {
			dst = append(dst, cacheMark...)
		}
		dst = append(dst, '}')
	}
	if len(tools) > 0 {
		dst = append(dst, ']')
	}
	return dst, nil
}

func separator(i int, first string) string {
	if i == 0 {
		return first
	}
	return ","
}
