package cli

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/session"
	"github.com/spf13/pflag"
)

// wanted says in which session a run is to work, beside --continue and --resume.
type wanted struct {
	id   string
	name string
	fork bool
	wait time.Duration // for a session that another process holds

	keep    string // how long sessions are kept that nobody uses; empty: for ever
	failing string // what to do when the session can no longer be saved
}

// The values of --on-journal-failure.
const (
	failingContinue = "continue"
	failingStop     = "stop"
)

// someTime is how long --wait-for-session waits if it does not say.
const someTime = "10m"

func (o *wanted) register(f *pflag.FlagSet) {
	f.StringVar(&o.id, "session-id", "", "give the new session this ID, a UUID that is not in use")
	f.BoolVar(&o.fork, "fork-session", false, "with --continue or --resume: go on in a copy of the session")
	f.StringVarP(&o.name, "name", "n", "", "name the session; --resume finds it by its name")
	f.DurationVar(&o.wait, "wait-for-session", 0, "wait until no other process works on the session, at most so long (alone: "+someTime+")")
	f.Lookup("wait-for-session").NoOptDefVal = someTime
	f.StringVar(&o.keep, "keep-sessions", "", "delete sessions, of all folders, that nobody used for so long, such as 30d (default $"+keepVariable+", else none)")
	f.StringVar(&o.failing, "on-journal-failure", failingContinue, "when the session can no longer be saved, as on a full disk: continue unsaved, or stop")
}

