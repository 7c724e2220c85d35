package loop

// DropTool leaves a tool out of the requests whose description the provider
// refused (corpus: tool-schema): one server's bad schema must not stop everything.
const DropTool Transition = "drop_tool_retry"

var dropTool = &Recovery{
	Name: DropTool,
	Doc: Doc{
		Cause:  "the provider refused the schema or the name of a tool",
		Action: "ask again without that tool, for the rest of the session, and say so",
		End:    "refused again, 8 tools later: api_error",
	},
	Answers: func(_ State, o Outcome) bool { return o.Kind == Failed && o.Tool },
	Limit:   8,
	Scope:   PerRun,
	Step:    Step{Do: Sample, Discard: true},
}
