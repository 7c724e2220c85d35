//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a real one, with the binary in front of it.
type terminal struct {
	*place
	cmd    *exec.Cmd
	master *os.File

	mu    sync.Mutex
	shown strings.Builder
}

// openTerminal starts the binary on a terminal of its own.
func (p *place) openTerminal(args ...string) *terminal {
	p.t.Helper()
	master, slave, err := pty()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd, _, _ := p.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // the terminal is that of a session
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	slave.Close()
	t := &terminal{place: p, cmd: cmd, master: master}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			t.mu.Lock()
			t.shown.Write(buf[:n])
			t.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return t
}

// pty makes a pair of a terminal and the other end of its line.
func pty() (master, slave *os.File, err error) {
	// Non-blocking, so that closing it ends a read.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 200}); err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	return master, slave, err
}

func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown.String()
}

func (t *terminal) sees(text string) {
	t.t.Helper()
	defer func() {
		if t.t.Failed() {
			t.t.Logf("the screen:\n%q", t.text())
		}
	}()
	t.until("the screen shows "+text, func() bool { return strings.Contains(t.text(), text) })
}

func (t *terminal) types(text string) {
	t.t.Helper()
	if _, err := io.WriteString(t.master, text); err != nil {
		t.t.Fatal(err)
	}
}

func (t *terminal) ends(code int) {
	t.t.Helper()
	_ = t.cmd.Wait()
	if got := t.cmd.ProcessState.ExitCode(); got != code {
		t.t.Errorf("ended with %d, not %d\n%q", got, code, t.text())
	}
	t.master.Close()
}

// TestTerminalGoes closes a real terminal in the middle of work, with a
// conversation on it or one prompt: the exit code says so, the journal is whole,
// no process is left.
func TestTerminalGoes(t *testing.T) {
	binary := build(t)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"conversation", []string{"--permission-mode", "bypassPermissions", "work"}},
		{"one prompt", []string{"-p", "--permission-mode", "bypassPermissions", "work"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t, binary, signalScript)
			term := p.openTerminal(c.args...)
			p.until("the command runs", func() bool { return p.has("started") })
			term.master.Close()
			term.ends(129)
			p.until("no process is left", func() bool { return running(p.dir) == "" })
			p.whole()
		})
	}
	t.Run("idle", func(t *testing.T) {
		p := newPlace(t, binary, signalScript)
		term := p.openTerminal()
		term.sees("/help")
		term.master.Close()
		term.ends(129)
	})
}

// TestC108 presses Ctrl+C in a conversation: the first one cancels what runs and
// keeps the session, two at an empty prompt leave.
func TestC108(t *testing.T) {
	p := newPlace(t, build(t), signalScript)
	term := p.openTerminal("--permission-mode", "bypassPermissions", "work")
	p.until("the command runs", func() bool { return p.has("started") })
	term.types("\x03")
	term.sees("interrupted while tools ran")
	p.until("no command is left", func() bool { return !strings.Contains(running(p.dir), "touch started") })
	term.types("Finish it\r")
	term.sees("Good.")
	leave := "press Ctrl+C again to leave"
	for n := 0; n < 50 && !strings.Contains(term.text(), leave); n++ { // the run may need a moment to end
		term.types("\x03")
		time.Sleep(200 * time.Millisecond)
	}
	term.sees(leave)
	term.types("\x03")
	term.ends(0)
	p.whole()
}

// TestConversationSignals sends signals to a conversation.
func TestConversationSignals(t *testing.T) {
	p := newPlace(t, build(t), signalScript)
	term := p.openTerminal("--permission-mode", "bypassPermissions", "work")
	p.until("the command runs", func() bool { return p.has("started") })
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	term.ends(143)
	p.whole()
}

// TestChoice opens a session in a terminal on which another process works, and
// takes each of the choices that the person has.
func TestChoice(t *testing.T) {
	p := newPlace(t, build(t), "model\n  rule on\n    when user \"slow\", not results\n    call shell command=\"touch a; until [ -e go ]; do sleep 0.02; done\"\n  rule good\n    say \"Good.\"\n")
	cmd, out, _ := p.command("-p", "--permission-mode", "bypassPermissions", "slow")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.until("the command runs", func() bool { return p.has("a") })

	read := p.openTerminal("--continue")
	read.sees("w wait until it is free")
	read.types("r\r")
	read.sees("in use by process")
	read.sees("at work now")
	read.ends(0)

	leave := p.openTerminal("--continue")
	leave.sees("w wait until it is free")
	leave.types("n\r")
	leave.sees("another process works on this session (process ")
	leave.ends(42)

	wait := p.openTerminal("--continue")
	wait.sees("w wait until it is free")
	wait.types("w\r")
	wait.sees("waiting up to")

	fork := p.openTerminal("--continue")
	fork.sees("w wait until it is free")
	fork.types("f\r")
	fork.sees("this is a copy of the session")
	fork.types("hello\r")
	fork.sees("Good.")
	fork.types("/exit\r")
	fork.ends(0)

	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "Good.") {
		t.Errorf("the first process: %v\n%s", err, out)
	}
	wait.sees("/help")
	wait.types("hello\r")
	wait.sees("Good.")
	wait.types("/exit\r")
	wait.ends(0)
	if n := len(p.journals()); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

