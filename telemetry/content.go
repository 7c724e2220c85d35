package telemetry

import (
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"
)

// maxContent bounds the words in one attribute, in bytes: about what backends
// still take.
const maxContent = 16 << 10

// maxParts bounds their number.
const maxParts = 64

// said is a message in the form of the conventions.
type said struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitzero"`
}

type part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitzero"`
	ID        string `json:"id,omitzero"`
	Name      string `json:"name,omitzero"`
	Arguments string `json:"arguments,omitzero"` // JSON as a text, since it may be cut
}

// parts are the words of blocks: text and calls. Thinking is nobody's business,
// and media are too large.
func (r *run) parts(blocks []message.Block) []part {
	out := []part{}
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case message.Text:
			out = append(out, part{Type: "text", Content: r.clean(b.Text)})
		case message.ToolUse:
			out = append(out, part{Type: "tool_call", ID: r.word(b.ID), Name: r.word(b.Name), Arguments: r.clean(string(b.Input))})
		case message.Image, message.Document:
			out = append(out, part{Type: "blob"})
		}
		if len(out) == maxParts {
			break
		}
	}
	return out
}

// messages encodes what was said. The bound holds for all of it together: what
// comes later is cut first.
func (r *run) messages(key string, all []said) attribute.KeyValue {
	left, bounded := maxContent, make([]said, 0, len(all))
	for _, s := range all[:min(len(all), maxParts)] {
		m := said{Role: s.Role, Parts: []part{}, Finish: s.Finish}
		for _, p := range s.Parts {
			if left <= 0 {
				break
			}
			p.Content = cut(p.Content, left)
			left -= len(p.Content)
			p.Arguments = cut(p.Arguments, max(left, 0))
			left -= len(p.Arguments)
			m.Parts = append(m.Parts, p)
		}
		bounded = append(bounded, m)
	}
	text, err := json.Marshal(bounded)
	if err != nil { // every text in it was mended
		return attribute.String(key, "[]")
	}
	return attribute.String(key, string(text))
}

// clean takes secrets out of what somebody said, and bounds it. Known ones go
// before any cut, which could leave a half; patterns are not searched in
// megabytes.
func (r *run) clean(text string) string {
	return cut(failure.Redact(cut(r.cfg.Redact.Known(text), 2*maxContent)), maxContent)
}

// finishReason says why a model stopped in the conventions' words.
func finishReason(stop string) string {
	switch stop {
	case "end_turn", "stop_sequence", "pause_turn":
		return "stop"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_call"
	case "refusal":
		return "content_filter"
	case "":
		return "error"
	}
	return stop
}
