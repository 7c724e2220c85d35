package hook

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/daruma-agent/daruma/sandbox/keeper"
)

// tree are the processes of a hook: those of its session or group, those that
// carry its mark in their environment, and the children of all of these. The
// mark finds what left the session and lost its parents.
type tree struct {
	pgid  int
	began time.Time
	mark  string
	known map[seen]bool // true: found before, and counts even when it loses what told it; false: carries no mark
}

// seen tells a process from a later one of the same number.
type seen struct {
	pid   int
	start string
}

// alive lists the processes of the tree that are there now.
func (t *tree) alive() []keeper.Process {
	if t.known == nil {
		t.known = map[seen]bool{}
	}
	mine := map[int]bool{}
	rest, found := keeper.Processes(t.oldest()), []keeper.Process(nil)
	for grew := true; grew; { // children may be listed before their parents
		grew = false
		var later []keeper.Process
		for _, p := range rest {
			one := seen{p.ID, p.Start}
			if !t.known[one] && p.Group != t.pgid && p.Session != t.pgid && !mine[p.Parent] && !t.marked(one) {
				later = append(later, p)
				continue
			}
			t.known[one], mine[p.ID], grew = true, true, true
			found = append(found, p)
		}
		rest = later
	}
	return found
}

func (t *tree) marked(p seen) bool {
	if _, looked := t.known[p]; looked {
		return false // a mark is inherited: who was born without it never gets it
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err == nil && bytes.Contains(env, []byte(t.mark)) {
		return true
	}
	t.known[p] = false
	return false
}

// signal reaches the group at once, so that nothing in it slips away by a fork,
// and those outside of it one by one.
func (t *tree) signal(sig syscall.Signal) {
	group := false
	for _, p := range t.alive() {
		if p.Group == t.pgid {
			group = true
		} else {
			_ = syscall.Kill(p.ID, sig)
		}
	}
	if group {
		_ = syscall.Kill(-t.pgid, sig)
	}
}

// oldest is the lowest number that a process of the tree can have: all were born
// after the hook, so that the others need not be looked at. 0 if the numbers have
// begun anew since, or may have gone round while a hook took its time.
func (t *tree) oldest() int {
	const round = 5 * time.Second // no system starts 32,768 processes as fast
	if time.Since(t.began) > round {
		return 0
	}
	b, err := os.ReadFile("/proc/sys/kernel/ns_last_pid")
	newest, bad := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || bad != nil || newest < t.pgid {
		return 0
	}
	return t.pgid
}
