//go:build unix

package hook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// drain is how long what a hook started may still hold its pipes when it has
	// ended itself.
	drain = 300 * time.Millisecond
	// hidden is how long the pipes may take to end when all that can be found has
	// been ended.
	hidden = 5 * time.Second
	// killWait is how long processes may take to go after SIGKILL.
	killWait = 3 * time.Second
)

// process is one run of a command hook. When run returns nothing of it is alive:
// a process that shall outlive a hook has to be started by somebody else.
// Outside of Linux only the process group is found.
type process struct {
	path  string
	argv  []string
	dir   string
	env   []string
	set   map[string]string // variables on top
	input []byte
	limit time.Duration
	grace time.Duration
}

// births tells runs apart; with the number of this process it makes their marks.
var births atomic.Int64

func newMark() string {
	return "h" + strconv.Itoa(os.Getpid()) + "x" + strconv.FormatInt(time.Now().UnixNano(), 36) + "x" + strconv.FormatInt(births.Add(1), 36) + "h"
}

// collector keeps the beginning of an output.
type collector struct {
	buf bytes.Buffer
	cut bool
}

func (c *collector) Write(b []byte) (int, error) {
	n := len(b)
	if room := mostOutput - c.buf.Len(); n > room {
		b, c.cut = b[:room], true
	}
	c.buf.Write(b)
	return n, nil
}

// pipes are our ends, and the ends of the hook.
type pipes struct {
	in, out, err             *os.File
	hookIn, hookOut, hookErr *os.File
}

func openPipes() (p pipes, err error) {
	var errs [3]error
	p.hookIn, p.in, errs[0] = os.Pipe()
	p.out, p.hookOut, errs[1] = os.Pipe()
	p.err, p.hookErr, errs[2] = os.Pipe()
	return p, errors.Join(errs[:]...)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

func (p *process) run(ctx context.Context) raw {
	io3, err := openPipes()
	defer closeAll(io3.in, io3.out, io3.err)
	if err != nil {
		closeAll(io3.hookIn, io3.hookOut, io3.hookErr)
		return raw{ending: notStarted, why: err.Error()}
	}
	mark := newMark()
	set := map[string]string{markVar: mark}
	for k, v := range p.set {
		set[k] = v
	}
	if outer, ok := lookup(p.env, markVar); ok {
		set[markVar] = outer + ":" + mark
	}
	cmd := &exec.Cmd{
		Path: p.path, Args: p.argv, Dir: p.dir, Env: environ(p.env, set),
		Stdin: io3.hookIn, Stdout: io3.hookOut, Stderr: io3.hookErr,
		// A session of its own has no terminal to ask a person at, and is a
		// process group that is easy to end.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	began := time.Now()
	err = cmd.Start()
	closeAll(io3.hookIn, io3.hookOut, io3.hookErr)
	if err != nil {
		return raw{ending: notStarted, why: startError(err)}
	}
	return p.attend(ctx, cmd, io3, &tree{pgid: cmd.Process.Pid, began: began, mark: mark})
}

// startError is the reason alone: the path is in the name of the hook.
func startError(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Path + ": " + at.Err.Error()
	}
	return err.Error()
}

// attend feeds and reads a started hook until it ends or must end.
func (p *process) attend(ctx context.Context, cmd *exec.Cmd, ours pipes, t *tree) (r raw) {
	exit := make(chan struct{})
	go func() {
		defer close(exit)
		_ = cmd.Wait() // what came of it is in ProcessState
	}()
	var out, errOut collector
	var outErr error
	var moving sync.WaitGroup
	moving.Go(func() {
		_, _ = ours.in.Write(p.input) // a hook need not read it
		ours.in.Close()
	})
	moving.Go(func() { _, outErr = io.Copy(&out, ours.out) })
	moving.Go(func() { _, _ = io.Copy(&errOut, ours.err) })
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		moving.Wait()
	}()

	limit := time.NewTimer(p.limit)
	defer limit.Stop()
	select {
	case <-exit:
	case <-ctx.Done():
		r.ending = cancelled
	case <-limit.C:
		r.ending = timedOut
	}
	if r.ending != exited && closed(exit) {
		r.ending = exited // both came at once: it has done its work
	}
	if r.ending == exited {
		await(moved, drain)
	}
	t.end(p.grace)
	// Nothing of it is left, so the pipes end by themselves, however long that
	// takes on a busy machine. Only what hid from us can still hold them.
	await(moved, hidden)
	_ = ours.in.SetWriteDeadline(time.Now())
	_ = ours.out.SetReadDeadline(time.Now())
	_ = ours.err.SetReadDeadline(time.Now())
	<-moved
	r.stdout, r.stderr, r.cut = out.buf.Bytes(), errOut.buf.Bytes(), out.cut
	await(exit, killWait) // waited for, it leaves no zombie; what hangs in the kernel is, when it comes back
	if r.ending == exited {
		status(cmd.ProcessState, &r)
		r.torn = outErr != nil
	}
	return r
}

// await waits for c to be closed, no longer than limit.
func await(c <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func status(s *os.ProcessState, r *raw) {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.ending, r.why = killed, ws.Signal().String()
		return
	}
	r.code = s.ExitCode()
}

// end ends all processes of the tree: SIGTERM, then SIGKILL when grace is over.
func (t *tree) end(grace time.Duration) {
	if len(t.alive()) == 0 {
		return
	}
	t.signal(syscall.SIGTERM)
	if !t.await(grace, func() {}) {
		// Again and again, for something may be born while others die.
		t.await(killWait, func() { t.signal(syscall.SIGKILL) })
	}
}

// await looks until nothing is alive or the time is over.
func (t *tree) await(limit time.Duration, each func()) bool {
	pause := time.Millisecond
	for deadline := time.Now().Add(limit); ; {
		if len(t.alive()) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		each()
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}
