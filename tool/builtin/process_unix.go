//go:build unix

package builtin

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// nonBlocking makes opening a pipe return at once.
const nonBlocking = syscall.O_NONBLOCK

// gate, where there is no helper, waits for a line on descriptor 3 before it becomes the command. So the
// process group is known, and can be written down, before anything happens; and
// if the line never comes, because this program died, nothing ever happens. It
// is plain sh since bash would run $BASH_ENV before the line comes.
const gate = `IFS= read -r DARUMA_GATE <&3 && exec 3<&- && exec "$@"`

// EndLeft ends what is still alive of a command of an earlier life of this
// program, by the group and the start that were given to Call.Started then, to
// the nanosecond. It tells how many processes there were and which could not be
// ended. What does not carry the mark of the command is left alone, whatever its
// number; so outside of Linux, where marks cannot be read, a group that is there
// is only reported.
func EndLeft(pgid int, start time.Time, grace time.Duration) (found int, stuck []int) {
	t := tree{pgid: pgid, token: markOf(start), strict: true}
	return t.end(grace)
}

// EndMarked ends every process that carries mark in its environment, and what
// these have started, and tells what EndLeft tells. This process and those above
// it stay, whatever they carry. Outside of Linux it finds nothing.
func EndMarked(mark string, grace time.Duration) (found int, stuck []int) {
	if mark == "" {
		return 0, nil
	}
	t := tree{pgid: -1, token: mark, strict: true, spared: above()}
	return t.end(grace)
}

// launch starts the command so that it waits to be let go. It carries the mark of
// its start.
func (c *command) launch(start time.Time) (job, error) {
	out, outEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outEnd.Close()
	var j job
	if len(c.helper) > 0 {
		j, err = c.watched(start, out, outEnd)
	} else {
		j, err = c.gated(start, out, outEnd)
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	return j, nil
}

// running is a command that is a child of this process.
type running struct {
	cmd  *exec.Cmd
	out  *os.File // what it prints
	gate *os.File // a line lets it go
	done chan struct{}
	tree tree
}

func (c *command) gated(start time.Time, out, outEnd *os.File) (job, error) {
	goEnd, gateEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer goEnd.Close()
	r := &running{out: out, gate: gateEnd, done: make(chan struct{})}
	r.tree.token = markOf(start)
	r.cmd = &exec.Cmd{
		Path: "/bin/sh", Args: append([]string{"sh", "-c", gate, "sh"}, c.argv...),
		Dir: c.dir, Env: marked(c.env, r.tree.token),
		Stdout: outEnd, Stderr: outEnd, ExtraFiles: []*os.File{goEnd},
		// A session of its own has no terminal to ask a person at, and a
		// process group that is easy to end.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := r.cmd.Start(); err != nil {
		gateEnd.Close()
		return nil, err
	}
	r.tree.pgid = r.cmd.Process.Pid
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // what came of it is in ProcessState
	}()
	return r, nil
}

func (r *running) group() int              { return r.tree.pgid }
func (r *running) output() *os.File        { return r.out }
func (r *running) exited() <-chan struct{} { return r.done }

func (r *running) release() {
	_, _ = io.WriteString(r.gate, "\n") // if it is gone already, exited says so
	r.gate.Close()
}

func (r *running) end(grace time.Duration) (found int, stuck []int) { return r.tree.end(grace) }

func (r *running) status(e *ending) {
	if len(e.stuck) == 0 {
		<-r.done
		e.code, e.signal = status(r.cmd.ProcessState)
	}
}

func (r *running) close() {
	r.gate.Close()
	r.out.Close()
}

// status reads how a process ended as a shell would say it.
func status(s *os.ProcessState) (code int, signal string) {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal().String()
	}
	return s.ExitCode(), ""
}

// end ends all processes of the tree: SIGTERM, then SIGKILL when grace is over.
// It tells how many there were and which are still there.
func (t *tree) end(grace time.Duration) (found int, stuck []int) {
	alive := t.alive()
	found = len(alive)
	if grace > 0 && found > 0 {
		t.signal(alive, syscall.SIGTERM)
		alive = t.await(grace, func([]int) {})
	}
	if len(alive) > 0 {
		// Again and again, for something may be born while others die.
		alive = t.await(killWait, func(pids []int) { t.signal(pids, syscall.SIGKILL) })
	}
	return found, alive
}

// await looks again and again until nothing is alive or the time is over, and
// calls each with what is left.
func (t *tree) await(limit time.Duration, each func([]int)) []int {
	pause := time.Millisecond
	for deadline := time.Now().Add(limit); ; {
		alive := t.alive()
		if len(alive) == 0 || time.Now().After(deadline) {
			return alive
		}
		each(alive)
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// keepOwner gives a new file the owner of the one that it replaces, as far as
// this user may: a root in a container must not take a user's files away.
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		if f.Chown(int(st.Uid), int(st.Gid)) != nil {
			_ = f.Chown(-1, int(st.Gid)) // the group, which others may work in, is for its members to give
		}
	}
}
