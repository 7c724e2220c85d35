package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Remove deletes the session at path, and those of its sub-agents. One that a
// process works on stays, and the error is [ErrLocked].
func Remove(path string) error {
	if _, err := os.Stat(path); err != nil { // opening would make it
		return fmt.Errorf("remove session: %w", err)
	}
	j, err := openJournal(path, nil)
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w%s", ErrLocked, owner(path))
	}
	if err != nil {
		return fmt.Errorf("remove session: %w", err)
	}
	if err = os.Remove(path); err == nil { // else it is still whole
		err = FilesOf(path).Remove()
		for _, child := range journals(filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), ".jsonl")+childMark) {
			if exists(child) { // one of a sub-agent's own may be gone with it
				err = errors.Join(err, Remove(child))
			}
		}
	}
	os.Remove(beside(path, signature))
	return errors.Join(err, j.file.Close()) // there is nothing to sync
}
