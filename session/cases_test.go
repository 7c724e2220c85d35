package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
)

// What users of agents have reported about session files, by the number that the
// project gives each report. C109 stands in write_test.go.

// TestC110: two zero-byte files kept a whole session from opening. Nothing that
// lies beside a journal, or is empty, hinders it.
func TestC110(t *testing.T) {
	store := Store{Dir: t.TempDir(), Project: "/p"}
	j, err := store.Create("one")
	if err != nil {
		t.Fatal(err)
	}
	files := FilesOf(j.Path())
	hash, err := files.Keep([]byte("before"))
	if err := errors.Join(err, j.Append(said(1, "a")), j.Close()); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(j.Path())
	for _, name := range []string{"two.jsonl", "three.jsonl.part", "one.owner", "one.files/part-1", "one.files/" + Hash([]byte("lost")), "notes.json"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, h, damaged, err := store.Open("one")
	if err != nil || texts(h) != "a" || damaged != 0 {
		t.Fatalf("%q, %d damaged, %v", texts(h), damaged, err)
	}
	j.Close()
	list, err := store.List()
	if err != nil || len(list) != 1 {
		t.Errorf("the list: %v, %v", list, err)
	}
	if text, err := files.Get(hash); err != nil || string(text) != "before" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := files.Get(Hash([]byte("lost"))); err == nil {
		t.Error("an empty file passes for what was kept")
	}
	if hash, err = files.Keep([]byte("lost")); err == nil { // and is replaced
		_, err = files.Get(hash)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestC171: two processes wrote the same sequence numbers, and afterwards nothing
// could read the session. Numbers that come twice, or not at all, are no reason
// to refuse what stands there.
func TestC171(t *testing.T) {
	store := Store{Dir: t.TempDir(), Project: "/p"}
	j, err := store.Create("one")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Event{said(1, "a"), said(2, "b"), said(2, "c"), said(1, "d"), said(9, "e")} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, h, damaged, err := store.Open("one")
	if err != nil || texts(h) != "a b c d e" || damaged != 0 || h.Seq != 9 {
		t.Fatalf("%q up to %d, %d damaged, %v", texts(h), h.Seq, damaged, err)
	}
	if err := errors.Join(j.Append(said(h.Seq+1, "f")), j.Close()); err != nil {
		t.Fatal(err)
	}
	if h, _, err := load(j.Path()); err != nil || texts(h) != "a b c d e f" {
		t.Errorf("%q, %v", texts(h), err)
	}
}

// TestC173: parallel agents rewrote one file in place, readers saw half of it, and
// mending it made new work for ever. What several write here appears whole.
func TestC173(t *testing.T) {
	files := FilesOf(filepath.Join(t.TempDir(), "one.jsonl"))
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<17), nil}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, content := range contents {
				hash, err := files.Keep(content)
				if err != nil {
					t.Error(err)
					return
				}
				if text, err := files.Get(hash); err != nil || !bytes.Equal(text, content) {
					t.Errorf("%d bytes of %d, %v", len(text), len(content), err)
				}
			}
		})
	}
	all.Wait()
	left, err := os.ReadDir(files.dir)
	if err != nil || len(left) != len(contents) {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// counted counts what is read.
type counted struct {
	io.ReaderAt
	bytes int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes += n
	return n, err
}

// TestLargeSession is two reports. C254: the picker parsed every session whole and
// ran out of memory; a list reads the ends of a large file. C255: a session of
// more than 64 MiB could not be resumed at all; opening takes any size, from the
// last compaction on.
func TestLargeSession(t *testing.T) {
	store := Store{Dir: t.TempDir(), Project: "/p"}
	path := sessionOf(t, 66)
	if err := os.MkdirAll(store.folder(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, store.path("one")); err != nil {
		t.Fatal(err)
	}
	path = store.path("one")
	j, h, damaged, err := store.Open("one")
	if err != nil || damaged != 0 || len(h.Messages) == 0 || len(h.Messages) > 1000 {
		t.Fatalf("%d messages, %d damaged, %v", len(h.Messages), damaged, err)
	}
	o, err := Look(path)
	if err != nil || !o.History.Running {
		t.Fatalf("a run without end: %v, %v", o.History.Running, err)
	}
	for _, body := range []Body{&Name{Name: "port"}, &End{Reason: loop.Completed, Name: "port"}, &RunStart{}, &Message{Message: message.NewText("mx", "again")}, &End{Reason: loop.MaxTurns, IsError: true, Name: "port"}} {
		e := Event{Version: 1, Seq: h.Seq + 1, Session: "one", Run: 7, Body: body}
		h.Apply(e)
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file := &counted{ReaderAt: f}
	g := glimpse(file, info.Size())
	if g == nil || file.bytes > 2*lookEnd {
		t.Fatalf("%d bytes of %d were read: %+v", file.bytes, info.Size(), g)
	}
	if o, err = Look(path); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(o.History.Name, o.History.Runs, o.History.Running, o.History.End.Reason)
	if want := fmt.Sprint("port", 7, false, loop.MaxTurns); got != want {
		t.Errorf("the outline says %s, not %s", got, want)
	}
}

// TestGlimpse holds that the ends of a large file say what all of it says.
func TestGlimpse(t *testing.T) {
	var b bytes.Buffer
	n := uint64(0)
	add := func(run int, bodies ...Body) {
		for _, body := range bodies {
			n++
			line, err := Encode(Event{Version: 1, Seq: n, Time: time.Unix(int64(n), 0).UTC(), Session: "one", Run: run, Body: body})
			if err != nil {
				t.Fatal(err)
			}
			b.Write(line)
		}
	}
	large := strings.Repeat("words ", 1000)
	add(0, &Start{Model: "m", Parent: "p"}, &Name{Name: "old"})
	for run := 1; run < 900; run++ {
		add(run, &RunStart{}, &Message{Message: message.NewText(fmt.Sprint("m", run), fmt.Sprint("prompt ", run, large))})
		if run == 400 {
			add(run, &Name{Name: "new"})
		}
		name := "old"
		if run >= 400 {
			name = "new"
		}
		add(run, &End{Reason: loop.Completed, Name: name})
	}
	path := filepath.Join(t.TempDir(), "one.jsonl")
	for name, more := range map[string]func(){
		"ended":                 func() {},
		"named since":           func() { add(0, &Name{Name: "newest"}) },
		"and at work again":     func() { add(900, &RunStart{}) },
		"with a torn last line": func() { b.WriteString(`{"v":1,"seq"`) },
	} {
		t.Run(name, func(t *testing.T) {
			more()
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Look(path)
			if err != nil || b.Len() < lookWhole {
				t.Fatal(err, b.Len())
			}
			h, _, err := foldAll(bytes.NewReader(b.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			g := got.History
			if g.Name != h.Name || g.Parent != h.Parent || g.Runs != h.Runs || g.Running != h.Running || g.End.Reason != h.End.Reason || !strings.HasPrefix(got.Prompt, "prompt 1words") {
				t.Errorf("%s %s %d %v, not %s %s %d %v; %.20s", g.Name, g.Parent, g.Runs, g.Running, h.Name, h.Parent, h.Runs, h.Running, got.Prompt)
			}
		})
	}
}
