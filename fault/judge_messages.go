package fault

import (
	"slices"
	"strings"
)

// blockFields are the block types that a client may send, with their fields.
var blockFields = map[string][]string{
	"text":              {"text", "citations", "cache_control"},
	"image":             {"source", "cache_control"},
	"document":          {"source", "title", "context", "citations", "cache_control"},
	"search_result":     {"source", "title", "content", "citations", "cache_control"},
	"tool_result":       {"tool_use_id", "content", "is_error", "cache_control"},
	"tool_use":          {"id", "name", "input", "cache_control", "caller"},
	"thinking":          {"thinking", "signature"},
	"redacted_thinking": {"data"},
	"server_tool_use":   {"id", "name", "input", "cache_control", "caller"},
	"container_upload":  {"file_id", "cache_control"},
	"compaction":        {"content", "cache_control"},
	"fallback":          nil, // not described: any field
}

func isServerResult(kind string) bool {
	return strings.HasSuffix(kind, "_tool_result")
}

// contents checks each message and block by itself.
func (j *judge) contents() {
	for i, m := range j.q.messages {
		switch m.role {
		case "user", "assistant":
		case "system":
			j.systemPlace(i)
		default:
			j.add("role", "messages.%d.role: Input should be 'user' or 'assistant'", i)
		}
		raw := object(list(j.q.body["messages"])[i])
		for _, f := range sortedKeys(raw) {
			if f != "role" && f != "content" {
				j.add("unknown-field", "messages.%d.%s: Extra inputs are not permitted", i, f)
			}
		}
		_, isString := m.content.(string)
		_, isList := m.content.([]any)
		switch {
		case m.content == nil:
			j.add("field", "messages.%d.content: Field required", i)
		case !isString && !isList:
			j.add("field", "messages.%d.content: Input should be a valid list", i)
		case len(m.blocks) == 0:
			// The API excuses the last assistant message; it is no better for it, and prefill is judged apart.
			j.add("empty-content", "messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		for _, b := range m.blocks {
			j.block(m.role, b)
		}
	}
}

// systemPlace checks where a system message stands inside messages: newer models
// take one behind what the user said, for the answer that follows.
// Source: platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
func (j *judge) systemPlace(i int) {
	all := j.q.messages
	if i == 0 {
		j.add("role", "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an input message role.")
		return
	}
	before := all[i-1]
	served := before.role == "assistant" && len(before.blocks) > 0 &&
		(before.blocks[len(before.blocks)-1].kind == "server_tool_use" || isServerResult(before.blocks[len(before.blocks)-1].kind))
	if before.role != "user" && !served {
		j.add("role", "messages.%d: a system message must follow a user message", i)
	}
	if i+1 < len(all) && all[i+1].role != "assistant" {
		j.add("role", "messages.%d: a system message must be the last message or be followed by an assistant message", i)
	}
}

func (j *judge) block(role string, b block) {
	fields, known := blockFields[b.kind]
	if !known && !isServerResult(b.kind) {
		j.add("block-type", "%s: Input tag '%s' found using 'type' does not match any of the expected tags", b.at, b.kind)
		return
	}
	for _, f := range sortedKeys(b.m) {
		if fields != nil && f != "type" && !slices.Contains(fields, f) {
			rule := "unknown-field"
			if f == "cache_control" {
				rule = "cache-control"
			}
			j.add(rule, "%s.%s.%s: Extra inputs are not permitted", b.at, b.kind, f)
		}
	}
	if role == "system" && b.kind != "text" {
		j.add("block-place", "%s: `%s` blocks cannot be in `system` messages", b.at, b.kind)
		return
	}
	switch b.kind {
	case "text":
		j.text(b)
	case "tool_use", "server_tool_use":
		j.callShape(role, b)
	case "tool_result":
		j.resultShape(role, b)
	case "thinking", "redacted_thinking":
		if role != "assistant" {
			j.add("block-place", "%s: `%s` blocks can only be in `assistant` messages", b.at, b.kind)
		}
	}
}

func (j *judge) text(b block) {
	text, ok := b.m["text"].(string)
	switch {
	case !ok:
		j.add("field", "%s.text.text: Input should be a valid string", b.at)
	case text == "" && b.m["cache_control"] != nil:
		j.add("cache-control", "%s.text: cache_control cannot be set for empty text blocks", b.at)
		j.add("empty-text", "messages: text content blocks must be non-empty")
	case text == "":
		j.add("empty-text", "messages: text content blocks must be non-empty")
	case strings.TrimSpace(text) == "":
		j.add("blank-text", "messages: text content blocks must contain non-whitespace text")
	}
}

func (j *judge) callShape(role string, b block) {
	if role != "assistant" {
		j.add("block-place", "%s: `%s` blocks can only be in `assistant` messages", b.at, b.kind)
	}
	if !toolNamePattern().MatchString(str(b.m, "id")) {
		j.add("call-id", "%s.%s.id: String should match pattern '^[a-zA-Z0-9_-]+$'", b.at, b.kind)
	}
	if str(b.m, "name") == "" {
		j.add("field", "%s.%s.name: Field required", b.at, b.kind)
	}
	if _, ok := b.m["input"].(map[string]any); !ok {
		j.add("call-input", "%s.%s.input: Input should be a valid dictionary", b.at, b.kind)
	}
}

func (j *judge) resultShape(role string, b block) {
	if role != "user" {
		j.add("block-place", "%s: `tool_result` blocks can only be in `user` messages", b.at)
	}
	if str(b.m, "tool_use_id") == "" {
		j.add("field", "%s.tool_result.tool_use_id: Field required", b.at)
	}
	if v, ok := b.m["is_error"]; ok && !hasType(v, "boolean") {
		j.add("is-error", "%s.tool_result.is_error: Input should be a valid boolean", b.at)
	}
	switch c := b.m["content"].(type) {
	case nil, string:
	case []any:
		for _, v := range c {
			inner := object(v)
			switch kind := str(inner, "type"); kind {
			case "text":
				j.text(block{at: b.at + ".content", kind: kind, m: inner})
			case "image", "document", "search_result", "tool_reference":
			default:
				j.add("block-type", "%s.tool_result.content: Input tag '%s' found using 'type' does not match any of the expected tags", b.at, kind)
			}
		}
	default:
		j.add("field", "%s.tool_result.content: Input should be a valid list", b.at)
	}
}

// order checks who speaks first and last.
func (j *judge) order() {
	turns := j.q.turns
	if len(turns) == 0 {
		return
	}
	if turns[0].role == "assistant" {
		j.add("first-user", "messages: first message must use the \"user\" role")
	}
	last := turns[len(turns)-1]
	if last.role != "assistant" || j.q.counts() {
		return
	}
	if j.resumesPause(last) {
		return
	}
	if !j.script.prefill {
		j.add("prefill", "This model does not support assistant message prefill. The conversation must end with a user message.")
	} else if text := textOf(last); text != strings.TrimRight(text, " \t\r\n") {
		j.add("prefill", "messages: final assistant content cannot end with trailing whitespace")
	}
}

// resumesPause reports whether a request that ends with the assistant answers a pause: then the
// content goes back as it came.
func (j *judge) resumesPause(last turn) bool {
	for _, b := range last.blocks {
		if b.kind == "server_tool_use" {
			return true
		}
	}
	return j.memory.wasPaused(textOf(last))
}

// pairs checks calls against results, over turns: the API merges messages of one role first.
func (j *judge) pairs() {
	everMade := map[string]bool{}
	for i, t := range j.q.turns {
		open := map[string]bool{} // made by the turn before
		if i > 0 && j.q.turns[i-1].role == "assistant" {
			for _, b := range j.q.turns[i-1].blocks {
				if b.kind == "tool_use" {
					open[str(b.m, "id")] = true
				}
			}
		}
		if t.role == "user" {
			j.resultsOf(t, open)
		}
		j.callsOf(i, everMade)
	}
}

func (j *judge) resultsOf(t turn, open map[string]bool) {
	answered := map[string]bool{}
	for _, b := range t.blocks {
		if b.kind != "tool_result" {
			continue
		}
		id := str(b.m, "tool_use_id")
		switch {
		case !open[id]:
			j.add("orphan-result", "%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", b.at, id)
		case answered[id]:
			j.add("duplicate-result", "%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", b.at, id)
		}
		answered[id] = true
	}
}

// callsOf checks the calls of turn i: unique, and answered at the beginning of the next turn.
func (j *judge) callsOf(i int, everMade map[string]bool) {
	t := j.q.turns[i]
	first, late := map[string]bool{}, map[string]bool{}
	if i+1 < len(j.q.turns) {
		leading := true
		for _, b := range j.q.turns[i+1].blocks {
			leading = leading && b.kind == "tool_result"
			if b.kind == "tool_result" {
				first[str(b.m, "tool_use_id")] = leading
				late[str(b.m, "tool_use_id")] = true
			}
		}
	}
	var missing, behind []string
	at := t.first
	for _, b := range t.blocks {
		if b.kind != "tool_use" {
			continue
		}
		id := str(b.m, "id")
		if everMade[id] {
			j.add("duplicate-call", "%s: `tool_use` ids must be unique", b.at)
		}
		everMade[id] = true
		if !late[id] {
			missing, at = append(missing, id), messageOf(b)
		} else if !first[id] {
			behind, at = append(behind, id), messageOf(b)
		}
	}
	// The API has one sentence for both: a result behind other content is no result for it.
	const words = "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	if len(missing) > 0 {
		j.add("unanswered-call", words, at, strings.Join(missing, ", "))
	}
	if len(behind) > 0 {
		j.add("result-first", words, at, strings.Join(behind, ", "))
	}
}

