package hook

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Input is what hooks are told: the common fields and those of one event. It
// marshals to the one line that they read.
type Input struct {
	Common
	Body Body
}

// Common are the fields that every event has.
type Common struct {
	Session        string  `json:"session_id"`
	Transcript     string  `json:"transcript_path"`
	Dir            string  `json:"cwd"` // of the session, and of the commands
	Prompt         string  `json:"prompt_id,omitzero"`
	PermissionMode string  `json:"permission_mode,omitzero"`
	Effort         *Effort `json:"effort,omitzero"`
	AgentID        string  `json:"agent_id,omitzero"`   // within a sub-agent
	AgentType      string  `json:"agent_type,omitzero"` // within a sub-agent
}

// Effort is how hard the model thinks.
type Effort struct {
	Level string `json:"level"`
}

// Body is what is special about one event: one of the Input types of this package.
type Body interface {
	event() Event
	// values are what a matcher is held against.
	values() []string
}

// ToolCall is a call of a tool as hooks see it.
type ToolCall struct {
	Name  string         `json:"tool_name"`
	Input jsontext.Value `json:"tool_input"`
	ID    string         `json:"tool_use_id,omitzero"`
}

// The bodies, one per event, with the fields that are documented for it.
type (
	// PreToolUseInput is the body of [PreToolUse].
	PreToolUseInput struct{ ToolCall }

	// PermissionRequestInput is the body of [PermissionRequest]; its call has no ID.
	PermissionRequestInput struct {
		ToolCall
		Suggestions jsontext.Value `json:"permission_suggestions,omitzero"` // updates of the permissions
	}

	// PostToolUseInput is the body of [PostToolUse].
	PostToolUseInput struct {
		ToolCall
		Response   jsontext.Value `json:"tool_response"`
		DurationMS int64          `json:"duration_ms,omitzero"`
	}

	// PostToolUseFailureInput is the body of [PostToolUseFailure] (R59).
	PostToolUseFailureInput struct {
		ToolCall
		Error       string `json:"error"`
		IsInterrupt bool   `json:"is_interrupt,omitzero"`
		DurationMS  int64  `json:"duration_ms,omitzero"`
	}

	// PostToolBatchInput is the body of [PostToolBatch].
	PostToolBatchInput struct {
		Calls []AnsweredCall `json:"tool_calls"`
	}

	// AnsweredCall is a call with its result.
	AnsweredCall struct {
		ToolCall
		Response jsontext.Value `json:"tool_response,omitzero"`
	}

	// UserPromptSubmitInput is the body of [UserPromptSubmit].
	UserPromptSubmitInput struct {
		Text  string `json:"prompt"`
		Title string `json:"session_title,omitzero"`
	}

	// SessionStartInput is the body of [SessionStart].
	SessionStartInput struct {
		Source string `json:"source"` // startup, resume, clear, compact, fork
		Model  string `json:"model,omitzero"`
		Title  string `json:"session_title,omitzero"`
	}

	// SessionEndInput is the body of [SessionEnd].
	SessionEndInput struct {
		Reason string `json:"reason"` // clear, resume, logout, prompt_input_exit, other
	}

	// StopInput is the body of [Stop] (R56).
	StopInput struct {
		Active      bool             `json:"stop_hook_active"` // an earlier block made this answer
		LastMessage string           `json:"last_assistant_message,omitzero"`
		Background  []jsontext.Value `json:"background_tasks"`
		Crons       []jsontext.Value `json:"session_crons"`
	}

	// StopFailureInput is the body of [StopFailure] (R58). The fields from Helper
	// on are additions of daruma.
	StopFailureInput struct {
		Error       string `json:"error"` // a category
		Details     string `json:"error_details,omitzero"`
		LastMessage string `json:"last_assistant_message,omitzero"` // the error as it is shown
		Helper      bool   `json:"helper,omitzero"`                 // not the conversation itself, but work for it
		Attempts    int    `json:"attempts,omitzero"`
		NextAt      string `json:"next_at,omitzero"` // RFC 3339: when trying again is worth it
	}

	// SubagentStartInput is the body of [SubagentStart]; who it is about is in [Common].
	SubagentStartInput struct{ agentType }

	// SubagentStopInput is the body of [SubagentStop]; who it is about is in [Common].
	SubagentStopInput struct {
		agentType
		Active      bool             `json:"stop_hook_active"`
		Transcript  string           `json:"agent_transcript_path"`
		LastMessage string           `json:"last_assistant_message,omitzero"`
		Background  []jsontext.Value `json:"background_tasks,omitzero"`
	}

	// PreCompactInput is the body of [PreCompact].
	PreCompactInput struct {
		Trigger      string `json:"trigger"` // manual, auto
		Instructions string `json:"custom_instructions"`
	}

	// PostCompactInput is the body of [PostCompact].
	PostCompactInput struct {
		Trigger string `json:"trigger"`
		Summary string `json:"compact_summary"`
	}

	// NotificationInput is the body of [Notification].
	NotificationInput struct {
		Message string `json:"message"`
		Title   string `json:"title,omitzero"`
		Type    string `json:"notification_type"` // permission_prompt, idle_prompt, …
	}

	// RecoveryStartInput is the body of [RecoveryStart].
	RecoveryStartInput struct{ RecoveryRecord }

	// RecoveryEndInput is the body of [RecoveryEnd].
	RecoveryEndInput struct{ RecoveryRecord }

	// RecoveryRecord is a recovery record, and what matchers look at in it.
	RecoveryRecord struct {
		Decision string         `json:"decision"`
		Cause    string         `json:"cause,omitzero"`
		Record   jsontext.Value `json:"recovery"` // the whole, as in the output stream
	}

	// agentType is filled from Common, since the matcher looks at it.
	agentType struct{}
)

