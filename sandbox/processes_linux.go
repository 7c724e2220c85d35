package sandbox

import (
	"bytes"
	"os"
	"strconv"
)

// Process is an entry of the process table.
type Process struct {
	ID, Parent, Group, Session int
	Start                      string // tells a process from a later one of the same number
}

// Processes lists all processes but this one and the dead that nobody has waited for.
func Processes() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := LookUp(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// LookUp reads /proc/<pid>/stat. The name in it may hold anything, so fields are
// counted from its end.
func LookUp(pid int) (Process, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return Process{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(f[i])); return n }
	return Process{ID: pid, Parent: number(1), Group: number(2), Session: number(3), Start: string(f[19])}, true
}

// descendants lists what this process has started, in whatever depth. With the
// subreaper attribute nobody leaves them by losing a parent.
func descendants() []int {
	all := Processes()
	in := map[int]bool{os.Getpid(): true}
	var pids []int
	for grew := true; grew; { // until no child is missed, in whatever order they come
		grew = false
		for _, p := range all {
			if in[p.Parent] && !in[p.ID] {
				in[p.ID], grew = true, true
				pids = append(pids, p.ID)
			}
		}
	}
	return pids
}
