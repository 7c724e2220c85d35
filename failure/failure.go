// Package failure (layer 2) answers one question: what kind of failure is this?
//
// Everything that a provider, a gateway or the network can answer instead of a
// good reply becomes an [Error] with a [Kind], once, at the edge, by
// [Classify]. Nothing after it matches text: retry and loop compare kinds.
package failure

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind names what went wrong, independent of provider and wording.
type Kind string

// The kinds. The zero Kind means "no failure".
const (
	Overloaded        Kind = "overloaded"          // the provider's load is to blame, whatever the status
	RateLimit         Kind = "rate_limit"          // a window of a minute or less, or none named: waiting helps
	QuotaExhausted    Kind = "quota_exhausted"     // an allowance over hours, days or months is used up
	Billing           Kind = "billing"             // money is needed
	Auth              Kind = "auth"                // a new login or key can cure it
	Permission        Kind = "permission"          // the account, region or policy forbids it
	ModelNotFound     Kind = "model_not_found"     // the model or endpoint is missing or not open to this caller
	ContextOverflow   Kind = "context_overflow"    // the input is too long: a smaller history helps
	MaxTokensOverflow Kind = "max_tokens_overflow" // input plus max_tokens is too long, or max_tokens above the cap
	RequestTooLarge   Kind = "request_too_large"   // the body has too many bytes
	MediaTooLarge     Kind = "media_too_large"     // one image or document is over a limit
	MediaInvalid      Kind = "media_invalid"       // one image or document cannot be read
	ToolPairing       Kind = "tool_pairing"        // calls and results do not pair
	ThinkingSignature Kind = "thinking_signature"  // a thinking block was altered or is foreign
	ContentPolicy     Kind = "content_policy"      // the provider's policy refused
	InvalidRequest    Kind = "invalid_request"     // the request is wrong in another way: repeating never helps
	ServerError       Kind = "server_error"        // the provider or a gateway broke
	Timeout           Kind = "timeout"             // a deadline on the answer, or a stall
	Network           Kind = "network"             // connect, TLS, DNS, broken stream
	Aborted           Kind = "aborted"             // the caller cancelled
	Unknown           Kind = "unknown"             // nothing is known: never guessed
)

// Kinds lists every kind, in a fixed order, for tables and exhaustive tests.
var Kinds = []Kind{
	Overloaded, RateLimit, QuotaExhausted, Billing, Auth, Permission, ModelNotFound,
	ContextOverflow, MaxTokensOverflow, RequestTooLarge, MediaTooLarge, MediaInvalid,
	ToolPairing, ThinkingSignature, ContentPolicy, InvalidRequest,
	ServerError, Timeout, Network, Aborted, Unknown,
}

// Retry says whether the same request can ever pass.
type Retry string

// The verdicts of classification. They are advice for layer 1, which alone
// decides; No means that the kind names the repair.
const (
	RetryYes   Retry = "yes"   // again, with backoff
	RetryAfter Retry = "after" // again, but not before the time that the payload names
	RetryNo    Retry = "no"    // the same request never passes
)

// Numbers are the figures that a failure's text holds. Zero means "not said".
type Numbers struct {
	InputTokens int `json:"input_tokens,omitzero"` // the prompt's size as the provider counted it
	MaxTokens   int `json:"max_tokens,omitzero"`   // the output room that was asked for
	Requested   int `json:"requested,omitzero"`    // a sum without a split
	Limit       int `json:"limit,omitzero"`        // in the unit of the message (tokens, or requests per window)

	// InputAtLeast is a lower bound of the input that the server derived from
	// the limit: less output room by it leaves one token less each time.
	InputAtLeast    int `json:"input_tokens_at_least,omitzero"`
	MessagesTokens  int `json:"messages_tokens,omitzero"` // the split of the input, where one is given
	FunctionsTokens int `json:"functions_tokens,omitzero"`

	Bytes       int `json:"bytes,omitzero"`
	LimitBytes  int `json:"limit_bytes,omitzero"`
	Chars       int `json:"chars,omitzero"` // characters, of the input or of one field
	LimitChars  int `json:"limit_chars,omitzero"`
	Pixels      int `json:"pixels,omitzero"`       // an area, or a side, as the limit is
	LimitPixels int `json:"limit_pixels,omitzero"` // per side
	LimitPages  int `json:"limit_pages,omitzero"`
	LimitItems  int `json:"limit_items,omitzero"` // images per request
	Message     int `json:"message,omitzero"`     // 1 + index of the message that offends
	Block       int `json:"block,omitzero"`       // 1 + index of the block in it
	Tool        int `json:"tool,omitzero"`        // 1 + index of the tool that offends

	Used        int     `json:"used,omitzero"`              // of Limit, in its window
	QuotaWindow string  `json:"quota_window,omitzero"`      // "day", "week", "month", "5h", "hour"; "" is a minute or less, or not said
	NoAllowance bool    `json:"no_allowance,omitzero"`      // the limit is stated, and zero: the plan holds nothing
	Affordable  int     `json:"affordable_tokens,omitzero"` // what the balance buys
	Spent       float64 `json:"spent,omitzero"`             // money, against a budget of Limit
	Code        int     `json:"code,omitzero"`              // the vendor's own number for the failure
}

// Hint is what the server said about a next try.
type Hint struct {
	// After is the wait that the payload asks for; Given tells whether it asks
	// at all (a hint of zero is a hint). Negative or absurd values are not hints.
	After time.Duration `json:"after,omitzero"`
	Given bool          `json:"given,omitzero"`
	// Reset is a date or clock time of relief as the payload prints it, where
	// no wait could be made of it.
	Reset string `json:"reset,omitzero"`
	// ShouldRetry is the header x-should-retry: "true", "false" or "".
	ShouldRetry string `json:"should_retry,omitzero"`
}

// Error is one classified failure. It is a value: it is journaled, shown and
// kept in the transcript; Detail holds redacted text only.
type Error struct {
	Kind      Kind    `json:"kind"`
	Retry     Retry   `json:"retry,omitzero"`
	Status    int     `json:"status,omitzero"` // HTTP status; 0 when there was no answer
	Type      string  `json:"type,omitzero"`   // the provider's own type or code
	Message   string  `json:"message,omitzero"`
	RequestID string  `json:"request_id,omitzero"`
	Hint      Hint    `json:"hint,omitzero"`
	Numbers   Numbers `json:"numbers,omitzero"`
	Rule      string  `json:"rule,omitzero"`   // the classification rule that decided
	Detail    string  `json:"detail,omitzero"` // raw text, redacted and bounded
	// FastOff is the server's reason why the faster variant of a model is closed
	// to the account (R13).
	FastOff string `json:"fast_off,omitzero"`
	// Stalled marks a timeout of our own watchdogs: the stream went silent.
	Stalled bool `json:"stalled,omitzero"`

	cause error
}

// Wrap attaches the error that e was made from, for errors.Is and errors.As.
// The cause is never serialised.
func (e *Error) Wrap(cause error) *Error {
	e.cause = cause
	return e
}

// Unwrap returns the cause given to [Error.Wrap].
func (e *Error) Unwrap() error { return e.cause }

// Error gives one line: kind, status, message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Kind))
	if e.Status != 0 {
		fmt.Fprintf(&b, " (%d)", e.Status)
	}
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	return b.String()
}

// As returns err as a classified failure; an error that was never classified
// becomes Unknown, so that nothing escapes the kinds.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return (&Error{Kind: Unknown, Retry: RetryNo, Message: Redact(err.Error())}).Wrap(err)
}

// KindOf returns the kind of err, or "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return As(err).Kind
}
