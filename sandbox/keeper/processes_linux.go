package keeper

import (
	"os"
	"strconv"
)

// Process is an entry of the process table.
type Process struct {
	ID, Parent, Group, Session int
	Start                      string // tells a process from a later one of the same number
}

// Processes lists the processes from the number oldest on, but not this one and not
// the dead that nobody has waited for.
func Processes(oldest int) []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid < oldest || pid == os.Getpid() {
			continue
		}
		if p, ok := LookUp(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// The fields of /proc/<pid>/stat behind the name (proc_pid_stat(5)).
const (
	fieldState   = 0
	fieldParent  = 1
	fieldGroup   = 2
	fieldSession = 3
	fieldStart   = 19
)

// LookUp reads one process. The name in its line may hold anything, so fields are
// counted from the end of the name.
func LookUp(pid int) (Process, bool) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	end := len(line) - 1
	for end >= 0 && line[end] != ')' {
		end--
	}
	var fields [fieldStart + 1]string
	n, from := 0, end+2
	for i := from; i < len(line) && n < len(fields); i++ {
		if line[i] == ' ' {
			fields[n], from = string(line[from:i]), i+1
			n++
		}
	}
	if n < len(fields) || fields[fieldState] == "Z" || fields[fieldState] == "X" {
		return Process{}, false
	}
	number := func(field int) int { n, _ := strconv.Atoi(fields[field]); return n }
	return Process{
		ID: pid, Parent: number(fieldParent), Group: number(fieldGroup), Session: number(fieldSession), Start: fields[fieldStart],
	}, true
}

// descendants lists what this process has started, in whatever depth. With the
// subreaper attribute nobody leaves them by losing a parent.
func descendants() []int {
	all := Processes(0)
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
