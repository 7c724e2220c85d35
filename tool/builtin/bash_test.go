//go:build unix

package builtin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/sandbox"
	"github.com/daruma-agent/daruma/sandbox/keeper"
	"github.com/daruma-agent/daruma/tool"
)

// sh runs a command and checks afterwards that nothing of it is left.
func (b *bench) sh(command string, timeout int) (tool.Result, BashOutput) {
	b.t.Helper()
	return b.shell(b.t.Context(), tool.Call{Name: "Bash"}, in{"command": command, "timeout": timeout})
}

func (b *bench) shell(ctx context.Context, c tool.Call, input in) (tool.Result, BashOutput) {
	b.t.Helper()
	r := b.run(ctx, c, input)
	o, ok := r.Output.(BashOutput)
	if !ok {
		b.t.Errorf("no structured output: %+v", r)
	}
	return r, o
}

// witness gives the environment a mark by which a test finds what was left.
func witness(t *testing.T) func(*Config) {
	mark := fmt.Sprintf("WITNESS=%s-%d", t.Name(), time.Now().UnixNano())
	t.Cleanup(func() {
		if pids := (&tree{pgid: -1, token: mark}).alive(); len(pids) > 0 {
			t.Errorf("processes left: %v", pids)
		}
	})
	return func(c *Config) { c.Env = append(c.Env, mark) }
}

// everyWay runs a test in each way in which commands can run; with -short only in
// that of the command daruma.
func everyWay(t *testing.T, test func(t *testing.T, way func(*Config))) {
	t.Helper()
	if runtime.GOOS != "linux" || !testing.Short() {
		t.Run("children", func(t *testing.T) { test(t, func(*Config) {}) })
	}
	if runtime.GOOS == "linux" { // elsewhere there is no other way
		t.Run("helper", func(t *testing.T) { test(t, boxed) })
	}
}

// helped gives commands this test binary as their helper, and boxed also a
// sandbox, if the kernel has one.
func helped(c *Config) { c.Helper = []string{"/proc/self/exe", keeper.Argument} }

func boxed(c *Config) {
	helped(c)
	if sandbox.ABI() < 2 {
		return
	}
	c.Sandbox = &sandbox.Rules{Write: append([]string{c.Root}, sandbox.Places(os.Getenv)...)}
}

// withArgument lists the processes with an argument that contains text.
func withArgument(t *testing.T, text string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) {
			pids = append(pids, f)
		}
	}
	return pids
}

func TestBashOutcomes(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t))
		b.file("dir/file.txt", "needle\n")
		for _, c := range []struct{ command, text, class string }{
			{"echo hello", "hello", ""},
			{"true", "(Bash completed with no output)", ""},
			{"echo out; echo err >&2; echo out2", "out\nerr\nout2", ""},
			{"pwd -P", b.areas[0].real, ""},
			{"echo a; exit 3", "Exit code 3\na", tool.ClassExit},
			{"false", "Exit code 1\n(no output)", tool.ClassExit},
			{"cat", "(Bash completed with no output)", ""}, // stdin is empty
			{"read x < /dev/tty", "Exit code 1\n", tool.ClassExit},
			{"no-such-program", "Exit code 127\n", tool.ClassExit},
			{"kill -9 $$", "Exit code 137\n(no output)\n(ended by a signal: killed)", tool.ClassExit},
			{"grep nothing dir/file.txt", "(no output)\n(exit code 1: no matches found)", ""},
			{"cd dir && ls | grep nothing", "(exit code 1: no matches found)", ""},
			{"false && grep needle dir/file.txt", "Exit code 1", tool.ClassExit},
			{"grep x no-such-file", "Exit code 2\n", tool.ClassExit},
			{"diff dir/file.txt /dev/null", "(exit code 1: the files differ)", ""},
			{"test -f nothing", "(exit code 1: the condition is false)", ""},
			{"echo '", "Exit code 2\n", tool.ClassExit},
			{"printf 'a\\000b\\377c\\033[31mred\\033[0m\\r\\n'", "a␀b\uFFFDcred", ""},
			{"head -c 3000 /dev/urandom", "[binary output of 3000 bytes, not shown; the whole output is in ", ""},
			{"echo $DARUMA $PWD", "1 " + b.root, ""},
			{"exit 126", "Exit code 126", tool.ClassExit},
			{"cat <&3", "Exit code 1\n", tool.ClassExit}, // the gate is closed
		} {
			r, _ := b.sh(c.command, 20_000)
			if got := text(r); !strings.HasPrefix(got, c.text) && !strings.HasSuffix(got, c.text) || r.Class != c.class || r.IsError != (c.class != "") {
				t.Errorf("%s: class %q, text:\n%s\nwant %q:\n%s", c.command, r.Class, got, c.class, c.text)
			}
		}
	})
}

