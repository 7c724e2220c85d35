package session

import (
	"runtime"
	"testing"
)

func TestInUse(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no locks")
	}
	store := Store{Dir: t.TempDir(), Project: "/p"}
	j, err := store.Create("one")
	if err != nil {
		t.Fatal(err)
	}
	path, err := store.Find("one")
	if err != nil || path != j.Path() {
		t.Fatalf("found %s, %v", path, err)
	}
	if !InUse(path) {
		t.Error("a session that is written is not in use")
	}
	j.Close()
	for range 2 { // looking must not take it
		if InUse(path) {
			t.Error("a session that nobody writes is in use")
		}
	}
}
