//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lives is what /proc says of one process.
type lives struct {
	pid, parent int
	state       byte // Z: nobody has asked for its end
	line        string
}

// processes are all that there are.
func processes() (all []lives) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		end := bytes.LastIndexByte(data, ')') // a name may hold anything
		if err != nil || end < 0 {
			continue
		}
		var p lives
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if _, err := fmt.Sscanf(string(data[end+1:]), " %c %d", &p.state, &p.parent); err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		p.line = string(data[:end+1]) + " " + strings.ReplaceAll(string(line), "\x00", " ")
		all = append(all, p)
	}
	return all
}

// below are the processes that descend from pid.
func below(pid int) (found []lives) {
	all, family := processes(), []int{pid}
	for i := 0; i < len(family); i++ {
		for _, p := range all {
			if p.parent == family[i] {
				family, found = append(family, p.pid), append(found, p)
			}
		}
	}
	return found
}

// adopt makes this process the parent of every orphan that descends from it, so
// that none gets away, whatever it did to its session, group and environment.
func adopt(t testing.TB) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// orphans waits for what descends from this process to end, and lists what does
// not. Nothing else may have been started.
func orphans(patience time.Duration) (left []lives) {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left = below(os.Getpid())
		for _, p := range left {
			if p.state == 'Z' && p.parent == os.Getpid() {
				_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// sample is how the agent was at one moment.
type sample struct {
	turn int
	open []string // what its descriptors are
	rss  int      // in KB
}

// watcher looks at the agent while it works.
type watcher struct {
	pid  int
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	turn    int
	samples []sample
	zombies map[int]time.Time // since when
	stale   []string          // that were left for long
}

func watch(pid int) *watcher {
	w := &watcher{pid: pid, quit: make(chan struct{}), done: make(chan struct{}), zombies: map[int]time.Time{}}
	go func() {
		defer close(w.done)
		for n := 0; ; n++ {
			select {
			case <-w.quit:
				return
			case <-time.After(30 * time.Millisecond):
			}
			w.look()
			if n%10 == 0 {
				w.count()
			}
		}
	}()
	return w
}

func (w *watcher) stop() {
	close(w.quit)
	<-w.done
}

// at tells which turn it is.
func (w *watcher) at(turn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn = turn
}

func (w *watcher) look() {
	dir := fmt.Sprintf("/proc/%d/fd", w.pid)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return // it has ended
	}
	var s sample
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			s.open = append(s.open, target)
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		_, _ = fmt.Sscan(rest, &s.rss)
	}
	if s.rss == 0 {
		return // it is ending
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.turn = w.turn
	w.samples = append(w.samples, s)
}

// longZombie is how long an ended child may wait to be asked for.
const longZombie = 3 * time.Second

func (w *watcher) count() {
	now, seen := time.Now(), map[int]time.Time{}
	for _, p := range processes() {
		if p.parent != w.pid || p.state != 'Z' {
			continue
		}
		since, ok := w.zombies[p.pid]
		if !ok {
			since = now
		}
		seen[p.pid] = since
		if now.Sub(since) > longZombie && !slices.Contains(w.stale, p.line) {
			w.stale = append(w.stale, p.line)
		}
	}
	w.zombies = seen
}

// least is the sample with the fewest descriptors in these turns: what is only
// open for a call is not in it, what is never closed is.
func (w *watcher) least(from, to int) (least sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.samples {
		if s.turn < from || s.turn > to {
			continue
		}
		if n++; n == 1 || len(s.open) < len(least.open) {
			least = s
		}
	}
	return least
}

// descriptors are those that are open all the time, early and late in a run of
// so many turns.
func (w *watcher) descriptors(turns int) (early, late []string) {
	return w.least(10, 30).open, w.least(turns-12, turns).open
}

// last is the newest sample.
func (w *watcher) last() sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.samples) == 0 {
		return sample{}
	}
	return w.samples[len(w.samples)-1]
}

// TestWatch holds that the test of a long run would see what it looks for: a
// process that left its group, session and environment, and a child whose end
// nobody asks for.
func TestWatch(t *testing.T) {
	adopt(t)
	if err := exec.Command("sh", "-c", "(env -i setsid sleep 60 </dev/null >/dev/null 2>&1 &)").Run(); err != nil {
		t.Fatal(err)
	}
	left := orphans(300 * time.Millisecond)
	if len(left) != 1 || left[0].parent != os.Getpid() {
		t.Fatalf("left are %+v", left)
	}
	w := &watcher{pid: os.Getpid(), zombies: map[int]time.Time{}}
	if err := syscall.Kill(left[0].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(w.zombies) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		w.count()
	}
	w.zombies[left[0].pid] = time.Now().Add(-2 * longZombie)
	if w.count(); len(w.stale) != 1 {
		t.Errorf("stale are %q", w.stale)
	}
	if left := orphans(10 * time.Second); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
}
