package model

import (
	"strings"

	"github.com/daruma-agent/daruma/message"
)

// Answer is what has arrived of a streamed answer.
type Answer struct {
	ID        string
	Model     string
	RequestID string
	Blocks    []message.Block // complete blocks
	Partial   *message.Block  // the block that is being written; nil between blocks
	Stop      StopReason      // "" until the answer is complete
	Detail    string
	Usage     Usage
	Started   bool

	text strings.Builder // of Partial
}

// Add takes one event into the answer. Text grows in a builder: adding costs
// what is new.
func (a *Answer) Add(e Event) {
	switch e.Kind {
	case EventStart:
		a.Started = true
		a.ID, a.Model, a.RequestID, a.Usage = e.ID, e.Model, e.RequestID, e.Usage
	case EventBlockStart:
		b := *e.Block
		a.Partial = &b
		a.text.Reset()
		a.text.WriteString(b.Text)
	case EventDelta:
		if e.Delta != DeltaInput {
			a.text.WriteString(e.Text)
		}
	case EventBlockStop:
		a.Blocks = append(a.Blocks, *e.Block)
		a.Partial = nil
		a.text.Reset()
	case EventStop:
		a.Stop, a.Detail, a.Usage = e.Stop, e.Detail, e.Usage
	}
}

// PartialText is the text of the block that is being written.
func (a *Answer) PartialText() string { return a.text.String() }

// Progress says how far an answer got, which decides what a break means (R25).
type Progress struct {
	Text     int  // characters of text, complete blocks and the partial one
	Calls    int  // complete tool calls
	Thinking bool // a thinking block is complete
	CutCall  bool // a tool call was being written
}

// Progress measures a.
func (a *Answer) Progress() Progress {
	var p Progress
	for i := range a.Blocks {
		switch b := &a.Blocks[i]; b.Type {
		case message.Text:
			p.Text += len(b.Text)
		case message.ToolUse:
			p.Calls++
		case message.Thinking, message.RedactedThinking:
			p.Thinking = true
		}
	}
	if a.Partial != nil {
		switch a.Partial.Type {
		case message.Text:
			p.Text += a.text.Len()
		case message.ToolUse:
			p.CutCall = true
		}
	}
	return p
}

// Kept returns the blocks of a broken or cut answer that may stay: complete
// blocks and partial text, never a cut tool call, never cut thinking (its
// signature comes last).
func (a *Answer) Kept() []message.Block {
	kept := append([]message.Block(nil), a.Blocks...)
	if a.Partial != nil && a.Partial.Type == message.Text && a.text.Len() > 0 {
		b := *a.Partial
		b.Text = a.text.String()
		b.Raw = nil
		kept = append(kept, b)
	}
	return kept
}
