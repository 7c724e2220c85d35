package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func sessionName(w *world) *cobra.Command {
	return &cobra.Command{
		Use:   "name ID NAME",
		Short: `name a session, so that --resume finds it; "" takes the name away`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || strings.ContainsFunc(args[1], func(r rune) bool { return r < ' ' }) {
				return errors.New("two arguments are needed, the ID of a session and its name, which is one line")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			store, path, err := w.find(args[0])
			if err != nil {
				return err
			}
			j, h, _, err := store.Open(idOf(path))
			if errors.Is(err, session.ErrLocked) {
				return fail(exitInput, "name it when that one has ended", "%v", err)
			}
			if err != nil {
				return fail(exitConfig, "make the file writable", "the session cannot be opened: %v", err)
			}
			e := session.Event{
				Version: session.Version, Seq: h.Seq + 1, Time: time.Now().UTC(), Session: h.Session, Body: &session.Name{Name: strings.TrimSpace(args[1])},
			}
			if err := errors.Join(j.Append(e), j.Close()); err != nil {
				return fail(exitConfig, "free some space, or make the file writable", "the name cannot be kept: %v", err)
			}
			return nil
		},
		ValidArgsFunction: completeSessions(w),
	}
}

// find returns the store and the file of a session.
func (w *world) find(text string) (session.Store, string, error) {
	store, err := w.sessions()
	if err != nil {
		return store, "", err
	}
	path, err := store.Find(text)
	if err != nil {
		return store, "", fail(exitInput, hintList, "%v", err)
	}
	return store, path, nil
}

func sessionSearch(w *world) *cobra.Command {
	return &cobra.Command{
		Use:   "search TEXT",
		Short: "where a text was said in the sessions of this folder; upper and lower case are one",
		Args:  oneArg("the text to look for"),
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := w.sessions()
			if err != nil {
				return err
			}
			list, err := store.List()
			if err != nil {
				return fail(exitInput, "make the folder readable", "%v", err)
			}
			found := 0
			for _, s := range list {
				if p, err := readPast(s.Path); err == nil {
					n, err := p.search(w.discreet(), args[0])
					if found += n; err != nil {
						return shown(err)
					}
				}
			}
			if found == 0 {
				return fail(exitFailed, hintList, "nobody said %q in the sessions of this folder", args[0])
			}
			return nil
		},
	}
}

// search prints a line for each message in which text was said.
func (p *past) search(out io.Writer, text string) (found int, err error) {
	for _, e := range p.events {
		said, who := "", "you"
		switch b := e.Body.(type) {
		case *session.Message:
			if b.Message != nil && !b.Message.Synthetic && b.Message.Failure == nil {
				said = b.Message.PlainText()
			}
		case *session.Commit:
			if who = "it"; b.Message != nil {
				said = b.Message.PlainText()
			}
		case *session.Continue:
			if who = "it"; b.Message != nil {
				said = b.Message.PlainText()
			}
		}
		for line := range strings.Lines(said) {
			if strings.Contains(strings.ToLower(line), strings.ToLower(text)) {
				found++
				if _, err := fmt.Fprintf(out, "%s  %s  run %d  %-3s  %s\n", p.id, clock(e.Time), e.Run, who, clip(strings.TrimSpace(line), 100)); err != nil {
					return found, err
				}
				break // once a message is enough
			}
		}
	}
	return found, nil
}

func sessionRemove(w *world) *cobra.Command {
	var yes, all bool
	var older string
	cmd := &cobra.Command{
		Use:     "rm [ID]…",
		Short:   "delete sessions; without --yes it shows which ones, and asks on a terminal",
		Example: "  daruma session rm 3f2a71 --yes\n  daruma session rm --older-than 30d --yes",
		RunE: func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) == (older == "") {
				return errors.New("name the sessions, or an age with --older-than")
			}
			if all && older == "" {
				return errors.New("--all-folders needs --older-than")
			}
			paths, err := w.doomed(args, older, all)
			if err != nil {
				return err
			}
			return remove(w, paths, yes)
		},
		ValidArgsFunction: completeSessions(w),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete them")
	cmd.Flags().BoolVar(&all, "all-folders", false, "with --older-than: the sessions of all folders")
	cmd.Flags().StringVar(&older, "older-than", "", "all sessions of this folder that nobody used for so long, such as 30d or 12h")
	return cmd
}

