//go:build unix && !linux

package builtin

import (
	"errors"
	"os"
	"time"
)

func (c *command) watched(time.Time, *os.File, *os.File) (job, error) {
	return nil, errors.New("only Linux has a helper for commands")
}
