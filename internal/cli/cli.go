// Package cli (–) answers one question: how does a person, or a script, talk to
// daruma? Flags, environment, output, exit codes. It is the only place below
// the command that reads the environment or prints.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// System is the world as a command sees it. Tests give another one.
type world struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    []string
	Dir    string // working directory
	DirErr error
	// Terminal says whether a person sits at stdin and stdout, ErrTerminal
	// whether one reads stderr.
	Terminal, ErrTerminal bool
}

// System returns the world of this process.
func System() world {
	dir, err := os.Getwd()
	return world{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: os.Environ(), Dir: dir, DirErr: err,
		Terminal:    term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// env returns a variable of the environment.
func (w *world) env(name string) string {
	for i := len(w.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(w.Env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// Version is the version of this build.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "0.1.0-dev"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// Main runs the command and returns its exit code. Every non-zero exit has
// said on stderr what went wrong and what to do.
func Main(w world) int {
	// A pipe that nobody reads any more is an error of the write that met it.
	// It must not end a run in the middle of its work.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	cmd := root(&w)
	cmd.SetArgs(w.Args)
	cmd.SetIn(w.Stdin)
	cmd.SetOut(w.Stdout)
	cmd.SetErr(w.Stderr)
	ran, err := cmd.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = usage(err)
	}
	if e.hint == usageHint {
		e.hint = ran.CommandPath() + usageHint
	}
	return w.complain(e, err)
}

// complain says on stderr what went wrong and what to do, and returns the exit
// code.
func (w *world) complain(e *exitError, err error) int {
	tellError(w.Stderr, w.Args, e, err)
	if e.text != "" {
		fmt.Fprintf(w.Stderr, "daruma: %s\n", e.text)
		if e.hint != "" {
			fmt.Fprintf(w.Stderr, "        %s\n", e.hint)
		}
	}
	return e.code
}

const examples = `  daruma                                     talk to it in this folder
  daruma -p "make the tests pass"            one task; the answer goes to stdout
  git diff | daruma -p "review this"         with more on stdin
  daruma -p --permission-mode acceptEdits --allowedTools "Bash(go test:*)" "fix it"
  daruma -p --continue "and now the docs"    go on with the last session here
  daruma demo                                watch it get up again: no key, no network
  daruma fault serve --script FILE           the model server that fails on purpose`

func root(w *world) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "daruma [flags] [prompt]",
		Short:         "a coding agent that gets up again",
		Long:          "daruma is a coding agent that gets up again: every failure of the model has a named cause,\na bounded way back and an honest end.",
		Example:       examples,
		Args:          cobra.ArbitraryArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.version {
				_, err := fmt.Fprintln(w.Stdout, "daruma", Version())
				return err
			}
			o.prompt = strings.Join(args, " ")
			if err := mistyped(cmd, &o, args); err != nil {
				return err
			}
			return run(w, &o)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(flagError(err)) })
	cmd.SuggestionsMinimumDistance = 2
	o.register(cmd.Flags())
	cmd.AddCommand(whyCommand(w), sessionCommand(w), recoveriesCommand(w), mcpCommand(w), demoCommand(w), explainCommand(w), faultCommand(w))
	complete(w, cmd)
	return cmd
}

// mistyped refuses words that are nearly a command: as a prompt they would cost
// money and surprise.
func mistyped(cmd *cobra.Command, o *options, args []string) error {
	if o.print || len(args) == 0 || len(args[0]) < 3 || strings.ContainsAny(args[0], " \t\n") {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	if len(args) > 1 { // a prompt, unless it goes on like that command
		near = slices.DeleteFunc(near, func(name string) bool {
			sub, _, err := cmd.Find([]string{name, args[1]})
			return err != nil || sub.Name() == name
		})
	}
	if len(near) == 0 {
		return nil
	}
	return fail(exitUsage, "if it is a prompt: daruma -p \""+strings.Join(args, " ")+"\"", "there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
}
