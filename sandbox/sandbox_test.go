package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		mode     Mode
		deny     bool
		abi      int
		enforced bool
		level    string // its beginning and end, with … between
		err      string
	}{
		{Off, false, 7, false, "off", ""},
		{Off, true, 0, false, "off", ""},
		{Auto, false, 0, false, "none: the kernel has no Landlock…", ""},
		{Auto, false, 1, false, "none: the kernel has Landlock abi 1, and 2 is needed", ""},
		{Auto, false, 2, true, "landlock abi 2: writes only to the workspace, added folders, temp folders and caches", ""},
		{Auto, true, 2, true, "landlock abi 2: …; the network is not restricted, which needs abi 4", ""},
		{Auto, true, 4, true, "landlock abi 4: …; no TCP (UDP is not covered)", ""},
		{Auto, true, 9, true, "landlock abi 9: …; no TCP (UDP is not covered)", ""},
		{Auto, true, 10, true, "landlock abi 10: …; no TCP and UDP", ""},
		{Auto, false, 99, true, "landlock abi 99: …caches", ""},
		{Required, false, 7, true, "landlock abi 7: …caches", ""},
		{Required, false, 0, false, "", "a sandbox is required: the kernel has no Landlock"},
		{Required, false, 1, false, "", "2 is needed"},
		{Required, true, 3, false, "", "4 is needed to deny the network"},
		{Required, true, 4, true, "landlock abi 4: …no TCP (UDP is not covered)", ""},
	} {
		enforced, level, err := Decide(c.mode, c.deny, c.abi)
		start, end, _ := strings.Cut(c.level, "…")
		if enforced != c.enforced || !strings.HasPrefix(level, start) || !strings.HasSuffix(level, end) || c.level == "" && level != "" {
			t.Errorf("%+v: %v, %q", c, enforced, level)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestParseMode(t *testing.T) {
	for text, want := range map[string]Mode{"": Auto, "auto": Auto, "required": Required, "off": Off} {
		if got, err := ParseMode(text); got != want || err != nil {
			t.Errorf("ParseMode(%q) = %q, %v", text, got, err)
		}
	}
	if _, err := ParseMode("on"); err == nil {
		t.Error("an unknown mode was accepted")
	}
}

func TestCovers(t *testing.T) {
	dir := t.TempDir()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	r := &Rules{Write: []string{dir + "/a", link}}
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		dir + "/a": true, dir + "/a/b/c": true, dir: false, dir + "/ab": false, dir + "/b": false, "/": false, target + "/x": true,
	} {
		if r.Covers(path) != want {
			t.Errorf("Covers(%s) = %v", path, !want)
		}
	}
}

func TestHint(t *testing.T) {
	files := &Rules{Write: []string{"/w", "/more", "/tmp", "/var/tmp", "/dev/null"}}
	closed := &Rules{Write: []string{"/w"}, NoNetwork: true}
	for _, c := range []struct {
		rules  *Rules
		output string
		want   []string // none: no hint
	}{
		{files, "all is well", nil},
		{files, "sh: cannot create /x: Permission denied", []string{"/w, /more, /tmp, /var/tmp, caches of build tools", "tell the user"}},
		{files, "touch: Read-only file system", []string{"only below /w"}},
		{files, "Error: EACCES: permission denied, mkdir '/x'", []string{"only below /w"}},
		{files, "ln: Invalid cross-device link", []string{"only below /w"}},
		{files, "curl: (7) Failed to connect to 10.0.0.1", nil},
		{closed, "curl: (7) Failed to connect to 10.0.0.1", []string{"may not use the network"}},
		{closed, "Network is unreachable", []string{"may not use the network"}},
		{closed, "connect: Permission denied", []string{"only below /w", "may not use the network"}},
	} {
		got := c.rules.Hint(c.output)
		if (got == "") != (c.want == nil) {
			t.Errorf("%q: %q", c.output, got)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%q: %q, want %q in it", c.output, got, part)
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	env := map[string]string{"HOME": "/home/u", "TMPDIR": "/scratch/", "GOPATH": "/g1:/g2", "GOCACHE": "off", "PIP_CACHE_DIR": "/pip"}
	got := Places(func(name string) string { return env[name] })
	for _, want := range []string{"/tmp", "/var/tmp", "/scratch", "/dev/null", "/home/u/.cache", "/g1/pkg", "/g2/pkg", "/pip", "/home/u/.npm", "/home/u/.cargo/registry"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, p := range got {
		if !filepath.IsAbs(p) || p == "/" || p == "/home/u" || strings.HasPrefix(p, "/home/u/.local/state") || strings.HasPrefix(p, "/home/u/.ssh") {
			t.Errorf("%s must not be among them", p)
		}
	}
	env = map[string]string{"TMPDIR": "/", "HOME": "", "XDG_CACHE_HOME": "relative"}
	got = Places(func(name string) string { return env[name] })
	if slices.Contains(got, "/") || slices.ContainsFunc(got, func(p string) bool { return !filepath.IsAbs(p) }) {
		t.Errorf("%v", got)
	}
}

func TestRepository(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, git := range []string{"main/.git", "main/.git/modules/sub"} {
		write(git+"/HEAD", "ref: refs/heads/main\n")
		write(git+"/objects/x", "")
		write(git+"/refs/x", "")
	}
	write("main/.git/worktrees/w/commondir", "../..\n")
	write("main/a/b/file", "")
	write("main/sub/.git", "gitdir: ../.git/modules/sub\n")
	write("w/.git", "gitdir: "+dir+"/main/.git/worktrees/w\n")
	write("plain/file", "")
	write("false/.git", "gitdir: /etc\n")
	write("half/.git/HEAD", "")
	write("thief/own/commondir", dir+"/main/.git\n")
	write("thief/.git", "gitdir: own\n")
	for name, want := range map[string]string{
		"main": "main/.git", "main/a/b": "main/.git", "main/sub": "main/.git/modules/sub", "w": "main/.git", "plain": "", "false": "", "half": "", "thief": "",
	} {
		got := Repository(filepath.Join(dir, name))
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0] != filepath.Join(dir, want)) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
