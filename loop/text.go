package loop

import "strings"

var actionNames = [...]string{
	Begin: "begin", Measure: "measure", Sample: "sample", Reduce: "reduce",
	RunTools: "tools", RunHooks: "hooks", Finish: "finish",
}

func (a Action) String() string { return actionNames[a] }

var rungNames = [...]string{NoRung: "", Collapse: "collapse", Media: "media", Summary: "summary", Skeleton: "skeleton"}

func (r Rung) String() string { return rungNames[r] }

var kindNames = [...]string{
	Prompted: "prompted", Measured: "measured", Answered: "answered", Called: "called",
	Truncated: "truncated", WindowFull: "window_full", Malformed: "malformed", Failed: "failed",
	Overloaded: "overloaded", Broken: "broken", Empty: "empty", Paused: "paused", Refused: "refused",
	Reduced: "reduced", Unchanged: "unchanged", ToolsDone: "tools_done", ToolsRefused: "tools_refused", ToolsDeferred: "tools_deferred", Repeated: "repeated", HooksPassed: "hooks_passed", HooksBlocked: "hooks_blocked",
	HooksStopped: "hooks_stopped", BudgetLeft: "budget_left", Aborted: "aborted", BudgetReached: "budget_reached",
}

var (
	fitNames    = [...]string{Fits: "fits", Over: "over", Blocked: "blocked", Overhead: "overhead"}
	cutNames    = [...]string{Whole: "", CutText: "text", CutCall: "call", CutAfterCalls: "after_calls"}
	causeNames  = [...]string{NoCause: "", ByUser: "user", BySubmit: "submit", ByShutdown: "shutdown", ByConsumer: "consumer", ByHook: "hook"}
	budgetNames = [...]string{NoBudget: "", Turns: "turns", Tokens: "tokens", Money: "money", Time: "time", Refill: "refill"}
)

// Name is the outcome's kind with what narrows it down, but without the
// failure's kind.
func (o Outcome) Name() string {
	name := kindNames[o.Kind]
	switch {
	case o.Kind == Measured:
		name += " " + fitNames[o.Fit]
	case o.Tool:
		name += " tool"
	case o.Cut != Whole:
		name += " " + cutNames[o.Cut]
	case o.Cause != NoCause:
		name += " " + causeNames[o.Cause]
	case o.Budget != NoBudget:
		name += " " + budgetNames[o.Budget]
	}
	return name
}

func (o Outcome) String() string {
	if o.Failure != "" {
		return o.Name() + " " + string(o.Failure)
	}
	return o.Name()
}

// String gives a step as one line of the transition table.
func (s Step) String() string {
	parts := []string{s.Do.String()}
	add := func(on bool, text string) {
		if on {
			parts = append(parts, text)
		}
	}
	add(s.Rung != NoRung, s.Rung.String())
	add(s.Discard, "discard")
	add(s.Keep, "keep")
	add(s.Nudge != NoNudge, "nudge:"+string(s.Nudge))
	add(s.Surface, "surface")
	add(s.Reason != "", string(s.Reason))
	add(s.Transition != None, "["+string(s.Transition)+"]")
	return strings.Join(parts, " ")
}
