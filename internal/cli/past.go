package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/session"
)

// past is a session as its journal tells it, read without taking it: it may be
// at work.
type past struct {
	id, path string
	events   []session.Event
	history  *session.History
	damaged  int
	inUse    bool
}

const hintList = "daruma session list shows the sessions of this folder"

// sessions is where this world keeps its sessions.
func (w *world) sessions() (session.Store, error) {
	store := w.store()
	switch {
	case w.DirErr != nil:
		return store, fail(exitInput, "change to a folder that exists", "the working directory cannot be found: %v", w.DirErr)
	case w.stateDir() == "":
		return store, fail(exitConfig, "set HOME or XDG_STATE_HOME", "there is no place for sessions: HOME is not set")
	}
	return store, nil
}

// discreet is stdout for what a journal holds: without the secrets that this
// environment knows.
func (w *world) discreet() discreet {
	return discreet{w.Stdout, failure.NewRedactor(w.secrets()...).Known}
}

// past reads the session of this ID, or the last one of the folder.
func (w *world) past(id string) (*past, error) {
	store, err := w.sessions()
	if err != nil {
		return nil, err
	}
	if id == "" {
		if id, err = store.Latest(); errors.Is(err, session.ErrNotFound) {
			return nil, fail(exitInput, `begin one: daruma -p "…"`, "there is no session of this folder yet")
		}
	}
	var path string
	if err == nil {
		path, err = store.Find(id)
	}
	if err != nil {
		return nil, fail(exitInput, hintList, "%v", err)
	}
	return readPast(path)
}

func readPast(path string) (*past, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fail(exitInput, hintList, "the session cannot be read: %v", err)
	}
	defer f.Close()
	p := &past{path: path, history: &session.History{}, inUse: session.InUse(path)}
	last := false // the last line is damaged
	for e, err := range session.Read(f) {
		last = errors.Is(err, session.ErrDamaged)
		switch {
		case last:
			p.damaged++
		case err != nil:
			return nil, fail(exitInput, "daruma session check "+path, "the session cannot be read: %v", err)
		default:
			p.events = append(p.events, e)
			p.history.Apply(e)
		}
	}
	if p.inUse && last {
		p.damaged-- // it is being written
	}
	if p.id = p.history.Session; p.id == "" {
		p.id = idOf(path)
	}
	return p, nil
}

// usedBy says who works on the session.
func (p *past) usedBy() string { return usedBy(p.path) }

func usedBy(path string) string {
	if owner := session.Owner(path); owner != "" {
		return "in use by " + owner
	}
	return "in use by another process"
}

// tellUse says on stderr that a session is in use whose content goes to stdout.
func (w *world) tellUse(path string) {
	if session.InUse(path) {
		fmt.Fprintf(w.Stderr, "note: the session is %s; what it does meanwhile is not in this\n", usedBy(path))
	}
}

func idOf(path string) string {
	base := filepath.Base(path)
	return base[:len(base)-len(filepath.Ext(base))]
}

// lastRun is the events of the run that began last; nil without one.
func (p *past) lastRun() []session.Event {
	for i := len(p.events) - 1; i >= 0; i-- {
		if _, ok := p.events[i].Body.(*session.RunStart); ok {
			return p.events[i:]
		}
	}
	return nil
}

// state says in one word how the session stands.
func state(h *session.History, inUse bool) string {
	switch {
	case inUse && h.Running:
		return "running"
	case inUse:
		return "open"
	case h.Running:
		return "crashed"
	case h.End == nil:
		return "empty"
	}
	return string(h.End.Reason)
}

// clock is a time of day, with the date where it is another day than today.
func clock(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04:05")
}

// usd is an amount for people.
func usd(amount float64) string {
	if amount > 0 && amount < 0.01 {
		return fmt.Sprintf("$%.4f", amount)
	}
	return fmt.Sprintf("$%.2f", amount)
}
