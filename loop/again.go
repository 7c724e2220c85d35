package loop

// AskAgain asks once more, with another message, after an empty answer or one
// that only thinks (R26).
const AskAgain Transition = "empty_answer_retry"

var askAgain = &Recovery{
	Name:    AskAgain,
	Answers: func(_ State, o Outcome) bool { return o.Kind == Empty },
	Limit:   2,
	Scope:   PerTurn,
	Step:    Step{Do: Sample, Discard: true, Nudge: NudgeAnswer},
}

// AskForm asks once more for a call that could not be read (R70 row 17).
const AskForm Transition = "malformed_tool_use_retry"

var askForm = &Recovery{
	Name:    AskForm,
	Answers: func(_ State, o Outcome) bool { return o.Kind == Malformed },
	Limit:   1,
	Scope:   PerTurn,
	Step:    Step{Do: Sample, Discard: true, Nudge: NudgeMalformed},
}

// ResumePause sends a paused answer back unchanged, so that the server goes on
// with its own tools (recovery.md 9.3).
const ResumePause Transition = "pause_turn_resume"

var resumePause = &Recovery{
	Name:    ResumePause,
	Answers: func(_ State, o Outcome) bool { return o.Kind == Paused && o.Cut == Whole },
	Limit:   8,
	Scope:   PerAnswer,
	Step:    Step{Do: Sample, Keep: true},
}
