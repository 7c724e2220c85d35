//go:build linux

package builtin

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/sandbox"
)

// TestSandbox holds what a command may touch against the kernel.
func TestSandbox(t *testing.T) {
	if _, level, err := sandbox.Decide(sandbox.Required, true, sandbox.ABI()); err != nil {
		t.Skipf("this kernel cannot be asked: %s%v", level, err)
	}
	outside := filepath.Join(t.TempDir(), "outside") // of everything that may be written to
	temp, cache := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "file"), []byte("kept\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	way := func(c *Config) {
		helped(c)
		c.Env = append(c.Env, "OUT="+outside, "TMPDIR="+temp, "CACHE="+cache, "PORT="+port)
		c.Sandbox = &sandbox.Rules{Write: []string{c.Root, temp, cache, "/no/such/folder", "/dev/null", "/dev/full", "/dev/tty", "/dev/shm"}}
	}
	b := open(t, way, witness(t))
	const hint = "(if this was refused: there is a sandbox, and commands may write only below "
	for _, c := range []struct {
		name, command string
		want          string // empty: it must succeed
	}{
		{"write outside", "echo x > $OUT/new", "Permission denied"},
		{"change outside", "echo x >> $OUT/file", "Permission denied"},
		{"truncate outside", "truncate -s 0 $OUT/file", "Permission denied"},
		{"remove outside", "rm -f $OUT/file", "Permission denied"},
		{"make a folder outside", "mkdir $OUT/d", "Permission denied"},
		{"move out", "touch a; mv a $OUT/a", "Permission denied"},
		{"link out", "ln -s $OUT out; echo x > out/new", "Permission denied"},
		{"hard link out", "touch h; ln h $OUT/h", "Permission denied"},
		{"link in", "ln $OUT/file in", "Invalid cross-device link"},
		{"from a child that hides", "setsid -w env -i sh -c 'echo x > " + outside + "/new'", "Permission denied"},
		{"make a device", "mknod n b 8 0", "Permission denied"},
		{"look into the agent", "readlink -v /proc/" + strconv.Itoa(os.Getpid()) + "/exe", "Permission denied"},
		{"read outside", "grep kept $OUT/file && ls $OUT && ls / && cat /etc/hostname >/dev/null; true", ""},
		{"write inside", "mkdir -p d/e && echo x > d/e/f && mv d/e/f g && ln g d/h && rm -r d && cp /bin/true t && ./t", ""},
		{"move between", "echo x > m && mv m $TMPDIR/m && mv $TMPDIR/m $CACHE/m && rm $CACHE/m", ""},
		{"temp", "f=$(mktemp) && echo x > $f && test -s $f && rm $f && cat <<< here", ""},
		{"devices", "echo x > /dev/null && echo x > /dev/stdout && echo x > /dev/stderr && echo y | tee >(cat) >/dev/null && (exec 3<>/dev/null)", ""},
		{"a FIFO", "mkfifo p && { echo x > p & } && cat p", ""},
		{"git", "git init -q r && cd r && git -c user.name=n -c user.email=e commit -q --allow-empty -m m && git gc -q && git log --oneline", ""},
		{"signals within", "sleep 300 & kill $! && ! wait $!", ""},
		{"network", "exec 3<>/dev/tcp/127.0.0.1/$PORT", ""},
	} {
		r, _ := b.sh(c.command, 60_000)
		if (c.want == "") == r.IsError {
			t.Errorf("%s: %s", c.name, text(r))
		}
		if c.want != "" {
			wants(t, text(r), c.want, hint+b.dir)
		} else if strings.Contains(text(r), "sandbox") {
			t.Errorf("%s: a hint that nobody needs: %s", c.name, text(r))
		}
	}
	if data, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(data) != "kept\n" {
		t.Errorf("the file outside: %q, %v", data, err)
	}
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("outside there is now %v", names)
	}
	id, _ := b.background("echo x > $OUT/new")
	got, _ := b.task("TaskOutput", in{"task_id": id})
	wants(t, got, "Permission denied", hint)

	b = open(t, way, witness(t), func(c *Config) { c.Sandbox.NoNetwork = true })
	wants(t, b.bad("Bash", in{"command": "exec 3<>/dev/tcp/127.0.0.1/$PORT"}), "Permission denied", "commands may not use the network")
	b.good("Bash", in{"command": "echo x > inside"})
}
