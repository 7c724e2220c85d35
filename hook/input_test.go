package hook

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestInput holds what hooks read, field by field.
func TestInput(t *testing.T) {
	const head = `{"session_id":"s1","transcript_path":"/t","cwd":"/w","permission_mode":"plan",`
	want := map[Event]string{
		PreToolUse:         `"tool_name":"Bash","tool_input":{"command":"git push"},"tool_use_id":"call_1"}`,
		PermissionRequest:  `"tool_name":"Bash","tool_input":{"command":"git push"}}`,
		PostToolUse:        `"tool_name":"Bash","tool_input":{"command":"git push"},"tool_use_id":"call_1","tool_response":{"stdout":"ok"},"duration_ms":12}`,
		PostToolUseFailure: `"tool_name":"Bash","tool_input":{"command":"git push"},"tool_use_id":"call_1","error":"Exit code 1"}`,
		PostToolBatch:      `"tool_calls":[{"tool_name":"Bash","tool_input":{"command":"git push"},"tool_use_id":"call_1","tool_response":"ok"}]}`,
		UserPromptSubmit:   `"prompt":"hello"}`,
		SessionStart:       `"source":"startup","model":"m"}`,
		SessionEnd:         `"reason":"other"}`,
		Stop:               `"stop_hook_active":false,"last_assistant_message":"done","background_tasks":[],"session_crons":[]}`,
		StopFailure:        `"error":"overloaded","helper":true,"attempts":3,"next_at":"2026-01-02T03:04:05Z"}`,
		SubagentStart:      ``,
		SubagentStop:       `"stop_hook_active":false,"agent_transcript_path":"/tmp/a1.jsonl"}`,
		PreCompact:         `"trigger":"auto","custom_instructions":""}`,
		PostCompact:        `"trigger":"auto","compact_summary":"short"}`,
		Notification:       `"message":"look","notification_type":"idle_prompt"}`,
		RecoveryStart:      `"decision":"retry","cause":"overloaded","recovery":{"id":1}}`,
		RecoveryEnd:        `"decision":"retry","cause":"overloaded","recovery":{"id":1}}`,
	}
	for _, e := range Events() {
		c := Common{Session: "s1", Transcript: "/t", Dir: "/w", PermissionMode: "plan"}
		got, err := json.Marshal(example(e, c))
		if err != nil {
			t.Errorf("%s: %v", e, err)
			continue
		}
		agent := ""
		if strings.HasPrefix(string(e), "Subagent") {
			agent = `"agent_id":"a1","agent_type":"reviewer",`
		}
		text := head + agent + `"hook_event_name":"` + string(e) + `",` + want[e]
		if want[e] == "" {
			text = strings.TrimSuffix(text, ",") + "}"
		}
		if string(got) != text {
			t.Errorf("%s:\n got %s\nwant %s", e, got, text)
		}
	}
	if _, err := json.Marshal(Input{}); err == nil {
		t.Error("an input without a body was written")
	}
}
