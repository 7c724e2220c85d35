//go:build unix

package builtin

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// C237: nothing that a read could wait on is read.
func TestReadWaitsForNothing(t *testing.T) {
	b := open(t)
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, b.bad("Read", in{"file_path": "pipe"}), "named pipe")
	wants(t, b.bad("Edit", in{"file_path": "pipe", "old_string": "a", "new_string": "b"}), "named pipe")
	wants(t, b.bad("Write", in{"file_path": "pipe", "content": "b"}), "named pipe")
	wants(t, b.good("Grep", in{"pattern": "x"}), "No matches")

	dir, err := os.MkdirTemp("", "s") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", dir+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b = open(t, func(c *Config) { c.Root = dir })
	b.bad("Read", in{"file_path": "socket"})
}

// C237: devices.
func TestDevicesAreNotRead(t *testing.T) {
	b := open(t, func(c *Config) { c.Dirs = []string{"/dev"} })
	for _, path := range []string{"/dev/zero", "/dev/null", "/dev/tty", "/dev/random"} {
		if _, err := os.Stat(path); err != nil {
			continue // not every system has all of them
		}
		got := b.bad("Read", in{"file_path": path})
		if !strings.Contains(got, "a device") && path != "/dev/tty" { // a terminal may not even be opened
			t.Errorf("%s: %s", path, got)
		}
		b.bad("Write", in{"file_path": path, "content": "x"})
		b.bad("Edit", in{"file_path": path, "old_string": "x", "new_string": "y"})
	}
	wants(t, b.bad("Grep", in{"pattern": "x", "path": "/dev/zero"}), "a device")
}

// Files of the system say that they have no bytes.
func TestFilesOfTheSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system has no /proc")
	}
	b := open(t, func(c *Config) { c.Dirs = []string{"/proc/self"} })
	wants(t, b.good("Read", in{"file_path": "/proc/self/status"}), "Name:", "Pid:")
}

func TestOwnerIsKept(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	b := open(t)
	b.file("f", "x\n")
	path := filepath.Join(b.dir, "f")
	switch err := os.Chown(path, 1234, 1234); {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL): // root of a container only
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	b.good("Read", in{"file_path": "f"})
	b.good("Edit", in{"file_path": "f", "old_string": "x", "new_string": "y"})
	info, err := os.Stat(path)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 1234 {
		t.Errorf("%v, %v", info, err)
	}
}
