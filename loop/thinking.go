package loop

import "github.com/daruma-agent/daruma/failure"

// StripThinking leaves all thinking out of the view after the provider refused
// a signature (R32), for the rest of the run.
const StripThinking Transition = "strip_thinking_retry"

var stripThinking = &Recovery{
	Name: StripThinking,
	Doc: Doc{
		Cause:  "the provider refused the signature of a thinking block",
		Action: "ask again without any thinking of the past",
		End:    "the rest of the run goes on without it; refused again: api_error",
	},
	Answers: func(_ State, o Outcome) bool {
		return o.Kind == Failed && o.Failure == failure.ThinkingSignature
	},
	Limit: 1,
	Scope: PerRun,
	Step:  Step{Do: Sample, Discard: true},
	Edit:  func(d *Draft, _ int) { d.NoThinking = true },
}
