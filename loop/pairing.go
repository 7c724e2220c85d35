package loop

import "github.com/daruma-agent/daruma/failure"

// Flatten sends the calls and results of earlier turns as plain text after the
// provider refused how they pair, although our own check finds nothing wrong
// with them: it reads the conversation in another way than we do (R62).
const Flatten Transition = "pairing_repair_retry"

var flatten = &Recovery{
	Name: Flatten,
	Doc: Doc{
		Cause:  "the provider refused how calls and results pair, although they do",
		Action: "ask again with the calls and results of earlier turns as plain text",
		End:    "refused again: api_error",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Failed && o.Failure == failure.ToolPairing },
	Limit:   1,
	Scope:   PerRun,
	Step:    Step{Do: Sample, Discard: true},
	Edit:    func(d *Draft, _ int) { d.Flat = true },
}
