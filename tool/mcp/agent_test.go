package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool/mcp"
)

// runAgent is a program that uses two servers which do not end by themselves.
func runAgent() {
	self, err := os.Executable()
	if err != nil {
		return
	}
	var servers []mcp.Server
	for _, mode := range []string{"spin", "stubborn"} {
		servers = append(servers, mcp.Server{Name: mode, Kind: mcp.Stdio, Command: self, Env: map[string]string{modeVar: mode}})
	}
	s := mcp.Open(mcp.Config{Servers: servers, Dir: "/", Env: os.Environ()})
	s.Wait(context.Background())
	for _, st := range s.Status() {
		fmt.Println(st.State)
	}
	select {}
}

// alive lists those of the processes that are there and not dead.
func alive(pids []int) (left []int) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			left = append(left, pid)
		}
	}
	return left
}

var noted = regexp.MustCompile(`(?:start|child) (\d+)`)

// pids are the processes that the notes tell of.
func (n notes) pids() (pids []int) {
	for _, g := range noted.FindAllStringSubmatch(n.read(), -1) {
		pid, _ := strconv.Atoi(g[1])
		pids = append(pids, pid)
	}
	return pids
}

// onLinux skips what looks into /proc.
func onLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test finds processes in /proc")
	}
}

func TestC095AgentKilled(t *testing.T) {
	onLinux(t)
	n := newNotes(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(self)
	agent.Env = append(os.Environ(), modeVar+"=agent", "MCP_TEST_NOTE="+string(n))
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	states := make([]byte, len("connected\nconnected\n"))
	for at := 0; at < len(states); {
		k, err := out.Read(states[at:])
		if err != nil {
			break
		}
		at += k
	}
	_ = agent.Process.Signal(syscall.SIGKILL)
	_ = agent.Wait()
	pids := n.pids()
	if string(states) != "connected\nconnected\n" || len(pids) != 4 {
		t.Fatalf("the servers did not start: %q, processes %v", states, pids)
	}
	for range 100 {
		if len(alive(pids)) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("of %v these go on after the agent is dead: %v", pids, alive(pids))
}

// children counts the processes whose parent is this one, dead ones too.
func children(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

func files(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// After Close nothing is left, whatever the servers did: no process, no zombie,
// no goroutine, no open file.
func TestC096NothingIsLeft(t *testing.T) {
	onLinux(t)
	n := newNotes(t)
	env := n.env()
	files0, children0, goroutines0 := files(t), children(t), runtime.NumGoroutine()
	for range 2 {
		var servers []mcp.Server
		for _, mode := range []string{"sdk", "exits", "mute", "stubborn", "spin", "stray", "flood", "dies", "listerror", "hangs"} {
			servers = append(servers, program(t, mode, mode, env))
		}
		servers = append(servers, mcp.Server{Name: "none", Kind: mcp.Stdio, Command: "no-such-program"})
		s := mcp.Open(mcp.Config{Servers: servers, Startup: 5 * time.Second, Grace: 100 * time.Millisecond, Env: []string{"PATH=" + os.Getenv("PATH")}})
		s.Wait(t.Context())
		tools := s.Tools()
		if len(tools) < 10 {
			t.Fatalf("only %d tools", len(tools))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		for _, tl := range tools {
			_ = tl.Run(ctx, callOf(tl))
		}
		cancel()
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("closing took %v", took)
		}
		if left := alive(n.pids()); len(left) > 0 {
			t.Errorf("processes %v go on", left)
		}
	}
	for range 200 { // what the SDK leaves to end by itself gets the time for it
		if files(t) <= files0 && children(t) <= children0 && runtime.NumGoroutine() <= goroutines0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left: files %d → %d, children %d → %d, goroutines %d → %d",
		files0, files(t), children0, children(t), goroutines0, runtime.NumGoroutine())
}

// Close while servers start ends them, too.
func TestCloseWhileStarting(t *testing.T) {
	n := newNotes(t)
	s := mcp.Open(mcp.Config{Servers: []mcp.Server{program(t, "mute", "mute", n.env()), program(t, "slow", "slow", n.env())}, Grace: 100 * time.Millisecond})
	n.await(t, "start")
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("closing took %v", took)
	}
	if left := alive(n.pids()); len(left) > 0 {
		t.Errorf("processes %v go on", left)
	}
}
