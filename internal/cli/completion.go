package cli

import (
	"cmp"
	"fmt"

	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/spf13/cobra"
)

// complete tells the shell what the flags of a run can be.
func complete(w *world, cmd *cobra.Command) {
	fixed := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	var modes []string
	for _, m := range []permission.Mode{permission.Default, permission.AcceptEdits, permission.Plan, permission.DontAsk, permission.Bypass} {
		modes = append(modes, string(m))
	}
	for flag, values := range map[string]cobra.CompletionFunc{
		"output-format": fixed(outputFormats...), "permission-mode": fixed(modes...), "resume": completeSessions(w),
	} {
		if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
			panic(err) // a flag of this name is not there: a slip of the programmer
		}
	}
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultCompletionCmd()
	for _, c := range cmd.Commands() { // in the words of the others
		switch c.Name() {
		case "completion":
			c.Short = "a script that lets your shell complete commands, flags and sessions"
		case "help":
			c.Short = "help about a command"
		}
	}
}

// completeSessions offers the sessions of the folder, newest first, with what
// each was about.
func completeSessions(w *world) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		store, err := w.sessions()
		if err != nil || len(args) > 0 {
			return nil, directive
		}
		list, _ := store.List() // a shell has no place for an error
		var out []cobra.Completion
		for _, s := range list[:min(len(list), 20)] {
			about := clock(s.Modified)
			if o, err := session.Look(s.Path); err == nil {
				about += fmt.Sprintf(" %s: %s", state(o.History, session.InUse(s.Path)), clip(cmp.Or(o.History.Name, o.Prompt), 50))
			}
			out = append(out, cobra.CompletionWithDesc(s.ID, about))
		}
		return out, directive
	}
}

// completeFilesAndSessions offers sessions, and leaves files to the shell.
func completeFilesAndSessions(w *world) cobra.CompletionFunc {
	sessions := completeSessions(w)
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		out, _ := sessions(cmd, args, prefix)
		return out, cobra.ShellCompDirectiveDefault
	}
}
