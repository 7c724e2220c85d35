package session

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
)

// Recovery is the record of one way back: why, what, how often, at which
// price, and how it ended. Events with the same ID tell of the same recovery;
// the last one holds. Every surface is a projection of this record.
type Recovery struct {
	ID       int           `json:"id"`               // number within the session
	Layer    string        `json:"layer"`            // request, stream, turn, context
	Cause    failure.Kind  `json:"cause,omitzero"`   // what failed
	Outcome  string        `json:"outcome,omitzero"` // or what else called for it
	Status   int           `json:"status,omitzero"`
	Request  string        `json:"request_id,omitzero"`
	Evidence string        `json:"evidence,omitzero"` // the provider's words, short and redacted
	Decision string        `json:"decision"`          // retry, fallback_model, compact, …
	Rule     string        `json:"rule"`
	Attempt  int           `json:"attempt"` // n …
	Of       int           `json:"of"`      // … of m
	Delay    time.Duration `json:"delay_ms,omitzero"`
	NextAt   time.Time     `json:"next_at,omitzero"`
	Lost     Lost          `json:"lost,omitzero"`
	Kept     string        `json:"kept,omitzero"`
	State    RecoveryState `json:"state"`
	From     string        `json:"model_before,omitzero"`
	To       string        `json:"model_after,omitzero"`
}

// Lost is what the failed attempt cost.
type Lost struct {
	Usage   Tokens        `json:"usage,omitzero"`
	USD     float64       `json:"usd,omitzero"`
	Unknown bool          `json:"unknown,omitzero"` // unknown is not zero
	Took    time.Duration `json:"took_ms,omitzero"`
	Chars   int           `json:"chars,omitzero"`
}

// RecoveryState says how far a recovery is.
type RecoveryState string

// The states; all but the first are ends.
const (
	Running    RecoveryState = "running"
	Healed     RecoveryState = "healed"
	NotHealed  RecoveryState = "failed"
	Cancelled  RecoveryState = "cancelled"
	Superseded RecoveryState = "superseded" // it did not help, and another way was tried
)

// Waiting is the heartbeat of a wait: why, how long still, until when.
type Waiting struct {
	Recovery int           `json:"recovery"`
	Cause    failure.Kind  `json:"cause"`
	Status   int           `json:"status,omitzero"`
	Attempt  int           `json:"attempt"`
	Of       int           `json:"of"`
	Left     time.Duration `json:"left_ms"`
	Until    time.Time     `json:"until"`
}
