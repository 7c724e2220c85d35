package loop

import (
	"slices"

	"github.com/daruma-agent/daruma/failure"
)

// OutcomeKind says what an effect reports.
type OutcomeKind uint8

// The outcomes.
const (
	Prompted      OutcomeKind = iota + 1 // a prompt waits to be answered
	Measured                             // of Measure: Fit
	Answered                             // of Sample: a whole answer without calls
	Called                               // of Sample: a whole answer with calls
	Truncated                            // of Sample: the output limit cut it: Cut
	WindowFull                           // of Sample: the window was filled while writing
	Malformed                            // of Sample: a call that cannot be read
	Failed                               // of Sample: Failure, nothing was kept
	Overloaded                           // of Sample: layer 1 hands over: Failure
	Broken                               // of Sample: the stream broke, something can be kept: Cut
	Empty                                // of Sample: nothing that a person could read
	Paused                               // of Sample: the server's own tools pause; with Cut, nothing says for what
	Refused                              // of Sample: the model's policy refused
	Reduced                              // of Reduce: the history is smaller
	Unchanged                            // of Reduce: it is not, for whatever reason
	ToolsDone                            // of RunTools: every call has its result
	ToolsRefused                         // of RunTools: the user refused without a word
	ToolsDeferred                        // of RunTools: a hook puts the one call off, which was not run
	Repeated                             // of RunTools: every call repeats what led nowhere, and none was run
	HooksPassed                          // of RunHooks: nothing objects
	HooksBlocked                         // of RunHooks: the answer is not accepted
	HooksStopped                         // of RunHooks: a hook ends the run
	BudgetLeft                           // of RunHooks: the answer is whole, but more work was asked for
	Aborted                              // of anything: Cause
	BudgetReached                        // of anything: Budget
)

// Fit says how a measured request stands to the window.
type Fit uint8

// The fits.
const (
	Fits     Fit = iota
	Over         // over the threshold of proactive compaction
	Blocked      // the request cannot pass
	Overhead     // too large without any history: nothing to reduce
)

// Cut says where an answer was cut.
type Cut uint8

// The cuts.
const (
	Whole         Cut = iota
	CutText           // in text: what came can stay
	CutCall           // in a tool's input: it is never run
	CutAfterCalls     // complete calls came: they can run
)

// Cause says who ended the effect.
type Cause uint8

// The causes of an abort (R83).
const (
	NoCause    Cause = iota
	ByUser           // cancel: Esc, Ctrl+C, Interrupt
	BySubmit         // a new message while the agent works
	ByShutdown       // the process ends
	ByConsumer       // whoever ranges over the events left
	ByHook           // a hook wants the run to end
)

// Budget names a bound that only the shell can count.
type Budget uint8

// The budgets.
const (
	NoBudget Budget = iota
	Turns
	Tokens
	Money
	Time
	Refill // the window was full again right after it was emptied, too often (R44)
)

func (b Budget) reason() Reason {
	switch b {
	case Turns:
		return MaxTurns
	case Refill:
		return RapidRefillBreaker
	}
	return BudgetExhausted
}

// Outcome is what an effect reports. It is comparable.
type Outcome struct {
	Kind    OutcomeKind
	Fit     Fit          // of Measured
	Cut     Cut          // of Truncated, Broken and Paused
	Full    bool         // of Truncated: there is no more output room to give
	Failure failure.Kind // of Failed and Overloaded
	Tool    bool         // of Failed: it is about one tool, which can be left out
	Cause   Cause        // of Aborted
	Budget  Budget       // of BudgetReached
}

// withhold is the failure that a reduction after o is meant to heal; none for
// a reduction that nobody demanded.
func (o Outcome) withhold() failure.Kind {
	switch {
	case o.Kind == Failed:
		return o.Failure
	case o.Kind == WindowFull, o.Kind == Measured && o.Fit == Blocked:
		return failure.ContextOverflow
	}
	return ""
}

// reported lists what each action may report.
var reported = map[Action][]OutcomeKind{
	Begin:   {Prompted, Called}, // a call that was put off waits
	Measure: {Measured},
	Sample: {Answered, Called, Truncated, WindowFull, Malformed, Failed, Overloaded,
		Broken, Empty, Paused, Refused},
	Reduce:   {Reduced, Unchanged},
	RunTools: {ToolsDone, ToolsRefused, ToolsDeferred, Repeated},
	RunHooks: {HooksPassed, HooksBlocked, HooksStopped, BudgetLeft, Prompted},
}

func reports(phase Action, kind OutcomeKind) bool {
	return slices.Contains(reported[phase], kind)
}
