package message

import "fmt"

// Flatten returns msgs with every call and every result as plain text: the last
// resort for a provider that refuses how they pair.
func Flatten(msgs []*Message) []*Message {
	out := make([]*Message, 0, len(msgs))
	for _, m := range msgs {
		flat := &Message{ID: m.ID, Role: m.Role, Model: m.Model, Synthetic: m.Synthetic}
		changed := false
		for _, b := range m.Blocks {
			switch b.Type {
			case ToolUse:
				changed = true
				flat.Blocks = append(flat.Blocks, Block{Type: Text, Text: fmt.Sprintf("[called %s with %s]", b.Name, b.Input)})
			case ToolResult:
				changed = true
				flat.Blocks = append(flat.Blocks, Block{Type: Text, Text: fmt.Sprintf("[result of the call %s]", b.ToolUseID)})
				flat.Blocks = append(flat.Blocks, b.Content...)
			case Thinking, RedactedThinking:
				changed = true // bound to the calls that followed it
			default:
				flat.Blocks = append(flat.Blocks, b)
			}
		}
		if !changed {
			flat = m
		}
		if len(flat.Blocks) > 0 {
			out = append(out, flat)
		}
	}
	return out
}
