package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daruma-agent/daruma/message"
)

// fullDisk is a disk with so many bytes left; below zero there is no end.
type fullDisk struct {
	File
	left              int
	syncErr, truncErr error
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left < 0 || len(p) <= d.left {
		if d.left >= 0 {
			d.left -= len(p)
		}
		return d.File.Write(p)
	}
	n, err := d.File.Write(p[:d.left])
	d.left = 0
	return n, errors.Join(err, syscall.ENOSPC)
}

func (d *fullDisk) Truncate(size int64) error {
	if d.truncErr != nil {
		return d.truncErr
	}
	return d.File.Truncate(size)
}

func (d *fullDisk) Sync() error { return errors.Join(d.syncErr, d.File.Sync()) }

// on returns a store before whose journals disk stands.
func on(t *testing.T, disk *fullDisk) Store {
	return Store{Dir: t.TempDir(), Project: "/p", Disk: func(f File) File { disk.File = f; return disk }}
}

func said(seq uint64, text string) Event {
	return Event{Version: 1, Seq: seq, Session: "one", Body: &Message{Message: message.NewText("m"+text, text)}}
}

func texts(h *History) string {
	var out []string
	for _, m := range h.Messages {
		out = append(out, m.PlainText())
	}
	return strings.Join(out, " ")
}

// TestC109 fills the disk in the middle of a record. What was written of it is
// taken back, so the next record does not grow together with it; and once there
// is room, the one that failed is written first.
func TestC109(t *testing.T) {
	for _, c := range []struct {
		name    string
		trunc   error
		damaged int
	}{
		{"the part is taken back", nil, 0},
		{"the part cannot be taken back", syscall.EIO, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := &fullDisk{left: -1}
			store := on(t, disk)
			j, err := store.Create("one")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Append(said(1, "a")), j.Sync()); err != nil {
				t.Fatal(err)
			}
			disk.left, disk.truncErr = 50, c.trunc
			if err := j.Append(said(2, "b")); !errors.Is(err, syscall.ENOSPC) || !j.Behind() {
				t.Fatalf("a full disk: %v, behind: %v", err, j.Behind())
			}
			h, damaged, err := load(j.Path())
			if err != nil || texts(h) != "a" || damaged != c.damaged {
				t.Errorf("meanwhile the file holds %q, %d damaged lines, %v", texts(h), damaged, err)
			}
			if err := j.Append(said(3, "c")); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("still full: %v", err)
			}
			disk.left = -1
			if err := errors.Join(j.Append(said(4, "d")), j.Sync()); err != nil || j.Behind() {
				t.Fatalf("with room again: %v, behind: %v", err, j.Behind())
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if h, damaged, err = load(j.Path()); err != nil || texts(h) != "a b c d" || damaged != c.damaged {
				t.Errorf("the file holds %q, %d damaged lines, %v", texts(h), damaged, err)
			}
		})
	}
}

// TestNothingAfterAFailedSync holds that a journal does not go on behind bytes of
// which nobody knows whether they are on disk.
func TestNothingAfterAFailedSync(t *testing.T) {
	disk := &fullDisk{left: -1}
	j, err := on(t, disk).Create("one")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Append(said(1, "a")), j.Sync(), j.Append(said(2, "b"))); err != nil {
		t.Fatal(err)
	}
	disk.syncErr = syscall.EIO
	if err := j.Sync(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	disk.syncErr = nil
	if err := j.Append(said(3, "c")); !errors.Is(err, syscall.EIO) || !j.Behind() {
		t.Errorf("after a failed sync: %v", err)
	}
	if err := j.Close(); err == nil {
		t.Error("closing says nothing")
	}
}

// TestMuchWaits holds that what waits for the disk does not fill the memory.
func TestMuchWaits(t *testing.T) {
	disk := &fullDisk{}
	j, err := on(t, disk).Create("one")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(said(1, "first")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	j.bytes = mostBehind - 10 // as if much were waiting already
	if err := j.Append(said(2, "second")); err == nil || errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("it waits for ever: %v", err)
	}
	if len(j.behind) > 0 {
		t.Errorf("%d lines are kept", len(j.behind))
	}
	disk.left = -1
	if err := j.Append(said(9, "late")); err == nil {
		t.Error("it goes on behind a gap")
	}
	j.Close()
	if h, _, err := load(j.Path()); err != nil || len(h.Messages) > 0 {
		t.Errorf("the file holds %d messages, %v", len(h.Messages), err)
	}
}

// TestVanished takes the file and its folder away while it is written.
func TestVanished(t *testing.T) {
	for _, c := range []struct {
		name string
		away func(path string) error
	}{
		{"file", os.Remove},
		{"folder", func(path string) error { return os.RemoveAll(filepath.Dir(path)) }},
		{"moved", func(path string) error { return os.Rename(path, path+".old") }},
		{"replaced", func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := Store{Dir: t.TempDir(), Project: "/p"}.Create("one")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Append(said(1, "a")), j.Sync(), c.away(j.Path()), j.Append(said(2, "b"))); err != nil {
				t.Fatal(err)
			}
			if err := j.Sync(); !errors.Is(err, ErrGone) {
				t.Errorf("sync: %v", err)
			}
			if err := j.Append(said(3, "c")); !errors.Is(err, ErrGone) {
				t.Errorf("append: %v", err)
			}
			if err := j.Close(); !errors.Is(err, ErrGone) {
				t.Errorf("close: %v", err)
			}
		})
	}
}
