package builtin

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// git runs the real git, far from the settings of whoever runs the tests.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("there is no git to compare with")
	}
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (b *bench) found(pattern string) []string {
	b.t.Helper()
	o, ok := b.call("Glob", in{"pattern": pattern}).Output.(GlobOutput)
	if !ok {
		b.t.Errorf("Glob %s has no output", pattern)
	}
	slices.Sort(o.Names)
	return o.Names
}

func (b *bench) expect(pattern string, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), b.found(pattern)); diff != "" {
		b.t.Errorf("Glob %s (-want +got)\n%s", pattern, diff)
	}
}

func tree3(b *bench) {
	for _, n := range []string{"a.go", "b.txt", "sub/c.go", "sub/deep/d.go", "sub/e_test.go", ".github/ci.yml", "node_modules/x/i.js", "build/out.go", "debug.log"} {
		b.file(n, "package x // "+n+"\n")
	}
}

func TestGlob(t *testing.T) {
	b := open(t)
	tree3(b)
	b.file(".git/config", "not a repository")
	b.expect("**/*.go", "a.go", "build/out.go", "sub/c.go", "sub/deep/d.go", "sub/e_test.go")
	b.expect("*.go", "a.go")
	b.expect("sub/**/*.go", "sub/c.go", "sub/deep/d.go", "sub/e_test.go")
	b.expect("sub/*.go", "sub/c.go", "sub/e_test.go")
	b.expect("{a,sub/c}.go", "a.go", "sub/c.go")
	b.expect("**/*.{yml,txt}", ".github/ci.yml", "b.txt")
	b.expect("**/i.js")
	b.expect("node_modules/**", "node_modules/x/i.js")
	b.expect("d.go", "sub/deep/d.go")
	b.expect(b.dir+"/sub/*/d.go", "sub/deep/d.go")
	wants(t, b.good("Glob", in{"pattern": "*.go", "path": "sub"}), "sub/c.go\n", "sub/e_test.go\n")
	wants(t, b.good("Glob", in{"pattern": "e_*.go"}), "these are below it")
	wants(t, b.good("Glob", in{"pattern": "*.rs"}), "No files found")
	wants(t, b.good("Glob", in{"pattern": "nowhere/*.rs"}), "no folder nowhere")
	wants(t, b.good("Glob", in{"pattern": "sub/"}), "sub is a folder", "use sub/**")
	wants(t, b.good("Glob", in{"pattern": "sub/deep"}), "sub/deep is a folder", "use sub/deep/**")
	b.expect(strings.Repeat("{a,b}", 8) + "{.go,*}")
	wants(t, b.bad("Glob", in{"pattern": strings.Repeat("{a,b}", 40)}), "more than 1000 patterns")
	wants(t, b.bad("Glob", in{"pattern": "[a"}), "not valid")
	wants(t, b.bad("Glob", in{"pattern": "*", "path": "sbu"}), "there is sub")
	wants(t, b.bad("Glob", in{"pattern": "*", "path": "a.go"}), "file, not a folder")
}

