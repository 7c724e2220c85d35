//go:build unix

package tool

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errnoName returns the name of the system's error code, such as ENOENT.
func errnoName(err error) string {
	var code unix.Errno
	if errors.As(err, &code) {
		return unix.ErrnoName(code)
	}
	return ""
}
