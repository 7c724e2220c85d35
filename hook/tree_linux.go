package hook

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
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

type task struct {
	seen
	parent, group, session int
}

// alive lists the processes of the tree that are there now.
func (t *tree) alive() []task {
	if t.known == nil {
		t.known = map[seen]bool{}
	}
	mine := map[int]bool{}
	rest, found := tasks(t.oldest()), []task(nil)
	for grew := true; grew; { // children may be listed before their parents
		grew = false
		var later []task
		for _, p := range rest {
			if !t.known[p.seen] && p.group != t.pgid && p.session != t.pgid && !mine[p.parent] && !t.marked(p.seen) {
				later = append(later, p)
				continue
			}
			t.known[p.seen], mine[p.pid], grew = true, true, true
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
		if p.group == t.pgid {
			group = true
		} else {
			_ = syscall.Kill(p.pid, sig)
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

// tasks lists the processes from the number oldest on, but not this one and not
// the dead that nobody has waited for.
func tasks(oldest int) []task {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []task
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid >= oldest && pid != os.Getpid() {
			if p, ok := readTask(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// readTask reads /proc/<pid>/stat. The name in it may hold anything, so fields are
// counted from its end.
func readTask(pid int) (task, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return task{}, false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return task{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(f[i])); return n }
	return task{seen{pid, string(f[19])}, number(1), number(2), number(3)}, true
}
