package builtin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/daruma-agent/daruma/internal/helper" // the test binary is its own helper
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
)

// bench is a workspace with its tools, ready for calls.
type bench struct {
	*Workspace
	t   *testing.T
	set *tool.Set
	dir string
}

func open(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	cfg := Config{
		Root: t.TempDir(), Spill: t.TempDir(), Env: os.Environ(), Grace: 300 * time.Millisecond,
		Reader: []string{os.Args[0], ReaderArgument},
	}
	for _, c := range change {
		c(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	set, err := tool.NewSet(w.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	set.Spill = cfg.Spill
	return &bench{w, t, set, cfg.Root}
}

type in = map[string]any

func (b *bench) run(ctx context.Context, c tool.Call, input in) tool.Result {
	b.t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		b.t.Fatal(err)
	}
	c.Input = raw
	return b.set.Run(ctx, c)
}

func (b *bench) call(name string, input in) tool.Result {
	b.t.Helper()
	return b.run(b.t.Context(), tool.Call{ID: "call", Name: name}, input)
}

// good and bad run a call that must succeed or fail, and return its text.
func (b *bench) good(name string, input in) string {
	b.t.Helper()
	r := b.call(name, input)
	if r.IsError {
		b.t.Errorf("%s %v failed: %s", name, input, text(r))
	}
	return text(r)
}

func (b *bench) bad(name string, input in) string {
	b.t.Helper()
	r := b.call(name, input)
	if !r.IsError || r.Class == "" {
		b.t.Errorf("%s %v did not fail: %s", name, input, text(r))
	}
	return text(r)
}

func text(r tool.Result) string {
	b := message.Block{Type: message.ToolResult, Content: r.Content}
	return b.PlainText()
}

func (b *bench) file(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) content(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func wants(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("got:\n%s\nwant %q in it", got, p)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []Config{
		{}, {Root: "/no/such/folder"}, {Root: file}, {Root: t.TempDir(), Dirs: []string{file}}, {Root: t.TempDir(), Spill: file + "/x"},
	} {
		if w, err := New(cfg); err == nil {
			w.Close()
			t.Errorf("New(%+v) gave no error", cfg)
		}
	}
}

func TestAccessAndEffect(t *testing.T) {
	b := open(t)
	for _, c := range []struct {
		name, input string
		effect      tool.Effect
		kind        tool.AccessKind
	}{
		{"Bash", `{"command":"make"}`, tool.Unsafe, tool.AccessShell},
		{"Bash", `{"command":"ls -la src"}`, tool.Pure, tool.AccessShell},
		{"Bash", `{"command":"ls","run_in_background":true}`, tool.Unsafe, tool.AccessShell},
		{"TaskOutput", `{"task_id":"t"}`, tool.Idempotent, tool.AccessNone},
		{"TaskStop", `{"task_id":"t"}`, tool.Idempotent, tool.AccessNone},
		{"Read", `{"file_path":"a"}`, tool.Pure, tool.AccessRead},
		{"Write", `{"file_path":"a","content":""}`, tool.Idempotent, tool.AccessEdit},
		{"Edit", `{"file_path":"a","old_string":"","new_string":""}`, tool.Unsafe, tool.AccessEdit},
		{"Glob", `{"pattern":"a/*"}`, tool.Pure, tool.AccessRead},
		{"Grep", `{"pattern":"x","path":"a"}`, tool.Pure, tool.AccessRead},
		{"TodoWrite", `{"todos":[]}`, tool.Idempotent, tool.AccessNone},
		{"Read", `{"file_path":1}`, tool.Unsafe, tool.AccessOther},
	} {
		input := []byte(c.input)
		if got := b.set.Effect(c.name, input); got != c.effect {
			t.Errorf("effect of %s %s: %s", c.name, c.input, got)
		}
		a := b.set.Access(c.name, input)
		if a.Kind != c.kind || (c.kind == tool.AccessRead || c.kind == tool.AccessEdit) && (len(a.Paths) != 1 || a.Paths[0] != "a") {
			t.Errorf("access of %s %s: %+v", c.name, c.input, a)
		}
	}
}

func TestTodos(t *testing.T) {
	b := open(t)
	list := []any{in{"content": "a", "status": "in_progress", "activeForm": "doing a"}, in{"content": "b", "status": "completed", "activeForm": "doing b"}}
	wants(t, b.good("TodoWrite", in{"todos": list}), "1 of 2 done")
	if got := b.Todos(); len(got) != 2 || got[0] != (Todo{"a", InProgress, "doing a"}) {
		t.Errorf("todos %+v", got)
	}
	wants(t, b.good("TodoWrite", in{"todos": append(list, list[0])}), "only one")
	wants(t, b.bad("TodoWrite", in{"todos": []any{in{"content": "a", "status": "done"}}}), "todos[0].status", "todos[0].activeForm")
	wants(t, b.bad("TodoWrite", in{"todos": []any{in{"content": " ", "status": "pending", "activeForm": ""}}}), "item 1")
	b.SetTodos([]Todo{{"x", Pending, "y"}})
	if got := b.Todos(); len(got) != 1 || got[0].Content != "x" {
		t.Errorf("todos after SetTodos: %+v", got)
	}
}
