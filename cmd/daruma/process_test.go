//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/message"
)

// built is the folder of the real binary, made by the first test that needs it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "daruma-built-")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "daruma"), ".").CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, os.Chmod(dir, 0o755) // another user runs it, too
})

func TestMain(m *testing.M) {
	if memory := os.Getenv(longServerVariable); memory != "" {
		os.Exit(longServer(memory))
	}
	if os.Getenv("DARUMA_TEST_AS_COMMAND") != "" {
		// Nobody asks for this, but it makes the command a part of the test binary:
		// else results are taken from the cache although the command has changed.
		main()
	}
	flag.Parse()
	code := m.Run()
	if asked {
		dir, _ := built()
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var asked bool // the binary was built

// build makes the real binary, once.
func build(t testing.TB) string {
	t.Helper()
	asked = true
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "daruma")
}

// place is where the real binary is tried: a folder, a state and a model server.
type place struct {
	t          testing.TB
	binary     string
	dir, state string
	server     *fault.Running
	env        []string // beside that of every place
}

func newPlace(t testing.TB, binary, script string) *place {
	t.Helper()
	parsed, err := fault.Parse("script", script)
	if err != nil {
		t.Fatal(err)
	}
	l, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, binary: binary, dir: t.TempDir(), state: t.TempDir(), server: fault.New(parsed, fault.Options{}).Serve(l)}
	t.Cleanup(func() {
		if err := p.server.Close(); err != nil {
			t.Error(err)
		}
		for _, v := range p.server.Report().Violations {
			t.Errorf("the conversation was broken: %s", v)
		}
		if left := running(p.dir); left != "" {
			t.Errorf("processes are left:\n%s", left)
		}
	})
	return p
}

// command is the binary with these arguments, ready to be started.
func (p *place) command(args ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	cmd = exec.Command(p.binary, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "ANTHROPIC_BASE_URL="+p.server.URL, "ANTHROPIC_API_KEY=any-key", "XDG_STATE_HOME="+p.state, "HOME="+p.state, "XDG_CONFIG_HOME="+p.state, "TERM=xterm")
	cmd.Env = append(cmd.Env, p.env...)
	cmd.WaitDelay = 10 * time.Second
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, errs
	return cmd, out, errs
}

// run runs it to its end, which must come with this exit code.
func (p *place) run(code int, args ...string) string {
	p.t.Helper()
	cmd, out, errs := p.command(args...)
	_ = cmd.Run() // its code says it
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("daruma %s: ended with %d, not %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
	}
	return out.String()
}

// journals lists the files of the sessions.
func (p *place) journals() []string {
	found, _ := filepath.Glob(filepath.Join(p.state, "daruma", "sessions", "*", "*.jsonl"))
	return found
}

// whole holds that each session is sound, and goes on.
func (p *place) whole() {
	p.t.Helper()
	for _, path := range p.journals() {
		p.run(0, "session", "check", path)
	}
	if out := p.run(0, "-p", "--continue", "Finish it."); !strings.Contains(out, "Good.") {
		p.t.Errorf("it does not go on: %s", out)
	}
}

// until waits for something to be so.
func (p *place) until(what string, so func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("it never came to this: %s", what)
		}
	}
}

func (p *place) has(name string) bool {
	_, err := os.Stat(filepath.Join(p.dir, name))
	return err == nil
}

// signalScript stops in one of two places: in the middle of an answer, or in a
// command that does not want to end.
const signalScript = `step talk always
  when user "^talk"
  stall text 10
model
  rule on
    when user "Finish it"
    say "Good."
  rule talk
    when user "^talk"
    say "I have begun to say something long." fill=100
  rule work
    call shell command="trap '' TERM; touch started; while :; do sleep 0.05; done"
`

