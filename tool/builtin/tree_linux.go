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
	// strict is for numbers that are old: the system may have given them to
	// others, so the session counts only if something in it carries the mark.
	strict bool
	known  map[int]string // start times of those found before, by number
}

type process struct {
	pid, parent, group, session int
	start                       string // tells a process from a later one of the same number
	mark                        bool
}

// alive lists the processes of the tree that are there now.
func (t *tree) alive() []int {
	if t.known == nil {
		t.known = map[int]string{}
	}
	all := processes()
	session := !t.strict
	for i := range all {
		all[i].mark = t.marks(all[i].pid)
		session = session || all[i].mark && t.near(all[i])
	}
	var pids []int
	in := map[int]bool{}
	for grew := true; grew; { // until no child is missed, in whatever order they come
		grew = false
		for _, p := range all {
			if in[p.pid] || !p.mark && !in[p.parent] && t.known[p.pid] != p.start && !(session && t.near(p)) {
				continue
			}
			in[p.pid], t.known[p.pid], grew = true, p.start, true
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// near reports whether p is in the session or group of the command.
func (t *tree) near(p process) bool { return p.session == t.pgid || p.group == t.pgid }

func (t *tree) marks(pid int) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
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
