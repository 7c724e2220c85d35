package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// resultLine is the one object of --output-format json: the fields that
// scripts know from other agents, and ours behind them.
type resultLine struct {
	Type       string           `json:"type"`
	Subtype    string           `json:"subtype"`
	IsError    bool             `json:"is_error"`
	DurationMS int64            `json:"duration_ms"`
	APIMS      int64            `json:"duration_api_ms"`
	Turns      int              `json:"num_turns"`
	Result     string           `json:"result"`
	Stop       *string          `json:"stop_reason"`
	CostUSD    *float64         `json:"total_cost_usd"` // null: not known
	Usage      *apiTokens       `json:"usage"`
	Models     byModel          `json:"modelUsage"`
	Denials    []session.Denial `json:"permission_denials"`
	Errors     []string         `json:"errors,omitzero"`
	Reason     loop.Reason      `json:"terminal_reason"`
	Status     int              `json:"api_error_status,omitzero"`
	Session    string           `json:"session_id"`
	UUID       string           `json:"uuid"`

	Deferred *session.Deferred `json:"deferred_tool_use,omitzero"`
	Category string            `json:"error,omitzero"`
	ExitCode int               `json:"exit_code"`
	Next     string            `json:"next,omitzero"`
	NextAt   string            `json:"next_at,omitzero"`
	Recovery recoverySum       `json:"recovery_summary"`
	Wasted   *session.Total    `json:"wasted,omitzero"`
}

type recoverySum struct {
	Recovered int                `json:"recovered"`
	Records   []session.Recovery `json:"records"`
}

// printText writes the text of the answer.
func printText(out io.Writer, r *daruma.Result) error {
	text := strings.TrimRight(r.Text, "\n")
	if columns(out) > 0 { // a pipe gets every byte, a screen nothing that steers it
		text = marked(tool.Clean(text))
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

func toLine(r *daruma.Result, id string, exit int) resultLine {
	line := resultLine{
		Type: "result", Subtype: subtype(r.Reason), IsError: r.IsError,
		DurationMS: r.Took.Milliseconds(), APIMS: r.API.Milliseconds(), Turns: r.Turns, Result: r.Text,
		Usage:   toTokens(r.Total.Usage),
		Denials: r.Denials, Reason: r.Reason, Session: id, UUID: newID(),
		ExitCode: exit, Next: r.Next,
		Recovery: recoverySum{Recovered: r.Recovered, Records: r.Recoveries},
		Deferred: r.Deferred,
	}
	if r.Stop != "" {
		line.Stop = &r.Stop
	}
	if r.Total.Unknown == 0 {
		line.CostUSD = &r.Total.USD
	}
	if r.Wasted != (session.Total{}) {
		line.Wasted = &r.Wasted
	}
	if !r.NextAt.IsZero() {
		line.NextAt = r.NextAt.Format("2006-01-02T15:04:05Z07:00")
	}
	if r.IsError {
		line.Errors = []string{lastWords(r)}
	}
	if r.Failure != nil {
		line.Status, line.Category = r.Failure.Status, string(r.Failure.Kind.Category())
	}
	return line
}

// subtype is success for a completed run and nothing else.
func subtype(reason loop.Reason) string {
	switch reason {
	case loop.Completed:
		return "success"
	case loop.MaxTurns:
		return "error_max_turns"
	case loop.BudgetExhausted:
		return "error_max_budget_usd"
	}
	return "error_during_execution"
}
