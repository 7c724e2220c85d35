package model

import (
	"fmt"
	"time"
)

// RateLimits is what a provider says of the caller's allowances, on any answer,
// good or bad (R22). It says what is, not what to do.
type RateLimits struct {
	// RateWindow is the window that decides: the one that the provider names,
	// else the one that is used most.
	RateWindow
	Windows []RateWindow // all that the answer names, by type

	// NoOverage is the provider's reason why nothing can be bought beyond the
	// plan; while there is one, fast mode is closed as well (R13).
	NoOverage string
}

// RateWindow is one allowance. What the provider does not say is zero.
type RateWindow struct {
	Type        string  // "five_hour", "seven_day", "overage", … or "requests", "input_tokens", …
	Status      string  // "allowed", "allowed_warning" or "rejected"
	Utilization float64 // the share that is used: 1 is all
	Resets      time.Time
	Limit       int // of requests or tokens, where these are counted
	Remaining   int
}

// LimitsError carries the limits that came with a failure: wires put it into
// the chain of the failure, where errors.As finds it.
type LimitsError struct{ Limits *RateLimits }

func (e *LimitsError) Error() string {
	l := e.Limits
	s := fmt.Sprintf("rate limit %s: %.0f %% used", l.Type, 100*l.Utilization)
	if l.Status != "" {
		s += ", " + l.Status
	}
	if l.NoOverage != "" {
		s += ", nothing beyond it: " + l.NoOverage
	}
	return s
}
