package keeper

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// killWait is how long processes may take to go after SIGKILL. Only those that
// hang in the kernel need longer.
const killWait = 5 * time.Second

// What the syscall package does not name (prctl(2), landlock_restrict_self(2)).
const (
	prSetName           = 15
	prSetChildSubreaper = 36
	prSetNoNewPrivs     = 38
	// New calls have the same number everywhere; MIPS counts from a base.
	sysLandlockRestrictSelf = 446 + syscall.SYS_READ/1000*1000
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
	if len(args) != 2 || args[1] != Argument || !isSocket(Control) {
		return 0, false
	}
	runtime.LockOSThread() // rules hold for a thread, and this one starts the command
	inheritNothing()
	h := &watch{
		env: env, conn: os.NewFile(Control, "control"),
		none: make(chan struct{}), exited: make(chan syscall.WaitStatus, 1),
	}
	if err := h.serve(); err != nil {
		h.say(Failed, err.Error())
		return 1, true
	}
	return 0, true
}

// inheritNothing keeps all but the three streams from the command: the control
// socket, and what the agent itself was given by whoever started it.
func inheritNothing() {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		syscall.CloseOnExec(Control)
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

func isSocket(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFSOCK
}

// failure is an error with what was tried.
type failure struct {
	op  string
	err error
}

func (f *failure) Error() string { return f.op + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func prctl(op string, option, arg uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, option, arg, 0, 0, 0, 0); errno != 0 {
		return &failure{op, errno}
	}
	return nil
}

// confine puts the calling thread, and what it starts, under the rules.
func confine() error {
	if err := prctl("give up new privileges", prSetNoNewPrivs, 1); err != nil {
		return err
	}
	if _, _, errno := syscall.Syscall(sysLandlockRestrictSelf, Ruleset, 0, 0); errno != 0 {
		return &failure{"enter the sandbox", errno}
	}
	return nil
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
	name := []byte("daruma-helper\x00") // for people who look at processes
	_ = prctl("take a name", prSetName, uintptr(unsafe.Pointer(&name[0])))
	if err := prctl("watch over descendants", prSetChildSubreaper, 1); err != nil {
		return err
	}
	o, err := decode(h.conn)
	if err != nil {
		return err
	}
	if o.Confined {
		if err := confine(); err != nil {
			return err
		}
	}
	if h.hear() != Go {
		return nil // whoever wanted it has changed his mind, or is gone
	}
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	h.pid, err = syscall.ForkExec(o.Argv[0], o.Argv, &syscall.ProcAttr{
		Env: h.env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return &failure{"run " + o.Argv[0], err}
	}
	h.say(Started)
	letGo()
	go h.reap()
	go func() {
		h.hear() // whatever comes, or nothing more
		asked <- syscall.SIGTERM
	}()
	h.attend(asked, o.Grace)
	return nil
}

// hear waits for a word. The end of the socket is End.
func (h *watch) hear() byte {
	var word [1]byte
	if n, err := h.conn.Read(word[:]); n != 1 || err != nil {
		return End
	}
	return word[0]
}

// letGo closes the streams, which belong to the command: whoever reads them
// waits for their end.
func letGo() {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || syscall.Dup3(null, fd, syscall.O_CLOEXEC) != nil {
			_ = syscall.Close(fd)
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
			h.say(Over, "0")
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
	words := []string{Over, strconv.Itoa(found)}
	for _, pid := range stuck {
		words = append(words, strconv.Itoa(pid))
	}
	h.say(words...)
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
		h.say(Exited, strconv.Itoa(128+int(ws.Signal())), ws.Signal().String())
		return
	}
	h.say(Exited, strconv.Itoa(ws.ExitStatus()))
}

func (h *watch) say(words ...string) {
	line := words[0]
	for _, w := range words[1:] {
		line += " " + w
	}
	_, _ = h.conn.WriteString(line + "\n") // if nobody hears it, so be it
}
