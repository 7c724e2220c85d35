package compact

import (
	"fmt"

	"github.com/daruma-agent/daruma/message"
)

// stub is how much of an old tool result stays, in characters; shorter results
// are left alone.
const stub = 400

// Collapse makes stubs of the tool results of older rounds, and leaves the
// newest ones up to keep tokens, and all that the model has not answered yet,
// as they are. Every call keeps its result. Messages that change get a new ID
// from id.
func Collapse(history []*message.Message, keep int, id func() string) []*message.Message {
	border := len(history)
	for border > 0 && history[border-1].Role == message.User {
		border-- // not answered yet
	}
	for tokens := 0; border > 0; border-- {
		if tokens += history[border-1].Tokens(); tokens > keep {
			break
		}
	}
	return change(history, id, func(i int, b message.Block) (message.Block, bool) {
		if i >= border || b.Type != message.ToolResult || len(b.PlainText()) <= stub {
			return b, false
		}
		b.Content, b.Raw = clipContent(b.Content, stub), nil
		return b, true
	})
}

// StripMedia puts a text in the place of every image and document for which
// offends says yes. Messages that change get a new ID from id.
func StripMedia(history []*message.Message, offends func(m *message.Message, block int) bool, id func() string) []*message.Message {
	return change(history, id, func(i int, b message.Block) (message.Block, bool) {
		if !hasMedia(b) || !offends(history[i], index(history[i], b)) {
			return b, false
		}
		if b.Type != message.ToolResult {
			return described(b), true
		}
		content := make([]message.Block, len(b.Content))
		for k, in := range b.Content {
			if hasMedia(in) {
				in = described(in)
			}
			content[k] = in
		}
		b.Content, b.Raw = content, nil
		return b, true
	})
}

// index finds b in m by its place: the first block that is the same medium or
// the same result.
func index(m *message.Message, b message.Block) int {
	for i := range m.Blocks {
		o := &m.Blocks[i]
		if o.Type == b.Type && o.ToolUseID == b.ToolUseID && o.Media == b.Media {
			return i
		}
	}
	return -1
}

func hasMedia(b message.Block) bool {
	if b.Type == message.Image || b.Type == message.Document {
		return true
	}
	for i := range b.Content {
		if hasMedia(b.Content[i]) {
			return true
		}
	}
	return false
}

func described(b message.Block) message.Block {
	what := string(b.Type)
	if m := b.Media; m != nil && m.Title != "" {
		what += " " + m.Title
	}
	return message.Block{Type: message.Text, Text: fmt.Sprintf("[%s left out: the provider did not accept it. Make it smaller, or do without it.]", what)}
}

// change returns history with the blocks that edit changes; messages without
// any stay as they are.
func change(history []*message.Message, id func() string, edit func(i int, b message.Block) (message.Block, bool)) []*message.Message {
	out := make([]*message.Message, len(history))
	for i, m := range history {
		out[i] = m
		var blocks []message.Block
		for j, b := range m.Blocks {
			now, changed := edit(i, b)
			if changed && blocks == nil {
				blocks = append(blocks, m.Blocks...)
			}
			if changed {
				blocks[j] = now
			}
		}
		if blocks != nil {
			out[i] = &message.Message{
				ID: id(), Role: m.Role, Blocks: blocks, Model: m.Model, Stop: m.Stop,
				Caller: m.Caller, Synthetic: m.Synthetic, Failure: m.Failure,
			}
		}
	}
	return out
}
