//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/fault"
)

var kills = flag.Int("kills", 16, "how many processes TestKill kills")

// killScript is work with effects that can be counted: each step appends a line
// to a file of its own. The model does not repeat a step that the conversation
// says was done or may have been done.
const killScript = `layer slow
  delay events 15ms

model
  rule one
    when not called shell "one"
    say "Step one."
    call shell command="echo x >> one; sleep 0.1; echo x >> one-done"
  rule two
    when not called shell "two"
    say "Step two."
    call shell command="echo x >> two; sleep 0.1; echo x >> two-done"
  rule three
    when not called write
    say "Step three."
    call write file_path="three" content="x"
  rule done
    say "All three steps are done or accounted for." fill=40
`

// TestKill kills the real binary at random instants and resumes the session:
// the server sees no broken conversation, the resumed run completes, and no
// step happens twice. The soak is: go test ./cmd/daruma -run TestKill -kills 500
func TestKill(t *testing.T) {
	binary := build(t)
	for i := range *kills {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel() // they mostly wait
			killOnce(t, binary, rand.New(rand.NewPCG(uint64(i), 1)))
		})
	}
}

func killOnce(t *testing.T, binary string, r *rand.Rand) {
	script, err := fault.Parse("kill", killScript)
	if err != nil {
		t.Fatal(err)
	}
	l, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := fault.New(script, fault.Options{}).Serve(l)
	defer server.Close()
	dir, state := t.TempDir(), t.TempDir()
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(binary, append([]string{"-p", "--permission-mode", "bypassPermissions"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ANTHROPIC_BASE_URL="+server.URL, "ANTHROPIC_API_KEY=any-key", "XDG_STATE_HOME="+state)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &out
	}
	first, _ := start("Do the three steps.")
	time.Sleep(time.Duration(r.IntN(2500)) * time.Millisecond)
	_ = first.Process.Kill()
	_ = first.Wait()
	second, out := start("--continue", "Go on.")
	if err := second.Wait(); err != nil {
		if strings.Contains(out.String(), "no such session") {
			return // it died before it wrote anything
		}
		t.Fatalf("the resumed run failed: %v\n%s", err, out)
	}
	report := server.Report()
	for _, v := range report.Violations {
		t.Errorf("the conversation was broken: %s", v)
	}
	for _, step := range []string{"one", "two"} {
		if data, err := os.ReadFile(filepath.Join(dir, step)); err == nil && bytes.Count(data, []byte("x")) > 1 {
			t.Errorf("step %s happened %d times", step, bytes.Count(data, []byte("x")))
		}
	}
	if left := running(dir); left != "" {
		t.Errorf("processes are left:\n%s", left)
	}
}

// running lists the processes that work in dir.
func running(dir string) string {
	var out strings.Builder
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == dir {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
			fmt.Fprintf(&out, "%s %s\n", link, bytes.ReplaceAll(cmdline, []byte{0}, []byte(" ")))
		}
	}
	return out.String()
}
