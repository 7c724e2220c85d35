//go:build linux

package hook

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/sandbox/keeper"
)

// TestProcess looks at what a command finds: its input, its place, its
// environment, its descriptors, no terminal.
func TestProcess(t *testing.T) {
	c := common(t)
	one := sh(Stop, `cat > input; pwd > place; env > env; ls -l /proc/self/fd > fds; (: < /dev/tty) 2> tty; ps -o sid= -p $$ > sid; echo $$ >> sid`)
	h := hooks(t, Config{Handlers: []Handler{one}, ProjectDir: "/project", Env: append(env(), "DARUMA_CALL=outer", "CLAUDE_PROJECT_DIR=no")})
	out := h.Run(context.Background(), example(Stop, c))
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(c.Dir, name))
		if err != nil {
			t.Fatalf("%v: %+v", err, out)
		}
		return string(data)
	}
	if !strings.HasPrefix(read("input"), `{"session_id":"s1"`) || !strings.HasSuffix(read("input"), "}") {
		t.Errorf("input: %s", read("input"))
	}
	if strings.TrimSpace(read("place")) != c.Dir {
		t.Errorf("place: %s", read("place"))
	}
	for _, want := range []string{"CLAUDE_PROJECT_DIR=/project\n", "DARUMA_PROJECT_DIR=/project\n", "PROBE=yes\n", "DARUMA_CALL=outer:h"} {
		if strings.Count("\n"+read("env"), "\n"+want) != 1 {
			t.Errorf("%q is not in the environment once:\n%s", want, read("env"))
		}
	}
	if n, want := strings.Count(read("fds"), "->"), 4+len(passedOn()); n != want { // its three, and the one that ls reads with
		t.Errorf("%d descriptors, not %d:\n%s", n, want, read("fds"))
	}
	if read("tty") == "" {
		t.Error("there is a terminal")
	}
	if f := strings.Fields(read("sid")); len(f) != 2 || f[0] != f[1] {
		t.Errorf("no session of its own: %v", f)
	}
}

// passedOn are the descriptors that who started this test left open for all that
// it starts in turn.
func passedOn() (fds []string) {
	infos, _ := filepath.Glob("/proc/self/fdinfo/*")
	for _, info := range infos {
		data, err := os.ReadFile(info)
		fd, _ := strconv.Atoi(filepath.Base(info))
		_, flags, _ := strings.Cut(string(data), "flags:")
		if f := strings.Fields(flags); err == nil && fd > 2 && len(f) > 0 {
			if bits, _ := strconv.ParseInt(f[0], 8, 64); bits&syscall.O_CLOEXEC == 0 {
				fds = append(fds, filepath.Base(info))
			}
		}
	}
	return fds
}

// gonePID checks that the process whose number is in a file is gone.
func gonePID(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if _, alive := keeper.LookUp(pid); alive {
		t.Errorf("process %d is alive", pid)
	}
}

// TestTree: nothing of a hook outlives it, however it hides, and what holds its
// pipes cannot hold us.
func TestTree(t *testing.T) {
	const holder = `setsid sh -c 'trap "" TERM; echo $$ > pid; sleep 60; sleep 60' & while [ ! -s pid ]; do sleep 0.01; done; `
	for _, c := range []struct {
		name, command string
		outcome       string
	}{
		{"a timeout ends what left the session", holder + "sleep 60", "cancelled"},
		{"the end ends what holds the output", holder + "exit 0", "success"},
		{"a hook that does not listen", `trap "" TERM; echo $$ > pid; while :; do sleep 0.05; done`, "cancelled"},
		{"an orphan without the mark of the group", `(setsid sh -c 'echo $$ > pid; exec sleep 60' </dev/null >/dev/null 2>&1 &) ; while [ ! -s pid ]; do sleep 0.01; done`, "success"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := example(Stop, common(t))
			one := sh(Stop, c.command)
			if c.outcome == "cancelled" {
				one.Timeout = 3 * time.Second
			}
			out := hooks(t, Config{Handlers: []Handler{one}}).Run(context.Background(), in)
			if out.Results[0].Outcome != c.outcome || out.Results[0].Took > 20*time.Second {
				t.Errorf("%s after %s: %v", out.Results[0].Outcome, out.Results[0].Took, out.Notices)
			}
			gonePID(t, filepath.Join(in.Dir, "pid"))
		})
	}
}

// TestHiding: what cannot be found cannot hold us either, and what a hook said
// that could not be heard to its end is no yes.
func TestHiding(t *testing.T) {
	t.Parallel()
	const hide = `(setsid env -i sleep 20 &); sleep 0.2; `
	for _, c := range []struct {
		command string
		want    Permission
		why     string
	}{
		{hide + "echo '" + says(PreToolUse, "json") + "'", Deny, "something that it started holds it open"},
		{hide + "echo enough >&2; exit 2", Deny, "enough"},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			out := run(t, Config{}, sh(PreToolUse, c.command))
			if out.Permission != c.want || !strings.Contains(out.Reason, c.why) {
				t.Errorf("%q: %s", out.Permission, out.Reason)
			}
		})
	}
}

