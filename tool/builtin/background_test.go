//go:build unix

package builtin

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool"
)

// background starts a task and returns its id and its file.
func (b *bench) background(command string) (id, path string) {
	b.t.Helper()
	r, o := b.shell(b.t.Context(), tool.Call{Name: "Bash"}, in{"command": command, "run_in_background": true})
	if r.IsError || o.Task == "" || o.Path == "" {
		b.t.Fatalf("no task: %s", text(r))
	}
	return o.Task, o.Path
}

// task calls TaskOutput or TaskStop.
func (b *bench) task(name string, input in) (string, TaskOutput) {
	b.t.Helper()
	r := b.call(name, input)
	o, ok := r.Output.(TaskOutput)
	if r.IsError || !ok {
		b.t.Errorf("%s %v: %s", name, input, text(r))
	}
	return text(r), o
}

func TestBackground(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t))
		id, path := b.background("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3")

		for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
			if data, _ := os.ReadFile(path); len(data) > 0 {
				break
			}
		}
		got, o := b.task("TaskOutput", in{"task_id": id, "timeout": 50})
		wants(t, got, "Task "+id+" is running", "one")
		if o.Retrieval != "timeout" || o.Task.Status != "running" || o.Task.ExitCode != nil || o.Task.Path != path {
			t.Errorf("%+v", o)
		}
		if got, o = b.task("TaskOutput", in{"task_id": id, "block": false}); o.Retrieval != "not_ready" || strings.Contains(got, "one") {
			t.Errorf("%s", got)
		}
		wants(t, got, "(no new output)")
		wants(t, b.good("Read", in{"file_path": path}), "one")

		b.file("go", "")
		got, o = b.task("TaskOutput", in{"task_id": id})
		wants(t, got, "has ended with exit code 3", "two")
		if o.Retrieval != "success" || o.Task.Status != "failed" || o.Task.ExitCode == nil || *o.Task.ExitCode != 3 {
			t.Errorf("%+v", o)
		}
		wants(t, b.good("Read", in{"file_path": path}), "one\n", "two")
		if _, o = b.task("TaskStop", in{"task_id": id}); o.Task.Status != "failed" {
			t.Errorf("a task that had ended by itself: %+v", o)
		}
	})
}

func TestTaskStopEndsTheTree(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t))
		mark := fmt.Sprintf("300.%d", time.Now().UnixNano())
		id, path := b.background("setsid sleep " + mark + " & (setsid sleep " + mark + " &); trap '' TERM; echo ready; while :; do sleep 0.1; done")
		ready := func() bool { data, _ := os.ReadFile(path); return len(data) > 0 }
		for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit) && (len(withArgument(t, mark)) < 3 || !ready()); {
			time.Sleep(10 * time.Millisecond)
		}
		got, o := b.task("TaskStop", in{"task_id": id})
		wants(t, got, "was ended by TaskStop", "ready")
		if pids := withArgument(t, mark); len(pids) > 0 || o.Task.Status != "killed" {
			t.Errorf("processes left: %v, %+v", pids, o)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "ready\n" {
			t.Errorf("%q, %v", data, err)
		}
	})
}

// Tasks end with their workspace, all at once, and it takes no more of them then.
func TestTasksEndWithTheWorkspace(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		before := descriptors(t)
		b := open(t, way, witness(t), func(c *Config) { c.Grace = time.Second })
		for range maxTasks {
			b.background("trap '' TERM; while :; do sleep 0.1; done")
		}
		wants(t, b.bad("Bash", in{"command": "touch more", "run_in_background": true}), "was not run", "10 tasks are running")
		began := time.Now()
		b.tasks.close()
		if took := time.Since(began); took > 8*time.Second { // one after the other they need ten seconds
			t.Errorf("it took %v", took)
		}
		wants(t, b.bad("Bash", in{"command": "touch more", "run_in_background": true}), "was not run", "closed")
		if exists(b.dir + "/more") {
			t.Error("it ran all the same")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func TestBackgroundIsNoted(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		b := open(t, way, witness(t))
		input := in{"command": "touch ran; sleep 300", "run_in_background": true}
		group := 0
		c := tool.Call{Name: "Bash", Started: func(pgid int, _ time.Time) error {
			group = pgid
			if exists(b.dir + "/ran") {
				t.Error("it ran before it was noted")
			}
			return nil
		}}
		if r := b.run(t.Context(), c, input); r.IsError || group == 0 {
			t.Errorf("group %d: %s", group, text(r))
		}
		c.Started = func(int, time.Time) error { return &tool.SafeError{Safe: "disk full", Err: os.ErrPermission} }
		if r := b.run(t.Context(), c, input); r.Class != "disk full" {
			t.Errorf("%+v", r)
		}
		c.Started = func(int, time.Time) error { panic("callback") }
		if r := b.run(t.Context(), c, input); r.Class != tool.ClassPanic {
			t.Errorf("%+v", r)
		}
		if names, err := os.ReadDir(b.cfg.Spill); err != nil || len(names) != 1 {
			t.Errorf("files of tasks that never ran: %v, %v", names, err)
		}
	})
}

