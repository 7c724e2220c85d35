package builtin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/tool"
)

// hardlink gives a file of the workspace another name.
func (b *bench) hardlink(old, name string) {
	b.t.Helper()
	if err := os.Link(filepath.Join(b.dir, old), filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

func TestHardLinks(t *testing.T) {
	b := open(t)
	b.file("f", "one\n")
	b.hardlink("f", "g")
	b.good("Read", in{"file_path": "f"})
	got := b.good("Edit", in{"file_path": "f", "old_string": "one", "new_string": "two"})
	if runtime.GOOS != "windows" {
		wants(t, got, "1 other name by hard links, which keep the old content")
	}
	if b.content("f") != "two\n" || b.content("g") != "one\n" {
		t.Errorf("%q, %q", b.content("f"), b.content("g"))
	}
	if got := b.good("Edit", in{"file_path": "f", "old_string": "two", "new_string": "three"}); strings.Contains(got, "hard") {
		t.Error(got)
	}
}

// A file becomes a link after its path was judged and before it is replaced.
func TestFileBecomesALink(t *testing.T) {
	b := open(t)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.file("f", "x\n")
	p, err := b.locate("f")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.dir, "f")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, path); err != nil {
		t.Fatal(err)
	}
	if data, _, err := p.load(); err == nil {
		t.Errorf("read through the link: %q", data)
	}
	if err := p.replace([]byte("new\n"), nil); err == nil {
		t.Error("what has come there meanwhile was replaced")
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if data, err := os.ReadFile(outside); string(data) != "hush\n" || err != nil {
		t.Errorf("outside: %q, %v", data, err)
	}
	noTemps(t, b.dir)
}

// Two spellings of one letter are two names, and look the same.
func TestNamesThatLookTheSame(t *testing.T) {
	b := open(t)
	const nfc, nfd = "caf\u00e9.txt", "cafe\u0301.txt"
	b.file(nfd, "decomposed\n")
	b.file("Shot at 10.00\u202fAM.txt", "narrow blank\n")
	if _, err := os.Stat(filepath.Join(b.dir, nfc)); err == nil {
		t.Log("the file system takes both for one")
	} else {
		wants(t, b.bad("Read", in{"file_path": nfc}), "looks the same", `"cafe\u0301.txt"`)
		wants(t, b.bad("Edit", in{"file_path": nfc, "old_string": "a", "new_string": "b"}), `"cafe\u0301.txt"`)
		b.good("Write", in{"file_path": nfc, "content": "composed\n"})
	}
	wants(t, b.bad("Read", in{"file_path": "Shot at 10.00 AM.txt"}), `"Shot at 10.00\u202fAM.txt"`)
	wants(t, b.good("Read", in{"file_path": "Shot at 10.00\u202fAM.txt"}), "narrow blank")
	wants(t, b.good("Read", in{"file_path": nfd}), "decomposed")
}

// A name that is not UTF-8 can be listed, though no model can write it.
func TestNamesThatAreNotUTF8(t *testing.T) {
	b := open(t)
	if err := os.WriteFile(filepath.Join(b.dir, "bad\xffname.txt"), []byte("needle\n"), 0o600); err != nil {
		t.Logf("the file system has no such names: %v", err)
		return
	}
	for _, git := range []bool{false, true} {
		if git {
			gitInit(t, b.dir)
		}
		for name, input := range map[string]in{"Glob": {"pattern": "*.txt"}, "Grep": {"pattern": "needle"}} {
			r := b.call(name, input)
			wants(t, text(r), `"bad\xffname.txt"`)
			if out, err := json.Marshal(r.Output); err != nil || !strings.Contains(string(out), "bad") {
				t.Errorf("%s: %s, %v", name, out, err)
			}
		}
	}
}

func gitInit(t *testing.T, dir string) { t.Helper(); git(t, dir, "init", "-q") }

func TestNotTextIsNotEdited(t *testing.T) {
	b := open(t)
	for name, content := range map[string]string{
		"wide.txt": "\xff\xfea\x00b\x00\n\x00", "wide big-endian.txt": "\xfe\xff\x00a\x00b", "program": "\x7fELF\x00\x00",
	} {
		b.file(name, content)
		wants(t, b.bad("Edit", in{"file_path": name, "old_string": "a", "new_string": "c"}), "not text in UTF-8", "nothing was changed")
		wants(t, b.bad("Write", in{"file_path": name, "content": "c"}), "not text in UTF-8", "nothing was changed")
		if b.content(name) != content {
			t.Errorf("%s was changed", name)
		}
	}
}

// A file that is much larger than memory, most of it a hole.
func TestHugeFile(t *testing.T) {
	b := open(t)
	b.file("huge.log", strings.Repeat("a log line\n", 3000))
	if err := os.Truncate(filepath.Join(b.dir, "huge.log"), 5<<30); err != nil {
		t.Fatal(err)
	}
	wants(t, b.good("Read", in{"file_path": "huge.log"}), "  2000\ta log line", "too large to count them; go on with offset 2001")
	wants(t, b.good("Read", in{"file_path": "huge.log", "offset": 2999, "limit": 2}), "  3000\ta log line", "go on with offset 3001")
	wants(t, b.good("Read", in{"file_path": "huge.log", "offset": 3001}), "line 3001 has more than 33 MB")
	wants(t, b.bad("Read", in{"file_path": "huge.log", "offset": 3002}), "line 3001", "does not end")
	wants(t, b.bad("Edit", in{"file_path": "huge.log", "old_string": "a", "new_string": "b"}), "5368 MB", "use Bash")
	wants(t, b.bad("Write", in{"file_path": "huge.log", "content": "b"}), "5368 MB", "use Bash")
	b.file("small.log", "the log\n")
	wants(t, b.good("Grep", in{"pattern": "the log$"}), "small.log\n(larger than 33 MB and not searched: huge.log", "use Bash and grep")
	wants(t, b.good("Grep", in{"pattern": "the log$", "path": "huge.log"}), "No matches found", "not searched: huge.log")
}

// Cases that other agents met.
func TestCasesOfFiles(t *testing.T) {
	b := open(t)
	lines := func(n int) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, "line %d.\n", i+1)
		}
		return s.String()
	}
	t.Run("C157 an edit that changes nothing is an error that says why", func(t *testing.T) {
		b.file("f", "same\n")
		b.good("Read", in{"file_path": "f"})
		wants(t, b.bad("Edit", in{"file_path": "f", "old_string": "same", "new_string": "same"}), "the same", "nothing was changed")
		wants(t, b.bad("Edit", in{"file_path": "f", "old_string": "same", "new_string": "same", "replace_all": true}), "the same")
	})
	t.Run("C258 a file that was read in part is not written whole", func(t *testing.T) {
		b.file("long", lines(2500))
		wants(t, b.good("Read", in{"file_path": "long"}), "lines 1 to 2000 of 2500")
		wants(t, b.bad("Write", in{"file_path": "long", "content": lines(2000)}), "only a part of the file was read", "would lose the rest", "nothing was changed")
		if b.content("long") != lines(2500) {
			t.Error("it was changed")
		}
		b.file("wide", strings.Repeat("x", 5000)+"\n")
		wants(t, b.good("Read", in{"file_path": "wide"}), "1 line was cut")
		wants(t, b.bad("Write", in{"file_path": "wide", "content": strings.Repeat("x", 2000)}), "only a part")
		b.good("Read", in{"file_path": "long", "offset": 2001})
		b.good("Write", in{"file_path": "long", "content": "short now\n"})
	})
	t.Run("C259 a file that is too long to be read at once can be edited", func(t *testing.T) {
		b.file("large", lines(60_000))
		wants(t, b.good("Read", in{"file_path": "large", "offset": 30_000, "limit": 10}), "lines 30000 to 30009 of 60000")
		b.good("Edit", in{"file_path": "large", "old_string": "line 30005.", "new_string": "LINE 30005."})
		b.good("Edit", in{"file_path": "large", "old_string": "line 30006.", "new_string": "LINE 30006."})
		if want := strings.Replace(strings.Replace(lines(60_000), "line 30005.", "LINE 30005.", 1), "line 30006.", "LINE 30006.", 1); b.content("large") != want {
			t.Error("not what was asked for")
		}
		b.file("one line", strings.Repeat("word ", 20_000)+"needle")
		b.good("Read", in{"file_path": "one line"})
		b.good("Edit", in{"file_path": "one line", "old_string": "needle", "new_string": "pin"})
	})
	t.Run("C236 no NUL goes to the model", func(t *testing.T) {
		b.file("program", "head\x00\x01\x02tail")
		b.file("late", strings.Repeat("text\n", 2000)+"a\x00b\x01c\x1b[31md\n")
		for _, got := range []string{
			b.bad("Read", in{"file_path": "program"}),
			b.good("Read", in{"file_path": "late", "offset": 2001}),
			b.good("Bash", in{"command": "cat program late"}),
			b.good("Grep", in{"pattern": "^a", "path": "late", "output_mode": "content"}),
		} {
			if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
				t.Errorf("%q", got[max(0, len(got)-200):])
			}
		}
		wants(t, b.good("Read", in{"file_path": "late", "offset": 2001}), "a␀bcd")
	})
}

// Somebody changes a file after it was compared with what was read of it, and
// before the new one is put in its place.
func TestFileChangesAtTheLastMoment(t *testing.T) {
	for name, c := range map[string]struct {
		old  string // empty: the file is not there
		call string
	}{"edit": {"old\n", "Edit"}, "write": {"old\n", "Write"}, "create": {"", "Write"}} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			if c.old != "" {
				b.file("f", c.old)
				b.good("Read", in{"file_path": "f"})
			}
			call := tool.Call{ID: "call", Name: c.call, Saved: func(string, []byte, []byte) error {
				b.file("f", "of somebody else\n")
				return nil
			}}
			input := in{"file_path": "f", "content": "new\n"}
			if c.call == "Edit" {
				input = in{"file_path": "f", "old_string": "old", "new_string": "new"}
			}
			r := b.run(t.Context(), call, input)
			if r.Class != ClassStale || b.content("f") != "of somebody else\n" {
				t.Errorf("%s: the file has %q", text(r), b.content("f"))
			}
			noTemps(t, b.dir)
		})
	}
}
