package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/spf13/cobra"
)

func sessionRewind(w *world) *cobra.Command {
	var yes, files bool
	cmd := &cobra.Command{
		Use:   "rewind ID TURN",
		Short: "go back to the end of a turn, in a copy; without --yes it shows only what the copy loses",
		Long: "Makes a copy of a session that ends where TURN ended: 3 is the end of run 3, 3.2 the end of turn 2 in it,\n" +
			"as daruma session show counts runs. The session itself stays as it is. With --files, the files that\n" +
			"Write and Edit changed after that turn hold again what they held then; what commands changed stays.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("two arguments are needed, the ID of a session and a turn such as 3 or 3.2")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := w.past(args[0])
			if err != nil {
				return err
			}
			at, err := parseMoment(args[1])
			if err != nil {
				return usage(err)
			}
			return rewind(w, p, at, yes, files)
		},
		ValidArgsFunction: completeSessions(w),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "make the copy, and take the files back")
	cmd.Flags().BoolVar(&files, "files", false, "take back the changes of Write and Edit, too")
	return cmd
}

// moment is the end of a turn; without a turn, that of a run.
type moment struct{ run, turn int }

func parseMoment(text string) (moment, error) {
	run, turn, inside := strings.Cut(text, ".")
	var m moment
	var bad, worse error
	m.run, bad = strconv.Atoi(run)
	if inside {
		m.turn, worse = strconv.Atoi(turn)
	}
	if bad != nil || worse != nil || m.run < 1 || m.turn < 0 || inside && m.turn == 0 {
		return m, fmt.Errorf("%q is no turn: a run, such as 3, or a turn in it, such as 3.2, is needed", text)
	}
	return m, nil
}

// before reports whether m had passed when e happened.
func (m moment) before(e session.Event) bool {
	return e.Run > m.run || e.Run == m.run && m.turn > 0 && e.Turn > m.turn
}

func (m moment) String() string {
	if m.turn == 0 {
		return fmt.Sprintf("run %d", m.run)
	}
	return fmt.Sprintf("turn %d of run %d", m.turn, m.run)
}

// rewind shows what is lost by going back to at, and with yes does so.
func rewind(w *world, p *past, at moment, yes, files bool) error {
	cut := len(p.events)
	for i, e := range p.events {
		if at.before(e) {
			cut = i
			break
		}
	}
	if cut == len(p.events) {
		return fail(exitInput, "daruma session show "+p.id+" shows its runs", "nothing happened after %s of this session", at)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Back to the end of %s. The copy does not know of:\n", at)
	b.WriteString(loses(p.events[cut:]))
	kept := session.FilesOf(p.path)
	var changes []session.Change
	if files {
		changes = kept.Changes(p.events[cut:])
		b.WriteString(filesBack(changes))
	}
	if !yes {
		if _, err := fmt.Fprint(w.discreet(), b.String()); err != nil {
			return written(err)
		}
		return fail(exitFailed, "say it again with --yes", "nothing was copied")
	}
	store, err := w.sessions()
	if err != nil {
		return err
	}
	id := newID()
	f := session.Fork{ID: id, Start: new(setup).forkStart(p.id, w.Dir), Until: at.before}
	if session.Fold(p.events[:cut]).Running { // the run was cut off by a person, not by a crash
		f.Add = []session.Body{&session.End{Reason: loop.AbortedTools, IsError: true}}
	}
	if p.inUse && files {
		return fail(exitInput, "end it first, or leave --files out", "a process works on this session, and may be changing the files")
	}
	j, h, err := store.Fork(p.path, f)
	if err != nil {
		return fail(exitConfig, "free some space, or make the folder of the sessions writable", "the copy cannot be kept: %v", err)
	}
	runs := h.Runs
	bodies, err := kept.Restore(changes, session.FilesOf(j.Path()))
	if err != nil {
		return errors.Join(fail(exitFailed, "say it without --files, or mend that", "no file was changed: %v", err), j.Close(), session.Remove(j.Path()))
	}
	for i, body := range bodies { // in a run of their own, so that they can be taken back too
		err = errors.Join(err, j.Append(session.Event{Version: session.Version, Seq: h.Seq + 1 + uint64(i), Time: time.Now().UTC(), Session: id, Run: runs + 1, Body: body}))
	}
	if err := errors.Join(err, j.Close()); err != nil {
		return fail(exitConfig, "free some space, or make the folder of the sessions writable", "the copy cannot be kept: %v", err)
	}
	fmt.Fprintf(&b, "The copy: %s\nGo on with it: %s\n", id, resumeCommand(id))
	_, err = fmt.Fprint(w.discreet(), b.String())
	return written(err)
}

// filesBack says what becomes of the files.
func filesBack(changes []session.Change) string {
	if len(changes) == 0 {
		return "No file was changed by Write or Edit since.\n"
	}
	var b strings.Builder
	b.WriteString("Files:\n")
	for _, c := range changes {
		what := "goes back to what it held"
		switch {
		case c.Trouble != "":
			what = "cannot be taken back: " + c.Trouble
		case c.Done():
			what = "holds that already"
		case c.Before == session.Absent:
			what = "is deleted: it was not there"
		}
		if c.Trouble == "" && c.Foreign() {
			what += ", although somebody else changed it since"
		}
		fmt.Fprintf(&b, "  %s %s\n", c.Path, what)
	}
	return b.String()
}

// loses lists what was said and done in events, a line each.
func loses(events []session.Event) string {
	var b strings.Builder
	line := func(who, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(&b, "  %-4s %s\n", who, clip(text, 100))
		}
	}
	for _, e := range events {
		var m *message.Message
		switch body := e.Body.(type) {
		case *session.Message:
			if m = body.Message; m != nil && m.Role == message.User && !m.Synthetic {
				line("you", m.PlainText())
			}
			continue
		case *session.Commit:
			m = body.Message
		case *session.Continue:
			m = body.Message
		}
		if m == nil {
			continue
		}
		line("it", m.PlainText())
		for _, c := range m.Calls() {
			line("did", c.Name+" "+brief(c.Input))
		}
	}
	return b.String()
}