// TestSignals sends signals to the real binary, while it waits for the model and
// while a command runs that ignores SIGTERM: the exit code is that of the signal,
// the journal is whole, and no process is left.
func TestSignals(t *testing.T) {
	binary := build(t)
	for _, c := range []struct {
		name    string
		signals []syscall.Signal
		code    int
		says    string // on stderr
	}{
		{"INT", []syscall.Signal{syscall.SIGINT}, 130, "interrupting; press Ctrl+C again"},
		{"TERM", []syscall.Signal{syscall.SIGTERM}, 143, "daruma -p --resume"},
		{"HUP", []syscall.Signal{syscall.SIGHUP}, 129, "daruma -p --resume"},
		{"INT twice", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130, ""},
		{"TERM twice", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 143, ""},
		{"HUP twice", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, 129, "daruma -p --resume"},
		{"INT, TERM", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, 143, ""},
	} {
		for _, at := range []string{"talk", "work"} {
			t.Run(c.name+"/"+at, func(t *testing.T) {
				t.Parallel() // they mostly wait
				p := newPlace(t, binary, signalScript)
				cmd, out, errs := p.command("-p", "--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--include-partial-messages", at)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if at == "work" {
					p.until("the command runs", func() bool { return p.has("started") })
				} else {
					p.until("the answer begins", func() bool { return len(p.server.Report().Requests) > 0 })
					time.Sleep(100 * time.Millisecond)
				}
				for _, s := range c.signals {
					if err := cmd.Process.Signal(s); err != nil {
						t.Fatal(err)
					}
					time.Sleep(150 * time.Millisecond)
				}
				_ = cmd.Wait()
				if got := cmd.ProcessState.ExitCode(); got != c.code && !(at == "talk" && got == 128+int(c.signals[0])) { // there the first one is enough
					t.Errorf("ended with %d, not %d\n%s\n%s", got, c.code, out, errs)
				}
				if !strings.Contains(errs.String(), c.says) {
					t.Errorf("stderr lacks %q:\n%s", c.says, errs)
				}
				if strings.Contains(errs.String(), "goroutine ") {
					t.Errorf("stderr shows the machinery:\n%s", errs)
				}
				p.until("no process is left", func() bool { return running(p.dir) == "" })
				p.whole()
			})
		}
	}
}

// TestSignalBeforeTheRun sends a signal while servers start: who reads JSON gets a
// result all the same, the exit code is that of the signal, and nothing is left.
func TestSignalBeforeTheRun(t *testing.T) {
	binary := build(t)
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		for _, format := range []string{"text", "json", "stream-json"} {
			t.Run(signal.String()+"/"+format, func(t *testing.T) {
				t.Parallel() // they mostly wait
				p := newPlace(t, binary, signalScript)
				cmd, out, errs := p.command("-p", "--output-format", format, "--mcp-config", `{"mcpServers":{"slow":{"command":"sh","args":["-c","touch started; cat"]}}}`, "talk")
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				p.until("the server starts", func() bool { return p.has("started") })
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				result := `"terminal_reason":"aborted_streaming","session_id":"","uuid":`
				if got := cmd.ProcessState.ExitCode(); got != code || strings.Contains(out.String(), result) == (format == "text") || strings.Count(out.String(), "\n") > 1 {
					t.Errorf("ended with %d, not %d\n%s", got, code, out)
				}
				if !strings.Contains(errs.String(), "interrupted before the run began") {
					t.Errorf("stderr: %s", errs)
				}
				p.until("no process is left", func() bool { return running(p.dir) == "" })
			})
		}
	}
}

// TestKilledInHook kills the real binary while a hook is asked about its first
// prompt. Who goes on finds nothing of it at work, and the prompt is not lost;
// nor is, afterwards, that more was asked for without a prompt.
func TestKilledInHook(t *testing.T) {
	t.Parallel() // it mostly waits
	p := newPlace(t, build(t), signalScript)
	hook := `{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"[ -e started ] && exit; touch started; trap '' TERM; while :; do echo x >> ticks; sleep 0.05; done"}]}]}}`
	cmd, _, _ := p.command("-p", "--settings", hook, "Finish it.")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.until("the hook runs", func() bool { return p.has("ticks") })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if out := p.run(0, "-p", "--continue", "--settings", hook); !strings.Contains(out, "Good.") {
		t.Errorf("the prompt is lost: %s", out)
	}
	if left := running(p.dir); left != "" {
		t.Errorf("processes of the killed one are left:\n%s", left)
	}
	p.run(0, "-p", "--continue")
	if journal, err := os.ReadFile(p.journals()[0]); err != nil || !strings.Contains(string(journal), message.Resume) {
		t.Errorf("what the model was told is not in the session: %v\n%s", err, journal)
	}
	p.whole()
}

