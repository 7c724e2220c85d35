package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/daruma-agent/daruma/tool"
)

// What a file holds is reported before it is changed, and an error keeps it.
func TestFilesAreReportedBeforeTheyChange(t *testing.T) {
	dir := t.TempDir()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	w, err := New(Config{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	set, err := tool.NewSet(w.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a")
	var seen []string
	var refuse error
	do := func(name string, input map[string]string) tool.Result {
		text, _ := json.Marshal(input)
		return set.Run(t.Context(), tool.Call{ID: "c", Name: name, Input: text, Saved: func(at string, before, after []byte) error {
			now, err := os.ReadFile(path)
			if at != path || string(now) != string(before) || (err == nil) != (before != nil) {
				t.Errorf("%s: reported %q of %s, which holds %q, %v", name, before, at, now, err)
			}
			seen = append(seen, fmt.Sprintf("%s>%s", before, after))
			return refuse
		}})
	}
	for _, step := range []struct {
		name  string
		input map[string]string
	}{
		{"Write", map[string]string{"file_path": "a", "content": ""}},
		{"Write", map[string]string{"file_path": "a", "content": "one"}},
		{"Write", map[string]string{"file_path": "a", "content": "one"}}, // changes nothing
		{"Edit", map[string]string{"file_path": "a", "old_string": "one", "new_string": "two"}},
	} {
		if r := do(step.name, step.input); r.IsError {
			t.Fatalf("%v: %+v", step, r)
		}
	}
	if want := []string{">", ">one", "one>two"}; !slices.Equal(seen, want) {
		t.Errorf("reported %q, want %q", seen, want)
	}
	refuse = errors.New("the disk is full")
	if r := do("Write", map[string]string{"file_path": "a", "content": "three"}); !r.IsError {
		t.Error("a file was changed that could not be kept")
	}
	if now, _ := os.ReadFile(path); string(now) != "two" {
		t.Errorf("the file holds %q", now)
	}
}