// messageOf reads the number of the message out of the block's place.
func messageOf(b block) int {
	n := 0
	for _, c := range strings.TrimPrefix(b.at, "messages.") {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// serverCalls checks the pairs that the server itself makes inside of one assistant turn.
func (j *judge) serverCalls() {
	for i, t := range j.q.turns {
		made := map[string]bool{}
		for _, b := range t.blocks {
			id := str(b.m, "tool_use_id")
			switch {
			case b.kind == "server_tool_use":
				made[str(b.m, "id")] = true
			case isServerResult(b.kind) && !made[id]:
				j.add("server-call", "%s: unexpected `tool_use_id` found in `%s` blocks: %s. Each `%s` block must have a corresponding `server_tool_use` block before it.", b.at, b.kind, id, b.kind)
			case isServerResult(b.kind):
				delete(made, id)
			}
		}
		if i == len(j.q.turns)-1 {
			return // an open server call at the end is a pause that is resumed
		}
		for _, b := range t.blocks {
			if id := str(b.m, "id"); b.kind == "server_tool_use" && made[id] {
				j.add("server-call", "%s: `%s` tool use with id `%s` was found without a corresponding `%s_tool_result` block", b.at, str(b.m, "name"), id, str(b.m, "name"))
			}
		}
	}
}
