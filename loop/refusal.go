package loop

// AfterRefusal asks another model what the first one refused, if the user named
// one (R93). Unlike a fallback for load it lasts for the session: what was
// refused stays in the conversation.
const AfterRefusal Transition = "refusal_fallback"

var afterRefusal = &Recovery{
	Name: AfterRefusal,
	Doc: Doc{
		Cause:  "the model refuses",
		Action: "ask the model that is named for this, for the rest of the session",
		End:    "the run ends with the refusal; what was refused leaves the conversation",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Refused },
	Limit:   0,
	Scope:   PerSession,
	Step:    Step{Do: Measure, Discard: true},
	Edit:    func(d *Draft, _ int) { d.AfterRefusal = true },
}