// TestC250 lets the reader of stdout go away after the first line: the run ends
// cleanly, the session is saved and goes on.
func TestC250(t *testing.T) {
	binary := build(t)
	for _, format := range []string{"text", "json", "stream-json"} {
		t.Run(format, func(t *testing.T) {
			p := newPlace(t, binary, "model\n  rule on\n    say \"Good.\" fill=3000\n")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd, _, errs := p.command("-p", "--output-format", format, "--max-turns", "3", "work")
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if format == "stream-json" {
				line := make([]byte, 20)
				if _, err := r.Read(line); err != nil {
					t.Error(err)
				}
			}
			r.Close()
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("ended with %d", code)
			}
			if text := errs.String(); !strings.Contains(text, "stdout cannot be written: ") || strings.Contains(text, "goroutine ") {
				t.Errorf("stderr:\n%s", text)
			}
			p.whole()
		})
	}
}

// TestC170 starts two processes at once that want to go on with the last session:
// one works on it, the other one is refused and told by whom. Neither waits.
func TestC170(t *testing.T) {
	binary := build(t)
	p := newPlace(t, binary, "model\n  rule on\n    when user \"slow\", not results\n    call shell command=\"touch a; until [ -e go ]; do sleep 0.02; done\"\n  rule good\n    say \"Good.\"\n")
	p.run(0, "-p", "first")
	type end struct {
		code int
		text string
	}
	ends := make(chan end, 2)
	for range 2 {
		cmd, out, errs := p.command("-p", "--permission-mode", "bypassPermissions", "--continue", "slow")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = cmd.Wait()
			ends <- end{cmd.ProcessState.ExitCode(), out.String() + errs.String()}
		}()
	}
	first := <-ends // the one that works waits for the file
	if first.code != 42 || !strings.Contains(first.text, "another process works on this session (process ") || !strings.Contains(first.text, "--fork-session") {
		t.Errorf("the second process ended with %d: %s", first.code, first.text)
	}
	p.until("the command runs", func() bool { return p.has("a") })
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if second := <-ends; second.code != 0 {
		t.Errorf("the first process ended with %d: %s", second.code, second.text)
	}
	p.whole()
	if n := len(p.journals()); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// TestUnwritable runs as a user who may not write where sessions are kept: the
// command says so and begins nothing.
func TestUnwritable(t *testing.T) {
	binary := build(t)
	p := newPlace(t, binary, "model\n  rule good\n    say \"Good.\"\n")
	p.run(0, "-p", "first")
	credential := &syscall.Credential{Uid: 65534, Gid: 65534}
	if os.Getuid() != 0 {
		credential = nil // then this user is the one who may not
	}
	for _, dir := range []string{filepath.Dir(p.dir), filepath.Dir(p.state)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Dir(p.journals()[0])
	for _, mode := range []struct {
		name         string
		folder, file os.FileMode
		args         []string
	}{
		{"a folder that takes no file", 0o555, 0o444, []string{"-p", "new"}},
		{"a file that cannot be written", 0o555, 0o444, []string{"-p", "--continue", "again"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			before, err := os.ReadFile(p.journals()[0])
			if err != nil {
				t.Fatal(err)
			}
			for path, m := range map[string]os.FileMode{filepath.Join(p.state, "daruma"): 0o755, filepath.Dir(folder): 0o755, folder: mode.folder, p.journals()[0]: mode.file} {
				if err := os.Chmod(path, m); err != nil {
					t.Fatal(err)
				}
			}
			defer os.Chmod(folder, 0o755)
			cmd, _, errs := p.command(mode.args...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != 52 {
				t.Errorf("ended with %d", code)
			}
			if text := errs.String(); !strings.Contains(text, "cannot be used: ") || !strings.Contains(text, "permission denied") || !strings.Contains(text, "make it writable") {
				t.Errorf("stderr:\n%s", text)
			}
			if after, err := os.ReadFile(p.journals()[0]); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the session was changed: %v", err)
			}
		})
	}
	if n := len(p.server.Report().Requests); n != 1 {
		t.Errorf("%s were sent", fmt.Sprint(n))
	}
}
