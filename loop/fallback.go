package loop

// Fallback moves the run to the next model of its chain (R90–R92), for the
// rest of the run. Its limit is the length of the chain, so each model is
// tried once; layer 1 hands over only what another model can cure.
const Fallback Transition = "model_fallback"

var fallback = &Recovery{
	Name: Fallback,
	Doc: Doc{
		Cause:  "the model is overloaded, broken or missing, and another one is named",
		Action: "take back what came and ask the next model of the chain, for the rest of the run",
		End:    "the last model of the chain fails too: api_error",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Overloaded },
	Limit:   0,
	Scope:   PerRun,
	Step:    Step{Do: Measure, Discard: true},
	Edit:    func(d *Draft, used int) { d.Model = used },
}
