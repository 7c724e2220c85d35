package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/daruma-agent/daruma/session/doctor"
	"github.com/spf13/cobra"
)

// checkOptions are the flags of session check.
type checkOptions struct {
	fix, diff, asJSON bool
	out               string
	model             string
	dropThinking      bool
}

func sessionCheck(w *world) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check FILE|ID",
		Short: "find what breaks a session file, of daruma or of another agent, and heal a copy of it",
		Example: `  daruma session check 3f2a
  daruma session check --diff broken.jsonl          what healing would change
  daruma session check --fix ~/.claude/projects/x/3f2a.jsonl`,
		Args: oneArg("the file or the ID of a session"),
		RunE: func(_ *cobra.Command, args []string) error {
			if o.out != "" && !o.fix {
				return fail(exitUsage, "daruma session check --fix --out "+o.out+" "+args[0], "--out says where --fix writes, and --fix is not given")
			}
			path, err := w.sessionFile(args[0])
			if err != nil {
				return err
			}
			f, err := doctor.Open(path)
			if err != nil {
				return fail(exitInput, "name a session file, or an ID of daruma session list", "%v", err)
			}
			f.Model, f.DropThinking = o.model, o.dropThinking
			w.tellUse(path)
			return check(w, f, o)
		},
		ValidArgsFunction: completeFilesAndSessions(w),
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.fix, "fix", false, "write a healed copy; the file itself stays as it is")
	flags.StringVar(&o.out, "out", "", "with --fix: where to write it (default beside the file, as NAME.healed.jsonl)")
	flags.BoolVar(&o.diff, "diff", false, "show what healing changes")
	flags.StringVar(&o.model, "model", "", "the model that the session will go on with, if it is another one")
	flags.BoolVar(&o.dropThinking, "drop-thinking", false, "leave out all thinking: for a session whose signatures are refused")
	flags.BoolVar(&o.asJSON, "json", false, "one JSON object, for machines")
	return cmd
}

// sessionFile takes the name of a file, else the ID of a session.
func (w *world) sessionFile(name string) (string, error) {
	path := name
	if !filepath.IsAbs(path) && w.Dir != "" {
		path = filepath.Join(w.Dir, path)
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return path, nil
	}
	store, err := w.sessions()
	if err != nil {
		return "", err
	}
	if path, err = store.Find(name); err != nil {
		return "", fail(exitInput, hintList, "%s is neither a file nor a session: %v", name, err)
	}
	return path, nil
}

// checked is the outcome of a check for machines.
type checked struct {
	doctor.Report
	Next   string `json:"next"`
	Healed string `json:"healed,omitzero"` // path of the healed copy
	Aside  string `json:"aside,omitzero"`  // where an older one is now
	Diff   string `json:"diff,omitzero"`
}

// check tells what was found, and heals if that is asked for. It fails as long
// as something breaks the session and there is no sound copy.
func check(w *world, f *doctor.File, o checkOptions) error {
	report := f.Report()
	out := checked{Report: report, Next: report.Next()}
	if o.diff {
		out.Diff = f.Diff()
	}
	sound := report.Sound
	if o.fix && f.Diff() != "" {
		var err error
		if out.Healed, out.Aside, err = f.HealTo(o.out); err != nil && !errors.Is(err, doctor.ErrNothingLeft) {
			return fail(exitConfig, "name another place with --out", "the healed copy cannot be written: %v", err)
		}
		if err == nil {
			copied, err := doctor.Open(out.Healed)
			sound = err == nil && copied.Report().Sound
		}
	}
	if err := printChecked(w, out, o); err != nil {
		return err
	}
	switch {
	case sound:
		return nil
	case o.fix:
		return fail(exitFailed, "start a new session, and tell it what the old one was about", "the session is broken, and healing does not mend all of it")
	}
	return fail(exitFailed, fmt.Sprintf("write a healed copy: daruma session check --fix %s", f.Path), "the session is broken")
}

func printChecked(w *world, out checked, o checkOptions) error {
	if o.asJSON {
		return printJSON(w.Stdout, out)
	}
	text := out.String()
	if out.Diff != "" {
		text += "\n" + out.Diff
	}
	switch {
	case out.Healed != "" && out.Format == doctor.Daruma:
		text += fmt.Sprintf("\nThe healed copy: %s\nGo on with it: %s\n", out.Healed, resumeCommand(strings.TrimSuffix(filepath.Base(out.Healed), ".jsonl")))
	case out.Healed != "":
		text += fmt.Sprintf("\nThe healed copy: %s\n", out.Healed)
	case o.fix && out.Sound:
		text += "\nNothing was written: there is nothing to heal.\n"
	case o.fix:
		text += "\nNothing was written: there is nothing left to heal.\n"
	}
	if out.Aside != "" {
		text += fmt.Sprintf("An older copy, which is another one, was kept: %s\n", out.Aside)
	}
	_, err := fmt.Fprint(w.Stdout, text)
	return written(err)
}
