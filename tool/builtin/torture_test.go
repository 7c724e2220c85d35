//go:build linux

package builtin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/sandbox"
	"github.com/daruma-agent/daruma/tool"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// agentVar makes this test binary an agent that works in the folder that it names
// until it is killed.
const agentVar = "DARUMA_TEST_AGENT"

func TestMain(m *testing.M) {
	beReader()
	if dir := os.Getenv(agentVar); dir != "" {
		beAgent(dir)
	}
	goleak.VerifyTestMain(m)
}

// torture is a command that makes trouble. NNN in it becomes a duration of a good
// five minutes by which its processes are found, whatever they do to their
// environment.
type torture struct {
	name, command string
	timeout       time.Duration // zero: a minute
	want          []string      // in the text of the result
	class         string
	helper        bool // only a helper can keep the promise
}

// cut is the time of commands that do not end by themselves: enough to begin on
// a machine that has much else to do.
const cut = 2 * time.Second

const deaf = "trap '' TERM; while :; do sleep 0.1; done #NNN"

var tortures = []torture{
	{name: "leaves its session", command: "setsid sleep NNN & echo done", want: []string{"done", "1 process still running"}},
	{name: "forks twice", command: "(setsid sh -c 'sleep NNN & sleep NNN &' &); sleep 0.3; echo done", want: []string{"done", "still running"}},
	{name: "a quiet daemon", command: "(setsid sh -c 'sleep NNN >/dev/null 2>&1 </dev/null &' &); sleep 0.3; echo done", want: []string{"done", "still running"}},
	{name: "drops its environment", command: "env -i sh -c 'exec sleep NNN' & echo done", want: []string{"done", "1 process still running"}},
	{name: "hides behind its shell", command: "echo before; env -i setsid sleep NNN; sleep NNN", timeout: cut, want: []string{"before"}, class: tool.ClassTimeout},
	{name: "a pipeline", command: "echo before; sleep NNN | cat | cat", timeout: cut, want: []string{"before"}, class: tool.ClassTimeout},
	{name: "ignores SIGTERM", command: "echo before; " + deaf, timeout: cut, want: []string{"before"}, class: tool.ClassTimeout},
	{name: "nohup", command: "nohup sleep NNN >/dev/null 2>&1 & echo done", want: []string{"done", "1 process still running"}},
	{name: "C091 writes on in the background", command: "while :; do echo x; sleep 0.01; done & sleep 0.2; echo done", want: []string{"done", "still running"}},
	{name: "holds the pipe open", command: "sleep NNN & echo done; exit 0", want: []string{"done", "1 process still running"}},
	{name: "C094 ignores SIGTERM in a session of its own", command: "echo before; setsid bash -c \"" + deaf + "\n\"; true", timeout: cut,
		want: []string{"timed out after 2s", "before"}, class: tool.ClassTimeout},
	{name: "kills its shell", command: "sleep NNN & kill -9 $$", want: []string{"Exit code 137", "ended by a signal: killed", "1 process still running"}, class: tool.ClassExit},
	{name: "kills its group", command: "setsid sleep NNN & sleep 0.1; echo done; kill -9 0", want: []string{"Exit code 137", "done"}, class: tool.ClassExit},
	{name: "stops its shell", command: "echo before; kill -STOP $$", timeout: cut, want: []string{"before"}, class: tool.ClassTimeout},
	{name: "floods", command: "for i in $(seq 100); do head -c 50000 /dev/zero | tr '\\0' x; echo; sleep 0.008; done; echo; echo THE END",
		want: []string{"THE END", "bytes left out here"}},
	{name: "prints what is no text", command: `printf 'a\000b\377c\033[31mred\033[0m\355\240\275end\n'`, want: []string{"a␀b\uFFFDcred", "end"}},
	{name: "C237 reads", command: "read x; echo got:$x; cat; echo done", want: []string{"got:\ndone"}},
	{name: "C237 asks at the terminal", command: "read -p 'Password: ' x </dev/tty; echo code $?", want: []string{"/dev/tty", "code 1"}},
	{name: "C237 git asks for a name", command: "git -c credential.helper= ls-remote http://127.0.0.1:9/x.git 2>&1; echo code $?", want: []string{"code 128"}},
	{name: "C237 reads a FIFO", command: "mkfifo f; echo before; cat f #NNN", timeout: cut, want: []string{"before"}, class: tool.ClassTimeout},
	{name: "C253 runs out of time", command: "echo a; echo b; sleep NNN", timeout: cut,
		want: []string{"timed out after 2s", "a\nb"}, class: tool.ClassTimeout},
	{name: "C093 says nothing", command: "exit 1", want: []string{"Exit code 1\n(no output)"}, class: tool.ClassExit},
	{name: "a tree", command: "t() { [ $1 = 0 ] && exec sleep NNN; t $(($1-1)) & t $(($1-1)) & wait; }; echo before; t 5", timeout: cut,
		want: []string{"before"}, class: tool.ClassTimeout},
	{name: "breeds while it dies", command: "f() { trap '' TERM; while :; do sleep 0.01 & sleep 0.02; done; }; echo before; f & f & wait #NNN", timeout: cut,
		want: []string{"before"}, class: tool.ClassTimeout},
	{name: "hides", command: "(env -i setsid sh -c 'sleep NNN & exec sleep NNN' >/dev/null 2>&1 &); sleep 0.3; echo done",
		want: []string{"done", "2 processes still running"}, helper: true},
	{name: "hides and is deaf", command: "(env -i setsid bash -c \"" + deaf + "\n\" >/dev/null 2>&1 &); echo before; sleep NNN", timeout: cut,
		want: []string{"before"}, class: tool.ClassTimeout, helper: true},
	{name: "kills its helper", command: "setsid sleep NNN & echo before; kill -9 $PPID; sleep NNN",
		want: []string{"Exit code 137", "before", "was ended, most likely by the command", "2 processes still running"}, class: tool.ClassExit, helper: true},
	{name: "stops its helper", command: "echo before; kill -STOP $PPID; setsid sleep NNN", timeout: cut,
		want: []string{"before"}, class: tool.ClassTimeout, helper: true},
	{name: "asks its helper to end", command: "echo before; kill $PPID; sleep NNN", want: []string{"before"}, class: tool.ClassExit, helper: true},
}

