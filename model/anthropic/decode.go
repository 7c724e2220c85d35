package anthropic

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decoder turns the events of the wire into events of the model and holds the
// wire to its protocol: an answer is message_start, blocks one after the other
// without gaps, a stop reason, message_stop.
type decoder struct {
	put       func(model.Event)
	progress  func()
	classify  func(data []byte) *failure.Error // of an error event
	requestID string
	limits    *model.RateLimits

	started bool
	done    bool // message_stop came
	model   string
	blocks  int        // blocks that are complete
	open    *openBlock // the block that is being written
	stop    model.StopReason
	detail  string
	usage   model.Usage

	wire wireEvent // reused: most events are deltas and leave nothing behind
}

type wireEvent struct {
	Type    string         `json:"type"`
	Index   int            `json:"index"`
	Message wireMessage    `json:"message"`
	Block   jsontext.Value `json:"content_block"`
	Delta   wireDelta      `json:"delta"`
	Usage   wireUsage      `json:"usage"`
	Error   jsontext.Value `json:"error"`
}

type wireMessage struct {
	Type    string           `json:"type"`
	ID      string           `json:"id"`
	Model   string           `json:"model"`
	Content []jsontext.Value `json:"content"`
	Usage   wireUsage        `json:"usage"`
	wireStop
}

type wireStop struct {
	Reason   string         `json:"stop_reason"`
	Sequence string         `json:"stop_sequence"`
	Details  jsontext.Value `json:"stop_details"`
}

