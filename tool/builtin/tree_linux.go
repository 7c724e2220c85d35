package builtin

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// tree finds the processes of a command: those of its session or group, those
// that carry its mark in their environment, and the children of all of these.
// The mark is what finds daemons that left the session and lost their parents.
type tree struct {
	pgid  int
	token string
	known map[int]string // start times of those found before, by number
}

type process struct {
	pid, parent, group, session int
	start                       string // tells a process from a later one of the same number
}

// alive lists the processes of the tree that are there now.
func (t *tree) alive() []int {
	if t.known == nil {
		t.known = map[int]string{}
	}
	rest := processes()
	var pids []int
	in := map[int]bool{}
	first := true
	for grew := true; grew; first = false {
		grew = false
		for i, p := range rest {
			if p.pid == 0 || !in[p.parent] && !(first && t.has(p)) {
				continue
			}
			in[p.pid], t.known[p.pid] = true, p.start
			pids = append(pids, p.pid)
			rest[i].pid = 0
			grew = true
		}
	}
	return pids
}

func (t *tree) has(p process) bool {
	if p.session == t.pgid || p.group == t.pgid || t.known[p.pid] == p.start {
		return true
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	return err == nil && bytes.Contains(env, []byte(t.token))
}

// signal reaches the group at once, so that nothing in it slips away by a fork,
// and those outside of it one by one.
func (t *tree) signal(pids []int, sig syscall.Signal) {
	group := false
	for _, pid := range pids {
		if p, ok := lookUp(pid); ok && p.group == t.pgid {
			group = true
			continue
		}
		_ = syscall.Kill(pid, sig)
	}
	if group {
		_ = syscall.Kill(-t.pgid, sig)
	}
}

// processes lists all processes but this one and the dead that nobody has waited for.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := lookUp(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// lookUp reads /proc/<pid>/stat. The name in it may hold anything, so fields are
// counted from its end.
func lookUp(pid int) (process, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return process{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(f[i])); return n }
	return process{pid: pid, parent: number(1), group: number(2), session: number(3), start: string(f[19])}, true
}