// A command gets nothing to read from but an end: no file of ours, no terminal.
func TestBashInheritsNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	everyWay(t, func(t *testing.T, way func(*Config)) {
		b := open(t, way)
		f, err := os.Open(b.dir) // as a program may have many open
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := b.good("Bash", in{"command": "ls -l /proc/$$/fd"}); strings.Contains(got, b.dir) || !strings.Contains(got, "pipe:") {
			t.Errorf("descriptors: %s", got)
		}
		if got := b.good("Bash", in{"command": "readlink /proc/$$/fd/0; env | grep -c GATE"}); !strings.HasPrefix(got, "/dev/null\n0") {
			t.Errorf("%s", got)
		}
	})
}

func TestBashRefuses(t *testing.T) {
	b := open(t)
	wants(t, b.bad("Bash", in{"command": " "}), "empty")
	wants(t, b.bad("Bash", in{"command": "a\x00b"}), "NUL")
	wants(t, b.bad("Bash", in{"command": "ls", "timeout": -1}), "negative")
	wants(t, b.bad("Bash", in{"command": " ", "run_in_background": true}), "empty")
	for ms, want := range map[int]time.Duration{0: 0, 1: time.Millisecond, 60_000: time.Minute, 60_001: time.Minute, math.MaxInt / 1000: time.Minute, math.MaxInt: time.Minute} {
		if got := atMost(time.Minute, ms); got != want {
			t.Errorf("a timeout of %d ms is %v, want %v", ms, got, want)
		}
	}
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	wants(t, b.bad("Bash", in{"command": "ls"}), "could not be started in "+b.root)
}

func TestBashCancelled(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t))
		ctx, cancel := context.WithCancel(t.Context())
		c := tool.Call{Name: "Bash", Progress: func(s string) {
			if strings.Contains(s, "ready") {
				cancel()
			}
		}}
		r, o := b.shell(ctx, c, in{"command": "echo ready; setsid sleep 300; sleep 300"})
		if r.Class != tool.ClassAborted || !o.Interrupted || o.TimedOutAfter != 0 {
			t.Errorf("%+v", r)
		}
		wants(t, text(r), "cancelled", "ready")
	})
}

// A command that ends nicely on SIGTERM is given the time to.
func TestBashGrace(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t), func(c *Config) { c.Grace = 20 * time.Second })
		r, _ := b.sh("trap 'sleep 0.3; echo cleaned; exit 0' TERM; sleep 300 & wait", 2000)
		wants(t, text(r), "cleaned")
	})
}

func TestBashStarted(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t))
		session := "echo $$" // the shell leads its session, or its helper does
		if len(b.cfg.Helper) > 0 {
			session = "cut -d' ' -f6 /proc/$$/stat"
		}
		var group int
		c := tool.Call{Name: "Bash", Started: func(pgid int, start time.Time) error {
			group = pgid
			// The gate holds: the shell lives and has done nothing yet.
			time.Sleep(100 * time.Millisecond)
			if _, err := os.Stat(filepath.Join(b.dir, "mark")); err == nil {
				t.Error("the command ran before its group was noted")
			}
			if err := syscall.Kill(-pgid, 0); err != nil || time.Since(start) > time.Minute {
				t.Errorf("group %d, start %v: %v", pgid, start, err)
			}
			return nil
		}}
		_, o := b.shell(t.Context(), c, in{"command": "touch mark; " + session})
		if strings.TrimSpace(o.Stdout) != fmt.Sprint(group) {
			t.Errorf("group %d, session %s", group, o.Stdout)
		}
		b.content("mark")

		c.Started = func(int, time.Time) error { return &tool.SafeError{Safe: "disk full", Err: errors.New("no space")} }
		r := b.run(t.Context(), c, in{"command": "touch mark2"})
		wants(t, text(r), "was not run", "no space")
		if _, err := os.Stat(filepath.Join(b.dir, "mark2")); err == nil || r.Class != "disk full" {
			t.Errorf("a command whose start could not be noted ran: %+v", r)
		}

		// The environment of the command must not get before the gate either.
		b.file("env.sh", "touch early\n")
		b2 := open(t, way, witness(t), func(c *Config) { c.Env = append(c.Env, "BASH_ENV="+b.dir+"/env.sh", "ENV="+b.dir+"/env.sh") })
		c.Started = func(int, time.Time) error {
			time.Sleep(100 * time.Millisecond)
			if _, err := os.Stat(filepath.Join(b2.dir, "early")); err == nil {
				t.Error("BASH_ENV ran before the gate")
			}
			return nil
		}
		b2.shell(t.Context(), c, in{"command": "true"})

		for name, callback := range map[string]func(*tool.Call){
			"Started":  func(c *tool.Call) { c.Started = func(int, time.Time) error { panic("callback") } },
			"Progress": func(c *tool.Call) { c.Progress = func(string) { panic("callback") } },
		} {
			c := tool.Call{Name: "Bash"}
			callback(&c)
			if r := b.run(t.Context(), c, in{"command": "echo x; sleep 300"}); r.Class != tool.ClassPanic {
				t.Errorf("panic in %s: %+v", name, r)
			}
		}
	})
}

