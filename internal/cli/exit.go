package cli

import (
	"errors"
	"fmt"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes. Any non-zero one is a failure; is_error in the result is true
// exactly then.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitAuth        = 41
	exitInput       = 42
	exitConfig      = 52
	exitTurns       = 53
	exitTools       = 54
	exitBudget      = 56
	exitContext     = 57
	exitUnavailable = 69
	exitLater       = 75
	exitHungUp      = 129
	exitInterrupted = 130
	exitTerminated  = 143
)

// exitError ends the command: the code, one line, and what to do.
type exitError struct {
	code int
	text string
	hint string
}

func (e *exitError) Error() string { return e.text }

func usage(err error) *exitError {
	return &exitError{exitUsage, err.Error(), usageHint}
}

// usageHint stands behind the name of the command that was used wrongly.
const usageHint = " --help shows the flags"

// flagError says in words what the parser of numbers would say in its own.
func flagError(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	kind := bad.GetFlag().Value.Type()
	switch kind {
	case "int", "float64":
		kind = "number"
	case "duration":
		kind = "time such as 90s or 2h"
	default:
		return err
	}
	return fmt.Errorf("--%s %q: a %s is needed", bad.GetFlag().Name, bad.GetValue(), kind)
}

// oneArg refuses everything but one argument, and says what it has to be.
func oneArg(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("one argument is needed, %s, not %d", what, len(args))
		}
		return nil
	}
}

func fail(code int, hint, format string, args ...any) *exitError {
	return &exitError{code, fmt.Sprintf(format, args...), hint}
}

// exitCode is the code for a run that ended with reason, because of e if a
// failure was the cause.
func exitCode(reason loop.Reason, e *failure.Error) int {
	switch reason {
	case loop.Completed:
		return exitOK
	case loop.MaxTurns:
		return exitTurns
	case loop.BudgetExhausted:
		return exitBudget
	case loop.PromptTooLong, loop.BlockingLimit, loop.RapidRefillBreaker:
		return exitContext
	case loop.AbortedStreaming, loop.AbortedTools:
		return exitInterrupted
	case loop.StopHookPrevented, loop.HookStopped, loop.ToolLoop, loop.ToolDeferred:
		return exitTools
	case loop.SetupFailed:
		return exitConfig
	case loop.APIError:
		return failureCode(e)
	}
	return exitFailed
}

func failureCode(e *failure.Error) int {
	if e == nil {
		return exitFailed
	}
	switch e.Kind {
	case failure.Auth, failure.Permission, failure.Billing:
		return exitAuth
	case failure.Overloaded, failure.RateLimit, failure.QuotaExhausted:
		return exitLater
	case failure.Network, failure.Timeout, failure.ServerError:
		return exitUnavailable
	case failure.ModelNotFound:
		return exitConfig
	}
	return exitFailed
}
