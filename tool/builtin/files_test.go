package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/daruma-agent/daruma/tool"
	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	b := open(t)
	b.file("a.txt", "one\ntwo\n\nfour")
	b.file("windows.txt", "\uFEFFone\r\ntwo\r\n")
	b.file("latin.txt", "gr\xfc\xdfe\n")
	b.file("long.txt", strings.Repeat("ü", 5000)+"\nshort\n")
	b.file("empty.txt", "")
	b.file("many.txt", strings.Repeat("line\n", 2500))
	b.file("wide.txt", strings.Repeat(strings.Repeat("x", 900)+"\n", 100))
	b.file("no-end.txt", "x\n\n")
	for _, c := range []struct {
		input in
		want  string
	}{
		{in{"file_path": "a.txt"}, "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n"},
		{in{"file_path": filepath.Join(b.dir, "a.txt")}, "     1\tone\n"},
		{in{"file_path": "x/../a.txt", "offset": 2, "limit": 2}, "     2\ttwo\n     3\t\n(lines 2 to 3 of 4; go on with offset 4)\n"},
		{in{"file_path": "windows.txt"}, "     1\tone\n     2\ttwo\n(lines end in \\r\\n, which Edit and Write keep)\n"},
		{in{"file_path": "latin.txt"}, "     1\tgr\uFFFDe\n(not all of this is UTF-8"},
		{in{"file_path": "long.txt"}, "ü… [line cut here]\n     2\tshort\n(1 line was cut after 2000 characters)\n"},
		{in{"file_path": "empty.txt"}, "(the file empty.txt exists and is empty)"},
		{in{"file_path": "many.txt"}, "  2000\tline\n(lines 1 to 2000 of 2500; go on with offset 2001)\n"},
		{in{"file_path": "many.txt", "offset": 2500}, "  2500\tline\n"},
		{in{"file_path": "many.txt", "limit": 3000}, "  2500\tline\n"},
		{in{"file_path": "wide.txt"}, "(lines 1 to 49 of 100; go on with offset 50)\n"},
		{in{"file_path": "no-end.txt"}, "     1\tx\n     2\t\n"},
	} {
		if got := b.good("Read", c.input); !strings.HasPrefix(got, c.want) && !strings.HasSuffix(got, c.want) {
			t.Errorf("Read %v:\n%s\nwant:\n%s", c.input, got[max(0, len(got)-400):], c.want)
		}
	}
	got := b.call("Read", in{"file_path": "a.txt", "offset": 3}).Output
	want := ReadOutput{"text", ReadFile{Path: "a.txt", Content: "\nfour", NumLines: 2, StartLine: 3, TotalLines: 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadRefuses(t *testing.T) {
	b := open(t)
	b.file("a.txt", "x\n")
	b.file("dir/config.yaml", "x\n")
	b.file("program", "\x7fELF\x00\x00\x01")
	b.file("paper.pdf", "%PDF-1.7\n1 0 obj\x00")
	b.file("wide.txt", "\xff\xfea\x00b\x00")
	for _, c := range []struct {
		path string
		want []string
	}{
		{"", []string{"empty"}},
		{"a\x00b", []string{"NUL"}},
		{"~/x", []string{"~ is not expanded"}},
		{"dir", []string{"folder", "Glob"}},
		{".", []string{"folder"}},
		{"dir/config.yml", []string{"no such file", "there is config.yaml"}},
		{"dir/Config.YAML", []string{"there is config.yaml"}},
		{"new/folder/x", []string{"no such file", "Its folder does not exist"}},
		{"a.txt/x", []string{"not a directory"}},
		{"program", []string{"binary file", "7 bytes", "Bash"}},
		{"paper.pdf", []string{"PDF is broken"}},
		{"wide.txt", []string{"UTF-16", "iconv"}},
		{"/etc/passwd", []string{"outside of the workspace", b.dir}},
		{"../x", []string{"outside of the workspace"}},
	} {
		wants(t, b.bad("Read", in{"file_path": c.path}), c.want...)
	}
	wants(t, b.bad("Read", in{"file_path": "a.txt", "offset": 3}), "has only 1 line")
	wants(t, b.bad("Read", in{"file_path": "a.txt", "limit": -3}), "negative")
	if r := b.call("Read", in{"file_path": "nothing"}); r.Class != "ENOENT" {
		t.Errorf("class %s", r.Class)
	}
}

func TestConfinement(t *testing.T) {
	outside := t.TempDir()
	extra := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, func(c *Config) { c.Dirs = []string{extra} })
	b.file("real/file", "inside\n")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(outside, "dir")
	link(filepath.Join(outside, "secret"), "file")
	link("../../../../../../../../../../etc/passwd", "up")
	link(filepath.Join(outside, "later"), "dangling")
	link("loop", "loop")
	link("real/file", "good")
	link(filepath.Join(b.dir, "real"), "absolute")
	link(extra, "friend")

	for _, path := range []string{"dir/secret", "file", "up", "dangling", "loop", "dir/../dir/secret", outside + "/secret", "dir/new", b.dir + "/dir/secret", b.dir + "-twin/x"} {
		for name, input := range map[string]in{
			"Read":  {"file_path": path},
			"Write": {"file_path": path, "content": "overwritten"},
			"Edit":  {"file_path": path, "old_string": "", "new_string": "overwritten"},
			"Grep":  {"pattern": "hush", "path": path},
			"Glob":  {"pattern": "*", "path": path},
		} {
			if got := b.bad(name, input); strings.Contains(got, "hush") {
				t.Errorf("%s %s: %s", name, path, got)
			}
		}
	}
	if got, err := os.ReadDir(outside); len(got) != 1 || err != nil {
		t.Errorf("outside: %v, %v", got, err)
	}
	wants(t, b.bad("Read", in{"file_path": "dir/secret"}), "follows a link that leads outside")
	wants(t, b.bad("Glob", in{"pattern": "../*"}), "outside")
	wants(t, b.bad("Glob", in{"pattern": outside + "/*"}), "outside")
	wants(t, b.good("Grep", in{"pattern": "hush"}), "No matches")

	// Links that stay inside are one place with what they name.
	wants(t, b.good("Read", in{"file_path": "good"}), "inside")
	wants(t, b.good("Edit", in{"file_path": "absolute/file", "old_string": "inside", "new_string": "changed"}), "Edited real/file")
	if info, err := os.Lstat(filepath.Join(b.dir, "good")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	wants(t, b.good("Write", in{"file_path": "friend/x", "content": "hello"}), "Created "+extra)
	wants(t, b.good("Read", in{"file_path": filepath.Join(extra, "x")}), "hello")
	wants(t, b.bad("Write", in{"file_path": filepath.Join(b.cfg.Spill, "x"), "content": ""}), "can only be read")

	// A link that is put there after the path was judged: the root of the area judges again.
	p, err := b.locate("real/file")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(b.dir, "real")), os.Symlink(outside, filepath.Join(b.dir, "real"))); err != nil {
		t.Fatal(err)
	}
	p.rel = "real/secret"
	if _, _, err := p.load(); err == nil {
		t.Error("a link made later was followed")
	}
	if err := p.replace([]byte("x"), nil); err == nil {
		t.Error("a link made later was followed for writing")
	}
}

