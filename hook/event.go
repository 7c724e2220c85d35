package hook

import (
	"slices"
	"strings"
	"time"
)

// Event names a moment at which hooks are asked or told.
type Event string

// The events.
const (
	PreToolUse         Event = "PreToolUse"         // a call is about to run
	PermissionRequest  Event = "PermissionRequest"  // a person is about to be asked about a call
	PostToolUse        Event = "PostToolUse"        // a call succeeded
	PostToolUseFailure Event = "PostToolUseFailure" // a call that ran failed
	PostToolBatch      Event = "PostToolBatch"      // all calls of an answer have their results
	UserPromptSubmit   Event = "UserPromptSubmit"   // a prompt was given
	SessionStart       Event = "SessionStart"
	SessionEnd         Event = "SessionEnd"
	Stop               Event = "Stop"        // the model gave its final answer
	StopFailure        Event = "StopFailure" // the run ends with a failure
	SubagentStart      Event = "SubagentStart"
	SubagentStop       Event = "SubagentStop"
	PreCompact         Event = "PreCompact"
	PostCompact        Event = "PostCompact"
	Notification       Event = "Notification"  // the person's attention is wanted
	RecoveryStart      Event = "RecoveryStart" // a way back from a failure was chosen
	RecoveryEnd        Event = "RecoveryEnd"   // … and led somewhere, or not
)

// exit2 is what exit code 2 of a hook means, in the words of the documentation.
type exit2 string

const (
	denies   exit2 = "denies the call"
	ignored  exit2 = "ignored (use JSON)"
	toModel  exit2 = "tells the model"
	endsLoop exit2 = "ends the run before the next request"
	rejects  exit2 = "rejects the prompt"
	toUser   exit2 = "tells the user"
	goesOn   exit2 = "lets the agent go on working"
	keeps    exit2 = "keeps the conversation as it is"
)

// trait is what is special about one event.
type trait struct {
	event   Event
	matched string // the field of the input that a matcher is held against; empty: there is none
	exit2   exit2
	block   bool     // the top-level "decision": "block" works
	fields  []string // of hookSpecificOutput, that are read
	plain   bool     // plain output becomes context for the model
	policy  bool     // a failing hook denies
	deaf    bool     // nothing that a hook says counts
	tool    bool     // about a call: "if" works
	timeout time.Duration
}

// Time limits of hooks.
const (
	defaultTimeout = 600 * time.Second
	promptTimeout  = 30 * time.Second // a person waits
	endBudget      = 1500 * time.Millisecond
	endBudgetMost  = 60 * time.Second
	longestTimeout = 24 * time.Hour
)

// traits are all events, in the order of the documentation.
var traits = []trait{
	{event: PreToolUse, matched: "tool_name", exit2: denies, policy: true, tool: true,
		fields: []string{"permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"}},
	{event: PermissionRequest, matched: "tool_name", exit2: ignored, policy: true, tool: true, fields: []string{"decision"}},
	{event: PostToolUse, matched: "tool_name", exit2: toModel, block: true, tool: true,
		fields: []string{"additionalContext", "updatedToolOutput"}},
	{event: PostToolUseFailure, matched: "tool_name", exit2: toModel, block: true, tool: true, fields: []string{"additionalContext"}},
	{event: PostToolBatch, exit2: endsLoop, block: true, fields: []string{"additionalContext"}},
	{event: UserPromptSubmit, exit2: rejects, block: true, plain: true, timeout: promptTimeout,
		fields: []string{"additionalContext", "sessionTitle", "suppressOriginalPrompt"}},
	{event: SessionStart, matched: "source", exit2: toUser, plain: true,
		fields: []string{"additionalContext", "initialUserMessage", "sessionTitle"}},
	{event: SessionEnd, matched: "reason", exit2: toUser, timeout: endBudget},
	{event: Stop, exit2: goesOn, block: true, fields: []string{"additionalContext"}},
	{event: StopFailure, matched: "error", exit2: ignored, deaf: true},
	{event: SubagentStart, matched: "agent_type", exit2: toUser, fields: []string{"additionalContext"}},
	{event: SubagentStop, matched: "agent_type", exit2: goesOn, block: true, fields: []string{"additionalContext"}},
	{event: PreCompact, matched: "trigger", exit2: keeps, block: true},
	{event: PostCompact, matched: "trigger", exit2: toUser},
	{event: Notification, matched: "notification_type", exit2: ignored, fields: []string{"additionalContext"}},
	{event: RecoveryStart, matched: "decision or cause", exit2: toUser, fields: []string{"action", "until", "model"}},
	{event: RecoveryEnd, matched: "decision or cause", exit2: toUser},
}

// elsewhere are events that other agents have and this one never reports: hooks
// for them are accepted and never run.
var elsewhere = []string{
	"PermissionDenied", "UserPromptExpansion", "Setup", "InstructionsLoaded", "ConfigChange", "CwdChanged", "FileChanged",
	"DirectoryAdded", "WorktreeCreate", "WorktreeRemove", "TeammateIdle", "TaskCreated", "TaskCompleted", "Elicitation",
	"ElicitationResult", "MessageDisplay",
}

// Events lists all events, in the order of the documentation.
func Events() []Event {
	var all []Event
	for _, t := range traits {
		all = append(all, t.event)
	}
	return all
}

func traitOf(e Event) (trait, bool) {
	i := slices.IndexFunc(traits, func(t trait) bool { return t.event == e })
	if i < 0 {
		return trait{}, false
	}
	return traits[i], true
}

func (t trait) reads(field string) bool { return slices.Contains(t.fields, field) }

// failure says what a failing hook means, for the documentation.
func (t trait) failure() string {
	if t.policy {
		return "denies"
	}
	return "notice"
}

// limit is the time that a hook without a limit of its own may take.
func (t trait) limit() time.Duration {
	if t.timeout > 0 {
		return t.timeout
	}
	return defaultTimeout
}

// Table is the table of the events as docs/hooks.md shows it.
func Table() string {
	var b strings.Builder
	b.WriteString("| event | matcher | exit 2 | `decision: block` | fields of `hookSpecificOutput` | plain output | limit | a failure |\n|---|---|---|---|---|---|---|---|\n")
	mark := func(yes bool, word string) string {
		if yes {
			return word
		}
		return "–"
	}
	for _, t := range traits {
		fields := mark(len(t.fields) > 0, "`"+strings.Join(t.fields, "`, `")+"`")
		code := string(t.exit2)
		if t.deaf {
			code = "ignored"
		}
		cells := []string{
			"`" + string(t.event) + "`", mark(t.matched != "", t.matched), code, mark(t.block, "yes"), fields,
			mark(t.plain, "context"), t.limit().String(), t.failure(),
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}
