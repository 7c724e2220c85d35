package loop

// Escalate asks the same question again with more output room (R51). The cut
// answer is taken back: a whole one will come in its place.
const Escalate Transition = "max_output_tokens_escalate"

var escalate = &Recovery{
	Name: Escalate,
	Doc: Doc{
		Cause:  "the output limit cut the answer",
		Action: "take the answer back and ask again with more output room",
		End:    "cut again: the answer is continued",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Truncated && !o.Full },
	Limit:   1,
	Scope:   PerTurn,
	Step:    Step{Do: Sample, Discard: true},
	Edit:    func(d *Draft, _ int) { d.Raise = true },
}
