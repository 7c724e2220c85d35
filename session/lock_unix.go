//go:build unix

package session

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile makes this process the one writer of f. The kernel gives the lock
// back when the process dies, so a dead owner never blocks anyone.
func lockFile(f *os.File) error { return lock(f, syscall.LOCK_EX) }

// lookFile asks whether anybody writes f. Who looks hinders nobody else who does.
func lookFile(f *os.File) error { return lock(f, syscall.LOCK_SH) }

func lock(f *os.File, how int) error {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrLocked
	}
	return fmt.Errorf("lock: %w", err) // a file system without locks, such as some shared ones
}