// TestWorkIsSeen holds that a conversation says what goes on, for how long, and
// what stops it, while nothing else is said.
func TestWorkIsSeen(t *testing.T) {
	p := newPlace(t, build(t), `step silent
  when user "^silent"
  stall headers
step limit
  when user "^limit"
  status 429
  header retry-after "5"
model
  rule work
    when user "^work", not results
    call shell command="echo step one; sleep 5"
  rule done
    say "Good."
`)
	term := p.openTerminal("--permission-mode", "bypassPermissions", "work")
	term.sees("· step one · Esc stops")
	term.sees("Good.")
	term.types("silent\r")
	term.sees("[waiting for the model · 5s · Esc stops]")
	term.types("\x1b")
	term.sees("interrupted while the model answered")
	term.types("limit\r")
	term.sees("[rate limit (429) · try 1 of 10 in ")
	term.types("\x1b")
	p.until("the wait ends", func() bool { return strings.Count(term.text(), "interrupted") == 2 })
	term.types("/exit\r")
	term.ends(0)
}

// TestTypedAtTheEnd types each prompt just when the answer before it came: the
// run that is about to end must not swallow it.
func TestTypedAtTheEnd(t *testing.T) {
	p := newPlace(t, build(t), "model\n  rule all\n    say \"You said ${user}.\"\n")
	term := p.openTerminal()
	term.sees("/help")
	term.types("number 0\r")
	for n := range 12 {
		term.sees(fmt.Sprintf("You said number %d.", n))
		term.types(fmt.Sprintf("number %d\r", n+1))
	}
	term.sees("You said number 12.")
	term.types("/nothing here\r")
	term.sees("there is no command /nothing;")
	term.types("/exit\r")
	term.ends(0)
}

// TestWhatIsAllowedIsSeen holds that a question shows all of what it asks about,
// asks again when it is not understood, and names only the keys that there are.
func TestWhatIsAllowedIsSeen(t *testing.T) {
	p := newPlace(t, build(t), fmt.Sprintf(`step long always
  when user "^wait"
  status 429
  header retry-after "10800"
model
  rule run
    when user "^run", not results
    call-raw Bash %q
  rule write
    when user "^write", not results
    call write file_path="${cwd}/a.txt" content="first\nsecond"
  rule steer
    when user "^steer"
    say "Before\x1b[2J\x1b]0;title\x07 after."
  rule done
    say "Good."
`, `{"command":"echo a # `+strings.Repeat("harmless ", 20)+`\ntouch made"}`))
	term := p.openTerminal()
	term.types("run\r")
	term.sees("  │ touch made")
	term.types("\r")
	term.sees("or words: what is to be done instead")
	term.types("y\r")
	term.sees("Good.")
	term.types("write\r")
	term.sees("  │ + second")
	term.types("n\r")
	term.sees("type /continue to go on, or what to do instead")
	term.types("steer\r")
	term.sees("Before after.")
	term.types("wait\r")
	term.sees("w/n> ")
	term.types("what\r")
	p.until("it asks again", func() bool { return strings.Count(term.text(), "w wait · n stop") == 2 })
	term.types("n\r")
	term.sees("go on after ")
	term.types("/exit\r")
	term.ends(0)
}

// TestCutIn cuts in while the model speaks.
func TestCutIn(t *testing.T) {
	p := newPlace(t, build(t), signalScript)
	term := p.openTerminal("talk")
	p.until("the answer begins", func() bool { return len(p.server.Report().Requests) > 0 })
	term.types("/now Finish it\r")
	term.sees("cuts in: Finish it")
	term.sees("Good.")
	term.sees("2 turns") // the run is over
	term.types("/why\r")
	term.sees("  - go on with another prompt\r\n")
	term.types("/exit\r")
	term.ends(0)
}

// TestKilledIsToldOnTheScreen opens a session whose process was killed: what it
// left open is told, and how to go on.
func TestKilledIsToldOnTheScreen(t *testing.T) {
	p := newPlace(t, build(t), signalScript)
	term := p.openTerminal("--permission-mode", "bypassPermissions", "work")
	p.until("the command runs", func() bool { return p.has("started") })
	if err := term.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = term.cmd.Wait()
	term.master.Close()
	p.until("no command is left", func() bool { return !strings.Contains(running(p.dir), "touch started") })
	again := p.openTerminal("--continue")
	again.sees("in doubt")
	again.sees("type /continue to go on from there, or another prompt")
	again.types("/why\r")
	again.sees("Ended without an end:")
	again.types("/exit\r")
	again.ends(0)
}

// TestSubAgentIsSeen holds that the screen says what a sub-agent waits for, and
// that it is one who asks.
func TestSubAgentIsSeen(t *testing.T) {
	p := newPlace(t, build(t), `step busy
  when user "^part"
  status 529
  header retry-after "5"
model
  rule part
    when user "^part", not results
    call shell command="touch made"
  rule give
    when user "^give", not results
    call agent description="a part" prompt="part of it"
  rule done
    say "Good."
`)
	term := p.openTerminal("give")
	term.sees("· overloaded: retry, try 1 of 10 at ")
	term.sees("? a sub-agent asks: Bash touch made")
	term.types("y\r")
	term.sees("Good.")
	p.until("the prompt is back", func() bool { return strings.Contains(term.text(), "2 turns") })
	term.types("/exit\r")
	term.ends(0)
}
