package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// InUse reports whether a process works on the session at path. It looks and
// leaves at once; on systems without locks it never knows.
func InUse(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(lookFile(f), ErrLocked)
}

// Abandoned reports whether whoever wrote the session at path last did not close
// it, as far as that can be seen; one that is in use looks the same.
func Abandoned(path string) bool { return exists(beside(path, signature)) }

// Who looks whether a session is in use holds it for a moment. That is no reason
// to refuse a process that wants to work on it.
const (
	lockTries = 5
	lockPause = 10 * time.Millisecond
)

// lockSoon takes the lock of f, if need be after somebody who only looks.
func lockSoon(f *os.File) error {
	err := lockFile(f)
	for n := 1; n < lockTries && errors.Is(err, ErrLocked); n++ {
		time.Sleep(lockPause)
		err = lockFile(f)
	}
	return err
}

// signature is the ending of the file in which the owner of a lock says who it
// is. The lock decides: a file that a dead owner left says nothing.
const signature = ".owner"

// beside is a file that goes with the journal at path.
func beside(path, ending string) string { return strings.TrimSuffix(path, ".jsonl") + ending }

// sign says who holds the lock. It helps people only, so it may fail.
func (j *Journal) sign() {
	j.unsigned = false
	host, _ := os.Hostname()
	_ = os.WriteFile(beside(j.path, signature), fmt.Appendf(nil, "process %d on %s, since %s", os.Getpid(), host, time.Now().Format(time.DateTime)), 0o600)
}

// unsign takes that back, since the journal can no longer be written. Without a
// signature a run that has no end was not cut off with its last event: it may have
// gone on. Deleting a file works on a full disk, too.
func (j *Journal) unsign() {
	os.Remove(beside(j.path, signature))
	j.unsigned = true
}

// Owner says which process works on the session at path, where and since when;
// empty if it does not say.
func Owner(path string) string {
	text, err := os.ReadFile(beside(path, signature))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "")
}

// owner is the same in brackets.
func owner(path string) string {
	if text := Owner(path); text != "" {
		return " (" + text + ")"
	}
	return ""
}
