package loop

// Escalate asks the same question again with more output room (R51). The cut
// answer is taken back: a whole one will come in its place.
const Escalate Transition = "max_output_tokens_escalate"

var escalate = &Recovery{
	Name:    Escalate,
	Answers: func(_ State, o Outcome) bool { return o.Kind == Truncated },
	Limit:   1,
	Scope:   PerTurn,
	Step:    Step{Do: Sample, Discard: true},
	Edit:    func(d *Draft, _ int) { d.Raise = true },
}
