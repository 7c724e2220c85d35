package session

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Fork says what a copy of a session is to be.
type Fork struct {
	ID    string // of the new session
	Start *Start // its first event, which names the parent; nil: none is added

	// Keep says whether an event is copied; nil copies all. Until ends the copy
	// before the first event for which it is true; nil goes to the end.
	Keep, Until func(Event) bool
	// Add are events of the new session behind what was copied.
	Add []Body
}

// Fork makes a new session of the project that begins with what the journal at
// path holds, and opens it. The parent is only read: another process may work
// on it, and what that one has not finished writing is not copied. The new
// session appears whole or not at all.
func (s Store) Fork(path string, f Fork) (*Journal, *History, error) {
	if err := s.free(f.ID); err != nil {
		return nil, nil, err
	}
	parent, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("fork session: %w", err)
	}
	defer parent.Close()
	s.sweep(time.Now())
	unsure := InUse(path) || !Abandoned(path) // whoever works on it may be doing the calls
	j, err := openJournal(s.path(f.ID)+unfinished, s.Disk)
	if err != nil {
		return nil, nil, fmt.Errorf("fork session: %w", err)
	}
	h, err := f.copy(parent, j)
	if err == nil && f.Start != nil { // an import brings no files along
		err = FilesOf(path).share(FilesOf(s.path(f.ID)))
	}
	if err == nil {
		err = j.rename(s.path(f.ID))
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("fork session: %w", err), j.Close())
		os.Remove(j.path)
		return nil, nil, errors.Join(err, FilesOf(s.path(f.ID)).Remove())
	}
	h.Unsure = h.Running && unsure
	return j, h, nil
}

// copy writes the events of the new session to j.
func (f Fork) copy(parent *os.File, j *Journal) (*History, error) {
	if err := j.file.Truncate(0); err != nil { // a process may have died while it copied
		return nil, err
	}
	j.torn, j.size = false, 0
	out := bufio.NewWriterSize(j.file, 1<<18)
	h := &History{}
	add := func(e Event) error {
		e.Seq, e.Session = h.Seq+1, f.ID
		line, err := Encode(e)
		if err == nil {
			_, err = out.Write(line)
			j.size += int64(len(line))
		}
		h.Apply(e)
		return err
	}
	if f.Start != nil {
		if err := add(Event{Version: Version, Time: time.Now().UTC(), Body: f.Start}); err != nil {
			return nil, err
		}
	}
	for e, err := range Read(parent) {
		switch {
		case errors.Is(err, ErrDamaged):
			continue
		case err != nil:
			return nil, err
		case f.Until != nil && f.Until(e):
			return h, errors.Join(f.end(add), out.Flush(), j.Sync())
		case !e.Type().Durable() || f.Keep != nil && !f.Keep(e):
			continue
		}
		if err := add(foreign(e)); err != nil {
			return nil, err
		}
	}
	return h, errors.Join(f.end(add), out.Flush(), j.Sync())
}

func (f Fork) end(add func(Event) error) error {
	for _, body := range f.Add {
		if err := add(Event{Version: Version, Time: time.Now().UTC(), Body: body}); err != nil {
			return err
		}
	}
	return nil
}

// foreign takes the processes out of a copied event: they are the parent's, and
// may be alive. Whoever goes on with the copy must not end them.
func foreign(e Event) Event {
	switch b := e.Body.(type) {
	case *Start:
		own := *b
		own.PID, own.Host, own.Life = 0, "", ""
		e.Body = &own
	case *Intent:
		own := *b
		own.Group, own.Started = 0, time.Time{}
		e.Body = &own
	}
	return e
}

// rename gives the file of j its name; the lock goes with the file.
func (j *Journal) rename(path string) error {
	os.Remove(beside(j.path, signature))
	if err := os.Rename(j.path, path); err != nil {
		return err
	}
	j.path, j.ways = path, []string{filepath.Dir(path)}
	j.sign()
	return nil
}
