package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrLocked says that another process writes the session.
var ErrLocked = errors.New("another process works on this session")

// ErrNotFound says that there is no such session.
var ErrNotFound = errors.New("no such session")

// ErrExists says that there is a session of this ID already.
var ErrExists = errors.New("there is a session of this id already")

// Store is a folder of journals: one folder a project, one file a session.
type Store struct {
	Dir     string // such as ~/.local/state/daruma/sessions
	Project string // absolute path of the working directory
	// Disk, if given, comes between journals and their files: a test lets it fail.
	Disk func(File) File
}

// Summary is what a list of sessions shows.
type Summary struct {
	ID       string
	Path     string
	Modified time.Time
	Size     int64
}

// folder turns the project's path into a file name: readable, not reversible.
func (s Store) folder() string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, s.Project)
	return filepath.Join(s.Dir, name[max(0, len(name)-200):])
}

// Create starts the journal of a new session. No session of any project may
// have this ID already; a file into which nothing was written is none.
func (s Store) Create(id string) (*Journal, error) {
	if err := s.free(id); err != nil {
		return nil, err
	}
	j, err := openJournal(s.path(id), s.Disk)
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("create session %s: %w", id, ErrExists)
	}
	return j, err
}

// path is where the session called id of this project is.
func (s Store) path(id string) string { return filepath.Join(s.folder(), id+".jsonl") }

// free reports whether id can be given to a new session.
func (s Store) free(id string) error {
	if id == "" || strings.ContainsAny(id, "/\\*?[") {
		return fmt.Errorf("create session: %q is no id", id)
	}
	found, _ := filepath.Glob(filepath.Join(s.Dir, "*", id+".jsonl"))
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return fmt.Errorf("create session %s: %w", id, ErrExists)
		}
	}
	return nil
}

// Open opens the session called id, of whatever project, for going on with
// it, and returns what happened so far. Damaged lines are counted and skipped.
func (s Store) Open(id string) (*Journal, *History, int, error) {
	path, err := s.Find(id)
	if err != nil {
		return nil, nil, 0, err
	}
	j, err := openJournal(path, s.Disk)
	if errors.Is(err, ErrLocked) {
		return nil, nil, 0, fmt.Errorf("%w%s", ErrLocked, owner(path))
	}
	if err != nil {
		return nil, nil, 0, err
	}
	h, damaged, err := load(path)
	if err != nil {
		return nil, nil, 0, errors.Join(err, j.Close())
	}
	if h.Session == "" {
		h.Session = strings.TrimSuffix(filepath.Base(path), ".jsonl")
	}
	return j, h, damaged, nil
}

// Load reads the session called id, of whatever project, without taking it for
// writing: another process may work on it.
func (s Store) Load(id string) (*History, error) {
	path, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	h, _, err := load(path)
	return h, err
}

// List returns the sessions of the project, newest first, without those of
// sub-agents.
func (s Store) List() ([]Summary, error) {
	entries, err := os.ReadDir(s.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var out []Summary
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), ".jsonl")
		info, err := entry.Info()
		if !ok || IsChild(id) || err != nil || info.Size() == 0 {
			continue
		}
		out = append(out, Summary{
			ID: id, Path: filepath.Join(s.folder(), entry.Name()),
			Modified: info.ModTime(), Size: info.Size(),
		})
	}
	slices.SortFunc(out, func(a, b Summary) int { return b.Modified.Compare(a.Modified) })
	return out, nil
}

// Old returns the sessions of all projects on which nobody worked for longer
// than age, oldest first, also those into which nothing was written.
func (s Store) Old(age time.Duration, now time.Time) ([]Summary, error) {
	paths, err := filepath.Glob(filepath.Join(s.Dir, "*", "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var out []Summary
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) > age {
			id := strings.TrimSuffix(filepath.Base(path), ".jsonl")
			out = append(out, Summary{ID: id, Path: path, Modified: info.ModTime(), Size: info.Size()})
		}
	}
	slices.SortFunc(out, func(a, b Summary) int { return a.Modified.Compare(b.Modified) })
	return out, nil
}

// Latest returns the ID of the session of the project that was worked on last.
func (s Store) Latest() (string, error) {
	list, err := s.List()
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("find the last session of %s: %w", s.Project, ErrNotFound)
	}
	return list[0].ID, nil
}
