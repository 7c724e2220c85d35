//go:build unix

package builtin

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// nonBlocking makes opening a pipe return at once.
const nonBlocking = syscall.O_NONBLOCK

const (
	// drain is how long a pipe is read that something still holds open after
	// the command has ended. It is absolute: what goes on writing cannot extend it.
	drain = 500 * time.Millisecond
	// killWait is how long processes may take to go after SIGKILL. Only those
	// that hang in the kernel need longer.
	killWait = 5 * time.Second
)

// gate waits for a line on descriptor 3 before it becomes the command. So the
// process group is known, and can be written down, before anything happens; and
// if the line never comes, because this program died, nothing ever happens. It
// is plain sh since bash would run $BASH_ENV before the line comes.
const gate = `IFS= read -r DARUMA_GATE <&3 && exec 3<&- && exec "$@"`

// running is a started command.
type running struct {
	cmd    *exec.Cmd
	out    *os.File // what it prints
	gate   *os.File // a line lets it go
	exited chan struct{}
	tree   tree
	over   bool // nothing of it is alive any more
}

// births gives each command a start of its own, for the mark is made of it.
var births atomic.Int64

func birth() time.Time {
	for {
		now, last := time.Now().UnixNano(), births.Load()
		if now = max(now, last+1); births.CompareAndSwap(last, now) {
			return time.Unix(0, now)
		}
	}
}

// markOf makes the mark of a command out of its start, so that a later life of
// this program, which knows the start, can find what carries the mark.
func markOf(start time.Time) string { return "t" + strconv.FormatInt(start.UnixNano(), 36) }

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

func (c *command) start(start time.Time) (*running, error) {
	out, outEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outEnd.Close()
	goEnd, gateEnd, err := os.Pipe()
	if err != nil {
		out.Close()
		return nil, err
	}
	defer goEnd.Close()
	r := &running{out: out, gate: gateEnd, exited: make(chan struct{})}
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
		out.Close()
		gateEnd.Close()
		return nil, err
	}
	r.tree.pgid = r.cmd.Process.Pid
	go func() {
		defer close(r.exited)
		_ = r.cmd.Wait() // what came of it is in ProcessState
	}()
	return r, nil
}

// close ends what is still alive after an early return or a panic of a callback.
func (r *running) close() {
	if !r.over {
		r.tree.end(0)
	}
	r.gate.Close()
	r.out.Close()
}

func (c *command) run(ctx context.Context) (e ending) {
	start := birth()
	r, err := c.start(start)
	if err != nil {
		return ending{err: err}
	}
	defer r.close()
	if c.started != nil {
		if err := c.started(r.tree.pgid, start); err != nil {
			return ending{err: fmt.Errorf("note its start: %w", err)}
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(c.out, r.out) // ends with the pipe or at its deadline
	}()
	_, _ = io.WriteString(r.gate, "\n") // if it is gone already, exited says so
	r.gate.Close()

	c.wait(ctx, r.exited, &e)
	cut := e.timedOut || e.cancelled
	if cut {
		_, e.stuck = r.tree.end(c.grace)
	}
	_ = r.out.SetReadDeadline(time.Now().Add(drain))
	<-read
	if !cut {
		e.left, e.stuck = r.tree.end(c.grace)
	}
	r.over = true
	if len(e.stuck) == 0 {
		<-r.exited
		e.code, e.signal = status(r.cmd.ProcessState)
	}
	return e
}

// wait returns when the command has ended or must end.
func (c *command) wait(ctx context.Context, exited <-chan struct{}, e *ending) {
	limit := time.NewTimer(c.timeout)
	defer limit.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-exited:
			return
		case <-ctx.Done():
			e.cancelled = !closed(exited)
			return
		case <-limit.C:
			e.timedOut = !closed(exited)
			return
		case <-tick.C:
			if text := c.out.news(); text != "" && c.progress != nil {
				c.progress(text)
			}
		}
	}
}

// closed tells what came first when two things came at once: a command that has
// done its work must not be called cut short.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
}
