// Package published calls servers that others have published, as they are. It
// is a module of its own, so that nothing of them is in the build list of
// daruma.
//
//	go test ./...                                 a Go server, built from its module
//	npm install --prefix DIR @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
//	go test ./... -args -npm DIR                  and the two reference servers of npm
package published

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/mcp"
)

var npm = flag.String("npm", "", "a folder in which npm has installed the reference servers")

// open starts one server and returns what it offers.
func open(t *testing.T, one mcp.Server) (*mcp.Servers, *tool.Set) {
	t.Helper()
	s := mcp.Open(mcp.Config{Servers: []mcp.Server{one}, Dir: t.TempDir(), Env: os.Environ(), Version: "test"})
	t.Cleanup(func() {
		began := time.Now()
		s.Close()
		t.Logf("closed in %v", time.Since(began).Round(time.Millisecond))
	})
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.Wait(ctx)
	set, err := tool.NewSet(s.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	st := s.Status()[0]
	t.Logf("%s after %v, version %s, tools %v, warnings %q", st.State, time.Since(began).Round(time.Millisecond), st.Version, set.Names(), st.Warnings)
	if st.State != mcp.Connected {
		t.Fatal(st.Error)
	}
	return s, set
}

func call(t *testing.T, set *tool.Set, name, input string) (string, tool.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := set.Run(ctx, tool.Call{ID: "c", Name: name, Input: []byte(input)})
	var out []string
	for _, b := range r.Content {
		out = append(out, b.Text)
	}
	t.Logf("%s %s → error %t %s %.200q", name, input, r.IsError, r.Class, strings.Join(out, "\n"))
	return strings.Join(out, "\n"), r
}

func hasImage(r tool.Result) bool {
	return slices.ContainsFunc(r.Content, func(b message.Block) bool { return b.Type == message.Image && b.Media.Width > 0 })
}

// The example server of mcp-go, an implementation of the protocol of its own.
func TestGoServer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "everything")
	build := exec.Command("go", "build", "-o", program, "github.com/mark3labs/mcp-go/examples/everything")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build it: %v\n%s", err, out)
	}
	_, set := open(t, mcp.Server{Name: "go", Kind: mcp.Stdio, Command: program})
	if text, r := call(t, set, "mcp__go__echo", `{"message":"hello"}`); r.IsError || !strings.Contains(text, "hello") {
		t.Error("echo does not echo")
	}
	if text, r := call(t, set, "mcp__go__add", `{"a":2,"b":40}`); r.IsError || !strings.Contains(text, "42") {
		t.Error("2+40 is not 42")
	}
	if _, r := call(t, set, "mcp__go__getTinyImage", `{}`); r.IsError || !hasImage(r) {
		t.Error("there is no image")
	}
	if _, r := call(t, set, "mcp__go__echo", `{}`); !r.IsError {
		t.Error("a call without its argument is no error")
	}
}

func TestNpmServers(t *testing.T) {
	if *npm == "" {
		t.Skip("say where npm has installed them: -args -npm DIR")
	}
	bin := func(name string) string { return filepath.Join(*npm, "node_modules", ".bin", name) }
	t.Run("everything", func(t *testing.T) {
		_, set := open(t, mcp.Server{Name: "all", Kind: mcp.Stdio, Command: bin("mcp-server-everything")})
		everything(t, set)
	})
	t.Run("everything over HTTP", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		server := exec.Command(bin("mcp-server-everything"), "streamableHttp")
		server.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		}()
		for range 100 {
			if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
				c.Close()
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		_, set := open(t, mcp.Server{Name: "all", Kind: mcp.HTTP, URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)})
		everything(t, set)
	})
	t.Run("filesystem", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("what is in it"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, set := open(t, mcp.Server{Name: "fs", Kind: mcp.Stdio, Command: bin("mcp-server-filesystem"), Args: []string{dir}})
		if text, r := call(t, set, "mcp__fs__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "a.txt"))); r.IsError || text != "what is in it" {
			t.Error("the file cannot be read")
		}
		if _, r := call(t, set, "mcp__fs__read_text_file", `{"path":"/etc/passwd"}`); !r.IsError || r.Class != mcp.ClassTool {
			t.Error("a file outside can be read, or the refusal is no error of the tool")
		}
		if got := set.Effect("mcp__fs__read_text_file", nil); got != tool.Pure {
			t.Errorf("reading is %s", got)
		}
		if got := set.Effect("mcp__fs__edit_file", nil); got == tool.Pure {
			t.Errorf("editing is %s", got)
		}
	})
}

func everything(t *testing.T, set *tool.Set) {
	t.Helper()
	if text, r := call(t, set, "mcp__all__echo", `{"message":"hello"}`); r.IsError || !strings.Contains(text, "hello") {
		t.Error("echo does not echo")
	}
	if text, r := call(t, set, "mcp__all__get-sum", `{"a":2,"b":40}`); r.IsError || !strings.Contains(text, "42") {
		t.Error("2+40 is not 42")
	}
	if _, r := call(t, set, "mcp__all__get-tiny-image", `{}`); r.IsError || !hasImage(r) {
		t.Error("there is no image")
	}
	var progress int
	r := set.Run(t.Context(), tool.Call{
		ID: "c", Name: "mcp__all__trigger-long-running-operation", Input: []byte(`{"duration":1,"steps":4}`),
		Progress: func(string) { progress++ },
	})
	t.Logf("a long operation: error %t, %d notices of progress", r.IsError, progress)
	if r.IsError || progress == 0 {
		t.Error("a long operation fails, or tells no progress")
	}
}
