package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/retry"
	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	prompt string

	print     bool
	output    string
	model     string
	fallback  string
	refusal   string
	maxTurns  int
	retries   int // below zero: not said
	keyHelper string
	patience  patience
	bounds    bounds
	mode      string
	skip      bool // --dangerously-skip-permissions
	allowed   []string
	denied    []string
	dirs      []string
	webInside bool // --web-allow-private
	goOn      bool
	resume    string
	wanted    wanted
	settings  settingsFlags
	mcp       mcpFlags
	noJournal bool
	partial   bool // --include-partial-messages
	errorJSON bool // seen by tellError
	verbose   bool
	version   bool
}

func (o *options) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.BoolVarP(&o.print, "print", "p", false, "run one prompt (from the argument, stdin or both) and exit")
	f.StringVar(&o.output, "output-format", "text", "with -p: text (the answer), json (one result object) or stream-json (a line for each event)")
	f.BoolVar(&o.partial, "include-partial-messages", false, "with stream-json: the answers while they are written, too")
	f.StringVar(&o.model, "model", "", "model to ask (default $ANTHROPIC_MODEL, else "+defaultModel+")")
	f.StringVar(&o.fallback, "fallback-model", "", "up to three models, separated by commas, for when the first is overloaded")
	f.StringVar(&o.refusal, "refusal-model", "", "a model to ask what the first one refuses")
	f.IntVar(&o.maxTurns, "max-turns", 0, "end after so many turns (default 250)")
	f.IntVar(&o.retries, "max-retries", -1, "send a request that failed so many times more before giving up")
	f.Lookup("max-retries").DefValue = fmt.Sprint(retry.Default().Retries)
	f.StringVar(&o.keyHelper, "api-key-helper", "", "a command that prints a key; run again when the key is refused")
	o.patience.register(f)
	o.bounds.register(f)
	f.StringVar(&o.mode, "permission-mode", "", "default, acceptEdits, plan, dontAsk or bypassPermissions")
	f.BoolVar(&o.skip, "dangerously-skip-permissions", false, "the same as --permission-mode bypassPermissions")
	f.StringArrayVar(&o.allowed, "allowedTools", nil, `rules of what may run without asking, such as "Bash(git diff:*),Edit"`)
	f.StringArrayVar(&o.denied, "disallowedTools", nil, "rules of what may never run")
	f.StringArrayVar(&o.dirs, "add-dir", nil, "another folder that the tools may use, and commands write to")
	f.BoolVar(&o.webInside, "web-allow-private", false, "let WebFetch reach loopback and private addresses too, such as a server that runs here")
	f.BoolVarP(&o.goOn, "continue", "c", false, "go on with the last session of this folder")
	f.StringVarP(&o.resume, "resume", "r", "", "go on with the session of this ID or name")
	o.settings.register(f)
	o.wanted.register(f)
	o.mcp.register(f)
	f.BoolVar(&o.noJournal, "no-session-persistence", false, "keep no session on disk")
	f.BoolVar(&o.errorJSON, errorJSONFlag, false, "say on one JSON line on stderr, too, why it did not succeed")
	f.BoolVar(&o.verbose, "verbose", false, "show each decision on stderr")
	// Not that of cobra: its text in words of ours would take a template, and with
	// templates the linker keeps every method of every type.
	f.BoolVarP(&o.version, "version", "v", false, "version for daruma")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name { // both spellings are in use
		case "allowed-tools":
			name = "allowedTools"
		case "disallowed-tools":
			name = "disallowedTools"
		}
		return pflag.NormalizedName(name)
	})
}

// maxStdin bounds a prompt from stdin.
const maxStdin = 10 << 20

// check completes the options from the world and refuses what cannot be.
func (o *options) check(w *world) error {
	if !slices.Contains(outputFormats, o.output) {
		return usage(fmt.Errorf("unknown output format %q: text, json and stream-json are possible", o.output))
	}
	if o.partial && o.output != formatStream {
		return usage(errors.New("--include-partial-messages needs --output-format " + formatStream))
	}
	if o.goOn && o.resume != "" {
		return usage(errors.New("--continue and --resume exclude each other"))
	}
	if err := o.wanted.check(o); err != nil {
		return usage(err)
	}
	if err := o.patience.check(); err != nil {
		return usage(err)
	}
	if o.maxTurns < 0 {
		return usage(fmt.Errorf("--max-turns %d: a positive number is needed", o.maxTurns))
	}
	if o.retries < -1 {
		return usage(fmt.Errorf("--max-retries %d: zero or a positive number is needed", o.retries))
	}
	if w.DirErr != nil {
		return fail(exitInput, "change to a folder that exists", "the working directory cannot be found: %v", w.DirErr)
	}
	if !o.print && w.Terminal {
		return nil
	}
	if !o.print {
		return fail(exitUsage, `run one prompt with -p: daruma -p "…"`, "this is not a terminal, so there is nobody to talk to")
	}
	if !w.stdinIsTerminal() {
		piped, err := io.ReadAll(io.LimitReader(w.Stdin, maxStdin+1))
		if err != nil {
			return fail(exitInput, "pipe it again, or give the prompt as an argument", "stdin cannot be read: %v", err)
		}
		if len(piped) > maxStdin {
			return fail(exitInput, "put it into a file and name the file in the prompt", "stdin has more than %d MB", maxStdin>>20)
		}
		o.prompt = strings.TrimSpace(strings.TrimSpace(o.prompt) + "\n\n" + strings.ToValidUTF8(string(piped), "\uFFFD"))
	}
	if strings.TrimSpace(o.prompt) == "" && !o.goOn && o.resume == "" {
		return fail(exitInput, `give it as an argument or on stdin: daruma -p "…"`, "the prompt is empty")
	}
	return nil
}