var uuid = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`) })

func (o *wanted) check(all *options) error {
	o.id, o.name = strings.ToLower(o.id), strings.TrimSpace(o.name)
	old := all.goOn || all.resume != ""
	switch {
	case o.id != "" && !uuid().MatchString(o.id):
		return fmt.Errorf("--session-id %q: a UUID is needed, such as %s", o.id, newID())
	case o.id != "" && old && !o.fork:
		return errors.New("--session-id is for a new session: with --continue and --resume it needs --fork-session")
	case o.fork && !old:
		return errors.New("--fork-session needs --continue or --resume")
	case o.fork && all.noJournal, o.name != "" && all.noJournal, o.wait != 0 && all.noJournal:
		return errors.New("--fork-session, --name and --wait-for-session need a session on disk: not with --no-session-persistence")
	case o.failing != "" && o.failing != failingContinue && o.failing != failingStop:
		return fmt.Errorf("--on-journal-failure %q: continue or stop is needed", o.failing)
	case o.wait < 0:
		return fmt.Errorf("--wait-for-session %s: a positive time is needed", o.wait)
	case strings.ContainsFunc(o.name, func(r rune) bool { return r < ' ' }):
		return fmt.Errorf("--name %q: a name is one line", o.name)
	}
	return nil
}

// store is where the sessions of this folder are.
func (w *world) store() session.Store {
	return session.Store{Dir: filepath.Join(w.stateDir(), "sessions"), Project: w.Dir}
}

// journal opens the session in which the run works.
func (s *setup) journal(w *world, o *options) error {
	s.config.Name, s.config.StopUnsaved = o.wanted.name, o.wanted.failing == failingStop
	if o.noJournal {
		s.config.Session = cmp.Or(o.wanted.id, newID())
		s.session = s.config.Session
		return nil
	}
	store := w.store()
	keep, err := keepFor(w, o)
	if err != nil {
		return err
	}
	path := ""
	switch {
	case o.goOn:
		path, err = store.Latest()
	case o.resume != "":
		path = o.resume
	}
	if err == nil && path != "" {
		path, err = store.Find(path)
	}
	switch {
	case err != nil:
	case path == "":
		s.config.Session = cmp.Or(o.wanted.id, newID())
		s.config.Journal, err = store.Create(s.config.Session)
	case o.wanted.fork:
		err = s.fork(store, path, o)
	default:
		s.wanted = path
		err = s.reopen(w, store, idOf(path), o.wanted.wait)
	}
	if errors.Is(err, session.ErrLocked) && !o.print && w.Terminal {
		err = s.choose(w, store, path, o, err)
	}
	if err != nil {
		return s.unopened(w, err)
	}
	s.forget(store, keep)
	s.path = s.config.Journal.Path()
	files := session.FilesOf(s.path)
	s.config.Files = &files
	s.session = idOf(s.path)
	if s.config.History != nil && s.config.History.Session != "" {
		s.session = s.config.History.Session
	}
	return nil
}

// halted is the end of a command whose run stopped because its session could no
// longer be saved; nil for any other run.
func (s *setup) halted(r *daruma.Result) *exitError {
	if !s.config.StopUnsaved || s.config.Journal == nil || !s.config.Journal.Behind() || exitCode(r.Reason, r.Failure) != exitInterrupted {
		return nil
	}
	return fail(exitConfig, s.goOn("free some space or make the folder writable"), "the session could no longer be saved, so the run was stopped")
}

// unopened says what to do about a session that cannot be had.
func (s *setup) unopened(w *world, err error) error {
	if chosen, ok := errors.AsType[*exitError](err); ok {
		return chosen
	}
	switch {
	case errors.Is(err, session.ErrNotFound):
		return fail(exitInput, "daruma session list shows the sessions of this folder; without --continue and --resume a new one begins", "%v", err)
	case errors.Is(err, session.ErrAmbiguous):
		return fail(exitInput, hintList, "%v", err)
	case errors.Is(err, session.ErrLocked):
		return fail(exitInput, lockedHint(s.wanted), "%v", err)
	case errors.Is(err, session.ErrExists):
		return fail(exitInput, "go on with it with --resume, or choose another --session-id", "%v", err)
	}
	return s.unwritable(w, err)
}

// lockedHint names the three ways to a session that another process holds.
func lockedHint(path string) string {
	return "wait for it with --wait-for-session, go on in a copy with --fork-session, or only read it: daruma session show " + idOf(path)
}

// choose lets the person say what to do about a session that another process
// holds.
func (s *setup) choose(w *world, store session.Store, path string, o *options, locked error) error {
	fmt.Fprintf(w.Stderr, "%v\n  w wait until it is free · f go on in a copy · r read it · n leave\n> ", locked)
	switch strings.ToLower(strings.TrimSpace(readLine(w.Stdin))) {
	case "w", "wait":
		return s.reopen(w, store, idOf(path), longTime)
	case "f", "fork":
		return s.fork(store, path, o)
	case "r", "read":
		p, err := readPast(path)
		if err != nil {
			return err
		}
		if err := p.transcript(w.discreet(), w.colour(w.Terminal)); err != nil {
			return written(err)
		}
		return &exitError{code: exitOK}
	}
	return locked
}

// longTime is how long a person may wait who said so: Ctrl+C ends it.
const longTime = 24 * time.Hour

// readLine reads one line, and nothing behind it.
func readLine(in io.Reader) string {
	var line []byte
	for b := make([]byte, 1); len(line) < 100; {
		if n, err := in.Read(b); n == 0 || err != nil || b[0] == '\n' {
			break
		}
		line = append(line, b[0])
	}
	return string(line)
}

// reopen takes the session for this process. It waits for another one only if
// that was asked for.
func (s *setup) reopen(w *world, store session.Store, id string, wait time.Duration) error {
	told, until := false, time.Now().Add(wait)
	for {
		j, h, damaged, err := store.Open(id)
		if errors.Is(err, session.ErrLocked) && time.Now().Before(until) {
			if !told {
				fmt.Fprintf(w.Stderr, "waiting up to %s: %v\n", wait, err)
				told = true
			}
			time.Sleep(min(200*time.Millisecond, time.Until(until)))
			continue
		}
		if err != nil {
			return err
		}
		s.config.Journal, s.config.History = j, h
		if damaged > 0 {
			s.notes = append(s.notes, count(damaged, "damaged line")+" of the session skipped")
		}
		s.endEarlierLife(h, !j.Abandoned())
		return nil
	}
}

// fork goes on in a copy. What still runs for the parent is left alone: it is
// the parent's. What a dead one left behind is nobody's, and would disturb both.
func (s *setup) fork(store session.Store, path string, o *options) (err error) {
	if parent, err := store.Load(idOf(path)); err == nil && !session.InUse(path) {
		s.endEarlierLife(parent, !session.Abandoned(path))
	}
	s.config.Journal, s.config.History, err = store.Fork(path, session.Fork{
		ID: cmp.Or(o.wanted.id, newID()), Start: s.forkStart(idOf(path), store.Project),
	})
	if err == nil {
		s.notes = append(s.notes, fmt.Sprintf("this is a copy of the session %s, which stays as it is", idOf(path)))
	}
	return err
}

// forkStart is the first event of a copy.
func (s *setup) forkStart(parent, dir string) *session.Start {
	host, _ := os.Hostname()
	start := &session.Start{Build: Version(), Dir: dir, Parent: parent, Resumed: true, PID: os.Getpid(), Host: host}
	if len(s.config.Models) > 0 {
		start.Model = s.config.Models[0]
	}
	return start
}

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // a random UUID
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
