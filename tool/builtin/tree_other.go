//go:build unix && !linux

package builtin

import "syscall"

// tree is the process group of a command, as one negative number: here nobody
// can be asked for what has left it.
type tree struct {
	pgid   int
	token  string
	strict bool // the number is old: the system may have given it to others
}

func (t *tree) alive() []int {
	if syscall.Kill(-t.pgid, 0) != nil {
		return nil
	}
	return []int{-t.pgid}
}

func (t *tree) signal(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		if !t.strict { // nobody can be asked whose group it is
			_ = syscall.Kill(pid, sig)
		}
	}
}
