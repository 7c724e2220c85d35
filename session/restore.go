package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Change is what taking one file back means.
type Change struct {
	Path   string
	Before string // hash of what it is to hold again, or [Absent]
	Left   string // hash of what the session left in it
	Now    string // hash of what it holds, or [Absent]
	// Trouble says why the file cannot be taken back; empty if it can.
	Trouble string
}

// Done reports whether the file holds already what it is to hold.
func (c Change) Done() bool { return c.Now == c.Before }

// Foreign reports whether somebody else changed the file since.
func (c Change) Foreign() bool { return c.Now != c.Left && !c.Done() }

// Changes says what taking back the changes in events means: each file goes
// back to what it held before the first of them.
func (f Files) Changes(events []Event) []Change {
	var out []Change
	at := map[string]int{}
	for _, e := range events {
		b, ok := e.Body.(*FileSaved)
		if !ok {
			continue
		}
		if i, ok := at[b.Path]; ok {
			out[i].Left = b.After
			continue
		}
		at[b.Path] = len(out)
		out = append(out, Change{Path: b.Path, Before: b.Before, Left: b.After})
	}
	for i := range out {
		f.examine(&out[i])
	}
	return out
}

func (f Files) examine(c *Change) {
	c.Now = Absent
	info, err := os.Lstat(c.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.Trouble = err.Error()
	case !info.Mode().IsRegular():
		c.Trouble = "it is no regular file any more"
	default:
		content, err := os.ReadFile(c.Path)
		if c.Now = Hash(content); err != nil {
			c.Trouble = err.Error()
		}
	}
	if c.Before != Absent && c.Trouble == "" {
		if _, err := f.Get(c.Before); err != nil {
			c.Trouble = err.Error()
		}
	}
}

// Restore takes the files of changes back, all or none: each new content is
// written beside its file first, and what was replaced is put back if a later
// one fails. What the files hold now is kept in keep, and the events say so.
func (f Files) Restore(changes []Change, keep Files) (saved []Body, err error) {
	var undo []func()
	defer func() {
		for i := len(undo) - 1; i >= 0 && err != nil; i-- {
			undo[i]()
		}
	}()
	var commit []func() error
	var folders []string
	for _, c := range changes {
		if c.Trouble != "" {
			return nil, fmt.Errorf("take back %s: %s", c.Path, c.Trouble)
		}
		if c.Done() {
			continue
		}
		if dir := filepath.Dir(c.Path); !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
		now, mode, err := present(c)
		if err != nil {
			return nil, fmt.Errorf("take back %s: %w", c.Path, err)
		}
		if now != nil {
			if _, err := keep.Keep(now); err != nil {
				return nil, err
			}
		}
		saved = append(saved, &FileSaved{Path: c.Path, Before: c.Now, After: c.Before})
		back := func() {
			if now == nil {
				os.Remove(c.Path)
			} else if part, err := stage(c.Path, now, mode); err == nil {
				os.Rename(part, c.Path)
			}
		}
		if c.Before == Absent {
			commit = append(commit, func() error { undo = append(undo, back); return os.Remove(c.Path) })
			continue
		}
		content, err := f.Get(c.Before)
		if err != nil {
			return nil, err
		}
		part, err := stage(c.Path, content, mode)
		if err != nil {
			return nil, fmt.Errorf("take back %s: %w", c.Path, err)
		}
		undo = append(undo, func() { os.Remove(part) })
		commit = append(commit, func() error { undo = append(undo, back); return os.Rename(part, c.Path) })
	}
	for _, step := range commit {
		if err := step(); err != nil {
			return nil, fmt.Errorf("take back: %w", err)
		}
	}
	if err := syncFolders(folders...); err != nil {
		return nil, fmt.Errorf("take back: %w", err)
	}
	return saved, nil
}

// present is what a file holds, which must be what was examined; nil if it is
// not there.
func present(c Change) ([]byte, fs.FileMode, error) {
	if c.Now == Absent {
		return nil, 0o644, nil
	}
	info, err := os.Stat(c.Path)
	if err != nil {
		return nil, 0, err
	}
	now, err := os.ReadFile(c.Path)
	if err == nil && Hash(now) != c.Now {
		err = errChanged
	}
	if now == nil {
		now = []byte{}
	}
	return now, info.Mode().Perm(), err
}

// stage writes content beside path.
func stage(path string, content []byte, mode fs.FileMode) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".daruma-")
	if err != nil {
		return "", err
	}
	_, err = part.Write(content)
	if err = errors.Join(err, part.Chmod(mode), part.Sync(), part.Close()); err != nil {
		os.Remove(part.Name())
		return "", err
	}
	return part.Name(), nil
}
