package permission

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// workspace makes the directory that the tests are about.
func workspace(t testing.TB) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"src/a.go", ".env", "secrets/key", "docs/x.md", "-delete", "tmpl/a.go", "tmpl/.envrc", "linked/x"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link(t, "/etc", filepath.Join(root, "out"))
	link(t, "src", filepath.Join(root, "in"))
	link(t, "/etc/passwd", filepath.Join(root, "linked/a.go"))
	return root
}

func link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// call makes a call from a tool's name and what it would touch.
func call(name, target string) (tool.Call, tool.Access) {
	c := tool.Call{ID: "t1", Name: name, Input: jsontext.Value("{}")}
	if strings.HasPrefix(target, "{") {
		c.Input = jsontext.Value(target)
	}
	kinds := map[string]tool.AccessKind{"Bash": tool.AccessShell, "Read": tool.AccessRead, "Glob": tool.AccessRead, "Grep": tool.AccessRead,
		"Write": tool.AccessEdit, "Edit": tool.AccessEdit, "NotebookEdit": tool.AccessEdit, "WebFetch": tool.AccessWeb, "TodoWrite": tool.AccessNone}
	a := tool.Access{Kind: kinds[name]}
	switch a.Kind {
	case tool.AccessShell:
		a.Command = target
	case tool.AccessWeb:
		a.Domain = target
	case tool.AccessRead, tool.AccessEdit:
		if target != "" {
			a.Paths = []string{target}
		}
	case "":
		a.Kind = tool.AccessOther
	}
	return c, a
}

func mustRule(t testing.TB, text string) Rule {
	t.Helper()
	r, err := ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRules(t *testing.T) {
	f, err := os.Open("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	root := workspace(t)
	var p *Policy
	title := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "== "); ok {
			title = rest
			p = &Policy{Root: root, Home: "/home/u"}
			continue
		}
		want, target, isCase := strings.Cut(line, " :: ")
		if !isCase {
			setUp(t, p, line)
			continue
		}
		target = strings.NewReplacer("/ws", root, "⏎", "\n", "·", "\u00a0", `\x0d`, "\r").Replace(target)
		name, target, _ := strings.Cut(target, " ")
		d := p.Decide(call(name, target))
		got := string(d.Behavior) + " by " + string(d.ReasonType)
		if d.ReasonType == ByRule {
			got = string(d.Behavior) + " by " + d.Rule.String()
		}
		if got != want {
			t.Errorf("line %d (%s): %s %q\n got %s (%s)\nwant %s", n, title, name, target, got, d.Reason, want)
		}
		if d.Reason == "" || (d.Behavior == Deny) != (d.Message != "") {
			t.Errorf("line %d: reason %q, message %q", n, d.Reason, d.Message)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// setUp reads one line of a section's head.
func setUp(t *testing.T, p *Policy, line string) {
	t.Helper()
	key, value, _ := strings.Cut(line, " ")
	switch key {
	case "mode":
		mode, err := ParseMode(value)
		if err != nil {
			t.Fatal(err)
		}
		p.Mode = mode
	case "allow":
		p.Allow = append(p.Allow, mustRule(t, value))
	case "ask":
		p.Ask = append(p.Ask, mustRule(t, value))
	case "deny":
		p.Deny = append(p.Deny, mustRule(t, value))
	default:
		t.Fatalf("no such line: %q", line)
	}
}
