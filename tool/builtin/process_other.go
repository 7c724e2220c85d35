//go:build !unix

package builtin

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

const nonBlocking = 0

// run refuses: without process groups nothing could be promised about the end.
func (c *command) run(context.Context) ending {
	return ending{err: errors.New("commands need a Unix system, such as WSL")}
}

func keepOwner(*os.File, fs.FileInfo) {}
