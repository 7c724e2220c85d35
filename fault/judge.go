package fault

import (
	"fmt"
	"slices"
	"strings"
)

// ruleNames are the rules of the protocol that the judge knows, as scripts and reports name them.
var ruleNames = []string{
	"json", "version-header", "auth-header", "field", "unknown-field", "max-tokens", "stream-flag",
	"role", "first-user", "prefill", "empty-content", "empty-text", "blank-text", "block-type", "block-place",
	"unanswered-call", "result-first", "orphan-result", "duplicate-call", "duplicate-result", "call-input", "call-id", "is-error",
	"server-call", "thinking-signature", "foreign-signature", "thinking-changed", "thinking-last", "thinking-missing",
	"cache-control", "tool-name", "tool-schema", "tool-choice", "media-count", "media-size", "media-empty", "media-type", "media-data",
	"media-pages", "model-unknown", "output-cap",
}

// finding is one broken rule, with the words in which the API would refuse it.
type finding struct {
	rule string
	apiError
}

// judge reads one request against the protocol. It notes everything that it finds, in the order in
// which the API would have noticed.
type judge struct {
	q        *request
	script   *Script
	limits   modelLimits
	memory   *memory
	findings []finding
}

func (j *judge) add(rule, format string, args ...any) {
	j.refuse(rule, 400, "invalid_request_error", format, args...)
}

func (j *judge) refuse(rule string, status int, typ, format string, args ...any) {
	j.findings = append(j.findings, finding{rule, apiError{status, typ, fmt.Sprintf(format, args...)}})
}

// judged gives all findings about a request to /v1/messages or to the counting of its tokens.
func (s *Script) judged(q *request, m *memory) []finding {
	j := &judge{q: q, script: s, limits: s.limitsFor(q.model), memory: m}
	j.headers()
	if q.badJSON != nil {
		j.add("json", "The request body is not valid JSON: %v", q.badJSON)
		return j.findings
	}
	j.fields()
	j.tools()
	j.contents()
	j.order()
	j.pairs()
	j.serverCalls()
	j.thinking()
	j.cacheMarks()
	j.media()
	return j.findings
}

func (j *judge) headers() {
	h := j.q.header
	if h.Get("x-api-key") == "" && !strings.HasPrefix(h.Get("authorization"), "Bearer ") {
		j.refuse("auth-header", 401, "authentication_error", "x-api-key header is required")
	}
	if h.Get("anthropic-version") == "" {
		j.add("version-header", "anthropic-version: header is required")
	}
}

var topFields = map[string]string{
	"model": "string", "max_tokens": "integer", "messages": "list", "system": "", "tools": "list", "tool_choice": "dictionary",
	"stream": "boolean", "temperature": "number", "top_p": "number", "top_k": "integer", "stop_sequences": "list",
	"thinking": "dictionary", "output_config": "dictionary", "metadata": "dictionary", "service_tier": "string",
	"cache_control": "dictionary", "container": "", "inference_geo": "string", "fallbacks": "list", "speed": "string",
	"context_management": "dictionary", "mcp_servers": "list", "output_format": "dictionary",
}

func (j *judge) fields() {
	q := j.q
	required := []string{"model", "max_tokens", "messages"}
	if q.counts() {
		required = []string{"model", "messages"}
	}
	for _, f := range required {
		if _, ok := q.body[f]; !ok {
			j.add("field", "%s: Field required", f)
		}
	}
	for _, f := range sortedKeys(q.body) {
		want, known := topFields[f]
		switch v := q.body[f]; {
		case !known:
			j.add("unknown-field", "%s: Extra inputs are not permitted", f)
		case f == "stream" && !hasType(v, want):
			j.add("stream-flag", "stream: Input should be a valid boolean")
		case !hasType(v, want):
			j.add("field", "%s: Input should be a valid %s", f, want)
		}
	}
	if q.model == "" && q.body["model"] != nil {
		j.add("field", "model: String should have at least 1 character")
	}
	if len(q.messages) == 0 && hasType(q.body["messages"], "list") && q.body["messages"] != nil {
		j.add("field", "messages: at least one message is required")
	}
	if !j.script.knowsModel(q.model) && q.model != "" {
		j.refuse("model-unknown", 404, "not_found_error", "model: %s", q.model)
	}
	if !q.counts() {
		j.maxTokens()
	}
}