func (PreToolUseInput) event() Event         { return PreToolUse }
func (PermissionRequestInput) event() Event  { return PermissionRequest }
func (PostToolUseInput) event() Event        { return PostToolUse }
func (PostToolUseFailureInput) event() Event { return PostToolUseFailure }
func (PostToolBatchInput) event() Event      { return PostToolBatch }
func (UserPromptSubmitInput) event() Event   { return UserPromptSubmit }
func (SessionStartInput) event() Event       { return SessionStart }
func (SessionEndInput) event() Event         { return SessionEnd }
func (StopInput) event() Event               { return Stop }
func (StopFailureInput) event() Event        { return StopFailure }
func (SubagentStartInput) event() Event      { return SubagentStart }
func (SubagentStopInput) event() Event       { return SubagentStop }
func (PreCompactInput) event() Event         { return PreCompact }
func (PostCompactInput) event() Event        { return PostCompact }
func (NotificationInput) event() Event       { return Notification }
func (RecoveryStartInput) event() Event      { return RecoveryStart }
func (RecoveryEndInput) event() Event        { return RecoveryEnd }

func (c ToolCall) values() []string            { return []string{c.Name} }
func (c ToolCall) call() ToolCall              { return c }
func (PostToolBatchInput) values() []string    { return nil }
func (UserPromptSubmitInput) values() []string { return nil }
func (b SessionStartInput) values() []string   { return []string{b.Source} }
func (b SessionEndInput) values() []string     { return []string{b.Reason} }
func (StopInput) values() []string             { return nil }
func (b StopFailureInput) values() []string    { return []string{b.Error} }
func (agentType) values() []string             { return nil }
func (b PreCompactInput) values() []string     { return []string{b.Trigger} }
func (b PostCompactInput) values() []string    { return []string{b.Trigger} }
func (b NotificationInput) values() []string   { return []string{b.Type} }
func (r RecoveryRecord) values() []string      { return []string{r.Decision, r.Cause} }

// Event is what the input is about; empty without a body.
func (in Input) Event() Event {
	if in.Body == nil {
		return ""
	}
	return in.Body.event()
}

// values are what a matcher is held against.
func (in Input) values() []string {
	if e := in.Event(); e == SubagentStart || e == SubagentStop {
		return []string{in.AgentType}
	}
	return in.Body.values()
}

// toolCall is the call that the event is about.
func (in Input) toolCall() (ToolCall, bool) {
	b, ok := in.Body.(interface{ call() ToolCall })
	if !ok {
		return ToolCall{}, false
	}
	return b.call(), true
}

// MarshalJSON writes the common fields, the name of the event, and its own fields.
func (in Input) MarshalJSON() ([]byte, error) {
	if in.Body == nil {
		return nil, fmt.Errorf("an input of hooks without a body")
	}
	type named struct {
		Common
		Event Event `json:"hook_event_name"`
	}
	common, err := json.Marshal(named{in.Common, in.Event()}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(in.Body, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	if bytes.Equal(body, []byte("{}")) {
		return common, nil
	}
	common[len(common)-1] = ','
	return append(common, body[1:]...), nil
}
