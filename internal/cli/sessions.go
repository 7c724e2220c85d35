package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/session"
	"github.com/spf13/cobra"
)

func sessionCommand(w *world) *cobra.Command {
	group := &cobra.Command{
		Use:   "session",
		Short: "list, show, check, name, compact, search, rewind, delete, export and import sessions",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(sessionList(w), sessionShow(w), sessionCheck(w), sessionName(w), sessionCompact(w), sessionSearch(w), sessionRemove(w), sessionExport(w), sessionImport(w), sessionRewind(w))
	return group
}

// listed is a session in the list.
type listed struct {
	ID       string    `json:"session_id"`
	Name     string    `json:"name,omitzero"`
	Parent   string    `json:"parent_session_id,omitzero"` // that it was forked from
	Path     string    `json:"path"`
	State    string    `json:"state"` // how its last run ended; running, open, crashed or empty
	Runs     int       `json:"runs"`
	Modified time.Time `json:"modified"`
	Size     int64     `json:"bytes"`
	Prompt   string    `json:"prompt"`
}

func sessionList(w *world) *cobra.Command {
	var asJSON bool
	var most int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the sessions of this folder, newest first",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := w.sessions()
			if err != nil {
				return err
			}
			summaries, err := store.List()
			if err != nil {
				return fail(exitInput, "make the folder readable", "%v", err)
			}
			older := 0
			if most > 0 && len(summaries) > most { // each one is read
				older = len(summaries) - most
				summaries = summaries[:most]
			}
			list := []listed{}
			for _, s := range summaries {
				o, err := session.Look(s.Path)
				if err != nil {
					continue // gone since, or not for us
				}
				list = append(list, listed{
					s.ID, o.History.Name, o.History.Parent, s.Path, state(o.History, session.InUse(s.Path)), o.History.Runs, s.Modified.UTC(), s.Size, o.Prompt,
				})
			}
			if asJSON {
				return printJSON(w.discreet(), list)
			}
			return shown(printList(w.discreet(), list, older, columns(w.Stdout)))
		},
	}
	cmd.Flags().IntVarP(&most, "limit", "n", 50, "at most so many; 0: all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON array, for machines")
	return cmd
}

// shortID is how much of an ID a person needs: the beginning of one is enough for
// every command.
const shortID = 8

// about is the name of the session and what was asked in it first.
func (s listed) about() string {
	if s.Name == "" {
		return clip(s.Prompt, 60)
	}
	return "[" + clip(s.Name, 60) + "] " + clip(s.Prompt, 60)
}

// printList prints a line for each, on a screen of that width one that fits; 0: no screen.
func printList(out io.Writer, list []listed, older, width int) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, `There is no session of this folder yet. Begin one: daruma -p "…"`)
		return err
	}
	var b strings.Builder
	for _, s := range list {
		id := s.ID
		if width > 0 {
			id = id[:min(len(id), shortID)]
		}
		line := fmt.Sprintf("%s  %-19s  %-17s  %-7s  %s", id, s.Modified.Local().Format(time.DateTime), s.State, count(s.Runs, "run"), s.about())
		b.WriteString(fit(line, width) + "\n")
	}
	if older > 0 {
		fmt.Fprintf(&b, "… and %d older: --limit 0 shows all\n", older)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func sessionShow(w *world) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [ID]",
		Short: "what was said and done in a session; the last one of this folder if none is named",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := w.past(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if asJSON {
				return shown(p.lines(w.discreet()))
			}
			return shown(p.transcript(w.discreet(), w.colour(w.Terminal)))
		},
		ValidArgsFunction: completeSessions(w),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "the lines of --output-format stream-json")
	return cmd
}
