package loop

import "github.com/daruma-agent/daruma/failure"

// CollapseDrain makes stubs of old tool results, when the window fills up and
// when the length was refused: no model call, and often enough (R42, R47).
const CollapseDrain Transition = "collapse_drain_retry"

var collapseDrain = &Recovery{
	Name: CollapseDrain,
	Doc: Doc{
		Cause:  "the window fills up, or the provider refused the length",
		Action: "put stubs in the place of old tool results, without a model call",
		End:    "not enough: a summary",
	},
	Answers: func(s State, o Outcome) bool {
		return tooLong(s, o) || o.Kind == Measured && o.Fit == Over
	},
	Limit: 1,
	Scope: PerTurn,
	Step:  Step{Do: Reduce, Rung: Collapse, Discard: true},
}

// ProactiveCompact summarises before the window is full (R43). When it does
// not help the request is sent as it is.
const ProactiveCompact Transition = "proactive_compact"

var proactiveCompact = &Recovery{
	Name: ProactiveCompact,
	Doc: Doc{
		Cause:  "the window is nearly full",
		Action: "summarise the older rounds before it is",
		End:    "no help: the request is sent as it is",
	},
	// What was summarised a moment ago is not summarised again.
	Answers: func(s State, o Outcome) bool {
		return o.Kind == Measured && o.Fit == Over && s.Transition != ReactiveCompact && s.Transition != WindowCompact
	},
	Limit: 1,
	Scope: PerTurn,
	Step:  Step{Do: Reduce, Rung: Summary},
}

// ReactiveCompact summarises because the provider refused the length (R48), or
// because our own measure says that it must.
const ReactiveCompact Transition = "reactive_compact_retry"

var reactiveCompact = &Recovery{
	Name: ReactiveCompact,
	Doc: Doc{
		Cause:  "the request is too long for the provider, or by our own measure",
		Action: "summarise the older rounds and ask again",
		End:    "not enough: only the essentials are kept",
	},
	// A summary that just failed is not tried again: the next rung is due.
	Answers: func(s State, o Outcome) bool { return tooLong(s, o) && s.Transition != WindowCompact },
	Limit:   1,
	Scope:   PerTurn,
	Step:    Step{Do: Reduce, Rung: Summary, Discard: true},
}

// WindowCompact keeps what was written when the window was filled by writing,
// makes room and asks for the rest (recovery.md 9.3).
const WindowCompact Transition = "window_full_compact"

var windowCompact = &Recovery{
	Name: WindowCompact,
	Doc: Doc{
		Cause:  "the answer filled the window while it was written",
		Action: "keep the text, summarise the older rounds, and ask for the rest",
		End:    "full again: prompt_too_long, with all that came",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == WindowFull },
	Limit:   1,
	Scope:   PerTurn,
	Step:    Step{Do: Reduce, Rung: Summary, Keep: true, Nudge: NudgeContinue},
}

// SkeletonCompact needs no model: the last rung before the error is shown.
const SkeletonCompact Transition = "skeleton_compact_retry"

var skeleton = &Recovery{
	Name: SkeletonCompact,
	Doc: Doc{
		Cause:  "the request is still too long, or no summary could be made",
		Action: "keep the user's words, open work and the newest rounds, without a model call",
		End:    "not enough: prompt_too_long or blocking_limit",
	},
	Answers: tooLong,
	Limit:   1,
	Scope:   PerTurn,
	Step:    Step{Do: Reduce, Rung: Skeleton, Discard: true},
}

func tooLong(_ State, o Outcome) bool {
	switch o.Kind {
	case Failed:
		return o.Failure == failure.ContextOverflow || o.Failure == failure.RequestTooLarge
	case Measured:
		return o.Fit == Blocked
	}
	return false
}
