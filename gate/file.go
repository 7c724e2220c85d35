//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package gate

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

const supported = true

// file is a store on disk. The lock is on the file itself and held for the
// time of one read and one write. A writer that dies in between leaves
// something that cannot be read, which is as good as nothing.
type file string

// tooLarge is a file that no gate wrote.
const tooLarge = 64 << 10

func (name file) update(change func([]byte) []byte) error {
	f, err := os.OpenFile(string(name), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Most limits are never met: then there is no file, and none is made.
		if change(nil) == nil {
			return nil
		}
		f, err = os.OpenFile(string(name), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks it too
	if err := lock(f); err != nil {
		return err
	}
	old, err := io.ReadAll(io.LimitReader(f, tooLarge))
	if err != nil {
		return err
	}
	raw := change(old)
	if raw == nil {
		return nil
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(raw, 0)
	return err
}

// Patience with a lock. It is held for microseconds, so whoever holds it for
// longer was stopped, and nobody waits for that. A busy machine with many
// waiters looks alike for a while; looking less often is what helps it.
const (
	lockPatience = 2 * time.Second
	lockPause    = time.Millisecond // at first
	lockPauseMax = 64 * time.Millisecond
)

func lock(f *os.File) error {
	end := time.Now().Add(lockPatience)
	for pause := lockPause; ; pause = min(2*pause, lockPauseMax) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if !time.Now().Before(end) {
			return err
		}
		time.Sleep(pause + rand.N(pause)) // not in step with the others
	}
}
