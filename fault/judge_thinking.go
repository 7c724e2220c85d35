package fault

import "slices"

// thinking checks signatures everywhere, and the latest assistant turn against what was really said.
func (j *judge) thinking() {
	latest := -1
	for i, t := range j.q.turns {
		if t.role != "assistant" {
			continue
		}
		latest = i
		j.signatures(t)
		if n := len(t.blocks); n > 0 && (t.blocks[n-1].kind == "thinking" || t.blocks[n-1].kind == "redacted_thinking") {
			j.add("thinking-last", "messages.%d: The final block in an assistant message cannot be `thinking`.", messageOf(t.blocks[n-1]))
		}
	}
	if latest >= 0 {
		j.latest(j.q.turns[latest])
	}
}

func (j *judge) signatures(t turn) {
	for _, b := range t.blocks {
		if b.kind != "thinking" {
			continue
		}
		signature := str(b.m, "signature")
		if signature == "" {
			j.add("thinking-signature", "%s.thinking.signature: Field required", b.at)
			continue
		}
		model, ok := signer(signature)
		switch {
		case !ok:
			j.add("thinking-signature", "%s: Invalid `signature` in `thinking` block", b.at)
		case model != j.q.model:
			j.add("foreign-signature", "%s: Invalid `signature` in `thinking` block", b.at)
		case sign(model, str(b.m, "thinking")) != signature:
			j.add("thinking-changed", "%s: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.", b.at)
		}
	}
}

// latest compares the thinking of the latest assistant turn with the answer that this server gave, found
// by its tool calls. It may be left out as a whole; what is there has to be a beginning of what was sent,
// in order and unchanged.
func (j *judge) latest(t turn) {
	var said *answer
	var got []string
	at := ""
	for _, b := range t.blocks {
		switch b.kind {
		case "tool_use":
			if said == nil {
				said = j.memory.byCall(str(b.m, "id"))
			}
		case "thinking", "redacted_thinking":
			if messageOf(b) != t.first {
				return // several messages merged: a pause that was resumed, no single answer to compare with
			}
			got = append(got, str(b.m, "thinking")+str(b.m, "data"))
			at = b.at
		}
	}
	if said == nil || said.model != j.q.model {
		return
	}
	var sent []string
	for _, p := range said.parts {
		if p.kind == "thinking" || p.kind == "redacted_thinking" {
			sent = append(sent, p.text)
		}
	}
	switch {
	case len(got) > len(sent) || !slices.Equal(got, sent[:min(len(got), len(sent))]):
		if !slices.ContainsFunc(j.findings, func(f finding) bool { return f.rule == "thinking-changed" }) {
			j.add("thinking-changed", "%s: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.", at)
		}
	case len(got) == 0 && len(sent) > 0 && str(object(j.q.body["thinking"]), "type") == "enabled":
		j.add("thinking-missing", "messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.", t.first, t.blocks[0].kind)
	}
}
