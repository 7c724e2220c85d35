// Package message (layer 2) answers one question: is this conversation one
// that the API accepts, and how is it mended?
//
// A [Message] never changes after it was built: histories are slices of
// pointers, projections such as [View] make new messages only where something
// differs, and whatever is derived from a message (its encoding, its size) is
// computed once and kept with it.
package message

import (
	"strings"
	"sync/atomic"

	"github.com/daruma-agent/daruma/failure"
	"github.com/go-json-experiment/json/jsontext"
)

// Role says who speaks.
type Role string

// The two roles of a conversation. Tool results travel in user messages.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// BlockType names what a block holds, as the Messages API does.
type BlockType string

// The block types that daruma understands. Every other type is kept as it came
// in Raw and echoed unchanged.
const (
	Text             BlockType = "text"
	Image            BlockType = "image"
	Document         BlockType = "document"
	Thinking         BlockType = "thinking"
	RedactedThinking BlockType = "redacted_thinking"
	ToolUse          BlockType = "tool_use"
	ToolResult       BlockType = "tool_result"
)

// Block is one piece of a message. Which fields count depends on Type.
type Block struct {
	Type BlockType `json:"type"`

	Text      string `json:"text,omitzero"`      // text and thinking
	Signature string `json:"signature,omitzero"` // thinking: opaque, bound to the model that wrote it
	Data      string `json:"data,omitzero"`      // redacted_thinking

	ID    string         `json:"id,omitzero"`    // tool_use
	Name  string         `json:"name,omitzero"`  // tool_use
	Input jsontext.Value `json:"input,omitzero"` // tool_use: a JSON object, as the model wrote it

	ToolUseID string  `json:"tool_use_id,omitzero"` // tool_result
	IsError   bool    `json:"is_error,omitzero"`    // tool_result
	Content   []Block `json:"content,omitzero"`     // tool_result: text and media

	Media *Media `json:"media,omitzero"` // image and document

	// Model is the model that wrote the block; empty for what people and tools wrote.
	Model string `json:"model,omitzero"`
	// Raw is the block as the wire sent it, kept where it must be echoed unchanged.
	Raw jsontext.Value `json:"raw,omitzero"`
}

// Media is an image or a document.
type Media struct {
	Type   string `json:"type"`             // media type, such as image/png
	Data   string `json:"data,omitzero"`    // base64
	URL    string `json:"url,omitzero"`     // instead of Data
	FileID string `json:"file_id,omitzero"` // instead of Data
	Title  string `json:"title,omitzero"`
	Width  int    `json:"width,omitzero"`  // pixels, when known
	Height int    `json:"height,omitzero"` // pixels, when known
	Pages  int    `json:"pages,omitzero"`  // documents, when known
}

// Message is one entry of a conversation.
type Message struct {
	ID     string  `json:"id"`
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`

	// Model is the model that answered (assistant messages).
	Model string `json:"model,omitzero"`
	// Stop is why the model stopped (assistant messages).
	Stop string `json:"stop,omitzero"`
	// Caller is the ID of the assistant message whose calls these results
	// answer (R72).
	Caller string `json:"caller,omitzero"`
	// Synthetic marks a message that daruma wrote for the model: it is sent,
	// hidden from the transcript and never taken for the user's words.
	Synthetic bool `json:"synthetic,omitzero"`
	// Failure makes this a pseudo-message (R33): the transcript keeps it, the
	// consumer shows it, the model is never sent it.
	Failure *failure.Error `json:"failure,omitzero"`

	memo atomic.Pointer[memo]
}

type memo struct {
	key   any
	value any
	next  *memo
}

// Memo returns what derive makes of m, and makes it only once for each key.
// Keys are compared with ==; use an unexported type, as for context values.
func (m *Message) Memo(key any, derive func(*Message) any) any {
	head := m.memo.Load()
	for e := head; e != nil; e = e.next {
		if e.key == key {
			return e.value
		}
	}
	e := &memo{key: key, value: derive(m), next: head}
	// Losing this race only means that the value is derived again.
	m.memo.CompareAndSwap(head, e)
	return e.value
}

// NewText returns a user message of one text block.
func NewText(id, text string) *Message {
	return &Message{ID: id, Role: User, Blocks: []Block{{Type: Text, Text: text}}}
}

// NewSynthetic returns a user message that daruma wrote for the model.
func NewSynthetic(id, text string) *Message {
	m := NewText(id, text)
	m.Synthetic = true
	return m
}

// NewFailure returns the pseudo-message for e, with the text to be shown.
func NewFailure(id, text string, e *failure.Error) *Message {
	return &Message{ID: id, Role: Assistant, Failure: e, Blocks: []Block{{Type: Text, Text: text}}}
}

// TextResult returns a tool_result block of one text.
func TextResult(toolUseID, text string, isError bool) Block {
	return Block{
		Type: ToolResult, ToolUseID: toolUseID, IsError: isError,
		Content: []Block{{Type: Text, Text: text}},
	}
}

// PlainText joins the text blocks of m.
func (m *Message) PlainText() string { return joinText(m.Blocks) }

// PlainText joins the text of a tool result.
func (b *Block) PlainText() string {
	if b.Type == ToolResult {
		return joinText(b.Content)
	}
	return b.Text
}

// Calls returns the tool_use blocks of m in order.
func (m *Message) Calls() []Block {
	var calls []Block
	for _, b := range m.Blocks {
		if b.Type == ToolUse {
			calls = append(calls, b)
		}
	}
	return calls
}

// HasResults reports whether m answers tool calls.
func (m *Message) HasResults() bool {
	for i := range m.Blocks {
		if m.Blocks[i].Type == ToolResult {
			return true
		}
	}
	return false
}

func joinText(blocks []Block) string {
	var b strings.Builder
	for i := range blocks {
		if blocks[i].Type == Text {
			b.WriteString(blocks[i].Text)
		}
	}
	return b.String()
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
