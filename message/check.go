package message

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Rule names one rule of the API that a conversation can break.
type Rule string

// The rules of conventions 1.1 and R64 that [Check] holds.
const (
	RuleEmpty        Rule = "empty"         // no message at all, or a message without content
	RuleFirst        Rule = "first"         // the first message is the user's
	RuleLast         Rule = "last"          // the last message is the user's
	RuleRole         Rule = "role"          // user and assistant only
	RuleText         Rule = "text"          // no empty or white-space text
	RuleUniqueID     Rule = "unique_id"     // a call's id occurs once
	RuleID           Rule = "id"            // ids are letters, digits, _ and -
	RuleName         Rule = "name"          // a call names its tool, in letters, digits, _ and -
	RuleInput        Rule = "input"         // a call's input is a JSON object
	RuleUnanswered   Rule = "unanswered"    // every call has its result in the next user turn
	RuleOrphan       Rule = "orphan"        // no result without its call in the turn before
	RuleResultOrder  Rule = "result_order"  // results come before other content
	RuleDoubleResult Rule = "double_result" // one result for one call
	RuleSignature    Rule = "signature"     // thinking is signed, and by the model that is asked
	RuleThinkingLast Rule = "thinking_last" // thinking is not the last block of a message
	RuleMisplaced    Rule = "misplaced"     // block type in the wrong role
	RuleMediaCount   Rule = "media_count"   // images and documents per request
	RuleMediaSize    Rule = "media_size"    // bytes or pixels of one medium
)

// Problem is one broken rule, at a message and a block (-1: the whole message).
type Problem struct {
	Message int
	Block   int
	Rule    Rule
	Detail  string
}

func (p Problem) String() string {
	return fmt.Sprintf("messages.%d.content.%d: %s: %s", p.Message, p.Block, p.Rule, p.Detail)
}

// MediaLimits bounds the media of a request; zero means not checked.
type MediaLimits struct {
	Count     int // images and documents in one request
	Bytes     int // base64 characters of one image
	Pixels    int // per side
	ManyCount int // above this many images …
	ManyPx    int // … this is the limit per side
}

// Rules is what a request demands of its conversation.
type Rules struct {
	// Model is the model that will be asked: thinking of others is refused.
	Model string
	// AssistantLast permits a conversation that ends with the assistant
	// (after pause_turn its content is sent back unchanged).
	AssistantLast bool
	Media         MediaLimits
}

// Check reads msgs as the API does (consecutive messages of one role are one
// turn) and returns every rule that they break. It costs what the number of
// blocks costs, not their bytes.
func Check(msgs []*Message, rules Rules) []Problem {
	c := checker{rules: rules, ids: make(map[string]struct{}, len(msgs))}
	if len(msgs) == 0 {
		c.add(-1, -1, RuleEmpty, "no messages")
		return c.problems
	}
	if msgs[0].Role != User {
		c.add(0, -1, RuleFirst, "the first message must be the user's")
	}
	for i, m := range msgs {
		c.message(i, m, i+1 == len(msgs) || msgs[i+1].Role != m.Role)
	}
	if len(c.open) > 0 {
		c.add(len(msgs)-1, -1, RuleUnanswered, "calls at the end have no results")
	}
	if !rules.AssistantLast && msgs[len(msgs)-1].Role == Assistant {
		c.add(len(msgs)-1, -1, RuleLast, "the last message must be the user's")
	}
	c.mediaCount(len(msgs) - 1)
	return c.problems
}

type checker struct {
	rules    Rules
	problems []Problem

	ids   map[string]struct{} // every call so far
	role  Role                // of the turn that is being read
	calls []string            // calls of the assistant turn that is being read
	open  map[string]bool     // calls of the turn before; true once answered
	nOpen int                 // calls of the turn before still without result
	other bool                // the user turn already held something else than results
	media int
	sides []int // longest side of each image, when known
}