// doomed are the files of the sessions that are to go.
func (w *world) doomed(ids []string, older string, all bool) ([]string, error) {
	var paths []string
	for _, id := range ids {
		_, path, err := w.find(id)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	if older == "" {
		return paths, nil
	}
	age, err := parseAge(older)
	if err != nil {
		return nil, usage(fmt.Errorf("--older-than %w", err))
	}
	store, err := w.sessions()
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if all {
		list, err = store.Old(age, time.Now()), nil
	}
	if err != nil {
		return nil, fail(exitInput, "make the folder readable", "%v", err)
	}
	for _, s := range list {
		if time.Since(s.Modified) > age {
			paths = append(paths, s.Path)
		}
	}
	return paths, nil
}

func remove(w *world, paths []string, yes bool) error {
	kept := 0
	for _, path := range paths {
		word, err := "would delete", error(nil)
		if session.InUse(path) {
			err = session.ErrLocked
		} else if yes {
			word, err = "deleted", session.Remove(path)
		}
		if err != nil {
			kept++
			word = fmt.Sprintf("kept (%v)", err)
		}
		if _, err := fmt.Fprintf(w.discreet(), "%s %s\n", word, idOf(path)); err != nil {
			return written(err)
		}
	}
	if sure := !yes && kept < len(paths) && w.agrees(fmt.Sprintf("Delete %s?", count(len(paths)-kept, "session"))); sure {
		return remove(w, paths, true)
	}
	switch {
	case kept > 0:
		return fail(exitFailed, "end what works on them, or make them writable, and say it again", "%s cannot be deleted", count(kept, "session"))
	case len(paths) == 0 || yes:
		return nil
	}
	return fail(exitFailed, "say it again with --yes", "nothing was deleted")
}

// agrees asks the person at the terminal; nobody there means no.
func (w *world) agrees(question string) bool {
	if !w.Terminal {
		return false
	}
	fmt.Fprint(w.Stderr, question+" y/N ")
	answer := strings.ToLower(strings.TrimSpace(readLine(w.Stdin)))
	return answer == "y" || answer == "yes"
}

func sessionExport(w *world) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "write the journal of a session, without the secrets that the environment knows, for import elsewhere",
		Args:  oneArg("the ID of a session"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := w.past(args[0])
			if err != nil {
				return err
			}
			w.tellUse(p.path)
			text, err := exported(p, failure.NewRedactor(w.secrets()...).Known)
			if err != nil {
				return fail(exitFailed, "daruma session check "+p.id, "the session cannot be written: %v", err)
			}
			if out == "" {
				_, err := w.Stdout.Write(text)
				return written(err)
			}
			if !filepath.IsAbs(out) {
				out = filepath.Join(w.Dir, out)
			}
			f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				_, err = f.Write(text)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				return fail(exitConfig, "name another place with --out", "the file cannot be written: %v", err)
			}
			return nil
		},
		ValidArgsFunction: completeSessions(w),
	}
	cmd.Flags().StringVar(&out, "out", "", "a file that is not there yet (default stdout)")
	return cmd
}

// exported are the lines of a journal after known took the secrets out.
func exported(p *past, known func(string) string) ([]byte, error) {
	var out bytes.Buffer
	for _, e := range p.events {
		plain, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if clean := known(string(plain)); clean != string(plain) {
			if err := json.Unmarshal([]byte(clean), &e); err != nil {
				return nil, err
			}
		}
		line, err := session.Encode(e)
		if err != nil {
			return nil, err
		}
		out.Write(line)
	}
	return out.Bytes(), nil
}

// withoutFiles leaves out what files held before: it did not come along, and no
// file of this machine may be taken back to it.
func withoutFiles(e session.Event) bool { return e.Type() != session.TypeFileSaved }

func sessionImport(w *world) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "take an exported session into this folder; if its ID is in use here, it gets a new one",
		Args:  oneArg("the file of a session"),
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := w.sessions()
			if err != nil {
				return err
			}
			path := args[0]
			if !filepath.IsAbs(path) {
				path = filepath.Join(w.Dir, path)
			}
			p, err := readPast(path)
			if err != nil {
				return err
			}
			if len(p.events) == 0 || p.history.Start == nil {
				return fail(exitInput, "daruma session check "+path, "%s holds no session of daruma", path)
			}
			id := p.history.Session
			if !uuid().MatchString(id) { // it becomes the name of a file
				id = newID()
			}
			j, _, err := store.Fork(path, session.Fork{ID: id, Keep: withoutFiles})
			if errors.Is(err, session.ErrExists) {
				id = newID()
				j, _, err = store.Fork(path, session.Fork{ID: id, Keep: withoutFiles})
			}
			if err != nil {
				return fail(exitConfig, "make the folder of the sessions writable", "the session cannot be kept: %v", err)
			}
			if err := j.Close(); err != nil {
				return fail(exitConfig, "free some space", "the session cannot be kept: %v", err)
			}
			if p.damaged > 0 {
				fmt.Fprintf(w.Stderr, "note: %s of the file cannot be read and did not come along\n", count(p.damaged, "line"))
			}
			_, err = fmt.Fprintf(w.Stdout, "%s\n", id)
			return written(err)
		},
	}
}
