package cli

import (
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// partial is the answer that streams in, as the API's own events would tell it.
type partial struct {
	attempt int
	started bool
	open    bool // the block at index has no end yet
	index   int
}

// event wraps an event of the API; nothing unless such lines were asked for.
func (s *stream) event(events ...apiEvent) []any {
	if !s.partial {
		return nil
	}
	out := make([]any, 0, len(events))
	for _, e := range events {
		out = append(out, partialLine{Type: "stream_event", UUID: s.id(), Session: s.session, Event: e})
	}
	return out
}

// start tells the beginning of an answer with its first block: attempts that
// fail before it have nothing to take back.
func (s *stream) start(attempt int) []any {
	if s.part.started && s.part.attempt == attempt {
		return nil
	}
	s.part = partial{attempt: attempt, started: true}
	null := nullable("")
	return s.event(apiEvent{Type: "message_start", Message: &apiMessage{
		ID: s.messageID(attempt), Type: "message", Role: "assistant", Model: s.models[attempt],
		Content: []any{}, Stop: &null, Usage: &apiTokens{},
	}})
}

func (s *stream) closeBlock() []any {
	if !s.part.open {
		return nil
	}
	s.part.open = false
	index := s.part.index
	return s.event(apiEvent{Type: "content_block_stop", Index: &index})
}

func (s *stream) block(b *session.Block) []any {
	out := append(s.start(b.Attempt), s.closeBlock()...)
	s.part.open, s.part.index = true, b.Index
	return append(out, s.event(apiEvent{Type: "content_block_start", Index: &b.Index, Block: emptyBlock(b)})...)
}

func emptyBlock(b *session.Block) any {
	switch b.Block {
	case message.Text:
		return textBlock{Type: "text"}
	case message.Thinking:
		return thinkingBlock{Type: "thinking"}
	case message.RedactedThinking:
		return hiddenBlock{Type: "redacted_thinking"}
	}
	return callBlock{string(b.Block), b.ID, b.Name, emptyObject}
}

type (
	textDelta struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	thinkingDelta struct {
		Type     string `json:"type"`
		Thinking string `json:"thinking"`
	}
	inputDelta struct {
		Type string `json:"type"`
		JSON string `json:"partial_json"`
	}
	stopDelta struct {
		Stop     nullable `json:"stop_reason"`
		Sequence nullable `json:"stop_sequence"`
	}
)

func (s *stream) delta(b *session.Delta) []any {
	e := apiEvent{Type: "content_block_delta", Index: &b.Index}
	switch {
	case b.Input:
		e.Delta = inputDelta{"input_json_delta", b.Text}
	case b.Thinking:
		e.Delta = thinkingDelta{"thinking_delta", b.Text}
	default:
		e.Delta = textDelta{"text_delta", b.Text}
	}
	return append(s.start(b.Attempt), s.event(e)...)
}

// stopPartial ends the answer of attempt, if it was shown at all.
func (s *stream) stopPartial(attempt int, stop string, spent session.Spent) []any {
	if !s.part.started || s.part.attempt != attempt {
		return nil
	}
	out := append(s.closeBlock(), s.event(
		apiEvent{Type: "message_delta", Delta: stopDelta{Stop: nullable(stop)}, Usage: toTokens(spent.Usage)},
		apiEvent{Type: "message_stop"},
	)...)
	s.part = partial{}
	return out
}
