//go:build unix && !linux

package hook

import (
	"syscall"
	"time"
)

// tree is the process group of a hook: here nobody can be asked for what has
// left it.
type tree struct {
	pgid  int
	began time.Time
	mark  string
}

func (t *tree) alive() []int {
	if syscall.Kill(-t.pgid, 0) != nil {
		return nil
	}
	return []int{-t.pgid}
}

func (t *tree) signal(sig syscall.Signal) { _ = syscall.Kill(-t.pgid, sig) }
