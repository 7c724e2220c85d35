package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// control is the descriptor of the socket to the agent.
	control = 3
	// killWait is how long processes may take to go after SIGKILL. Only those
	// that hang in the kernel need longer.
	killWait = 5 * time.Second
)

// Main is the helper: if args, those of the process, say that it was started as
// one, it runs one command in env, the environment of the process, and returns
// with an exit code when nothing of that command is alive any more. Otherwise it
// returns false at once. Call it before anything else.
//
// It runs the command in a process group of its own and takes in what that
// orphans (PR_SET_CHILD_SUBREAPER), so that no descendant gets away, whatever it
// does to its session, group or environment. When the agent asks for it, or is
// gone, it ends all of them: SIGTERM, then SIGKILL when the grace is over.
func Main(args, env []string) (code int, helper bool) {
	if len(args) != 2 || args[1] != Argument || !isSocket(control) {
		return 0, false
	}
	runtime.LockOSThread() // rules hold for a thread, and this one starts the command
	inheritNothing()
	h := &watch{
		env: env, conn: os.NewFile(control, "control"),
		none: make(chan struct{}), exited: make(chan syscall.WaitStatus, 1),
	}
	if err := h.serve(); err != nil {
		h.say(WordFailed, err.Error())
		return 1, true
	}
	return 0, true
}

// inheritNothing keeps all but the three streams from the command: the control
// socket, and what the agent itself was given by whoever started it.
func inheritNothing() {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		syscall.CloseOnExec(control)
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

func isSocket(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// watch is the state of a helper.
type watch struct {
	env    []string
	conn   *os.File
	pid    int
	none   chan struct{}           // closed when there is no descendant
	exited chan syscall.WaitStatus // gets how the command itself ended
}

// serve does all of it. An error means that the command was not run.
func (h *watch) serve() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("watch over descendants: %w", err)
	}
	in := bufio.NewReader(h.conn)
	o, err := decodeOrder(in)
	if err != nil {
		return err
	}
	if o.Rules != nil {
		if err := o.Rules.restrict(ABI()); err != nil {
			return err
		}
	}
	if line, _ := in.ReadString('\n'); line != WordGo+"\n" {
		return nil // whoever wanted it has changed his mind, or is gone
	}
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	h.pid, err = syscall.ForkExec(o.Argv[0], o.Argv, &syscall.ProcAttr{
		Env: h.env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return fmt.Errorf("run %s: %w", o.Argv[0], err)
	}
	h.say(WordStarted)
	h.letGo()
	go h.reap()
	go func() {
		_, _ = in.ReadString('\n') // whatever comes, or nothing more
		asked <- syscall.SIGTERM
	}()
	h.attend(asked, o.Grace)
	return nil
}

// letGo closes the streams, which belong to the command: whoever reads them
// waits for their end.
func (h *watch) letGo() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(null, fd, unix.O_CLOEXEC) != nil {
			_ = unix.Close(fd)
		}
	}
}

// attend waits until the command has ended or is to end, and sees to it that
// nothing is left.
func (h *watch) attend(asked <-chan os.Signal, grace time.Duration) {
	ended := false
	select {
	case ws := <-h.exited:
		h.tell(ws)
		ended = true
		select {
		case <-h.none:
			h.say(WordOver, "0")
			return
		case <-asked: // the agent gives them time to empty their pipes
		}
	case <-asked:
	}
	found, stuck := h.end(grace)
	if !ended {
		select {
		case ws := <-h.exited:
			h.tell(ws)
		default:
		}
	}
	h.say(WordOver, strings.Trim(fmt.Sprint(append([]int{found}, stuck...)), "[]"))
}

// reap waits for every process that ends. The kernel says that there is no child
// exactly when there is no descendant.
func (h *watch) reap() {
	defer close(h.none)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		case pid == h.pid:
			h.exited <- ws
		}
	}
}

// end ends all descendants. It tells how many there were and which are still there.
func (h *watch) end(grace time.Duration) (found int, stuck []int) {
	pids := descendants()
	found = len(pids)
	if grace > 0 {
		if slices.ContainsFunc(pids, h.inGroup) { // with it nothing slips away by a fork
			_ = syscall.Kill(-h.pid, syscall.SIGTERM)
		}
		kill(slices.DeleteFunc(slices.Clone(pids), h.inGroup), syscall.SIGTERM)
		kill(pids, syscall.SIGCONT) // what is stopped cannot end itself
		select {
		case <-h.none:
			return found, nil
		case <-time.After(grace):
		}
	}
	pause := time.Millisecond
	for deadline := time.Now().Add(killWait); time.Now().Before(deadline); {
		// Again and again, for something may be born while others die.
		kill(descendants(), syscall.SIGKILL)
		select {
		case <-h.none:
			return found, nil
		case <-time.After(pause):
			pause = min(2*pause, 50*time.Millisecond)
		}
	}
	return found, descendants()
}

// inGroup reports whether a process is in the group of the command.
func (h *watch) inGroup(pid int) bool {
	p, ok := LookUp(pid)
	return ok && p.Group == h.pid
}

func kill(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// tell says how the command ended, as a shell would.
func (h *watch) tell(ws syscall.WaitStatus) {
	if ws.Signaled() {
		h.say(WordExited, fmt.Sprint(128+int(ws.Signal())), ws.Signal().String())
		return
	}
	h.say(WordExited, fmt.Sprint(ws.ExitStatus()))
}

func (h *watch) say(words ...string) {
	_, _ = h.conn.WriteString(strings.Join(words, " ") + "\n") // if nobody hears it, so be it
}
