package permission

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

// seeds are the commands of the rule table.
func seeds(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, command, ok := strings.Cut(lines.Text(), ":: Bash "); ok {
			all = append(all, strings.ReplaceAll(command, "⏎", "\n"))
		}
	}
	return all
}

// FuzzDecide holds what must be true of every command: deciding never panics,
// a name that is not written plainly is never allowed, and a further deny rule
// never makes a decision milder.
func FuzzDecide(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, "Bash(rm:*)")
	}
	root := workspace(f)
	p := &Policy{Root: root, Home: "/home/u", Allow: []Rule{{Tool: "Bash", Specifier: "a:*"}, {Tool: "Bash", Specifier: "* --help"}, {Tool: "Bash", Specifier: "git *"}}}
	f.Fuzz(func(t *testing.T, command, deny string) {
		c, a := call("Bash", command)
		start := time.Now()
		d := p.Decide(c, a)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %s: %q", took, command)
		}
		if d.Behavior == Allow && hiddenName(command) {
			t.Errorf("allowed by %s %s: %q", d.ReasonType, d.Rule, command)
		}
		r, err := ParseRule(deny)
		if err != nil {
			return
		}
		stricter := *p
		stricter.Deny = []Rule{r}
		after := stricter.Decide(c, a)
		if after.Behavior == Allow && d.Behavior != Allow || after.Behavior == Ask && d.Behavior == Deny {
			t.Errorf("%s turned %s into %s: %q", r, d.Behavior, after.Behavior, command)
		}
		for _, mode := range []Mode{AcceptEdits, Plan, DontAsk, Bypass} {
			stricter.Mode = mode
			m := stricter.Decide(c, a)
			if after.Behavior == Deny && m.Behavior != Deny {
				t.Errorf("%s turned deny by %s into %s: %q", mode, r, m.Behavior, command)
			}
			if mode == DontAsk && m.Behavior == Ask {
				t.Errorf("dontAsk asks: %q", command)
			}
		}
	})
}

// hiddenName says that some command's name is not a plain literal; it reads the
// parse in its own way, without the code under test.
func hiddenName(command string) bool {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return true
	}
	hidden := false
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			name := c.Args[0].Lit()
			hidden = hidden || name == "" || strings.ContainsAny(name, "\\*?~") || (strings.Contains(name, "{") && strings.Contains(name, ","))
		}
		return true
	})
	return hidden
}

func FuzzParseRules(f *testing.F) {
	for _, s := range []string{"Bash(git diff:*),Read", "Edit(/x/**) mcp__a__*", "WebFetch(domain:x)", "A(b:c)", "Bash(("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		rules, err := ParseRules(list)
		if err != nil {
			return
		}
		for _, r := range rules {
			again, err := ParseRule(r.String())
			if err != nil || again != r {
				t.Errorf("%q is read back as %v (%v)", r, again, err)
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	p := &Policy{Root: workspace(b), Home: "/home/u",
		Allow: []Rule{{Tool: "Bash", Specifier: "go test:*"}, {Tool: "Bash", Specifier: "git *"}, {Tool: "Edit", Specifier: "/src/**"}},
		Deny:  []Rule{{Tool: "Bash", Specifier: "rm:*"}, {Tool: "Read", Specifier: ".env"}},
	}
	for name, target := range map[string]string{
		"Bash": "go test ./...",
		"Read": "src/a.go",
		"Edit": "src/a.go",
	} {
		c, a := call(name, target)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.Decide(c, a)
			}
		})
	}
	c, a := call("Bash", "cd src && cat *.go | grep -n foo | head -5 && git status; for f in a b; do echo $f; done")
	b.Run("Script", func(b *testing.B) {
		for b.Loop() {
			p.Decide(c, a)
		}
	})
}