func TestGlobNewestFirst(t *testing.T) {
	b := open(t)
	for i := range 120 {
		name := fmt.Sprintf("f%03d", i)
		b.file(name, "")
		when := time.Now().Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(filepath.Join(b.dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	r := b.call("Glob", in{"pattern": "f*"})
	o := r.Output.(GlobOutput)
	if !o.Truncated || o.NumFiles != 100 || o.Names[0] != "f119" || o.Names[99] != "f020" {
		t.Errorf("%+v", o)
	}
	wants(t, text(r), "the latest 100 of 120")
}

func TestIgnoredByGit(t *testing.T) {
	t.Parallel()
	b := open(t)
	git(t, b.dir, "init", "-q")
	tree3(b)
	b.file(".gitignore", "/build/\n*.log\n!keep.log\nnode_modules\n\\#odd\na?c\n")
	for _, n := range []string{"keep.log", "sub/.gitignore", "#odd", "abc", "sub/build/x", "tracked.log", "ünï.go"} {
		b.file(n, "x\n")
	}
	b.file("sub/.gitignore", "deep/*\n!deep/keep\n")
	b.file("sub/deep/keep", "x\n")
	b.file("inner/.gitignore", "*.tmp\n")
	b.file("inner/a.go", "x\n")
	b.file("inner/b.tmp", "x\n")
	git(t, filepath.Join(b.dir), "add", "-f", "tracked.log")
	git(t, filepath.Join(b.dir, "inner"), "init", "-q")

	all := strings.FieldsFunc(git(t, b.dir, "ls-files", "-z", "-co", "--exclude-standard"), func(r rune) bool { return r == 0 })
	all = slices.DeleteFunc(all, func(s string) bool { return s == "inner/" })
	all = append(all, "inner/.gitignore", "inner/a.go")
	slices.Sort(all)
	b.expect("**", all...)
	for _, n := range []string{"build/out.go", "debug.log", "#odd", "abc", "inner/b.tmp", "sub/deep/d.go"} {
		if slices.Contains(all, n) {
			t.Errorf("%s should be ignored", n)
		}
	}
	// What is named is meant, though git ignores it.
	b.expect("build/*", "build/out.go")
	b.expect("node_modules/**/*.js", "node_modules/x/i.js")
	b.expect("debug.log", "debug.log")
	wants(t, b.good("Grep", in{"pattern": "package", "path": "debug.log"}), "debug.log")
	wants(t, b.good("Grep", in{"pattern": "package", "output_mode": "count"}), "a.go:1", "sub/c.go:1")
	if got := b.good("Grep", in{"pattern": "package"}); strings.Contains(got, "build") || strings.Contains(got, "node_modules") {
		t.Error(got)
	}
	// Deleted, and still in the index.
	if err := os.Remove(filepath.Join(b.dir, "tracked.log")); err != nil {
		t.Fatal(err)
	}
	b.expect("tracked.log")
}

func TestSubmodule(t *testing.T) {
	t.Parallel()
	b := open(t)
	other := t.TempDir()
	git(t, other, "init", "-q")
	if err := os.WriteFile(filepath.Join(other, "m.go"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, other, "add", ".")
	git(t, other, "commit", "-qm", "x")
	git(t, b.dir, "init", "-q")
	git(t, b.dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "lib/mod")
	b.expect("**/*.go", "lib/mod/m.go")
}

// A repository is data. What its settings want to be run is not run.
func TestGitRunsNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	git(t, b.dir, "init", "-q")
	b.file("hook", "#!/bin/sh\ntouch "+b.dir+"/ran\n")
	if err := os.Chmod(filepath.Join(b.dir, "hook"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.file("a.go", "x\n")
	git(t, b.dir, "add", "a.go")
	git(t, b.dir, "config", "core.fsmonitor", filepath.Join(b.dir, "hook"))
	b.expect("*.go", "a.go")
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("listing files ran a program of the repository")
	}
	// Nor is a git that lies in the workspace the git.
	if got := lookPath("git", []string{"PATH=.:bin::" + b.dir + "/none"}); got != "" {
		t.Errorf("git found at %s", got)
	}
}

func TestGrep(t *testing.T) {
	b := open(t)
	b.file("a.go", "package a\n\nfunc Foo() {}\n// foo bar\nfunc Bar() {}\n\n\n\nfunc Foo2() {}\n")
	b.file("sub/b.go", "package b\r\nfunc Foo() {}\r\n")
	b.file("sub/c.py", "def foo():\n    return 'Foo'\n")
	b.file("binary", "Foo\x00")
	b.file("long.txt", "Foo"+strings.Repeat("x", 3000)+"\n")
	content := func(input in) in {
		input["output_mode"] = "content"
		return input
	}
	for name, c := range map[string]struct {
		input in
		want  string
	}{
		"content":     {content(in{"pattern": "func Foo"}), "a.go:3:func Foo() {}\na.go:9:func Foo2() {}\nsub/b.go:2:func Foo() {}"},
		"no numbers":  {content(in{"pattern": "func Bar", "-n": false}), "a.go:func Bar() {}"},
		"fold":        {content(in{"pattern": "FOO BAR", "-i": true}), "a.go:4:// foo bar"},
		"only":        {content(in{"pattern": "[fF]oo", "-o": true, "path": "sub"}), "sub/b.go:2:Foo\nsub/c.py:1:foo\nsub/c.py:2:Foo"},
		"after":       {content(in{"pattern": "package", "-A": 1}), "a.go:1:package a\na.go-2-\n--\nsub/b.go:1:package b\nsub/b.go-2-func Foo() {}"},
		"around":      {content(in{"pattern": "Foo", "-C": 1, "glob": "a.go"}), "a.go-2-\na.go:3:func Foo() {}\na.go-4-// foo bar\n--\na.go-8-\na.go:9:func Foo2() {}"},
		"joined":      {content(in{"pattern": "Foo|Bar", "-B": 2, "glob": "a.go"}), "a.go-1-package a\na.go-2-\na.go:3:func Foo() {}\na.go-4-// foo bar\na.go:5:func Bar() {}\n--\na.go-7-\na.go-8-\na.go:9:func Foo2() {}"},
		"anchors":     {content(in{"pattern": "^func Foo.*}$", "glob": "*.go", "path": "sub"}), "sub/b.go:2:func Foo() {}"},
		"multiline":   {content(in{"pattern": `package a.*?Foo`, "multiline": true}), "a.go:1:package a\na.go:2:\na.go:3:func Foo() {}"},
		"multi crlf":  {content(in{"pattern": `b\nfunc`, "multiline": true}), "sub/b.go:1:package b\nsub/b.go:2:func Foo() {}"},
		"much around": {content(in{"pattern": "Bar", "-A": math.MaxInt, "path": "a.go"}), "a.go:5:func Bar() {}\na.go-6-\na.go-7-\na.go-8-\na.go-9-func Foo2() {}"},
		"not folder":  {in{"pattern": "Foo", "glob": "!sub", "output_mode": "count"}, "a.go:2\nlong.txt:1"},
		"not folder/": {in{"pattern": "Foo", "glob": "!sub/", "output_mode": "count"}, "a.go:2\nlong.txt:1"},
		"not in it":   {in{"pattern": "Foo", "glob": "!/sub/*.py", "output_mode": "count"}, "a.go:2\nlong.txt:1\nsub/b.go:1"},
		"anchored":    {in{"pattern": "Foo", "glob": "/*.go"}, "a.go"},
		"limit":       {content(in{"pattern": "func", "head_limit": 1, "offset": 1}), "a.go:5:func Bar() {}\n(results 2 to 2 of 4; use offset and head_limit for others)"},
		"count":       {in{"pattern": "Foo", "output_mode": "count"}, "a.go:2\nlong.txt:1\nsub/b.go:1\nsub/c.py:1"},
		"type":        {in{"pattern": "Foo", "type": "py"}, "sub/c.py"},
		"not glob":    {in{"pattern": "Foo", "glob": "!*.{go,txt}"}, "sub/c.py"},
		"glob path":   {in{"pattern": "Foo", "glob": "sub/*.go"}, "sub/b.go"},
		"file":        {in{"pattern": "Foo", "path": "sub/c.py"}, "sub/c.py"},
		"nothing":     {in{"pattern": "qqqq"}, "No matches found"},
		"line end":    {in{"pattern": `a\nb`}, "No matches found: without multiline, lines are searched one by one"},
		"behind":      {in{"pattern": "Foo", "offset": 10}, "(there are only 4 results: offset 10 is behind them)"},
		"braces":      {content(in{"pattern": `Bar\(\) {}`, "path": "a.go"}), "a.go:5:func Bar() {}"},
		"quantifiers": {content(in{"pattern": "o{2}\\d", "path": "a.go"}), "a.go:9:func Foo2() {}"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, b.good("Grep", c.input)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	wants(t, b.good("Grep", content(in{"pattern": "xxx", "path": "long.txt"})), "[line cut here]")
	wants(t, b.bad("Grep", in{"pattern": "foo("}), "missing closing )", "RE2")
	wants(t, b.bad("Grep", in{"pattern": "(?=x)"}), "look-around")
	wants(t, b.bad("Grep", in{"pattern": ""}), "empty")
	wants(t, b.bad("Grep", in{"pattern": "x", "type": "cobol"}), "no file type", "rust")
	wants(t, b.bad("Grep", in{"pattern": "x", "glob": "{a"}), "not valid")
	wants(t, b.bad("Grep", in{"pattern": "x", "glob": strings.Repeat("{a,b}", 40)}), "more than 1000 patterns")
	wants(t, b.bad("Grep", in{"pattern": "Foo", "path": "binary"}), "binary file")
	locked := grepResult(grepInput{Mode: modeFiles}, place{shown: "."}, []findings{{name: "a", locked: true}})
	wants(t, text(locked), "No matches found\n(not searched, since they may not be read: a)")
	wants(t, b.bad("Grep", in{"pattern": "x", "path": "sbu"}), "there is sub")
	wants(t, b.bad("Grep", in{"pattern": "x", "-A": -1}), "negative")
	wants(t, b.bad("Grep", in{"pattern": "x", "output_mode": "lines"}), "output_mode")
	o := b.call("Grep", content(in{"pattern": "func Foo"})).Output.(GrepOutput)
	if o.NumFiles != 2 || o.NumMatches != 3 || o.Mode != "content" || len(o.Names) != 2 || !strings.Contains(o.Content, "Foo2") {
		t.Errorf("%+v", o)
	}
}

func TestGrepIsBounded(t *testing.T) {
	b := open(t)
	b.file("many", strings.Repeat("hit\n", 50_000))
	got := b.good("Grep", in{"pattern": "hit", "output_mode": "content"})
	if n := strings.Count(got, "\n"); n != defaultHead {
		t.Errorf("%d lines", n)
	}
	wants(t, b.good("Grep", in{"pattern": "hit", "output_mode": "count"}), "many:50000")
	got = b.good("Grep", in{"pattern": "hit", "output_mode": "content", "head_limit": 0})
	wants(t, got, "left out here; the whole text is in", "more matches are not shown")
}

// Looking for a fixed part of an expression first never hides a match.
func TestGrepFindsWhatTheExpressionFinds(t *testing.T) {
	const text = "Reader\nreader READER\n\nMA\u017fK ma\u017fk mask\n\u212aelvin kelvin\nstra\u00dfe STRASSE\n\u00c4rger \u00e4rger\nx\n  tail"
	b := open(t)
	b.file("f", text)
	lines := strings.Split(text, "\n")
	for _, pattern := range []string{
		"reader", "(?i)reader", "(?i)READER$", "(?i)mask", "(?i)kelvin", "(?i)K", "(?i)s", "(?i)\u00c4RGER", "(?i:re)ader", "re(?i:ADER)", "(reader)+",
		"(?i)(MA)(sk)?", "a|r", "^$", "[A-Z]+", ".", "(?i)tail$", "^ *", "r.*r", "(?i)stra\u00dfe", "(?i)x{1,2}", `\x{212a}`, "(?i)e+r", "zzz",
	} {
		var want []string
		re := regexp.MustCompile(pattern)
		for i, l := range lines {
			if re.MatchString(l) {
				want = append(want, fmt.Sprintf("f:%d:%s", i+1, l))
			}
		}
		got := b.good("Grep", in{"pattern": pattern, "output_mode": "content"})
		if w := strings.Join(want, "\n"); got != w && !(w == "" && got == "No matches found") {
			t.Errorf("%s:\n%s\nwant\n%s", pattern, got, w)
		}
		count := b.good("Grep", in{"pattern": pattern, "output_mode": "count"})
		if w := fmt.Sprintf("f:%d", len(want)); count != w && len(want) > 0 {
			t.Errorf("%s: %s, want %s", pattern, count, w)
		}
	}
}

// What a deny rule hides is neither named nor searched, however it is asked for.
func TestHiddenFiles(t *testing.T) {
	b := open(t, func(c *Config) { c.Hidden = func(path string) bool { return filepath.Base(path) == ".env" } })
	b.file(".env", "KEY=1\n")
	b.file("sub/.env", "KEY=2\n")
	b.file("sub/a.txt", "KEY=3\n")
	for pattern, want := range map[string][]string{".env": {}, "**/.env": {}, "**/*": {"sub/a.txt"}, "sub/.e*": {}} {
		if diff := cmp.Diff(want, b.found(pattern)); diff != "" {
			t.Errorf("%s: %s", pattern, diff)
		}
	}
	if got := b.good("Grep", in{"pattern": "KEY", "output_mode": "content"}); got != "sub/a.txt:1:KEY=3" {
		t.Errorf("Grep: %s", got)
	}
}