func TestBackgroundRefuses(t *testing.T) {
	b := open(t)
	wants(t, b.bad("TaskOutput", in{"task_id": "task-1"}), "there is no task task-1: none was started")
	id, _ := b.background("true")
	wants(t, b.bad("TaskStop", in{"task_id": "task-1"}), "only: "+id)
	wants(t, b.bad("TaskOutput", in{"task_id": id, "timeout": -1}), "negative")
	b = open(t, func(c *Config) { c.Spill = "" })
	wants(t, b.bad("Bash", in{"command": "touch ran", "run_in_background": true}), "nothing was run")
	if exists(b.dir + "/ran") {
		t.Error("it ran")
	}
}

func TestTaskLog(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "task")
	if err != nil {
		t.Fatal(err)
	}
	l := &taskLog{file: file, hide: func(s string) string { return strings.ReplaceAll(s, "hush", "***") }}
	fmt.Fprint(l, "one hu")
	if text, to, err := l.since(0, 100); text != "" || to != 0 || err != nil {
		t.Errorf("a line was shown before it was whole: %q, %d, %v", text, to, err)
	}
	fmt.Fprint(l, "sh\ntwo\nthree")
	text, to, err := l.since(0, 100)
	if text != "one ***\ntwo\n" || to != 12 || err != nil {
		t.Errorf("%q, %d, %v", text, to, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if text, to, err = l.since(to, 100); text != "three" || to != 17 || err != nil {
		t.Errorf("%q, %d, %v", text, to, err)
	}
	text, _, _ = l.since(0, 5)
	wants(t, text, "[12 bytes left out here; the whole output is in ", "]\nthree")
	fmt.Fprint(l, "four\n") // the file is closed, as if the disk were full
	text, _, _ = l.since(17, 100)
	wants(t, text, "[5 bytes of its output were not kept: ")

	// A line without an end needs no memory without end.
	l = &taskLog{file: file}
	for range 100 {
		fmt.Fprint(l, strings.Repeat("x", 10_000))
	}
	if len(l.held) > 2*maxHeld {
		t.Errorf("%d bytes are held", len(l.held))
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// TestTaskEndIsToldOnce: by what the next request says, or by the result of a
// call before it, never by both.
func TestTaskEndIsToldOnce(t *testing.T) {
	t.Parallel()
	b := open(t, witness(t))
	ended := func() (ids []string, all string) {
		for limit := time.Now().Add(20 * time.Second); len(ids) == 0 && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
			for _, e := range b.Ended() {
				ids, all = append(ids, e.ID), all+e.Text
			}
		}
		return ids, all
	}
	unheard, path := b.background("echo one; exit 3")
	if ids, all := ended(); len(ids) != 1 || ids[0] != unheard {
		t.Errorf("told: %v", ids)
	} else {
		wants(t, all, "Task "+unheard, "(echo one; exit 3) has ended with exit code 3", path, "TaskOutput")
	}
	heard, _ := b.background("echo two")
	if got, o := b.task("TaskOutput", in{"task_id": heard}); o.Task.Status != "completed" {
		t.Errorf("%s", got)
	}
	stopped, _ := b.background("sleep 300")
	if got, o := b.task("TaskStop", in{"task_id": stopped}); o.Task.Status != "killed" {
		t.Errorf("%s", got)
	}
	running, _ := b.background("sleep 300")
	if list := b.Ended(); len(list) != 0 {
		t.Errorf("told again, or of %s which runs: %+v", running, list)
	}
	if got, _ := b.task("TaskOutput", in{"task_id": unheard}); !strings.Contains(got, "one") {
		t.Errorf("the output of a task that was told of is gone: %s", got)
	}
}
