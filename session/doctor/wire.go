package doctor

import (
	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wire is a block of the Messages API.
type wire struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`
	Thinking  *string        `json:"thinking"`
	Signature string         `json:"signature"`
	Data      string         `json:"data"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID string         `json:"tool_use_id"`
	IsError   bool           `json:"is_error"`
	Content   jsontext.Value `json:"content"`
	Title     string         `json:"title"`
	Source    *struct {
		Type   string `json:"type"`
		Media  string `json:"media_type"`
		Data   string `json:"data"`
		URL    string `json:"url"`
		FileID string `json:"file_id"`
	} `json:"source"`
}

// wireBlock reads a block; one that cannot be read has no type.
func wireBlock(raw jsontext.Value, model string) message.Block {
	var w wire
	if json.Unmarshal(raw, &w, lax) != nil || w.Type == "" {
		return message.Block{Raw: raw.Clone()}
	}
	if w.Type == string(message.ToolResult) && !fits(w.Content, words) && len(w.Content) > 0 {
		return message.Block{Raw: raw.Clone()}
	}
	b := message.Block{Type: message.BlockType(w.Type), Model: model}
	switch b.Type {
	case message.Text:
		b.Text = w.Text
	case message.Thinking:
		if w.Thinking != nil { // without its words the signature is of no use
			b.Text, b.Signature = *w.Thinking, w.Signature
		}
	case message.RedactedThinking:
		b.Data = w.Data
	case message.ToolUse:
		b.ID, b.Name, b.Input = w.ID, w.Name, w.Input.Clone()
	case message.ToolResult:
		b.ToolUseID, b.IsError, b.Model = w.ToolUseID, w.IsError, ""
		b.Content = wireContent(w.Content)
	case message.Image, message.Document:
		if s := w.Source; s != nil {
			b.Media = &message.Media{Type: s.Media, Data: s.Data, URL: s.URL, FileID: s.FileID, Title: w.Title}
			if s.Type == "text" || s.Type == "content" {
				b.Media = &message.Media{Type: s.Media, URL: s.Type} // words, nothing to decode
			}
		}
	default:
		b.ID, b.ToolUseID, b.Raw = w.ID, w.ToolUseID, raw.Clone()
	}
	return b
}

func wireContent(content jsontext.Value) []message.Block {
	switch content.Kind() {
	case jsontext.KindString:
		if text := unquote(content); text != "" {
			return []message.Block{{Type: message.Text, Text: text}}
		}
	case jsontext.KindBeginArray:
		var raw []jsontext.Value
		if json.Unmarshal(content, &raw, lax) == nil {
			out := make([]message.Block, 0, len(raw))
			for _, one := range raw {
				out = append(out, wireBlock(one, ""))
			}
			return out
		}
	}
	return nil
}

// innerPlaces are the places of the blocks in a result.
func innerPlaces(b *message.Block, at place, d *doc, path string) []place {
	if b.Type != message.ToolResult || len(b.Content) == 0 {
		return nil
	}
	inner := place{line: at.line, path: path, bare: true}
	if at.line >= 0 && len(b.Content) == 1 && b.Content[0].Type == message.Text {
		if v, ok := locate(d.lines[at.line].text(), path); ok && d.lines[at.line].raw[v.start] == '"' {
			return []place{inner}
		}
	}
	out := make([]place, len(b.Content))
	for k := range out {
		out[k] = inner.element(path, k)
	}
	return out
}
