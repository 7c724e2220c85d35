package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/message"
)

// aCall is a run that asks for one call.
func aCall() []Body {
	return []Body{&RunStart{}, &Message{Message: message.NewText("m1", "do")}, &Commit{Message: &message.Message{
		ID: "m2", Role: message.Assistant, Blocks: []message.Block{{Type: message.ToolUse, ID: "c", Name: "Write", Input: []byte("{}")}},
	}}}
}

// TestNotStarted: that a call without intent was not started is sure only where
// the run was cut off behind the last event. One that went on without its
// journal may have made the call.
func TestNotStarted(t *testing.T) {
	die := func(j *Journal) error { return j.file.Close() }
	for _, c := range []struct {
		name  string
		full  bool
		end   func(*Journal) error
		want  CallState
		looks bool // somebody opened it in between, and did nothing
	}{
		{name: "it died", end: die, want: CallNotStarted},
		{name: "it died, and somebody looked", end: die, want: CallNotStarted, looks: true},
		{name: "it went on unsaved", full: true, end: (*Journal).Close, want: CallInDoubt},
		{name: "it went on unsaved and died", full: true, end: die, want: CallInDoubt},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := &fullDisk{left: -1}
			s := on(t, disk)
			j, err := s.Create("one")
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range aCall() {
				if err := j.Append(Event{Version: Version, Seq: uint64(i + 1), Session: "one", Run: 1, Body: b}); err != nil {
					t.Fatal(err)
				}
			}
			if c.full {
				disk.left = 3
				if err := j.Append(said(4, "lost")); err == nil {
					t.Fatal("the full disk took an event")
				}
			}
			_ = c.end(j)
			disk.left = -1
			if c.looks {
				again, _, _, err := s.Open("one")
				if err != nil {
					t.Fatal(err)
				}
				again.Close()
			}
			j, h, _, err := s.Open("one")
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if left := h.Left(); len(left) != 1 || left[0].State != c.want {
				t.Errorf("left is %+v, want %s", left, c.want)
			}
			copied, h, err := s.Fork(j.Path(), Fork{ID: "two", Start: &Start{}})
			if err != nil {
				t.Fatal(err)
			}
			defer copied.Close()
			if left := h.Left(); len(left) != 1 || left[0].State != CallInDoubt { // the parent is at work
				t.Errorf("left in a copy is %+v", left)
			}
		})
	}
}

// TestForeignWrites: what something else does to a journal in use is noticed,
// and costs no event of ours.
func TestForeignWrites(t *testing.T) {
	s := Store{Dir: t.TempDir(), Project: "/p"}
	j, err := s.Create("one")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Append(said(1, "a")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(j.Path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("half a line"); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(said(2, "b")); err != nil {
		t.Fatal(err)
	}
	h, damaged, err := load(j.Path())
	if err != nil || damaged != 1 || texts(h) != "a b" {
		t.Errorf("the journal holds %q, %d damaged, %v", texts(h), damaged, err)
	}
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(said(3, "c")); !errors.Is(err, ErrShortened) || !j.Behind() {
		t.Errorf("a journal that lost its beginning: %v", err)
	}
}

// TestRemoveChildren: sessions of sub-agents go with the one that they belong
// to, and not before.
func TestRemoveChildren(t *testing.T) {
	s := Store{Dir: t.TempDir(), Project: "/p"}
	path := write(t, s, "one", &Notice{})
	for _, id := range []string{"one.agent-1", "one.agent-1.agent-1", "one.agent-2"} {
		child := write(t, s, id, &Notice{})
		if err := os.Chtimes(child, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	other := write(t, s, "onemore", &Notice{})
	if old := s.Old(time.Hour, time.Now()); len(old) != 0 {
		t.Errorf("old ones of a session in use: %+v", old)
	}
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 || left[0] != other {
		t.Errorf("left are %v", left)
	}
}
