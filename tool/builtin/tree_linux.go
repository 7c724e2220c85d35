package builtin

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/daruma-agent/daruma/sandbox/keeper"
)

// tree finds the processes of a command: those of its session or group, those
// that carry its mark in their environment, and the children of all of these.
// The mark is what finds daemons that left the session and lost their parents.
type tree struct {
	pgid  int
	token string
	// strict is for numbers that are old: the system may have given them to
	// others, so the session counts only if something in it carries the mark.
	strict bool
	spared map[int]bool   // processes that are none of it, whatever they carry
	known  map[int]string // start times of those found before, by number
}

// alive lists the processes of the tree that are there now.
func (t *tree) alive() []int {
	if t.known == nil {
		t.known = map[int]string{}
	}
	all := keeper.Processes(0)
	marks := make([]bool, len(all))
	session := !t.strict
	for i, p := range all {
		marks[i] = t.marks(p.ID)
		session = session || marks[i] && t.near(p)
	}
	var pids []int
	in := map[int]bool{}
	for grew := true; grew; { // until no child is missed, in whatever order they come
		grew = false
		for i, p := range all {
			if in[p.ID] || t.spared[p.ID] || !marks[i] && !in[p.Parent] && t.known[p.ID] != p.Start && !(session && t.near(p)) {
				continue
			}
			in[p.ID], t.known[p.ID], grew = true, p.Start, true
			pids = append(pids, p.ID)
		}
	}
	return pids
}

// above are the processes that this one descends from, and itself.
func above() map[int]bool {
	out := map[int]bool{}
	for pid := os.Getpid(); pid > 1 && !out[pid]; {
		out[pid] = true
		p, _ := keeper.LookUp(pid)
		pid = p.Parent
	}
	return out
}

// near reports whether p is in the session or group of the command.
func (t *tree) near(p keeper.Process) bool { return p.Session == t.pgid || p.Group == t.pgid }

func (t *tree) marks(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(env, []byte(t.token))
}

// signal reaches the group at once, so that nothing in it slips away by a fork,
// and those outside of it one by one.
func (t *tree) signal(pids []int, sig syscall.Signal) {
	group := false
	for _, pid := range pids {
		if p, ok := keeper.LookUp(pid); ok && p.Group == t.pgid {
			group = true
			continue
		}
		_ = syscall.Kill(pid, sig)
	}
	if group {
		_ = syscall.Kill(-t.pgid, sig)
	}
}
