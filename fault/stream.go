package fault

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// frame is one server-sent event before it becomes bytes. What it carries is kept beside the data, so
// that a position such as "after 200 characters of text" can be found without parsing.
type frame struct {
	event string
	data  string
	bare  bool   // written without the event: line
	raw   string // instead of both: written as it is

	block int    // from 1; 0 for events outside of blocks
	kind  string // of the block
	delta bool
	chars int // of text, thinking or input in this delta
}

func (f *frame) bytes() string {
	if f.raw != "" {
		return f.raw
	}
	var b strings.Builder
	if !f.bare {
		b.WriteString("event: " + f.event + "\n")
	}
	b.WriteString("data: " + f.data + "\n\n")
	return b.String()
}

const defaultPieces = 24

// usage is what the server claims about tokens.
type usage struct {
	Input      int `json:"input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	Output     int `json:"output_tokens"`
}

type messageBody struct {
	ID           string           `json:"id"`
	Type         string           `json:"type"`
	Role         string           `json:"role"`
	Model        string           `json:"model"`
	Content      []jsontext.Value `json:"content"`
	StopReason   *string          `json:"stop_reason"`
	StopSequence *string          `json:"stop_sequence"`
	StopDetails  *stopDetails     `json:"stop_details,omitempty"`
	Usage        usage            `json:"usage"`
}

type stopDetails struct {
	Type        string  `json:"type"`
	Category    *string `json:"category"`
	Explanation *string `json:"explanation"`
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s stopSpec) details() *stopDetails {
	if s.reason != "refusal" {
		return nil
	}
	return &stopDetails{"refusal", optional(s.category), optional(s.explanation)}
}

// body is the answer to a request that did not ask for a stream.
func (a *answer) body(id, model string, u usage) []byte {
	m := messageBody{
		ID: id, Type: "message", Role: "assistant", Model: model, Content: []jsontext.Value{},
		StopReason: optional(a.stop.reason), StopSequence: optional(a.stop.sequence), StopDetails: a.stop.details(), Usage: u,
	}
	for i := range a.parts {
		m.Content = append(m.Content, a.parts[i].block(true))
	}
	return encode(m)
}

// frames is the answer as events, a healthy stream.
func (a *answer) frames(id, model string, u usage, pieces int) []frame {
	start := u
	start.Output = min(1, u.Output)
	out := []frame{event("message_start", struct {
		Type    string      `json:"type"`
		Message messageBody `json:"message"`
	}{"message_start", messageBody{ID: id, Type: "message", Role: "assistant", Model: model, Content: []jsontext.Value{}, Usage: start}})}
	for i := range a.parts {
		out = append(out, a.parts[i].frames(i, pieces)...)
		if i == 0 {
			out = append(out, event("ping", typed{"ping"}))
		}
	}
	type delta struct {
		StopReason   *string      `json:"stop_reason"`
		StopSequence *string      `json:"stop_sequence"`
		StopDetails  *stopDetails `json:"stop_details,omitempty"`
	}
	return append(out, event("message_delta", struct {
		Type  string `json:"type"`
		Delta delta  `json:"delta"`
		Usage usage  `json:"usage"`
	}{"message_delta", delta{optional(a.stop.reason), optional(a.stop.sequence), a.stop.details()}, u}),
		event("message_stop", typed{"message_stop"}))
}

type typed struct {
	Type string `json:"type"`
}

func event(name string, data any) frame { return frame{event: name, data: string(encode(data))} }

// frames is one block: its start, deltas and stop.
func (p *part) frames(index, pieces int) []frame {
	type start struct {
		Type  string         `json:"type"`
		Index int            `json:"index"`
		Block jsontext.Value `json:"content_block"`
	}
	out := []frame{event("content_block_start", start{"content_block_start", index, p.block(false)})}
	if p.raw == nil && p.kind != "redacted_thinking" {
		for _, piece := range splitRunes(*p.measured(), pieces) {
			f := event("content_block_delta", blockDelta{"content_block_delta", index, p.delta(piece)})
			f.delta, f.chars = true, len([]rune(piece))
			out = append(out, f)
		}
	}
	if p.kind == "thinking" && !p.cut {
		out = append(out, event("content_block_delta", blockDelta{"content_block_delta", index, struct {
			Type      string `json:"type"`
			Signature string `json:"signature"`
		}{"signature_delta", sign(p.model, p.text)}}))
	}
	out = append(out, event("content_block_stop", struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}{"content_block_stop", index}))
	for i := range out {
		out[i].block, out[i].kind = index+1, p.kind
	}
	return out
}

type blockDelta struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
	Delta any    `json:"delta"`
}

func (p *part) delta(piece string) any {
	switch p.kind {
	case "thinking":
		return struct {
			Type     string `json:"type"`
			Thinking string `json:"thinking"`
		}{"thinking_delta", piece}
	case "tool_use":
		return struct {
			Type    string `json:"type"`
			Partial string `json:"partial_json"`
		}{"input_json_delta", piece}
	}
	return struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text_delta", piece}
}

// splitRunes cuts s into pieces of size characters. Short text still becomes two pieces, so that there
// is a middle to cut at.
func splitRunes(s string, size int) []string {
	runes := []rune(s)
	if size == 0 {
		size = defaultPieces
		if len(runes) <= size {
			size = max(1, (len(runes)+1)/2)
		}
	}
	var out []string
	for len(runes) > size {
		out = append(out, string(runes[:size]))
		runes = runes[size:]
	}
	if len(runes) > 0 {
		out = append(out, string(runes))
	}
	return out
}
