package loop

// BreakLoop goes on after an answer whose calls all repeat what led nowhere
// before: they were not run, and their results say why. Tools that run give the
// use back; an answer that repeats the same again ends the run.
const BreakLoop Transition = "break_loop"

var breakLoop = &Recovery{
	Name: BreakLoop,
	Doc: Doc{
		Cause:  "the model makes the same calls again and again, and nothing changes",
		Action: "do not run them, and say so in their results",
		End:    "it repeats them once more: tool_loop",
	},
	Answers:  func(_ State, o Outcome) bool { return o.Kind == Repeated },
	Limit:    1,
	Scope:    PerTurn,
	Step:     Step{Do: Measure},
	Progress: true,
}
