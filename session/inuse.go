package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// InUse reports whether a process works on the session at path. It looks and
// leaves at once; on systems without locks it never knows.
func InUse(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(lockFile(f), ErrLocked)
}

// signature is the ending of the file in which the owner of a lock says who it
// is. The lock decides: a file that a dead owner left says nothing.
const signature = ".owner"

// beside is a file that goes with the journal at path.
func beside(path, ending string) string { return strings.TrimSuffix(path, ".jsonl") + ending }

// sign says who holds the lock. It helps people only, so it may fail.
func (j *Journal) sign() {
	host, _ := os.Hostname()
	_ = os.WriteFile(beside(j.path, signature), fmt.Appendf(nil, "process %d on %s", os.Getpid(), host), 0o600)
}

// owner names the process that works on the session at path, in brackets.
func owner(path string) string {
	text, err := os.ReadFile(beside(path, signature))
	if err != nil || len(text) == 0 {
		return ""
	}
	return " (" + string(text) + ")"
}
