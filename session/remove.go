package session

import (
	"errors"
	"fmt"
	"os"
)

// Remove deletes the session at path. One that a process works on stays, and
// the error is [ErrLocked].
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
	err = errors.Join(FilesOf(path).Remove(), os.Remove(path), j.file.Close()) // there is nothing to sync
	os.Remove(beside(path, signature))
	return err
}