func (j *judge) maxTokens() {
	q := j.q
	if _, sent := q.body["max_tokens"]; sent && q.maxTokens < 1 {
		j.add("max-tokens", "max_tokens: Input should be greater than or equal to 1")
	}
	if lim := j.limits.output; lim > 0 && q.maxTokens > lim {
		j.add("output-cap", "max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", q.maxTokens, lim, q.model)
	}
	thinking := object(q.body["thinking"])
	if budget, ok := integer(thinking["budget_tokens"]); ok && str(thinking, "type") == "enabled" && budget >= q.maxTokens {
		j.add("max-tokens", "`max_tokens` must be greater than `thinking.budget_tokens`.")
	}
}

func (q *request) counts() bool { return strings.HasSuffix(q.path, "/count_tokens") }

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func hasType(v any, want string) bool {
	ok := true
	switch want {
	case "string":
		_, ok = v.(string)
	case "integer":
		_, ok = integer(v)
	case "number":
		_, ok = v.(float64)
	case "boolean":
		_, ok = v.(bool)
	case "list":
		_, ok = v.([]any)
	case "dictionary":
		_, ok = v.(map[string]any)
	}
	return ok
}

var toolNamePattern = pattern(`^[a-zA-Z0-9_-]{1,128}$`)

func (j *judge) tools() {
	seen := map[string]bool{}
	for i, t := range j.q.tools {
		own := t.kind == "" || t.kind == "custom"
		if !toolNamePattern().MatchString(t.name) {
			j.add("tool-name", "tools.%d.custom.name: String should match pattern '%s'", i, toolNamePattern())
		}
		if seen[t.name] {
			j.add("tool-name", "tools: Tool names must be unique.")
		}
		seen[t.name] = true
		schema, isObject := t.raw["input_schema"].(map[string]any)
		switch {
		case !own:
		case !isObject:
			j.add("tool-schema", "tools.%d.custom.input_schema: Field required", i)
		case schema["type"] != "object":
			j.add("tool-schema", "tools.%d.custom.input_schema.type: Input should be 'object'", i)
		case !schemaShape(schema):
			j.add("tool-schema", "tools.%d.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12). Learn more about tool use at https://docs.claude.com/en/docs/tool-use.", i)
		}
	}
	choice, sent := j.q.body["tool_choice"]
	if !sent {
		return
	}
	kind := str(object(choice), "type")
	switch {
	case !slices.Contains([]string{"auto", "any", "tool", "none"}, kind):
		j.add("tool-choice", "tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'auto', 'any', 'tool', 'none'", kind)
	case len(j.q.tools) == 0:
		j.add("tool-choice", "tool_choice may only be specified while providing tools")
	case kind == "tool" && !seen[str(object(choice), "name")]:
		j.add("tool-choice", "Tool '%s' not found in provided tools", str(object(choice), "name"))
	}
}

// schemaShape checks the keywords that clients get wrong: what is a map has to be a map.
func schemaShape(s map[string]any) bool {
	if p, ok := s["properties"]; ok {
		props, isMap := p.(map[string]any)
		if !isMap {
			return false
		}
		for _, v := range props {
			sub, isMap := v.(map[string]any)
			if _, isBool := v.(bool); !isBool && (!isMap || !schemaShape(sub)) {
				return false
			}
		}
	}
	if r, ok := s["required"]; ok {
		names, isList := r.([]any)
		if !isList || slices.ContainsFunc(names, func(n any) bool { return !hasType(n, "string") }) {
			return false
		}
	}
	return true
}
