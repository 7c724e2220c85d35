//go:build linux

package main

// longSettings are the rules and hooks of the run.
const longSettings = `{
  "permissions": {
    "allow": ["Bash", "WebFetch", "mcp__notes__add", "mcp__notes__die", "mcp__notes__flaky"],
    "deny": ["Bash(curl:*)"]},
  "hooks": {
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "if": "Bash(git push *)", "command": "echo pushing is done by people >&2; exit 2"}]}],
    "PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command",
      "command": "echo '{\"hookSpecificOutput\":{\"hookEventName\":\"PostToolUse\",\"additionalContext\":\"a hook has seen this change\"}}'"}]}],
    "Stop": [{"hooks": [{"type": "command", "command": "mkdir \"$ASIDE/stopped\" 2>/dev/null || exit 0; echo the plan is not finished >&2; exit 2"}]}]}}`

// longWays are the ways back that the run has to take.
var longWays = []string{
	"retry", "gate", "refresh", "unstreamed", "kept_calls",
	"max_output_tokens_escalate", "max_output_tokens_recovery", "truncated_call_retry", "broken_stream_recovery",
	"empty_answer_retry", "malformed_tool_use_retry", "media_strip_retry", "collapse_drain_retry", "proactive_compact",
	"reactive_compact_retry", "model_fallback", "stop_hook_blocking", "break_loop",
}

// longOutsideSaid is what only a sandbox prevents.
const longOutsideSaid = "A write outside of the workspace"

// longSaid is what the results of an answer must say, by what the answer says.
// A cross before it: one of them is a failure.
var longSaid = map[string]string{
	"I look for the tests":                 `html/escape_test\.go`,
	"Three at once; one":                   `Go Networking`,
	"Three at once":                        `✗README\.md`,
	"A search that finds nothing":          `no matches found`,
	"A command that fails":                 `✗Exit code 3[^"]*this is what is wrong`,
	"A change of what is not there":        `✗is not in the file`,
	"A change of what is there many":       `✗is in the file \d+ times`,
	"A change of a file that is":           `✗changed`,
	"A command without an end":             `✗timed out after 2s[^"]*partial`,
	"A flood":                              `the water rises[^"]*/outputs/`,
	"A daemon":                             `left behind[^"]*1 process still running after the command`,
	"A picture.":                           `"image"`,
	"A paper":                              `page 2 of 2[^"]*A page\.`,
	"A picture that is not":                `✗picture\.png`,
	"A pipe":                               `✗pipe`,
	"A huge file":                          `go on with offset 6`,
	"A binary":                             `✗binary`,
	"A page of the web":                    `Dolls[^"]*Eight times up`,
	"A page that is gone":                  `✗answered 404`,
	"Another agent counts":                 `Counted`,
	"An agent that fails":                  `✗INCOMPLETE`,
	"It goes on":                           `Now it is whole`,
	"Two at once":                          `Counted`,
	"A tool of a server":                   `kept: one`,
	"The server dies":                      `✗unknown[^"]*no more notes`,
	"It is back":                           `kept: two`,
	"It dies in a call":                    `here in the second life`,
	"A tool that nobody":                   `✗nobody can be asked`,
	"What a hook denies":                   `✗pushing is done by people`,
	"What a rule denies":                   `✗curl`,
	"What would have to be asked":          `✗nobody can be asked`,
	"A tool that does not exist":           `✗Frobnicate`,
	"Input of a wrong kind":                `✗file_path`,
	"Input that lacks":                     `✗old_string`,
	"The call once more":                   `whole`,
	"I try it (3)":                         `✗no/such/file`,
	"I try it (4)":                         `✗leads nowhere`,
	"Its output.":                          `ready`,
	"Its output, without":                  `is running`,
	"Its end":                              `was ended by TaskStop`,
	"A task that does not":                 `✗there is no task task-none`,
	longOutsideSaid:                        `it was not written`,
	"A crowd":                              `begun[^"]*10 processes still running`,
	"A daemon without":                     `gone[^"]*still running after the command`,
	"Its own watcher":                      `✗watches over the command was ended`,
	"Its own end":                          `✗killed`,
	"A question that":                      `got <>`,
	"An odd code":                          `✗Exit code 200`,
	"What is behind it":                    `✗nobody can be asked`,
	"Far behind":                           `✗behind its end`,
	"A pattern that":                       `✗`,
	"Into a pipe":                          `✗pipe`,
	"Three agents":                         `Counted`,
	"I explain":                            `explained`,
	"A last search":                        `websocket/dial\.go`,
	"The plan was not finished: now it is": `.`,
}

// longEdits are the changes of the work: old and new, one after the other.
var longEdits = map[string][][2]string{
	"html/escape.go": {
		{"// Copyright", "// Noted by a command.\n// Copyright"},
		{"// These replacements permit", "// Replacements permit"},
	},
	"netutil/listen.go":  longImport,
	"proxy/direct.go":    longImport,
	"proxy/per_host.go":  longImport,
	"xsrftoken/xsrf.go":  longImport,
	"trace/events.go":    longImport,
	"webdav/if.go":       longImport,
	"dict/dict.go":       longImport,
	"nettest/nettest.go": longImport,
	"websocket/dial.go":  longImport,
}

var longImport = [][2]string{{"\nimport (\n", "\nimport ( // in order\n"}}