func (c *checker) add(msg, block int, rule Rule, format string, args ...any) {
	c.problems = append(c.problems, Problem{Message: msg, Block: block, Rule: rule, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) message(i int, m *Message, turnEnds bool) {
	if m.Role != User && m.Role != Assistant {
		c.add(i, -1, RuleRole, "role %q", m.Role)
		return
	}
	if m.Role != c.role {
		c.startTurn(m.Role)
	}
	if len(m.Blocks) == 0 {
		c.add(i, -1, RuleEmpty, "message without content")
	}
	for j := range m.Blocks {
		c.block(i, j, m)
	}
	if n := len(m.Blocks); m.Role == Assistant && n > 0 && isThinking(m.Blocks[n-1].Type) {
		c.add(i, n-1, RuleThinkingLast, "a message cannot end with thinking")
	}
	if turnEnds {
		c.endTurn(i)
	}
}

func (c *checker) startTurn(role Role) {
	c.role, c.other = role, false
	if role == Assistant {
		c.calls = c.calls[:0]
	}
}

// endTurn settles pairing: after an assistant turn its calls are open, after
// the user turn that follows all of them must be answered.
func (c *checker) endTurn(i int) {
	if c.role == User {
		if c.nOpen > 0 {
			c.add(i, -1, RuleUnanswered, "%d call(s) of the turn before have no result here", c.nOpen)
		}
		c.open, c.nOpen = nil, 0
		return
	}
	c.nOpen = len(c.calls)
	if c.nOpen == 0 {
		c.open = nil
		return
	}
	c.open = make(map[string]bool, c.nOpen)
	for _, id := range c.calls {
		c.open[id] = false
	}
	c.nOpen = len(c.open)
}

func (c *checker) block(i, j int, m *Message) {
	b := &m.Blocks[j]
	if m.Role == User && b.Type != ToolResult {
		c.other = true
	}
	switch b.Type {
	case Text:
		if blank(b.Text) {
			c.add(i, j, RuleText, "text is empty")
		}
	case Image, Document:
		if m.Role != User {
			c.add(i, j, RuleMisplaced, "%s in an assistant message", b.Type)
		}
		c.medium(i, j, b.Media)
	case Thinking, RedactedThinking:
		c.thinking(i, j, m, b)
	case ToolUse:
		c.call(i, j, m, b)
	case ToolResult:
		c.result(i, j, m, b)
	}
}

func (c *checker) thinking(i, j int, m *Message, b *Block) {
	switch {
	case m.Role != Assistant:
		c.add(i, j, RuleMisplaced, "thinking in a user message")
	case b.Type == Thinking && b.Signature == "":
		c.add(i, j, RuleSignature, "thinking is not signed")
	case foreign(b, c.rules.Model):
		c.add(i, j, RuleSignature, "thinking was written by %s", b.Model)
	}
}

func (c *checker) call(i, j int, m *Message, b *Block) {
	if m.Role != Assistant {
		c.add(i, j, RuleMisplaced, "tool_use in a user message")
		return
	}
	if !validID(b.ID) {
		c.add(i, j, RuleID, "id %q", b.ID)
	}
	if _, dup := c.ids[b.ID]; dup {
		c.add(i, j, RuleUniqueID, "id %q occurs before", b.ID)
	}
	c.ids[b.ID] = struct{}{}
	c.calls = append(c.calls, b.ID)
	if !ValidName(b.Name) {
		c.add(i, j, RuleName, "name %q", b.Name)
	}
	if !m.inputsValid() {
		c.add(i, j, RuleInput, "input is not an object")
	}
}

func (c *checker) result(i, j int, m *Message, b *Block) {
	if m.Role != User {
		c.add(i, j, RuleMisplaced, "tool_result in an assistant message")
		return
	}
	if c.other {
		c.add(i, j, RuleResultOrder, "result of %q after other content", b.ToolUseID)
	}
	answered, open := c.open[b.ToolUseID]
	switch {
	case !open:
		c.add(i, j, RuleOrphan, "result of %q has no call in the turn before", b.ToolUseID)
	case answered:
		c.add(i, j, RuleDoubleResult, "second result of %q", b.ToolUseID)
	default:
		c.open[b.ToolUseID] = true
		c.nOpen--
	}
	for k := range b.Content {
		switch in := &b.Content[k]; in.Type {
		case Text:
			if blank(in.Text) {
				c.add(i, j, RuleText, "text in the result is empty")
			}
		case Image, Document:
			c.medium(i, j, in.Media)
		}
	}
}

func (c *checker) medium(i, j int, m *Media) {
	c.media++
	if m == nil {
		c.add(i, j, RuleMediaSize, "medium without data")
		return
	}
	side := max(m.Width, m.Height)
	c.sides = append(c.sides, side)
	if lim := c.rules.Media.Bytes; lim > 0 && len(m.Data) > lim {
		c.add(i, j, RuleMediaSize, "%d bytes of %d", len(m.Data), lim)
	}
	if lim := c.rules.Media.Pixels; lim > 0 && side > lim {
		c.add(i, j, RuleMediaSize, "%d pixels of %d", side, lim)
	}
}

func (c *checker) mediaCount(last int) {
	lim := c.rules.Media
	if lim.Count > 0 && c.media > lim.Count {
		c.add(last, -1, RuleMediaCount, "%d images and documents of %d", c.media, lim.Count)
	}
	if lim.ManyCount == 0 || c.media <= lim.ManyCount {
		return
	}
	for _, side := range c.sides {
		if side > lim.ManyPx {
			c.add(last, -1, RuleMediaSize, "%d pixels of %d in a request of more than %d images", side, lim.ManyPx, lim.ManyCount)
			return
		}
	}
}

type inputsKey struct{}

// inputsValid reports whether the inputs of all calls of m are whole objects.
// Reading them costs what their bytes cost, so it is done once.
func (m *Message) inputsValid() bool {
	return m.Memo(inputsKey{}, func(m *Message) any {
		for i := range m.Blocks {
			if b := &m.Blocks[i]; b.Type == ToolUse && !IsObject(b.Input) {
				return false
			}
		}
		return true
	}).(bool)
}

// IsObject reports whether v is a whole JSON object.
func IsObject(v jsontext.Value) bool {
	return v.Kind() == jsontext.KindBeginObject && v.IsValid()
}

func isThinking(t BlockType) bool { return t == Thinking || t == RedactedThinking }

// foreign reports whether thinking b was written by another model than the one
// that will be asked. Unknown writers are trusted: the wire names all.
func foreign(b *Block, model string) bool {
	return model != "" && b.Model != "" && b.Model != model
}

// ValidName reports whether name can be the name of a tool: the API wants letters,
// digits, _ and -, and refuses every later request with another one in it.
func ValidName(name string) bool { return validID(name) }

// validID holds the API's pattern for tool ids: letters, digits, _ and -.
func validID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := 0; i < len(id); i++ {
		if !idByte(id[i]) {
			return false
		}
	}
	return true
}

func idByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