// Whatever a command does, its call ends, says what happened, and leaves neither
// processes nor descriptors.
func TestTorture(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		before := descriptors(t)
		results := make([]tool.Result, len(tortures))
		marks := make([]string, len(tortures))
		atOnce := make(chan struct{}, 8) // they mostly wait
		var all sync.WaitGroup
		for i, c := range tortures {
			b := open(t, way, witness(t))
			if c.helper && len(b.cfg.Helper) == 0 {
				continue
			}
			marks[i] = fmt.Sprintf("300.%d", time.Now().UnixNano())
			timeout := cmp.Or(c.timeout, time.Minute)
			all.Go(func() {
				atOnce <- struct{}{}
				results[i], _ = b.sh(strings.ReplaceAll(c.command, "NNN", marks[i]), int(timeout.Milliseconds()))
				<-atOnce
			})
		}
		all.Wait()
		for i, c := range tortures {
			if marks[i] == "" {
				continue // only a helper can promise it: see command
			}
			t.Run(c.name, func(t *testing.T) {
				if pids := withArgument(t, marks[i]); len(pids) > 0 {
					t.Errorf("processes left: %v", pids)
				}
				r := results[i]
				wants(t, text(r), c.want...)
				if r.Class != c.class || strings.Contains(text(r), "could not be ended") {
					t.Errorf("class %q, want %q:\n%s", r.Class, c.class, text(r))
				}
			})
		}
		if after := descriptors(t); after > before+3*len(tortures) { // the workspaces are still open
			t.Errorf("%d descriptors before, %d after", before, after)
		}
		if dead := zombies(t); len(dead) > 0 {
			t.Errorf("C096: nobody waited for %v", dead)
		}
	})
}

// zombies lists the dead children of this process.
func zombies(t *testing.T) (dead []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(b), fmt.Sprintf(") Z %d ", os.Getpid())) {
			dead = append(dead, string(b))
		}
	}
	return dead
}

// A command that is cancelled before, while and after it starts leaves nothing.
func TestCancelledAtAnyTime(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		b := open(t, way, witness(t))
		before := descriptors(t)
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*2*time.Millisecond)
			if r := b.run(ctx, tool.Call{Name: "Bash"}, in{"command": "setsid sleep 300 & sleep 300"}); r.Class != tool.ClassAborted {
				t.Errorf("after %dms: %+v", 2*i, r)
			}
			cancel()
		}
		if after := descriptors(t); after != before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

// A flood of any size needs no memory of that size.
func TestFloodNeedsNoMemory(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		b := open(t, way, witness(t))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.sh("timeout 1 yes 0123456789", 60_000)
		runtime.ReadMemStats(&after)
		if grew := int64(after.HeapSys) - int64(before.HeapSys); grew > 32<<20 {
			t.Errorf("the heap grew by %d bytes", grew)
		}
	})
}