func TestBashFlood(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t))
		r, o := b.sh("yes 0123456789 | head -c 20000000; echo THE END", 60_000)
		if n := utf8.RuneCountInString(text(r)); n > 31_000 || !strings.HasSuffix(text(r), "THE END") {
			t.Errorf("%d characters: … %s", n, text(r)[len(text(r))-80:])
		}
		wants(t, text(r), "bytes left out here; the whole output is in "+o.Path)
		if info, err := os.Stat(o.Path); err != nil || info.Size() != 20_000_008 || info.Mode().Perm() != 0o600 {
			t.Errorf("spill file: %v, %v", info, err)
		}
		wants(t, b.good("Grep", in{"pattern": "END", "path": o.Path, "output_mode": "content"}), "THE END")

		// An endless one is cut on disk and ended by its timeout.
		r, o = b.sh("yes 0123456789", 700)
		if info, err := os.Stat(o.Path); err != nil || info.Size() > maxSpill || r.Class != tool.ClassTimeout {
			t.Errorf("class %s, spill file: %v, %v", r.Class, info, err)
		}
		// A failure shows less, but has its file too.
		r, o = b.sh("yes | head -c 12000; exit 1", 60_000)
		if n := utf8.RuneCountInString(text(r)); n > 10_000 || o.Path == "" || strings.Count(text(r), "left out here") != 1 {
			t.Errorf("%d characters, path %q", n, o.Path)
		}
		// And without a folder the loss is told.
		b = open(t, way, witness(t), func(c *Config) { c.Spill = "" })
		r, _ = b.sh("yes | head -c 100000", 60_000)
		wants(t, text(r), "bytes left out here; it was not kept")
	})
}

func TestBashProgress(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		t.Parallel()
		b := open(t, way, witness(t))
		var got strings.Builder
		calls := 0
		c := tool.Call{Name: "Bash", Progress: func(s string) { got.WriteString(s); calls++ }}
		b.shell(t.Context(), c, in{"command": "for i in 1 2 3 4 5; do echo tick $i; sleep 0.15; done; sleep 1"})
		wants(t, got.String(), "tick 1\n", "tick 5\n")
		if calls < 2 || calls > 10 {
			t.Errorf("%d reports", calls)
		}
	})
}

func TestBashHidesSecrets(t *testing.T) {
	b := open(t, func(c *Config) {
		c.Env = append(c.Env, "ANTHROPIC_API_KEY=hush", "OPENAI_API_KEY=hush", "OTEL_EXPORTER_OTLP_HEADERS=hush", "MY_KEY=hush", "HARMLESS=shown")
		c.Secrets = []string{"MY_KEY"}
	})
	got := b.good("Bash", in{"command": "env"})
	wants(t, got, "HARMLESS=shown")
	if strings.Contains(got, "hush") {
		t.Error("a command can see a secret:\n" + got)
	}
}

func TestBashWrap(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		b := open(t, way, func(c *Config) {
			c.Wrap = func(argv []string) []string { return append([]string{"/usr/bin/env", "WRAPPED=yes"}, argv...) }
		})
		wants(t, b.good("Bash", in{"command": "echo $WRAPPED"}), "yes")
	})
}

