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

// ErrAmbiguous says that more than one session is meant.
var ErrAmbiguous = errors.New("give the whole id")

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

// folder turns the project's path into a readable file name. Where the name alone
// could be that of another path, a checksum of the path tells them apart: nobody
// may go on with the session of another project.
func (s Store) folder() string {
	plain := true
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		plain = plain && r == '/'
		return '-'
	}, s.Project)
	if plain && len(name) <= longestName {
		return filepath.Join(s.Dir, name)
	}
	return filepath.Join(s.Dir, name[max(0, len(name)-longestName):]+"-"+Hash([]byte(s.Project))[:10])
}

// longestName is how much of a project's path the name of its folder holds.
const longestName = 200

// projects are the folders of all projects.
func (s Store) projects() (dirs []string) {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		dirs = append(dirs, filepath.Join(s.Dir, e.Name()))
	}
	return dirs
}

// journals lists the journals in dir whose names begin so.
func journals(dir, beginning string) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), beginning) && strings.HasSuffix(e.Name(), ".jsonl") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
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
	if err == nil && j.size > 0 { // somebody was quicker, and is done
		return nil, errors.Join(fmt.Errorf("create session %s: %w", id, ErrExists), j.Close())
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
	for _, dir := range s.projects() {
		if info, err := os.Stat(filepath.Join(dir, id+".jsonl")); err == nil && info.Size() > 0 {
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
	h.Unsure = h.Running && !j.Abandoned()
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
// than age, oldest first, also those into which nothing was written. That of a
// sub-agent stays as long as the one that it belongs to.
func (s Store) Old(age time.Duration, now time.Time) []Summary {
	var out []Summary
	for _, dir := range s.projects() {
		for _, path := range journals(dir, "") {
			id := strings.TrimSuffix(filepath.Base(path), ".jsonl")
			if parent, _, child := strings.Cut(id, childMark); child && exists(filepath.Join(dir, parent+".jsonl")) {
				continue
			}
			if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) > age {
				out = append(out, Summary{ID: id, Path: path, Modified: info.ModTime(), Size: info.Size()})
			}
		}
	}
	slices.SortFunc(out, func(a, b Summary) int { return a.Modified.Compare(b.Modified) })
	return out
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

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
