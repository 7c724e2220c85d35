package loop

// AskAgain asks once more, with another message, after an empty answer or one
// that only thinks (R26). Behind a stop hook's objection an empty answer means
// that the model has nothing to add, and asking again would only go round.
const AskAgain Transition = "empty_answer_retry"

var askAgain = &Recovery{
	Name: AskAgain,
	Doc: Doc{
		Cause:  "the answer was empty, or nothing but thinking",
		Action: "take it back and ask again, with a word about it",
		End:    "still empty: model_error",
	},
	Answers: func(s State, o Outcome) bool { return o.Kind == Empty && s.Transition != HookBlocked },
	Limit:   2,
	Scope:   PerTurn,
	Step:    Step{Do: Sample, Discard: true, Nudge: NudgeAnswer},
}

// AskForm asks once more for a call that could not be read (R70 row 17).
const AskForm Transition = "malformed_tool_use_retry"

var askForm = &Recovery{
	Name: AskForm,
	Doc: Doc{
		Cause:  "a tool call could not be read: its name, or its input",
		Action: "take it back and ask for the call again",
		End:    "again unreadable: malformed_tool_use_exhausted",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Malformed },
	Limit:   1,
	Scope:   PerTurn,
	Step:    Step{Do: Sample, Discard: true, Nudge: NudgeMalformed},
}

// ResumePause sends a paused answer back unchanged, so that the server goes on
// with its own tools (recovery.md 9.3).
const ResumePause Transition = "pause_turn_resume"

var resumePause = &Recovery{
	Name: ResumePause,
	Doc: Doc{
		Cause:  "the server paused in the middle of its own tools",
		Action: "send the answer back unchanged, so that the server goes on",
		End:    "still paused: model_error",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Paused && o.Cut == Whole },
	Limit:   8,
	Scope:   PerAnswer,
	Step:    Step{Do: Sample, Keep: true},
}
