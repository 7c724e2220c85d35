//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a server that runs as a program of ours, with all that it starts.
//
// It has a session of its own, so it has no terminal to ask a person at and one
// signal reaches its whole group. What leaves the group (a daemon) goes on.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	exited chan struct{} // closed when it is dead, waited for, and its group is gone
	ending sync.Once
}

// guardScript ends the group of a server when this program dies, however it
// dies: then the pipe on its stdin ends. A parent-death signal (prctl) would not
// do: it comes when the thread dies that started the server, which is no
// promise in Go, exists on Linux only, and does not reach what npx or uvx start.
const guardScript = `read -r g || exit 0; read -r x; kill -s TERM -- "-$g"; sleep 1; kill -s KILL -- "-$g"`

// guard is the process that runs guardScript.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File
}

func startGuard(env []string) (*guard, error) {
	end, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer end.Close()
	g := &guard{pipe: pipe, cmd: &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", guardScript}, Dir: "/", Env: env, Stdin: end,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // no Ctrl+C reaches it before us
	}}
	if err := g.cmd.Start(); err != nil {
		pipe.Close()
		return nil, err
	}
	return g, nil
}

// end takes the guard away before its pipe ends.
func (g *guard) end() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	g.pipe.Close()
}

// start runs a program. Its stderr goes to errs.
func start(argv []string, dir string, env []string, errs io.Writer) (*process, error) {
	path, err := lookPath(argv[0], dir, env)
	if err != nil {
		return nil, err
	}
	var pipes [6]*os.File // read and write ends of stdin, stdout, stderr
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	for i := 0; i < len(pipes); i += 2 {
		if pipes[i], pipes[i+1], err = os.Pipe(); err != nil {
			closeAll(pipes[:]...)
			return nil, err
		}
	}
	// Without a guard the server still gets the end of its stdin, which most obey.
	g, _ := startGuard(env)
	p := &process{stdin: pipes[1], stdout: pipes[2], exited: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: path, Args: argv, Dir: dir, Env: env, Stdin: pipes[0], Stdout: pipes[3], Stderr: pipes[5],
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = p.cmd.Start()
	closeAll(pipes[0], pipes[3], pipes[5])
	if err != nil {
		closeAll(pipes[1], pipes[2], pipes[4])
		g.end()
		return nil, err
	}
	if g != nil {
		_, _ = io.WriteString(g.pipe, strconv.Itoa(p.cmd.Process.Pid)+"\n")
	}
	go p.wait(g, pipes[4], errs)
	return p, nil
}

func (p *process) wait(g *guard, stderr *os.File, errs io.Writer) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(errs, stderr)
	}()
	_ = p.cmd.Wait() // what came of it is in ProcessState
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	g.end()
	late := time.Now().Add(drain)
	_ = stderr.SetReadDeadline(late)
	_ = p.stdout.SetReadDeadline(late)
	<-read
	stderr.Close()
	close(p.exited)
}

// end ends the server: its stdin ends, after grace comes SIGTERM, after grace
// SIGKILL. It returns when the server is gone.
func (p *process) end(grace time.Duration) {
	p.ending.Do(func() {
		p.stdin.Close()
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			select {
			case <-p.exited:
				return
			case <-time.After(grace):
				_ = syscall.Kill(-p.cmd.Process.Pid, sig)
			}
		}
	})
	<-p.exited
}

// fate says how a dead server ended.
func (p *process) fate() string {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return "was ended by signal " + ws.Signal().String()
	}
	return "ended with exit code " + strconv.Itoa(p.cmd.ProcessState.ExitCode())
}

// lookPath finds a program by the PATH of env; a name with a slash is relative to dir.
func lookPath(name, dir string, env []string) (string, error) {
	runnable := func(file string) bool {
		info, err := os.Stat(file)
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if !runnable(name) {
			return "", fmt.Errorf("there is no program %s", name)
		}
		return name, nil
	}
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v // the last one counts, as for exec
		}
	}
	for _, folder := range filepath.SplitList(path) {
		if file := filepath.Join(folder, name); filepath.IsAbs(folder) && runnable(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("there is no program %q in PATH", name)
}

// ask runs a shell command and returns what it prints. All that it started is
// ended when ctx is.
func ask(ctx context.Context, command, dir string, env []string, most int) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, drain
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out := &head{most: most}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	if out.over {
		return nil, errors.New("it printed too much")
	}
	return out.data, nil
}

// head keeps the beginning of what is written to it.
type head struct {
	data []byte
	most int
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.most-len(h.data))
	h.data, h.over = append(h.data, p[:n]...), h.over || n < len(p)
	return len(p), nil
}