func TestRootBehindALink(t *testing.T) {
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	b := open(t, func(c *Config) { c.Root = link })
	b.file("a", "x\n")
	for _, path := range []string{"a", link + "/a", real + "/a"} {
		wants(t, b.good("Read", in{"file_path": path}), "x")
	}
	wants(t, b.good("Bash", in{"command": "cat $PWD/a; pwd"}), "x", link)
}

func TestWrite(t *testing.T) {
	b := open(t)
	wants(t, b.good("Write", in{"file_path": "new/deep/a.sh", "content": "one\ntwo\n"}), "Created new/deep/a.sh (2 lines)")
	wants(t, b.good("Write", in{"file_path": "new/deep/a.sh", "content": "one\n2\n"}), "Updated", "+1 −1 lines")
	wants(t, b.good("Write", in{"file_path": "new/deep/a.sh", "content": "one\n2\n"}), "already")

	b.file("old.sh", "alpha\r\nbeta\r\n")
	if err := os.Chmod(filepath.Join(b.dir, "old.sh"), 0o751); err != nil {
		t.Fatal(err)
	}
	wants(t, b.bad("Write", in{"file_path": "old.sh", "content": "x"}), "was not read yet", "nothing was changed")
	b.good("Read", in{"file_path": "old.sh", "limit": 1})
	wants(t, b.bad("Write", in{"file_path": "old.sh", "content": "x"}), "only a part")
	b.good("Read", in{"file_path": "old.sh", "offset": 2})
	r := b.call("Write", in{"file_path": "old.sh", "content": "alpha\ngamma\n"})
	if r.IsError || b.content("old.sh") != "alpha\r\ngamma\r\n" {
		t.Errorf("%s: %q", text(r), b.content("old.sh"))
	}
	if info, _ := os.Stat(filepath.Join(b.dir, "old.sh")); info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v", info.Mode())
	}
	o := r.Output.(WriteOutput)
	if o.Type != "update" || *o.Original != "alpha\r\nbeta\r\n" || len(o.Patch) != 1 {
		t.Errorf("%+v", o)
	}
	b.file("old.sh", "changed by somebody\n")
	wants(t, b.bad("Write", in{"file_path": "old.sh", "content": "x"}), "has changed since it was read")

	b.file("locked", "x\n")
	b.good("Read", in{"file_path": "locked"})
	if err := os.Chmod(filepath.Join(b.dir, "locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	wants(t, b.bad("Write", in{"file_path": "locked", "content": "y"}), "write-protected")
	wants(t, b.bad("Write", in{"file_path": "new", "content": "y"}), "folder")
	wants(t, b.bad("Write", in{"file_path": "fresh/", "content": "y"}), "folder")
	wants(t, b.bad("Write", in{"file_path": "locked/x", "content": "y"}), "not a directory")
	b.file("marked", "\uFEFFa\r\nb\r\n")
	b.good("Read", in{"file_path": "marked"})
	b.good("Write", in{"file_path": "marked", "content": "c\nd\n"})
	if got := b.content("marked"); got != "\uFEFFc\r\nd\r\n" {
		t.Errorf("byte order mark and line ends: %q", got)
	}
	b.file("hollow", "")
	b.good("Write", in{"file_path": "hollow", "content": "now full"})
	noTemps(t, b.dir)
}

func noTemps(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEdit(t *testing.T) {
	for name, c := range map[string]struct{ content, old, text, want string }{
		"plain":          {"a\nb\nc\n", "b", "B", "a\nB\nc\n"},
		"delete":         {"a\nb\nc\n", "b\n", "", "a\nc\n"},
		"crlf":           {"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"},
		"crlf in input":  {"a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"},
		"mixed":          {"a\r\nb\nc\r\nd\r\n", "b\nc", "b\nC", "a\r\nb\r\nC\r\nd\r\n"},
		"mixed the less": {"a\nb\r\nc\nd\n", "b\nc", "B\nC", "a\nB\nC\nd\n"},
		"mark":           {"\uFEFFa\nb\n", "a\n", "A\n", "\uFEFFA\nb\n"},
		"no end":         {"a\nb", "b", "c", "a\nc"},
		"bytes":          {"\xff\xfe?\nb\n", "b", "c", "\xff\xfe?\nc\n"},
		"dollars":        {"price\n", "price", "$1 ${x} %d ##", "$1 ${x} %d ##\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.file("f", c.content)
			if name == "bytes" {
				b.file("f", "b\n")
				c.want = "c\n"
			}
			b.good("Read", in{"file_path": "f"})
			wants(t, b.good("Edit", in{"file_path": "f", "old_string": c.old, "new_string": c.text}), "Edited f", "line ")
			if got := b.content("f"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			// What we wrote ourselves need not be read again.
			b.good("Edit", in{"file_path": "f", "old_string": strings.TrimPrefix(strings.ReplaceAll(c.want, "\r\n", "\n"), bom), "new_string": "end"})
			noTemps(t, b.dir)
		})
	}
}

func TestEditOutput(t *testing.T) {
	b := open(t)
	b.file("f", "a\nb\na\n")
	if err := os.Chmod(filepath.Join(b.dir, "f"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.good("Read", in{"file_path": "f"})
	r := b.call("Edit", in{"file_path": "f", "old_string": "a", "new_string": "x", "replace_all": true})
	want := EditOutput{Path: "f", Old: "a", New: "x", Original: "a\nb\na\n", ReplaceAll: true, Patch: []Hunk{
		{1, 3, 1, 3, []string{"-a", "+x", " b", "-a", "+x"}},
	}}
	if diff := cmp.Diff(want, r.Output); diff != "" {
		t.Error(diff)
	}
	wants(t, text(r), "lines 1, 3")
	if info, _ := os.Stat(filepath.Join(b.dir, "f")); info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v", info.Mode())
	}
	wants(t, b.good("Edit", in{"file_path": "sub/new.txt", "old_string": "", "new_string": "hi\n"}), "Created sub/new.txt (1 line)")
}

func TestEditErrors(t *testing.T) {
	b := open(t)
	b.file("f.go", "package x\n\nfunc main() {\n\tfmt.Println(“hello”)\n\treturn\n}\n// Return\n\treturn\n")
	try := func(old, text string) string {
		t.Helper()
		return b.bad("Edit", in{"file_path": "f.go", "old_string": old, "new_string": text})
	}
	wants(t, try("return", "x"), "was not read yet")
	b.good("Read", in{"file_path": "f.go"})
	before := b.content("f.go")
	wants(t, try("return", "return"), "the same")
	wants(t, try("func main() {\r\n", "func main() {\n"), "the same")
	wants(t, try("", "x"), "not empty")
	wants(t, try("\treturn\n", "x"), "2 times, at lines 5, 8", "replace_all")
	wants(t, try("func main() {\n    fmt", "x"), "lines 3 to 4", "indentation", "\tfmt.Println")
	wants(t, try("fmt.Println( “hello” )", "x"), "but for whitespace")
	wants(t, try(`fmt.Println("hello")`, "x"), "typographic", "“hello”")
	wants(t, try("FUNC MAIN() {", "x"), "upper and lower case")
	wants(t, try("     3\tfunc main() {", "x"), "line numbers")
	wants(t, try("func mian() {", "x"), "most like it is line 3", "func main() {")
	wants(t, try("completely different 1234567890", "x"), "Nothing in the file is like it")
	for name, c := range map[string]struct{ content, old, want string }{
		"overlap":    {"}\n}\n}\n", "}\n}\n", "2 times, at lines 1, 2"},
		"lone cr":    {"a\n one\rtwo\rthree\n", "one\ntwo", "like line 2, where there are characters that Read does not show. Written as a JSON string, as old_string can be, the file has there:\n\" one\\rtwo\\rthree\""},
		"form feed":  {"int a;\n\fint b;\n", "int a;\nint b;", `"int a;\n\fint b;"`},
		"colours":    {"\x1b[31mred\x1b[0m hat\n", "red hat", `"\u001b[31mred\u001b[0m hat"`},
		"latin":      {"gr\xfc\xdfe\n", "gr\uFFFD\uFFFDe", "bytes that are not UTF-8"},
		"composed":   {"cafe\u0301 \U0001F600\n", "caf\u00e9 \U0001F600", `"cafe\u0301 \ud83d\ude00"`},
		"too large":  {strings.Repeat("a", 1<<16), "a", "at most 33 MB can be changed here"},
		"unprepared": {"x\n", "y", "Nothing in the file is like it"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.file("f", c.content)
			b.good("Read", in{"file_path": "f"})
			text := ""
			if name == "too large" {
				text = strings.Repeat("b", 1000)
			}
			wants(t, b.bad("Edit", in{"file_path": "f", "old_string": c.old, "new_string": text, "replace_all": name == "too large"}), c.want, "nothing was changed")
			if b.content("f") != c.content {
				t.Errorf("the file was changed: %q", b.content("f"))
			}
		})
	}
	wants(t, b.bad("Edit", in{"file_path": "g.go", "old_string": "x", "new_string": "y"}), "no such file", "there is f.go")
	wants(t, b.bad("Edit", in{"file_path": ".", "old_string": "x", "new_string": "y"}), "folder")
	if b.content("f.go") != before {
		t.Error("a failed edit changed the file")
	}
	b.file("f.go", before+"more\n")
	wants(t, try("package x", "package y"), "has changed since it was read")
}

func TestMemory(t *testing.T) {
	b := open(t)
	for _, n := range []string{"a", "b", "c"} {
		b.file(n, "x\n")
		b.run(t.Context(), tool.Call{ID: "read " + n, Name: "Read"}, in{"file_path": n})
	}
	b.good("Edit", in{"file_path": "b", "old_string": "x", "new_string": "y"})
	b.good("Read", in{"file_path": "a"})
	b.good("Write", in{"file_path": "a", "content": "x\n"}) // changes nothing
	if diff := cmp.Diff([]File{{"c", false}, {"b", true}, {"a", false}}, b.Files()); diff != "" {
		t.Error(diff)
	}
	// A read of an answer that was retracted was never seen.
	b.Forget("read c")
	wants(t, b.bad("Edit", in{"file_path": "c", "old_string": "x", "new_string": "y"}), "was not read yet")
	b.Forget("read a") // was read again by another call
	b.good("Edit", in{"file_path": "a", "old_string": "x", "new_string": "y"})
}

func TestOddNames(t *testing.T) {
	b := open(t)
	for _, name := range []string{"with space", "ünï💥", "-rf", "new\nline", "quote'\"", "a*[b]?", "tab\tname", ".hidden"} {
		b.good("Write", in{"file_path": name, "content": "unique-content\n"})
		wants(t, b.good("Read", in{"file_path": name}), "unique-content")
		b.good("Edit", in{"file_path": name, "old_string": "unique", "new_string": "special"})
	}
	got := b.good("Grep", in{"pattern": "special-content", "output_mode": "count"})
	if n := strings.Count(got, ":1"); n != 8 || strings.Count(got, "\n") != 7 {
		t.Errorf("%s", got)
	}
	wants(t, b.good("Glob", in{"pattern": "*"}), `"new\nline"`, "with space", ".hidden")
}

func TestTogether(t *testing.T) {
	b := open(t)
	b.file("f", "start\n")
	b.good("Read", in{"file_path": "f"})
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 3 {
				b.good("Read", in{"file_path": "f"})
				b.good("Grep", in{"pattern": "start"})
			}
			b.good("Write", in{"file_path": fmt.Sprintf("out/%d", i), "content": "x"})
			b.good("Edit", in{"file_path": "f", "old_string": "start\n", "new_string": fmt.Sprintf("start\nline %d\n", i)})
		})
	}
	wait.Wait()
	if got := strings.Count(b.content("f"), "line"); got != 8 {
		t.Errorf("%d of 8 edits are left", got)
	}
}

func FuzzConfinement(f *testing.F) {
	outside := f.TempDir()
	root := f.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "secret"), []byte("hush"), 0o600),
		os.Symlink(outside, filepath.Join(root, "out")),
		os.Mkdir(filepath.Join(root, "in"), 0o755),
		os.Symlink("..", filepath.Join(root, "in", "up")),
	} {
		if err != nil {
			f.Fatal(err)
		}
	}
	w, err := New(Config{Root: root})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { w.Close() })
	for _, s := range []string{"out/secret", "in/up/out/secret", "in/up/../secret", outside + "/secret", root + "/in", "./../x", "a//b/./..", "\\", "in/up/in/new", "~"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := w.locate(path)
		if err != nil {
			return
		}
		if !below(w.areas[0].real, p.abs) || filepath.IsAbs(p.rel) || p.rel == ".." || strings.HasPrefix(p.rel, "../") {
			t.Fatalf("%q is at %+v", path, p)
		}
		if b, _, err := p.load(); err == nil && string(b) == "hush" {
			t.Fatalf("%q leads outside", path)
		}
	})
}