// What a killed agent left behind is found by its successor, and nothing else is.
func TestEndLeft(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("marks can be read on Linux only")
	}
	b := open(t, witness(t))
	c := &command{
		argv: []string{"/bin/sh", "-c", "(setsid sleep 300 &); (env -i sleep 300 &); sleep 300"}, dir: b.dir, env: b.env,
		out: &capture{keep: 100},
	}
	start := birth()
	j, err := c.launch(start)
	if err != nil {
		t.Fatal(err)
	}
	r := j.(*running)
	defer r.close()
	r.release()
	for deadline := time.Now().Add(20 * time.Second); len(r.tree.alive()) < 4 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // shells that only start the others are gone then
	if found, _ := EndLeft(r.tree.pgid, start.Add(1), time.Second); found != 0 {
		t.Errorf("another start found %d processes", found)
	}
	stored, err := time.Parse(time.RFC3339Nano, start.UTC().Format(time.RFC3339Nano))
	if err != nil {
		t.Fatal(err)
	}
	if found, stuck := EndLeft(r.tree.pgid, stored, time.Second); found != 4 || len(stuck) != 0 {
		t.Errorf("found %d, stuck %v", found, stuck)
	}
	<-r.exited()
	if found, _ := EndLeft(r.tree.pgid, start, 0); found != 0 {
		t.Errorf("%d processes left", found)
	}
}

func TestBashTogether(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		b := open(t, way, witness(t))
		before := descriptors(t)
		var wait sync.WaitGroup
		for i := range 12 {
			wait.Go(func() {
				if r, o := b.sh(fmt.Sprintf("sleep 0.1; echo %d; setsid sleep 300 &", i), 60_000); o.Stdout != fmt.Sprintln(i) {
					t.Errorf("%d: %s", i, text(r))
				}
			})
		}
		wait.Wait()
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestMarked(t *testing.T) {
	got := strings.Join(marked(childEnv([]string{"A=1", "CDPATH=/etc", "BASHOPTS=extglob", markVar + "=outer", "PWD=/"}, nil, "/w"), "inner"), " ")
	if got != "A=1 DARUMA=1 GIT_TERMINAL_PROMPT=0 PWD=/w DARUMA_CALL=outer:inner" {
		t.Error(got)
	}
}

func TestWhole(t *testing.T) {
	for in, want := range map[string]string{"": "", "ab": "ab", "aü": "aü", "a\xc3": "a", "\xbcb": "b", "\xe2\x82": "", "a\xff": "a\xff"} {
		if got := string(whole([]byte(in))); got != want {
			t.Errorf("whole(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestOnlyReads(t *testing.T) {
	for line, want := range map[string]bool{
		"ls": true, "ls -la /tmp": true, "git status": true, "git log --oneline -5": true, "go version": true, "find . -name x.go": true,
		"grep -rn foo src": true, "cat a.txt": true, "rg foo": true, "pwd": true, "git diff --stat": true,
		"": false, " ": false, "ls > x": false, "ls; rm x": false, "cat $(x)": false, "ls && x": false, "find . -delete": false,
		"find . -exec rm": false, "git push": false, "git": false, "git diff --output=x": false, "git log --outp x": false, "rg --pre=x y": false,
		"X=1 ls": false, "sort -o x y": false, "ls `x`": false, "ls \n rm x": false, "go build": false, "sudo ls": false, "file -C": false,
		"ls *": false, "ls 'a b'": false, "git -c x=y status": false,
	} {
		if got := onlyReads(line); got != want {
			t.Errorf("onlyReads(%q) = %v", line, got)
		}
	}
}

func TestInterpret(t *testing.T) {
	for line, want := range map[string]bool{
		"grep x y": true, "cat a | grep x": true, "cd a && grep x y": true, "X=1 /usr/bin/grep x": true, "make; grep x y": true,
		"grep 'a && b' x": true, "[ -f x ]": true, "grep x y 2>&1": true, "a || grep x": true, "echo a && cd b && diff x y": true, "[[ a == b ]]": true,
		"make && grep x y": false, "grep x y && make": false, "! grep x y": false, "set -eo pipefail; a | grep b": false,
		"grep x y | wc": false, "for i in a; do grep x $i; done": false, "": false, "echo 'grep'": false, "make &&\n grep x": false,
	} {
		if got := interpret(line, 1) != ""; got != want {
			t.Errorf("interpret(%q) = %v", line, got)
		}
	}
	if interpret("grep x", 2) != "" {
		t.Error("only code 1 has a meaning")
	}
}
