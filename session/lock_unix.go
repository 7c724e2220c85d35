//go:build unix

package session

import (
	"os"
	"syscall"
)

// lockFile makes this process the one writer of f. The kernel gives the lock
// back when the process dies, so a dead owner never blocks anyone.
func lockFile(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return ErrLocked
	}
	return nil
}
