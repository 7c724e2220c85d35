package loop

// HookBlocked goes on because a stop hook did not accept the answer (R56). The
// counts of compaction stay spent: a hook whose words overflow the window
// would otherwise loop.
const HookBlocked Transition = "stop_hook_blocking"

var hookBlocked = &Recovery{
	Name: HookBlocked,
	Doc: Doc{
		Cause:  "a stop hook did not accept the answer",
		Action: "go on, with what the hook said",
		End:    "still not accepted: stop_hook_prevented",
	},
	Answers:  func(_ State, o Outcome) bool { return o.Kind == HooksBlocked },
	Limit:    8,
	Scope:    PerRun,
	Step:     Step{Do: Measure},
	Progress: true,
}