// C238: a command has its three streams and nothing else of its agent.
func TestCommandsHaveThreeStreams(t *testing.T) {
	everyWay(t, func(t *testing.T, way func(*Config)) {
		b := open(t, way)
		got := b.good("Bash", in{"command": "exec ls -l /proc/self/fd"})
		for _, line := range strings.Split(got, "\n")[1:] {
			fd, target, _ := strings.Cut(line, " -> ")
			fd = fd[strings.LastIndexByte(fd, ' ')+1:]
			n, err := strconv.Atoi(fd)
			// ls has the folder open that it lists. And without a helper what this
			// process itself inherited goes on to commands.
			if err != nil || n > 2 && !strings.HasPrefix(target, "/proc/") && (len(b.cfg.Helper) > 0 || !inherited(n)) {
				t.Errorf("descriptor %s is %s", fd, target)
			}
		}
		wants(t, got, "0 -> /dev/null", "1 -> pipe:", "2 -> pipe:")
	})
}

// inherited reports whether a descriptor of this process goes on to its children.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// beAgent runs a command and a task that do not want to end, until it is killed.
func beAgent(dir string) {
	cfg := Config{Root: dir, Spill: filepath.Join(dir, "out"), Env: os.Environ(), Grace: 300 * time.Millisecond}
	boxed(&cfg)
	w, err := New(cfg)
	if err != nil {
		panic(err)
	}
	set, err := tool.NewSet(w.Tools()...)
	if err != nil {
		panic(err)
	}
	run := func(input string) tool.Result {
		return set.Run(context.Background(), tool.Call{Name: "Bash", Input: []byte(input)})
	}
	command := func(name string) string {
		return `(setsid sleep $MARK &); (env -i setsid bash -c \"trap '' TERM; while :; do sleep 0.1; done #$MARK\n\" >/dev/null 2>&1 &); ` +
			`sleep 0.2; touch ` + name + `; trap '' TERM; while :; do sleep 0.1; done`
	}
	run(`{"run_in_background":true,"command":"` + command("task") + `"}`)
	run(`{"command":"` + command("call") + `","timeout":600000}`)
}

// An agent that is killed in the middle of its work takes its commands with it.
func TestKilledAgentLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	mark := fmt.Sprintf("300.%d", time.Now().UnixNano())
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(os.Environ(), agentVar+"="+dir, "MARK="+mark)
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(30 * time.Second)
	for _, name := range []string{"task", "call"} {
		for !exists(filepath.Join(dir, name)) && time.Now().Before(limit) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	alive := func() []int { return (&tree{pgid: -1, token: mark}).alive() }
	if n := len(alive()); n < 6 || len(withArgument(t, mark)) < 4 {
		t.Errorf("only %d processes before", n)
	}
	_ = agent.Process.Kill()
	_ = agent.Wait()
	killed := time.Now()
	for (len(alive()) > 0 || len(withArgument(t, mark)) > 0) && time.Since(killed) < 10*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if pids := withArgument(t, mark); len(pids) > 0 || len(alive()) > 0 {
		t.Errorf("left after %v: %v %v", time.Since(killed), pids, alive())
	}
}

// A helper that cannot be started, or is none, means that nothing was run.
func TestNoHelper(t *testing.T) {
	for _, argv := range [][]string{{"/no/such/program"}, {"/bin/true"}, {"/bin/false", "x"}} {
		b := open(t, witness(t), func(c *Config) { c.Helper = argv })
		wants(t, b.bad("Bash", in{"command": "touch ran"}), "was not run", argv[0])
		if exists(filepath.Join(b.dir, "ran")) {
			t.Errorf("%v: it ran", argv)
		}
	}
	b := open(t, helped, func(c *Config) { c.Shell = "/no/such/shell" })
	wants(t, text(b.call("Bash", in{"command": "true"})), "was not run", "no such file")
	if _, err := New(Config{Root: t.TempDir(), Sandbox: &sandbox.Rules{}}); err == nil {
		t.Error("a sandbox without a helper was accepted")
	}
}

// A command whose helper was killed with its agent is found by the next life.
func TestEndLeftOfAHelper(t *testing.T) {
	b := open(t, witness(t), helped)
	c := b.command("(setsid sleep 300 &); (env -i sleep 300 &); sleep 300", tool.Call{})
	c.out = &capture{keep: 100}
	start := birth()
	j, err := c.launch(start)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	j.release()
	for limit := time.Now().Add(20 * time.Second); len((&tree{pgid: j.group(), token: markOf(start)}).alive()) < 4 && time.Now().Before(limit); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	if err := syscall.Kill(j.group(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-j.exited()
	if found, stuck := EndLeft(j.group(), start, time.Second); found != 3 || len(stuck) > 0 {
		t.Errorf("found %d, stuck %v", found, stuck)
	}
}
