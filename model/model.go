// Package model (–) answers one question: what is a model? The request it
// gets, the events it streams, the interface of a wire, and what is known of
// models as data: limits, abilities and prices.
package model

import (
	"context"
	"iter"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json/jsontext"
)

// Source says on whose behalf a request is made (R19).
type Source string

// The sources. A missing source counts as [Main].
const (
	Main     Source = "main"
	SubAgent Source = "subagent"
	Compact  Source = "compact"
	Title    Source = "title"
	Hook     Source = "hook"
)

// Request is one question to a model. It is built anew for each attempt from
// the state of the run, never captured.
type Request struct {
	Model     string
	System    []string           // parts in order; stable parts first, each marked for caching
	Messages  []*message.Message // a valid view: see message.View
	Tools     []Tool
	MaxTokens int
	Thinking  Thinking
	Source    Source
	Fast      bool // ask for the faster variant of the model
	Try       int  // number of the retry, 0 on the first try

	// Unstreamed asks for the answer in one piece (R28). The events are the
	// same, and come all at once. A wire may grant less output room then.
	Unstreamed bool
}

// Tool describes one tool to the model.
type Tool struct {
	Name        string
	Description string
	Schema      jsontext.Value // JSON Schema of the input
}

// Thinking says whether and how much the model may think before it answers.
type Thinking struct {
	Mode   ThinkingMode
	Budget int // tokens, for ThinkingEnabled
}

// ThinkingMode is the wire's word for the way of thinking.
type ThinkingMode string

// The modes; the zero value leaves the choice to the provider.
const (
	ThinkingDefault  ThinkingMode = ""
	ThinkingAdaptive ThinkingMode = "adaptive"
	ThinkingEnabled  ThinkingMode = "enabled"
	ThinkingDisabled ThinkingMode = "disabled"
)

// StopReason is why a model stopped, in the words of the Messages API; other
// wires translate. Values that nobody knows yet pass through.
type StopReason string

// The stop reasons (recovery.md 9.3).
const (
	StopEndTurn   StopReason = "end_turn"
	StopMaxTokens StopReason = "max_tokens"
	StopSequence  StopReason = "stop_sequence"
	StopToolUse   StopReason = "tool_use"
	StopPauseTurn StopReason = "pause_turn"
	StopRefusal   StopReason = "refusal"
	StopWindow    StopReason = "model_context_window_exceeded"
)

// EventKind says what a stream event reports.
type EventKind uint8

// The events of a stream. A complete stream is EventStart, blocks, EventStop;
// anything else ends in an error.
const (
	EventStart      EventKind = iota + 1 // the answer began: ID, Model, Usage, Limits
	EventBlockStart                      // Block as far as it is known
	EventDelta                           // Delta and Text: what was added to the block
	EventBlockStop                       // Block, complete
	EventStop                            // Stop, Usage: the answer is complete
	EventAlive                           // a ping: the connection lives, the answer does not grow
)

// DeltaKind says what a delta adds to.
type DeltaKind uint8

// The kinds of deltas.
const (
	DeltaText DeltaKind = iota + 1
	DeltaThinking
	DeltaInput
)

// Event is one step of a streamed answer.
type Event struct {
	Kind  EventKind
	Index int // of the block
	Block *message.Block
	Delta DeltaKind
	Text  string

	ID        string // of the answer
	Model     string // that answered
	RequestID string
	Stop      StopReason
	Detail    string // the provider's words about the stop
	Usage     Usage  // so far, cumulative

	Limits *RateLimits // of EventStart, where the provider tells of limits
}

// Model is a wire to a provider.
type Model interface {
	// Stream sends r and yields the answer. A stream without error ends with
	// EventStop: the wire itself turns a stream that ends early, stalls or
	// makes no sense into an error, which is always a *failure.Error. It never
	// retries. Leaving the loop, or ctx, ends the request.
	Stream(ctx context.Context, r *Request) iter.Seq2[Event, error]
}

// Usage counts tokens. The whole prompt is Input + CacheRead + CacheWrite.
type Usage struct {
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
	CacheRead  int `json:"cache_read_input_tokens,omitzero"`
	CacheWrite int `json:"cache_creation_input_tokens,omitzero"`
}

// Prompt is the number of tokens of the whole prompt.
func (u Usage) Prompt() int { return u.Input + u.CacheRead + u.CacheWrite }

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
	}
}
