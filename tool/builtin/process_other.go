//go:build !unix

package builtin

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

const nonBlocking = 0

// launch refuses: without process groups nothing could be promised about the end.
func (c *command) launch(time.Time) (job, error) {
	return nil, errors.New("commands need a Unix system, such as WSL")
}

// EndLeft finds nothing: no command can have been started.
func EndLeft(int, time.Time, time.Duration) (found int, stuck []int) { return 0, nil }

// EndMarked finds nothing for the same reason.
func EndMarked(string, time.Duration) (found int, stuck []int) { return 0, nil }

func keepOwner(*os.File, fs.FileInfo) {}
