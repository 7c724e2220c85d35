package builtin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/tool"
)

const bashText = `Runs a command with bash and returns what it printed (stdout and stderr together).

- Each command starts afresh in the root of the workspace: cd and variables do not last. Join what belongs together with &&.
- There is no terminal and no input: use flags such as -y, and git commit -m. Pagers and editors do not work.
- timeout is in milliseconds, %d if not given and at most %d. A command that runs out of time is ended.
- run_in_background starts a command that is to go on, such as a server, and returns at once with the id of a task: see TaskOutput and TaskStop.
- Everything else that a command starts is ended with it: & keeps nothing alive.
- Long output is cut in the middle; the result then names the file that has all of it.
- Prefer Read, Edit, Write, Glob and Grep to cat, sed, find and grep.
- Quote paths with spaces. description says in a few words what the command is for.`

type bashInput struct {
	Command     string `json:"command" jsonschema:"the command to run"`
	Timeout     int    `json:"timeout,omitzero" jsonschema:"milliseconds; not for the background"`
	Description string `json:"description,omitzero" jsonschema:"what it does, in 5 to 10 words"`
	Background  bool   `json:"run_in_background,omitzero" jsonschema:"return at once; the command goes on as a task"`
}

// BashOutput is the structured output of Bash.
type BashOutput struct {
	Stdout         string `json:"stdout"` // both streams, as they came
	Stderr         string `json:"stderr"` // notices of the tool
	Interrupted    bool   `json:"interrupted"`
	ExitCode       int    `json:"exitCode"`
	TimedOutAfter  int    `json:"timedOutAfterMs,omitzero"`
	Interpretation string `json:"returnCodeInterpretation,omitzero"`
	Path           string `json:"persistedOutputPath,omitzero"`
	Task           string `json:"backgroundTaskId,omitzero"`
}

func (w *Workspace) bash() tool.Tool {
	return &tool.Typed[bashInput]{
		Name: "Bash", Do: w.runBash,
		Description: fmt.Sprintf(bashText, w.cfg.Timeout.Milliseconds(), w.cfg.MaxTimeout.Milliseconds()),
		Judge: func(in bashInput) tool.Effect {
			if onlyReads(in.Command) && !in.Background {
				return tool.Pure
			}
			return tool.Unsafe
		},
		Touch: func(in bashInput) tool.Access {
			return tool.Access{Kind: tool.AccessShell, Command: in.Command}
		},
	}
}

func (w *Workspace) runBash(ctx context.Context, call tool.Call, in bashInput) tool.Result {
	switch {
	case strings.TrimSpace(in.Command) == "":
		return tool.Refuse(tool.ClassBadInput, "the command is empty: nothing was run")
	case strings.ContainsRune(in.Command, 0):
		return tool.Refuse(tool.ClassBadInput, "the command contains a NUL character, which no program can be given: nothing was run")
	case in.Timeout < 0:
		return tool.Refuse(tool.ClassBadInput, "timeout must not be negative: nothing was run")
	case in.Background:
		return w.startTask(call, in)
	}
	c := w.command(in.Command, call)
	out := &capture{dir: w.cfg.Spill, keep: w.cfg.MaxOutput / 2, hide: w.cfg.Hide}
	c.out, c.progress, c.timeout = out, call.Progress, w.cfg.Timeout
	if in.Timeout > 0 {
		c.timeout = atMost(w.cfg.MaxTimeout, in.Timeout)
	}
	return w.report(in.Command, c, out, c.run(ctx))
}

// atMost is a time in milliseconds, or most if it is longer, however long it is.
func atMost(most time.Duration, ms int) time.Duration {
	if int64(ms) >= most.Milliseconds() {
		return most
	}
	return time.Duration(ms) * time.Millisecond
}

// command is what runs a command line of the model.
func (w *Workspace) command(line string, call tool.Call) *command {
	c := &command{
		argv: []string{w.cfg.Shell, "-c", line}, dir: w.root, env: w.env,
		helper: w.cfg.Helper, rules: w.cfg.Sandbox, grace: w.cfg.Grace, started: call.Started,
	}
	if w.cfg.Wrap != nil {
		c.argv = w.cfg.Wrap(c.argv)
	}
	return c
}

// maxFailed is how much output a failed command may show: with the notices it
// stays under what the tool set allows an error, which would cut it again.
const maxFailed = 9_000

// report puts into words how a command ended.
func (w *Workspace) report(line string, c *command, out *capture, e ending) tool.Result {
	if e.err != nil {
		out.result(0)
		return tool.Fail(tool.Classify(e.err), fmt.Sprintf("the command was not run, since it could not be started in %s: %v", w.root, e.err))
	}
	o := BashOutput{Interrupted: e.cancelled || e.timedOut, ExitCode: e.code}
	class, first, limit := "", "", w.cfg.MaxOutput
	switch {
	case e.timedOut:
		class, first = tool.ClassTimeout, fmt.Sprintf("Command timed out after %v and was ended. What it printed until then:", c.timeout)
		o.TimedOutAfter = int(c.timeout.Milliseconds())
	case e.cancelled:
		class, first = tool.ClassAborted, "Command was cancelled and ended. What it printed until then:"
	case e.code != 0:
		if o.Interpretation = interpret(line, e.code); o.Interpretation == "" {
			class, first = tool.ClassExit, fmt.Sprintf("Exit code %d", e.code)
		}
	}
	if class != "" {
		limit = min(limit, maxFailed)
	}
	o.Stdout, o.Path = out.result(limit)
	lines := notices(e, o.Interpretation)
	if hint := w.hint(o.Stdout, e.code); hint != "" {
		lines = append(lines, hint)
	}
	o.Stderr = strings.Join(lines, "\n")

	body := strings.TrimRight(o.Stdout, "\n")
	if body == "" && (first != "" || o.Stderr != "") {
		body = "(no output)"
	}
	text := strings.TrimLeft(first+"\n"+body, "\n")
	if o.Stderr != "" {
		text += "\n" + o.Stderr
	}
	r := tool.Text(text)
	r.IsError, r.Class, r.Output = class != "", class, o
	return r
}

// hint explains what the sandbox may have refused a command that failed.
func (w *Workspace) hint(output string, code int) string {
	if w.cfg.Sandbox == nil || code == 0 {
		return ""
	}
	return w.cfg.Sandbox.Hint(output)
}

// notices is what the model should know besides the output.
func notices(e ending, interpretation string) []string {
	var lines []string
	if interpretation != "" {
		lines = append(lines, fmt.Sprintf("(exit code %d: %s)", e.code, interpretation))
	}
	if e.signal != "" && !e.timedOut && !e.cancelled {
		lines = append(lines, "(ended by a signal: "+e.signal+")")
	}
	if e.unwatched {
		lines = append(lines, "(the process that watches over the command was ended, most likely by the command itself; what was left of the command was ended too)")
	}
	if e.left > 0 {
		lines = append(lines, fmt.Sprintf("(%s still running after the command were ended: only run_in_background lets a command go on)",
			plural(e.left, "process", "processes")))
	}
	if len(e.stuck) > 0 {
		lines = append(lines, fmt.Sprintf("(could not be ended and may still run: process %s)",
			strings.Trim(fmt.Sprint(e.stuck), "[]")))
	}
	return lines
}
