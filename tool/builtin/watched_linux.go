package builtin

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daruma-agent/daruma/sandbox/keeper"
)

// slack is how much longer than its own deadlines a helper may take before it
// counts as one that will not answer.
const slack = 2 * time.Second

// watched is a command that a helper watches over. See [keeper.Main].
type watched struct {
	cmd  *exec.Cmd
	conn *os.File // to the helper, which takes its end for the end of this program
	out  *os.File // what the command prints
	tree tree     // to find what is left when the helper is gone
	done chan struct{}
	over chan struct{} // closed when the helper has said its last word
	// asked is true once the helper was told to end.
	asked atomic.Bool

	// What the helper said, to be read when done or over is closed.
	code   int
	signal string
	failed error
	told   bool // that the command has ended
	clean  bool // that nothing is left, or what is
	found  int
	stuck  []int
}

func (c *command) watched(start time.Time, out, outEnd *os.File) (job, error) {
	argv := append([]string{}, c.argv...)
	if !strings.Contains(argv[0], "/") {
		if argv[0] = lookPath(argv[0], c.env); argv[0] == "" {
			return nil, fmt.Errorf("%s: %w", c.argv[0], exec.ErrNotFound)
		}
	}
	conn, theirs, err := socketpair()
	if err != nil {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	defer theirs.Close()
	given := []*os.File{keeper.Control - 3: theirs}
	if c.rules != nil {
		rules, err := c.rules.Ruleset()
		if err != nil {
			conn.Close()
			return nil, err
		}
		defer rules.Close()
		given = append(given, rules) // keeper.Ruleset
	}
	w := &watched{conn: conn, out: out, done: make(chan struct{}), over: make(chan struct{})}
	w.tree.token = markOf(start)
	w.cmd = &exec.Cmd{
		Path: c.helper[0], Args: c.helper, Dir: c.dir, Env: marked(c.env, w.tree.token),
		Stdout: outEnd, Stderr: outEnd, ExtraFiles: given,
		// The helper leads a session without a terminal; the command has a group
		// of its own in it, so that it cannot end the helper with its group.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := w.cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	w.tree.pgid = w.cmd.Process.Pid
	go w.listen()
	_ = conn.SetWriteDeadline(time.Now().Add(killWait))
	order := keeper.Order{Argv: argv, Confined: c.rules != nil, Grace: c.grace}
	if err := order.Encode(conn); err != nil {
		w.end(0)
		w.close()
		return nil, fmt.Errorf("tell the helper: %w", err)
	}
	return w, nil
}

func socketpair() (ours, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "helper"), nil
}

// listen hears the helper out, and waits for it.
func (w *watched) listen() {
	defer close(w.over)
	started := false
	lines := bufio.NewScanner(w.conn)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case keeper.Failed:
			w.failed, w.clean = errors.New(rest), true
		case keeper.Started:
			started = true
		case keeper.Exited:
			code, signal, _ := strings.Cut(rest, " ")
			w.code, _ = strconv.Atoi(code)
			w.signal, w.told = signal, true
			close(w.done)
		case keeper.Over:
			var numbers []int
			for f := range strings.FieldsSeq(rest) {
				n, _ := strconv.Atoi(f)
				numbers = append(numbers, n)
			}
			if len(numbers) > 0 {
				w.clean, w.found, w.stuck = true, numbers[0], numbers[1:]
			}
		}
	}
	_ = w.cmd.Wait()
	if state := w.cmd.ProcessState; !started && !w.clean && state != nil && state.Exited() && !w.asked.Load() {
		w.failed, w.clean = fmt.Errorf("%s is no helper: it ended at once (%v)", w.cmd.Path, state), true
	}
	if !w.told {
		close(w.done)
	}
}

func (w *watched) group() int              { return w.tree.pgid }
func (w *watched) output() *os.File        { return w.out }
func (w *watched) exited() <-chan struct{} { return w.done }

func (w *watched) release() { w.say(keeper.Go) }

// say sends the helper a word. If it is gone, over says so.
func (w *watched) say(word byte) {
	_ = w.conn.SetWriteDeadline(time.Now().Add(slack))
	_, _ = w.conn.Write([]byte{word})
}

func (w *watched) end(grace time.Duration) (found int, stuck []int) {
	if !closed(w.over) {
		w.asked.Store(true)
		w.say(keeper.End)
		// The grace is in its order; this one only says how long to wait for it.
		timer := time.NewTimer(max(grace, 0) + killWait + slack)
		defer timer.Stop()
		select {
		case <-w.over:
		case <-timer.C:
			// The command has stopped it, or it hangs.
			_ = w.cmd.Process.Kill()
			<-w.over
		}
	}
	if w.clean {
		return w.found, w.stuck
	}
	return w.tree.end(grace)
}

func (w *watched) status(e *ending) {
	switch {
	case w.failed != nil:
		*e = ending{err: w.failed}
	case w.told:
		e.code, e.signal = w.code, w.signal
	default:
		e.code, e.signal = 128+int(syscall.SIGKILL), syscall.SIGKILL.String()
	}
	e.unwatched = !w.clean
}

func (w *watched) close() {
	w.conn.Close()
	<-w.over
	w.out.Close()
}
