package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/google/go-cmp/cmp"
)

// write makes a session of these events.
func write(t *testing.T, s Store, id string, bodies ...Body) string {
	t.Helper()
	j, err := s.Create(id)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range bodies {
		if err := j.Append(Event{Version: Version, Seq: uint64(i + 1), Session: id, Run: 1, Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return j.Path()
}

func TestFindByName(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "st[a]te*?"), Project: "/p"}
	write(t, s, "aaa111", &Name{Name: "the port"}, &Name{Name: "the new port"}, &Notice{})
	write(t, s, "bbb222", &Name{Name: "aaa"})
	write(t, s, "ccc333", &Name{Name: "twice"})
	write(t, s, "ddd444", &Name{Name: "twice"})
	write(t, s, "eee555", &Name{Name: "aaa111"})
	for text, want := range map[string]string{
		"the new port": "aaa111", "the port": "", "aaa": "bbb222", "aaa1": "aaa111", "aaa111": "aaa111", "twice": "", "ddd444": "ddd444", "*": "",
	} {
		path, err := s.Find(text)
		if want == "" && err == nil || want != "" && path != s.path(want) {
			t.Errorf("find %q = %s, %v; want %q", text, path, err, want)
		}
	}
	if _, err := s.Find("twice"); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "2 sessions have this name") {
		t.Errorf("a name that two sessions have: %v", err)
	}
}

// TestFolders: no two projects share a folder, so nobody goes on with the session
// of another one.
func TestFolders(t *testing.T) {
	long := strings.Repeat("/long", 60)
	seen := map[string]string{}
	for _, project := range []string{"/a/b", "/a-b", "/a_b", "/a.b", "/a b", "/项目", "/工程", "/é", long, "/x" + long, `C:\a`, "C:/a"} {
		folder := Store{Dir: "/d", Project: project}.folder()
		if other, ok := seen[folder]; ok || len(filepath.Base(folder)) > 255 {
			t.Errorf("%q has the folder %s of %q", project, folder, other)
		}
		seen[folder] = project
	}
	if seen["/d/-a-b"] != "/a/b" {
		t.Errorf("a plain path has no plain folder: %v", seen)
	}
}

func TestCreateTakesNoIDTwice(t *testing.T) {
	dir := t.TempDir()
	write(t, Store{Dir: dir, Project: "/p"}, "one", &Notice{})
	for _, id := range []string{"one", "", "../two", "*"} {
		if _, err := (Store{Dir: dir, Project: "/other"}).Create(id); err == nil || id == "one" && !errors.Is(err, ErrExists) {
			t.Errorf("create %q: %v", id, err)
		}
	}
	if path := write(t, Store{Dir: dir, Project: "/p"}, "empty"); exists(path) || exists(beside(path, signature)) {
		t.Error("a session in which nothing was written leaves a file")
	}
	write(t, Store{Dir: dir, Project: "/p"}, "empty", &Notice{})
}

func TestLook(t *testing.T) {
	s := Store{Dir: t.TempDir(), Project: "/p"}
	path := write(t, s, "one", &Start{Model: "m"}, &RunStart{}, &Message{Message: message.NewSynthetic("m1", "by us")},
		&Message{Message: message.NewText("m2", "by them")}, &Message{Message: message.NewText("m3", "later")}, &Name{Name: "n"}, &End{Text: "x"})
	o, err := Look(path)
	if err != nil {
		t.Fatal(err)
	}
	if o.Prompt != "by them" || o.History.Name != "n" || o.History.End == nil || o.History.End.Text != "x" || o.History.Messages != nil {
		t.Errorf("the outline is %+v, %+v", o, o.History)
	}
}

func TestFork(t *testing.T) {
	s := Store{Dir: t.TempDir(), Project: "/p"}
	parent := write(t, s, "one", &Start{Model: "m", PID: 7, Host: "h"}, &RunStart{}, &Message{Message: message.NewText("m1", "do")},
		&Commit{Message: &message.Message{ID: "m2", Role: message.Assistant}}, &Intent{Call: "c", Name: "Bash", Group: 12}, &Delta{Text: "x"},
		&Prompt{Text: "and"}, &Unknown{Name: "dream", Raw: []byte(`{"a":1}`)})
	held, _, _, err := s.Open("one") // by another process
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	left := filepath.Join(s.folder(), "dead.jsonl"+unfinished) // by a process that died while it copied
	for age, path := range map[time.Duration]string{2 * leftFor: left, 0: filepath.Join(s.folder(), "young.jsonl"+unfinished)} {
		put(t, path, "half a line")
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, beside(left, signature), "process 7")
	j, h, err := s.Fork(parent, Fork{ID: "two", Start: &Start{Model: "m", Parent: "one", PID: 8}, Add: []Body{&Name{Name: "n"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.Open("two"); !errors.Is(err, ErrLocked) {
		t.Errorf("the new session is not held: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 2 || exists(left) || exists(beside(left, signature)) || !exists(filepath.Join(s.folder(), "young.jsonl"+unfinished)) {
		t.Errorf("what copies left is listed, stays, or went too early: %+v, %v", list, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, read, damaged, err := s.Open("two")
	if err != nil || damaged > 0 {
		t.Fatal(err, damaged)
	}
	again.Close()
	if diff := cmp.Diff(h, read, append(sameEvents, cmp.AllowUnexported(History{}))...); diff != "" {
		t.Errorf("the history of the fork is not what its journal holds:\n%s", diff)
	}
	old, err := s.Load("one")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(old.Messages, read.Messages, sameEvents...); diff != "" {
		t.Errorf("the conversation is not that of the parent:\n%s", diff)
	}
	if read.Session != "two" || read.Parent != "one" || read.Seq != 9 || read.Name != "n" || read.Start.PID != 0 || read.Intents["c"].Group != 0 {
		t.Errorf("the fork is %+v, %+v", read, read.Intents["c"])
	}
	if _, _, err := s.Fork(parent, Fork{ID: "two"}); !errors.Is(err, ErrExists) {
		t.Errorf("a fork over a session: %v", err)
	}
	short, h, err := s.Fork(parent, Fork{ID: "three", Until: func(e Event) bool { return e.Type() == TypeCommit }})
	if err != nil || len(h.Messages) != 1 || h.Seq != 3 {
		t.Errorf("the fork up to the answer: %v, %+v", err, h)
	}
	short.Close()
}

func TestLeading(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string][]string{
		"x":     {"."},
		"a/x":   {"a", "."},
		"a/b/x": {"a/b", "a", "."},
	} {
		got := leading(filepath.Join(dir, path))
		for i := range got {
			got[i], _ = filepath.Rel(dir, got[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("to %s lead %v, not %v", path, got, want)
		}
	}
	if err := syncFolders(dir, filepath.Join(dir, "not there")); err != nil {
		t.Error(err)
	}
}
