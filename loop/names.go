package loop

import "github.com/daruma-agent/daruma/failure"

// Transition names why the run goes on (R99, and ours).
type Transition string

// The transitions that are no recovery; each recovery's name is one too.
const (
	None         Transition = ""
	NextTurn     Transition = "next_turn"
	QueuedPrompt Transition = "queued_prompt"
	KeptCalls    Transition = "kept_calls"
	SpendBudget  Transition = "token_budget_continuation" // the user asked for more work than was done (R54)
)

// Reason names why a run ended (R98). Every run ends with exactly one.
type Reason string

// The terminal reasons. Only Completed is a success: the whole answer, nothing
// less. The last two belong to features to come and are never given yet.
const (
	Completed                Reason = "completed"
	MaxTurns                 Reason = "max_turns"
	BudgetExhausted          Reason = "budget_exhausted"
	PromptTooLong            Reason = "prompt_too_long"
	ImageError               Reason = "image_error"
	OutputLimit              Reason = "output_limit"
	APIError                 Reason = "api_error"
	ModelError               Reason = "model_error"
	Refusal                  Reason = "refusal"
	AbortedStreaming         Reason = "aborted_streaming"
	AbortedTools             Reason = "aborted_tools"
	StopHookPrevented        Reason = "stop_hook_prevented"
	HookStopped              Reason = "hook_stopped"
	BlockingLimit            Reason = "blocking_limit"
	RapidRefillBreaker       Reason = "rapid_refill_breaker"
	MalformedExhausted       Reason = "malformed_tool_use_exhausted"
	ToolLoop                 Reason = "tool_loop"
	SetupFailed              Reason = "setup_failed"
	StructuredRetryExhausted Reason = "structured_output_retry_exhausted"
	ToolDeferred             Reason = "tool_deferred"
)

// Reasons lists every terminal reason, for tables and tests.
var Reasons = []Reason{
	Completed, MaxTurns, BudgetExhausted, PromptTooLong, ImageError, OutputLimit, APIError, ModelError,
	Refusal, AbortedStreaming, AbortedTools, StopHookPrevented, HookStopped, BlockingLimit,
	RapidRefillBreaker, MalformedExhausted, ToolLoop, SetupFailed, StructuredRetryExhausted, ToolDeferred,
}

// IsError reports whether a run that ended so failed. It is false for
// Completed alone.
func (r Reason) IsError() bool { return r != Completed }

// reasonOf is the end of a run whose failure nothing healed.
func reasonOf(k failure.Kind) Reason {
	switch k {
	case failure.ContextOverflow, failure.RequestTooLarge:
		return PromptTooLong
	case failure.MediaTooLarge, failure.MediaInvalid:
		return ImageError
	case failure.ContentPolicy:
		return Refusal
	case failure.Aborted:
		return AbortedStreaming
	}
	return APIError
}
