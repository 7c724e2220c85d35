package loop

// ContinueOutput keeps an answer that the output limit cut, or that stopped for
// a pause without saying for what, and asks for the rest (R52).
const ContinueOutput Transition = "max_output_tokens_recovery"

var continueOutput = &Recovery{
	Name: ContinueOutput,
	Doc: Doc{
		Cause:  "the output limit cut the answer in its text, or it paused without saying for what",
		Action: "keep the text, show its end, and ask for the rest",
		End:    "still not whole: output_limit, with all that came",
	},
	Answers: func(_ State, o Outcome) bool { return (o.Kind == Truncated || o.Kind == Paused) && o.Cut == CutText },
	Limit:   3,
	Scope:   PerAnswer,
	Step:    Step{Do: Measure, Keep: true, Nudge: NudgeContinue},
}

// RepeatCall keeps what stands before a call that the output limit cut. The
// call is never run; the model makes it again.
const RepeatCall Transition = "truncated_call_retry"

var repeatCall = &Recovery{
	Name: RepeatCall,
	Doc: Doc{
		Cause:  "the output limit cut a tool call",
		Action: "keep what stands before the call, never run it, and ask for it again",
		End:    "still cut: output_limit",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Truncated && o.Cut == CutCall },
	Limit:   3,
	Scope:   PerAnswer,
	Step:    Step{Do: Measure, Keep: true, Nudge: NudgeCutCall},
}

// ContinueBroken keeps the text of an answer whose connection broke and asks
// for the rest (R25, with our completion of it).
const ContinueBroken Transition = "broken_stream_recovery"

var continueBroken = &Recovery{
	Name: ContinueBroken,
	Doc: Doc{
		Cause:  "the connection broke behind a long text",
		Action: "keep the text, show its end, and ask for the rest",
		End:    "still broken: api_error, with all that came",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Broken && o.Cut == CutText },
	Limit:   3,
	Scope:   PerAnswer,
	Step:    Step{Do: Measure, Keep: true, Nudge: NudgeContinue},
}
