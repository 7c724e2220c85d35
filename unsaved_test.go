package daruma_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
)

// fullDisk takes a part of each write, and then nothing, as long as it is full.
type fullDisk struct {
	session.File
	full bool
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if !d.full {
		return d.File.Write(p)
	}
	n, err := d.File.Write(p[:len(p)/3])
	return n, errors.Join(err, syscall.ENOSPC)
}

func notices(events []session.Event, part string) int {
	n := 0
	for _, e := range events {
		if b, ok := e.Body.(*session.Notice); ok && strings.Contains(b.Text, part) {
			n++
		}
	}
	return n
}

// onFullDisk is a new session on a disk that can be filled.
func onFullDisk(t *testing.T, dir string) (*fullDisk, *session.Journal) {
	t.Helper()
	disk := &fullDisk{}
	store := session.Store{Dir: dir, Project: "/p", Disk: func(f session.File) session.File { disk.File = f; return disk }}
	journal, err := store.Create("story")
	if err != nil {
		t.Fatal(err)
	}
	return disk, journal
}

// TestDiskFullAtEveryEvent fills the disk at each event of a rich run. It is told
// once, the run completes, and the next one writes what is missing as soon as
// there is room. What is on disk is whole at every moment.
func TestDiskFullAtEveryEvent(t *testing.T) {
	for k := 1; ; k += 3 {
		reached := false
		dir := t.TempDir()
		ok := t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, journal := onFullDisk(t, dir)
				agent, finish := simulated(t, crashScript, func(cfg *daruma.Config) { cfg.Journal = journal })
				var events []session.Event
				for e, err := range agent.Run(t.Context(), "Do the task.") {
					if err != nil {
						t.Fatal(err)
					}
					if events = append(events, e); len(events) == k {
						reached, disk.full = true, true
					}
				}
				end := endOf(t, events)
				if end.Reason != loop.Completed {
					t.Errorf("the run ended with %s", end.Reason)
				}
				if warned := notices(events, "goes on unsaved"); warned != 1 && journal.Behind() {
					t.Errorf("it was told %d times", warned)
				}
				if _, err := session.Look(journal.Path()); err != nil {
					t.Error(err)
				}
				behind := journal.Behind()
				disk.full = false
				var more []session.Event
				for e, err := range agent.Run(t.Context(), "Go on.") {
					if err != nil {
						t.Fatal(err)
					}
					more = append(more, e)
				}
				if n := notices(more, "saved again"); behind && n != 1 && len(more) > 1 && notices(events, "saved again") == 0 {
					t.Errorf("that it is saved again was told %d times", n)
				}
				endOf(t, more)
				checkViolations(t, finish())
				journalIsMemory(t, agent, journal, session.Store{Dir: dir, Project: "/p"})
			})
		})
		if !ok || !reached {
			return
		}
	}
}

// TestStopUnsaved ends the run at the event that cannot be saved: no tool runs
// whose intent is not on disk, and the session goes on from there.
func TestStopUnsaved(t *testing.T) {
	for k := 1; ; k += 5 {
		reached := false
		dir := t.TempDir()
		ok := t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, journal := onFullDisk(t, dir)
				agent, finish := simulated(t, crashScript, func(cfg *daruma.Config) { cfg.Journal, cfg.StopUnsaved = journal, true })
				var events []session.Event
				after := 0 // results of tools with effects, although it could not be saved
				for e, err := range agent.Run(t.Context(), "Do the task.") {
					if err != nil {
						t.Fatal(err)
					}
					if b, ok := e.Body.(*session.Result); ok && b.Name == "Write" && journal.Behind() {
						after++
					}
					if events = append(events, e); len(events) == k {
						reached, disk.full = true, true
					}
				}
				end := endOf(t, events)
				if behind := journal.Behind(); behind && end.Reason == loop.Completed && notices(events, "so the run stops") == 0 {
					t.Error("the run went on unsaved")
				}
				if end.Reason != loop.Completed && end.Reason != loop.AbortedStreaming && end.Reason != loop.AbortedTools {
					t.Errorf("the run ended with %s", end.Reason)
				}
				for _, m := range agent.History().Messages {
					if strings.Contains(m.PlainText(), "user interrupted") {
						t.Error("the model is told that the user interrupted")
					}
				}
				if after > 1 { // the one that could not be saved
					t.Errorf("%d results came after that", after)
				}
				checkViolations(t, finish())
				if err := journal.Close(); err != nil {
					t.Error(err)
				}
			})
			_, history, _, err := session.Store{Dir: dir, Project: "/p"}.Open("story")
			if err != nil {
				t.Fatal(err)
			}
			resume(t, history)
		})
		if !ok || !reached {
			return
		}
	}
}

// TestJournalVanishes deletes the folder of a session while it runs.
func TestJournalVanishes(t *testing.T) {
	for _, stop := range []bool{false, true} {
		store := session.Store{Dir: t.TempDir(), Project: "/p"}
		journal, err := store.Create("story")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			agent, finish := simulated(t, crashScript, func(cfg *daruma.Config) { cfg.Journal, cfg.StopUnsaved = journal, stop })
			var events []session.Event
			for e, err := range agent.Run(t.Context(), "Do the task.") {
				if err != nil {
					t.Fatal(err)
				}
				if events = append(events, e); len(events) == 12 {
					if err := os.RemoveAll(filepath.Dir(journal.Path())); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n := notices(events, "no longer where it was"); n != 1 {
				t.Errorf("it was told %d times", n)
			}
			if end := endOf(t, events); (end.Reason == loop.Completed) == stop {
				t.Errorf("the run ended with %s", end.Reason)
			}
			checkViolations(t, finish())
		})
		if err := journal.Close(); !errors.Is(err, session.ErrGone) {
			t.Errorf("close: %v", err)
		}
	}
}
