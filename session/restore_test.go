package session

import (
	"os"
	"path/filepath"
	"testing"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if want == Absent {
		if !os.IsNotExist(err) {
			t.Errorf("%s is there: %q, %v", path, got, err)
		}
		return
	}
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

func TestRestore(t *testing.T) {
	dir := t.TempDir()
	files := FilesOf(filepath.Join(dir, "s.jsonl"))
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "gone", "c")
	saved := func(path, before, after string) Event {
		hash := Absent
		if before != Absent {
			var err error
			if hash, err = files.Keep([]byte(before)); err != nil {
				t.Fatal(err)
			}
		}
		return Event{Body: &FileSaved{Path: path, Before: hash, After: Hash([]byte(after))}}
	}
	events := []Event{saved(a, "a1", "a2"), saved(b, Absent, "b1"), saved(a, "a2", "a3"), saved(c, "", "c1")}
	put(t, a, "a3")
	put(t, b, "of somebody else")

	changes := files.Changes(events)
	if len(changes) != 3 || changes[0].Foreign() || !changes[1].Foreign() || changes[2].Now != Absent {
		t.Fatalf("the changes are %+v", changes)
	}
	put(t, b, "changed after the preview")
	if _, err := files.Restore(changes, files); err == nil {
		t.Error("a file that changed after the preview was taken back")
	}
	holds(t, a, "a3")
	bodies, err := files.Restore(files.Changes(events), files)
	if err != nil || len(bodies) != 3 {
		t.Fatal(err, bodies)
	}
	holds(t, a, "a1")
	holds(t, b, Absent)
	holds(t, c, "")
	if info, err := os.Stat(a); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}

	// And forth again.
	var back []Event
	for _, body := range bodies {
		back = append(back, Event{Body: body})
	}
	if _, err := files.Restore(files.Changes(back), files); err != nil {
		t.Fatal(err)
	}
	holds(t, a, "a3")
	holds(t, b, "changed after the preview")
	holds(t, c, Absent)
}

// A file that cannot be put in place takes back those before it.
func TestRestoreIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	files := FilesOf(filepath.Join(dir, "s.jsonl"))
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put(t, a, "a2")
	put(t, b, "b2")
	hash, err := files.Keep([]byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	changes := files.Changes([]Event{{Body: &FileSaved{Path: a, Before: hash}}, {Body: &FileSaved{Path: b, Before: hash}}})
	changes[1].Now = Absent // as if it appeared in between; now a folder stands there
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(b, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Restore(changes, files); err == nil {
		t.Fatal("a file took the place of a folder")
	}
	holds(t, a, "a2")
	if left, _ := filepath.Glob(filepath.Join(dir, ".daruma-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	put(t, filepath.Join(files.dir, hash), "bad")
	if c := files.Changes([]Event{{Body: &FileSaved{Path: a, Before: hash}}}); c[0].Trouble == "" {
		t.Error("a kept content that was changed is taken for good")
	}
}