// TestNoZombies: every child of this process was waited for.
func TestNoZombies(t *testing.T) {
	one := sh(Stop, "sleep 60 & sleep 60")
	one.Timeout = 50 * time.Millisecond
	for range 5 {
		run(t, Config{}, one, sh(Stop, "kill -9 $$"), sh(Stop, "exit 1"))
	}
	var status syscall.WaitStatus
	for deadline := time.Now().Add(5 * time.Second); ; {
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.ECHILD {
			return
		}
		if pid > 0 || time.Now().After(deadline) {
			t.Fatalf("child %d was not waited for", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestOutputs: much output and much input block nobody.
func TestOutputs(t *testing.T) {
	in := example(UserPromptSubmit, common(t))
	in.Body = UserPromptSubmitInput{Text: strings.Repeat("x", 3<<20)}
	for name, command := range map[string]string{
		"input that is not read": "exit 0",
		"much of both":           "head -c 5000000 /dev/zero | tr '\\0' a; head -c 5000000 /dev/zero | tr '\\0' b >&2; cat > /dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			out := hooks(t, Config{Handlers: []Handler{sh(UserPromptSubmit, command)}}).Run(context.Background(), in)
			r := out.Results[0]
			if r.Outcome != "success" || len([]rune(r.Stdout)) > 10_000 || len([]rune(r.Stderr)) > 10_000 || r.Chars > 10_000 {
				t.Errorf("%s %d %d %d", r.Outcome, len(r.Stdout), len(r.Stderr), r.Chars)
			}
		})
	}
	out := run(t, Config{}, sh(SessionStart, `printf 'a\033[2Jb\377\000c'`))
	if len(out.Context) != 1 || out.Context[0].Text != "a[2Jb\uFFFDc" {
		t.Errorf("%+v", out.Context)
	}
}

// TestDirect: with args there is no shell, and a relative program is one of the place.
func TestDirect(t *testing.T) {
	in := example(SessionStart, common(t))
	if err := os.WriteFile(filepath.Join(in.Dir, "hello"), []byte("#!/bin/sh\nprintf '%s' \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"./hello", filepath.Join(in.Dir, "hello"), "printf"} {
		one := Handler{Event: SessionStart, Type: Command, Command: program, Direct: true, Args: []string{"$HOME; x"}}
		out := hooks(t, Config{Handlers: []Handler{one}}).Run(context.Background(), in)
		if len(out.Context) != 1 || out.Context[0].Text != "$HOME; x" {
			t.Errorf("%s: %+v", program, out)
		}
	}
	here := Handler{Event: SessionStart, Type: Command, Command: "hello", Direct: true}
	out := hooks(t, Config{Handlers: []Handler{here}, Env: []string{"PATH=.:" + in.Dir + "/../x"}}).Run(context.Background(), in)
	if len(out.Notices) != 1 {
		t.Errorf("a relative entry of PATH counts: %+v", out)
	}
	bash := sh(SessionStart, `printf '%s' "${BASH_VERSION:+bash}"`)
	bash.Shell = "bash"
	if out := hooks(t, Config{Handlers: []Handler{bash}}).Run(context.Background(), in); len(out.Context) != 1 || out.Context[0].Text != "bash" {
		t.Errorf("%+v", out)
	}
}

// TestSessionEnd: the person has left, so all hooks share one short time.
func TestSessionEnd(t *testing.T) {
	quick, longer := sh(SessionEnd, "echo 1 > quick; sleep 60"), sh(SessionEnd, "sleep 2; echo 1 > longer")
	began := time.Now()
	in := example(SessionEnd, common(t))
	out := hooks(t, Config{Handlers: []Handler{quick}}).Run(context.Background(), in)
	if took := time.Since(began); took < 1500*time.Millisecond || took > 30*time.Second || out.Results[0].Outcome != "cancelled" {
		t.Errorf("%s: %+v", took, out)
	}
	if _, err := os.Stat(filepath.Join(in.Dir, "quick")); err != nil {
		t.Error(err)
	}
	longer.Timeout = 60 * time.Second // raises the time
	if out := hooks(t, Config{Handlers: []Handler{longer}}).Run(context.Background(), in); out.Results[0].Outcome != "success" {
		t.Errorf("%+v", out)
	}
}

// TestAsync: nobody waits, nothing is decided, a bounded number runs, and Close
// ends what is left.
func TestAsync(t *testing.T) {
	c := common(t)
	in := example(PreToolUse, c)
	one := sh(PreToolUse, "echo $$ > pid; sleep 60; exit 2")
	one.Async = true
	two, three := one, sh(PreToolUse, "exit 3")
	two.Command += " # two"
	three.Async = true
	h := hooks(t, Config{Handlers: []Handler{one, two}, MaxAsync: 1})
	out := h.Run(context.Background(), in)
	if out.Permission != "" || len(out.Results) != 0 || len(out.Notices) != 1 || !strings.Contains(out.Notices[0].Text, "not started: 1 hooks") {
		t.Errorf("%+v", out)
	}
	pid := filepath.Join(c.Dir, "pid")
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if data, _ := os.ReadFile(pid); len(data) > 0 {
			break
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if left := h.Close(over); len(left) != 1 || !strings.Contains(left[0].Text, "were ended") {
		t.Errorf("%+v", left)
	}
	gonePID(t, pid)
	if out := h.Run(context.Background(), in); len(out.Notices) != 2 {
		t.Errorf("it starts hooks after the end: %+v", out)
	}

	h = hooks(t, Config{Handlers: []Handler{three}})
	h.Run(context.Background(), in)
	if left := h.Close(context.Background()); len(left) != 1 || !strings.Contains(left[0].Text, "exit code 3") {
		t.Errorf("%+v", left)
	}
	h = hooks(t, Config{Handlers: []Handler{sh(StopFailure, "cat > told; exit 1")}})
	h.Start(example(StopFailure, c))
	if left := h.Close(context.Background()); len(left) != 1 {
		t.Errorf("%+v", left)
	}
	if told, _ := os.ReadFile(filepath.Join(c.Dir, "told")); !strings.Contains(string(told), `"error":"overloaded"`) {
		t.Errorf("told: %s", told)
	}
}
