package permission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// To allow, a link and its target must both be fine; to deny, either is enough.
func TestLinks(t *testing.T) {
	root, other := workspace(t), workspace(t)
	link(t, other, filepath.Join(root, "far"))                            // to a directory elsewhere
	link(t, filepath.Join(other, "new"), filepath.Join(root, "dangling")) // to what is not there
	link(t, "loop", filepath.Join(root, "loop"))
	link(t, filepath.Join(root, ".git"), filepath.Join(root, "g"))
	link(t, filepath.Join(root, "secrets"), filepath.Join(root, "open"))
	link(t, root, filepath.Join(other, "back")) // from elsewhere into the workspace

	p := &Policy{Mode: AcceptEdits, Root: root, Deny: []Rule{mustRule(t, "Read(secrets)"), mustRule(t, "Edit(/docs/**)")}}
	for _, tc := range []struct {
		name, target string
		want         Behavior
	}{
		{"Read", "far/src/a.go", Ask},
		{"Read", "in/a.go", Allow},
		{"Read", "far/../x", Ask}, // the system says other/../x, a cleaner root/x
		{"Read", "in/../.env", Allow},
		{"Write", "dangling", Ask},
		{"Write", "dangling/x", Ask},
		{"Read", "loop", Ask},
		{"Read", "loop/x", Ask},
		{"Write", "g/hooks/x", Ask},
		{"Read", "open/key", Deny},
		{"Read", "secrets/key", Deny},
		{"Bash", "cat open/key", Deny},
		{"Bash", "cat far/src/a.go", Ask},
		{"Bash", "cat [s-t]*/a.go", Allow},
		{"Bash", "cat far/*/a.go", Ask},
		{"Bash", "cat f*/src/a.go", Ask},
		{"Bash", "echo x > dangling", Ask},
		{"Bash", "echo x > in/new", Allow},
		{"Read", filepath.Join(other, "back/src/a.go"), Ask},
		{"Read", filepath.Join(other, "back/secrets/key"), Deny},
		{"Write", filepath.Join(other, "back/docs/x"), Deny},
		{"Read", strings.Repeat("a/", 3000), Ask},
		{"Read", "a\x00b", Ask},
	} {
		if d := p.Decide(call(tc.name, tc.target)); d.Behavior != tc.want {
			t.Errorf("%s %s: %s (%s), want %s", tc.name, tc.target, d.Behavior, d.Reason, tc.want)
		}
	}
}

// A workspace that is itself reached by a link is the same workspace.
func TestLinkedRoot(t *testing.T) {
	root := workspace(t)
	alias := filepath.Join(t.TempDir(), "ws")
	link(t, root, alias)
	p := &Policy{Mode: AcceptEdits, Root: alias, Allow: []Rule{mustRule(t, "Bash(x)")}, Deny: []Rule{mustRule(t, "Read(/.env)")}}
	for target, want := range map[string]Behavior{
		"src/a.go": Allow, filepath.Join(root, "src/a.go"): Allow, filepath.Join(alias, "src/a.go"): Allow,
		".env": Deny, filepath.Join(root, ".env"): Deny, filepath.Join(alias, ".env"): Deny, "/etc/passwd": Ask,
	} {
		if d := p.Decide(call("Read", target)); d.Behavior != want {
			t.Errorf("%s: %s (%s), want %s", target, d.Behavior, d.Reason, want)
		}
	}
}

// Further directories are part of the workspace; a rule's own root and the
// directory that calls start in anchor patterns.
func TestAnchors(t *testing.T) {
	root, more := workspace(t), workspace(t)
	rule := mustRule(t, "Edit(/x/**)")
	rule.Root = "/settings"
	p := &Policy{Root: root, Dir: filepath.Join(root, "src"), Dirs: []string{more}, Home: "/home/u",
		Allow: []Rule{rule, mustRule(t, "Edit(sub/*)")}, Deny: []Rule{mustRule(t, "Read(.env)")}}
	for _, tc := range []struct {
		name, target string
		want         Behavior
	}{
		{"Read", filepath.Join(more, "src/a.go"), Allow},
		{"Read", "a.go", Allow},
		{"Read", "../docs/x.md", Allow},
		{"Read", "../.env", Deny}, // above the directory, and still denied
		{"Write", "/settings/x/a", Allow},
		{"Write", filepath.Join(root, "x/a"), Ask},
		{"Write", "sub/a", Allow},
		{"Write", filepath.Join(root, "sub/a"), Ask},
		{"Bash", "cat a.go && git status", Allow},
		{"Bash", "cd .. && git status", Allow},
		{"Bash", "cd ../.. && ls", Ask},
	} {
		if d := p.Decide(call(tc.name, tc.target)); d.Behavior != tc.want {
			t.Errorf("%s %s: %s (%s), want %s", tc.name, tc.target, d.Behavior, d.Reason, tc.want)
		}
	}
	for path, want := range map[string]bool{"../.env": true, filepath.Join(root, ".env"): true, "a.go": false} {
		if p.Hides(path) != want {
			t.Errorf("hides %s: %t", path, !want)
		}
	}
}

// Without a workspace nothing is inside one.
func TestNoRoot(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Policy{{}, {Root: "."}, {Root: "~"}} {
		p.Mode = AcceptEdits
		for _, target := range []string{"x", ".", wd, "~/x", "~", ""} {
			if d := p.Decide(call("Write", target)); d.Behavior != Ask {
				t.Errorf("root %q: write %q: %s", p.Root, target, d.Behavior)
			}
			if d := p.Decide(call("Bash", "cat ./"+target)); d.Behavior != Ask {
				t.Errorf("root %q: cat %q: %s", p.Root, target, d.Behavior)
			}
		}
	}
}

// A workspace that git takes for a repository as it is, has settings that anybody
// could have put there.
func TestBareRepository(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := &Policy{Root: root}
	if d := p.Decide(call("Bash", "git status")); d.Behavior != Ask {
		t.Errorf("git in a bare repository: %s (%s)", d.Behavior, d.Reason)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if d := p.Decide(call("Bash", "git status")); d.Behavior != Allow {
		t.Errorf("git with a .git: %s (%s)", d.Behavior, d.Reason)
	}
}

// However many files a script would look at, one decision looks at so many.
func TestLooksAreBounded(t *testing.T) {
	p := &Policy{Root: workspace(t), Deny: []Rule{mustRule(t, "Read(nope)")}}
	if d := p.Decide(call("Bash", strings.Repeat("grep -r x .;", 3000))); d.Behavior != Ask {
		t.Errorf("more than can be looked at: %s", d.Behavior)
	}
}
