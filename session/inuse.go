package session

import (
	"errors"
	"os"
)

// InUse reports whether a process works on the session at path. It looks and
// leaves at once; on systems without locks it never knows.
func InUse(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(lockFile(f), ErrLocked)
}
