package builtin

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/daruma-agent/daruma/sandbox"
)

const (
	// drain is how long a pipe is read that something still holds open after
	// the command has ended. It is absolute: what goes on writing cannot extend it.
	drain = 500 * time.Millisecond
	// killWait is how long processes may take to go after SIGKILL. Only those
	// that hang in the kernel need longer.
	killWait = 5 * time.Second
)

// command is one run of a program with all that it starts.
//
// When run returns, nothing of it is alive, except what hangs in the kernel or
// belongs to another user, which is reported. With a helper (Linux) that holds
// whatever the command does, and also if this program is killed: the helper ends
// the command then. Without one, what took care to hide goes on (a process that
// left its session, emptied its environment and outlived its parents; outside of
// Linux all that left the process group), and so does everything if this program
// is killed: the group given to started is what a successor can end.
type command struct {
	argv     []string
	dir      string
	env      []string
	helper   []string // argv of the helper; empty: there is none
	rules    *sandbox.Rules
	timeout  time.Duration // zero: there is none
	grace    time.Duration
	started  func(pgid int, start time.Time) error
	progress func(text string)
	out      output
}

// output takes what a command prints.
type output interface {
	io.Writer
	// news returns what came since it was last asked, at most the end of it.
	news() string
}

// ending is how a command ended.
type ending struct {
	code      int    // as a shell says it: 128 and the number for a signal
	signal    string // that ended it, if one did
	timedOut  bool
	cancelled bool
	left      int   // processes that it left running and that were ended
	stuck     []int // processes that could not be ended
	unwatched bool  // it ended its helper
	err       error // it was not run at all
}

// job is a started command, which waits to be let go.
type job interface {
	// group is the number of its process group or session, which finds it.
	group() int
	// output is what it prints.
	output() *os.File
	// release lets it go.
	release()
	// exited is closed when the command itself has ended.
	exited() <-chan struct{}
	// end ends all that is alive of it: it tells how many processes there were
	// and which are still there. It returns at once if nothing is alive.
	end(grace time.Duration) (found int, stuck []int)
	// status tells how it ended. To be asked after end.
	status(e *ending)
	// close lets go of everything that is held for it.
	close()
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

func (c *command) run(ctx context.Context) ending {
	r, err := c.begin()
	if err != nil {
		return ending{err: err}
	}
	return r.finish(ctx)
}

// run is a command that was let go.
type run struct {
	*command
	job  job
	read chan struct{} // closed when its output has been read
}

// begin starts the command. An error means that it was not run, and that nothing
// is left of it.
func (c *command) begin() (r *run, err error) {
	start := birth()
	j, err := c.launch(start)
	if err != nil {
		return nil, err
	}
	defer func() { // also if a callback panics
		if r == nil {
			j.end(0)
			j.close()
		}
	}()
	if c.started != nil {
		if err := c.started(j.group(), start); err != nil {
			return nil, fmt.Errorf("note its start: %w", err)
		}
	}
	r = &run{command: c, job: j, read: make(chan struct{})}
	go func() {
		defer close(r.read)
		_, _ = io.Copy(c.out, j.output()) // ends with the pipe or at its deadline
	}()
	j.release()
	return r, nil
}

// finish waits for the end of the command, or brings it about.
func (r *run) finish(ctx context.Context) (e ending) {
	over := false
	defer func() { // also if a callback panics
		if !over {
			r.job.end(0)
		}
		r.job.close()
		<-r.read
	}()
	r.wait(ctx, &e)
	cut := e.timedOut || e.cancelled
	if cut {
		_, e.stuck = r.job.end(r.grace)
	}
	_ = r.job.output().SetReadDeadline(time.Now().Add(drain))
	<-r.read
	if !cut {
		e.left, e.stuck = r.job.end(r.grace)
	}
	over = true
	r.job.status(&e)
	return e
}

// wait returns when the command has ended or must end.
func (r *run) wait(ctx context.Context, e *ending) {
	var limit <-chan time.Time
	if r.timeout > 0 {
		timer := time.NewTimer(r.timeout)
		defer timer.Stop()
		limit = timer.C
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	exited := r.job.exited()
	for {
		select {
		case <-exited:
			return
		case <-ctx.Done():
			e.cancelled = !closed(exited)
			return
		case <-limit:
			e.timedOut = !closed(exited)
			return
		case <-tick.C:
			if r.progress == nil {
				continue
			}
			if text := r.out.news(); text != "" {
				r.progress(text)
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