type wireDelta struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`
	Thinking  string         `json:"thinking"`
	Signature string         `json:"signature"`
	Input     string         `json:"partial_json"`
	Citation  jsontext.Value `json:"citation"`
	wireStop
}

// wireUsage tells what is there from what is not. Floats, because some
// gateways count in 12.0.
type wireUsage struct {
	Input      *float64 `json:"input_tokens"`
	Output     *float64 `json:"output_tokens"`
	CacheRead  *float64 `json:"cache_read_input_tokens"`
	CacheWrite *float64 `json:"cache_creation_input_tokens"`
}

// malformed is the failure of a server that breaks the protocol. Asking again
// may help: the usual cause is a gateway that lost a part of the stream.
func malformed(format string, args ...any) *failure.Error {
	return &failure.Error{
		Kind: failure.ServerError, Retry: failure.RetryYes, Rule: RuleMalformed,
		Message: "the stream makes no sense: " + fmt.Sprintf(format, args...),
	}
}

// complete reports whether all of the answer is here, message_stop or not: the
// server said why it stopped, and no block is open.
func (d *decoder) complete() bool { return d.started && d.stop != "" && d.open == nil }

// end is the last event of a complete answer.
func (d *decoder) end() model.Event {
	return model.Event{Kind: model.EventStop, Stop: d.stop, Detail: d.detail, Usage: d.usage, RequestID: d.requestID}
}

// event takes one event of the stream.
func (d *decoder) event(e sseEvent) error {
	data := bytes.TrimSpace(e.data)
	if len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	d.wire = wireEvent{}
	err := json.Unmarshal(data, &d.wire, lenient)
	if err != nil {
		// A foreign event may use our names for other things.
		d.wire = wireEvent{Type: typeOf(data)}
	}
	kind := d.wire.Type
	if kind == "" {
		kind = string(e.name)
	}
	handle := handlers[kind]
	switch {
	case kind == "error", len(d.wire.Error) > 0 && d.wire.Error.Kind() != 'n' && handle == nil:
		return d.classify(data)
	case handle == nil && (err == nil || d.wire.Type != "" || len(e.name) > 0):
		return nil // of a later version, or a gateway's own
	case err != nil && e.cut:
		return nil // half an event: the end of the stream tells the rest
	case err != nil:
		return malformed("%q event is broken JSON: %v", kind, err)
	}
	if err := handle(d); err != nil {
		return err
	}
	if kind != "ping" {
		d.progress()
	}
	return nil
}

// typeOf finds the type of an object whose other members are not as expected.
func typeOf(data []byte) string {
	var t struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &t, lenient) != nil {
		return ""
	}
	return t.Type
}

var handlers = map[string]func(*decoder) error{
	"message_start":       (*decoder).messageStart,
	"content_block_start": (*decoder).blockStart,
	"content_block_delta": (*decoder).blockDelta,
	"content_block_stop":  (*decoder).blockStop,
	"message_delta":       (*decoder).messageDelta,
	"message_stop":        (*decoder).messageStop,
	"ping": func(d *decoder) error {
		d.put(model.Event{Kind: model.EventAlive})
		return nil
	},
}

func (d *decoder) messageStart() error {
	if d.started {
		return malformed("a second message_start")
	}
	m := &d.wire.Message
	d.started, d.model = true, m.Model
	d.usage = m.Usage.over(model.Usage{})
	d.stopped(m.wireStop)
	d.put(model.Event{Kind: model.EventStart, ID: m.ID, Model: m.Model, RequestID: d.requestID, Usage: d.usage, Limits: d.limits})
	return nil
}

func (d *decoder) blockStart() error {
	switch {
	case !d.started:
		return malformed("content_block_start before message_start")
	case d.open != nil:
		return malformed("block %d begins while block %d is open", d.wire.Index, d.blocks)
	case d.wire.Index != d.blocks:
		return malformed("block %d begins where block %d should", d.wire.Index, d.blocks)
	case d.wire.Block.Kind() != jsontext.KindBeginObject:
		return malformed("block %d begins without a content_block", d.wire.Index)
	}
	d.begin(d.wire.Block)
	return nil
}

func (d *decoder) begin(start jsontext.Value) {
	d.open = openBlockFrom(start, d.model)
	shown := d.open.block
	d.put(model.Event{Kind: model.EventBlockStart, Index: d.blocks, Block: &shown})
	// Some gateways begin a block with its text. Consumers need to look at
	// deltas only.
	if text := d.open.startText; text != "" {
		kind := model.DeltaText
		if shown.Type == message.Thinking {
			kind = model.DeltaThinking
		}
		d.grow(kind, text)
	}
}

// grow adds to the open block and tells of it.
func (d *decoder) grow(kind model.DeltaKind, text string) {
	if kind == model.DeltaInput {
		d.open.input = append(d.open.input, text...)
	} else {
		d.open.text = append(d.open.text, text...)
	}
	if text != "" {
		d.put(model.Event{Kind: model.EventDelta, Index: d.blocks, Delta: kind, Text: text})
	}
}

func (d *decoder) blockDelta() error {
	if d.open == nil || d.wire.Index != d.blocks {
		return malformed("a %s for block %d, which is not open", d.wire.Delta.Type, d.wire.Index)
	}
	switch delta := &d.wire.Delta; delta.Type {
	case "text_delta":
		d.grow(model.DeltaText, delta.Text)
	case "thinking_delta":
		d.grow(model.DeltaThinking, delta.Thinking)
	case "input_json_delta":
		d.grow(model.DeltaInput, delta.Input)
	case "signature_delta":
		d.open.block.Signature += delta.Signature
	case "citations_delta":
		if len(delta.Citation) > 0 {
			d.open.citations = append(d.open.citations, delta.Citation)
		}
	}
	return nil
}

func (d *decoder) blockStop() error {
	if d.open == nil || d.wire.Index != d.blocks {
		return malformed("content_block_stop for block %d, which is not open", d.wire.Index)
	}
	d.finish()
	return nil
}

func (d *decoder) finish() {
	block := d.open.finish()
	d.put(model.Event{Kind: model.EventBlockStop, Index: d.blocks, Block: &block})
	d.open = nil
	d.blocks++
}

func (d *decoder) messageDelta() error {
	if !d.started {
		return malformed("message_delta before message_start")
	}
	d.stopped(d.wire.Delta.wireStop)
	d.usage = d.wire.Usage.over(d.usage)
	return nil
}

func (d *decoder) messageStop() error {
	switch {
	case !d.started:
		return malformed("message_stop before message_start")
	case d.open != nil:
		return malformed("message_stop while block %d is open", d.blocks)
	case d.stop == "":
		return malformed("message_stop without a stop reason")
	}
	d.done = true
	return nil
}

// stopped notes why the model stopped, and in what words.
func (d *decoder) stopped(s wireStop) {
	if s.Reason == "" {
		return
	}
	d.stop, d.detail = model.StopReason(s.Reason), s.Sequence
	var details struct {
		Category    string `json:"category"`
		Explanation string `json:"explanation"`
	}
	if s.Details.Kind() == jsontext.KindBeginObject && json.Unmarshal(s.Details, &details, lenient) == nil {
		words := slices.DeleteFunc([]string{details.Category, details.Explanation}, func(s string) bool { return s == "" })
		d.detail = strings.Join(words, ": ")
	}
}

// over returns the usage was with what u says in its place: usage is
// cumulative. Some gateways begin with estimates and end with the numbers, and
// some end with zeros: a prompt of no tokens is no statement.
func (u wireUsage) over(was model.Usage) model.Usage {
	number := func(v *float64, otherwise int) int {
		if v == nil || *v < 0 || *v > 1e12 {
			return otherwise
		}
		return int(*v)
	}
	said := model.Usage{
		Input: number(u.Input, was.Input), CacheRead: number(u.CacheRead, was.CacheRead),
		CacheWrite: number(u.CacheWrite, was.CacheWrite), Output: number(u.Output, was.Output),
	}
	if said.Prompt() == 0 {
		said.Input, said.CacheRead, said.CacheWrite = was.Input, was.CacheRead, was.CacheWrite
	}
	return said
}

// whole takes an answer that was not streamed; recognised is false for what is
// neither a message nor an error.
func (d *decoder) whole(data []byte) (recognised bool, err error) {
	kind := typeOf(data)
	var m wireMessage
	switch {
	case kind == "error":
		return true, d.classify(data)
	case kind != "message", json.Unmarshal(data, &m, lenient) != nil:
		return false, nil
	case m.Reason == "":
		return true, malformed("a message without a stop reason")
	}
	d.wire = wireEvent{Message: m}
	if err := d.messageStart(); err != nil {
		return true, err
	}
	for _, content := range m.Content {
		d.begin(content)
		if input := d.open.startIn; len(input) > 0 {
			d.grow(model.DeltaInput, string(input)) // as a stream tells it
		}
		d.finish()
	}
	d.done = true
	return true, nil
}
