package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/go-json-experiment/json"
)

const errorJSONFlag = "error-json"

// errorLine is what --error-json says on stderr, on one line before the words
// for people.
type errorLine struct {
	Reason    string  `json:"reason"`
	Code      int     `json:"code"`
	Cause     string  `json:"cause"`   // kind of the failure, if one was the cause
	NextAt    *string `json:"next_at"` // null: nobody said when
	Retryable bool    `json:"retryable"`
	Session   string  `json:"session_id"`
	Resume    string  `json:"resume"`
}

// runError is the exit of a run that ended, with what --error-json needs.
type runError struct {
	exit *exitError
	line errorLine
}

func (e *runError) Error() string { return e.exit.Error() }
func (e *runError) Unwrap() error { return e.exit }

// exitOf is the exit of the run that r tells of.
func (s *setup) exitOf(r *daruma.Result, code int) error {
	what, step := ending(r)
	line := errorLine{Reason: string(r.Reason), Code: code, Retryable: retryable(r), Session: r.Session, Resume: s.resumeCommand()}
	if r.Failure != nil {
		line.Cause = string(r.Failure.Kind)
	}
	if !r.NextAt.IsZero() {
		at := r.NextAt.UTC().Format(time.RFC3339)
		line.NextAt = &at
	}
	return &runError{&exitError{code, what, s.goOn(step)}, line}
}

// resumeCommand goes on with the session; empty when nothing was kept.
func (s *setup) resumeCommand() string {
	if s.path == "" {
		return ""
	}
	return resumeCommand(s.session)
}

func resumeCommand(id string) string { return "daruma -p --resume " + id }

// retryable reports whether the same again can pass, with nothing changed but
// the time.
func retryable(r *daruma.Result) bool {
	switch r.Reason {
	case loop.AbortedStreaming, loop.AbortedTools, loop.ModelError:
		return true
	case loop.APIError:
		if r.Failure == nil {
			return false
		}
		code := failureCode(r.Failure)
		return code == exitLater && !r.Failure.Numbers.NoAllowance || code == exitUnavailable || r.Failure.Retry == failure.RetryYes || r.Failure.Retry == failure.RetryAfter
	}
	return false
}

// tellError writes the line for err, if the arguments ask for it. They are
// looked at by hand, since they may be what is wrong.
func tellError(out io.Writer, args []string, e *exitError, err error) {
	asked := func(a string) bool { return a == "--"+errorJSONFlag || a == "--"+errorJSONFlag+"=true" }
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	if !slices.ContainsFunc(args, asked) {
		return
	}
	line := errorLine{Reason: string(loop.SetupFailed), Code: e.code, Cause: strings.TrimSpace(e.text)}
	if e.code == exitUsage {
		line.Reason = "usage"
	}
	if run, ok := errors.AsType[*runError](err); ok {
		line = run.line
	}
	if data, err := json.Marshal(line); err == nil {
		fmt.Fprintf(out, "%s\n", data)
	}
}
