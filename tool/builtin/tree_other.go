//go:build unix && !linux

package builtin

import "syscall"

// tree is the process group of a command, as one negative number: here nobody
// can be asked for what has left it.
type tree struct {
	pgid   int
	token  string
	spared map[int]bool
	strict bool // the number is old: the system may have given it to others
}

// above has nothing to tell where nobody can be found by a mark.
func above() map[int]bool { return nil }

func (t *tree) alive() []int {
	if t.pgid < 0 || syscall.Kill(-t.pgid, 0) != nil {
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
