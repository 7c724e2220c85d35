package keeper

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

func TestProcesses(t *testing.T) {
	// A name that looks like the fields behind it.
	odd := t.TempDir() + "/a) Z 1 (b"
	data, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(odd, data, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(odd, "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	p, ok := LookUp(pid)
	if !ok || p.ID != pid || p.Parent != os.Getpid() || p.Group != pid || p.Session != pid || p.Start == "" {
		t.Errorf("%+v, %v", p, ok)
	}
	if !slices.Contains(descendants(), pid) || slices.ContainsFunc(Processes(0), func(p Process) bool { return p.ID == os.Getpid() }) {
		t.Error("the child is missing, or this process is there")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if p, ok := LookUp(pid); ok {
		t.Errorf("a dead process is there: %+v", p)
	}
}
