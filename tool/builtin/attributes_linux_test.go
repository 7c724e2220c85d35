package builtin

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What says who else may use a file stays with it.
func TestAttributesAreKept(t *testing.T) {
	b := open(t)
	b.file("f", "x\n")
	path := filepath.Join(b.dir, "f")
	switch err := unix.Setxattr(path, "user.note", []byte("mine"), 0); {
	case errors.Is(err, unix.ENOTSUP):
		t.Skip("this file system has no attributes")
	case err != nil:
		t.Fatal(err)
	}
	b.good("Read", in{"file_path": "f"})
	b.good("Edit", in{"file_path": "f", "old_string": "x", "new_string": "y"})
	value := make([]byte, 10)
	if n, err := unix.Getxattr(path, "user.note", value); err != nil || string(value[:n]) != "mine" {
		t.Errorf("%q, %v", value[:max(n, 0)], err)
	}
}
