//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package gate

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/retry"
)

// A process of the crowd is this test binary with these variables set.
const (
	envURL = "GATE_TEST_URL"
	envDir = "GATE_TEST_DIR"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(envURL); url != "" {
		io.Copy(io.Discard, os.Stdin) // all begin when the pipe is closed
		if err := ask(url, os.Getenv(envDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// ask is one process: a request through the gate, repeated as layer 1 says.
func ask(url, dir string) error {
	g, err := Open(dir, Key{BaseURL: url, Account: "sk-secret", Model: "m"})
	if err != nil {
		return err
	}
	ticket := g.Enter(Foreground)
	var tries retry.State
	for {
		if err := ticket.Wait(context.Background()); err != nil {
			return err
		}
		e, err := send(url, ticket.epoch)
		if err != nil {
			return err
		}
		if e == nil {
			complain(ticket.Report(Outcome{Result: OK}))
			return nil
		}
		complain(ticket.Report(Outcome{Result: Limited, After: e.Hint.After}))
		var v retry.Verdict
		if tries, v = retry.Next(retry.Default(), tries, retry.Facts{Failure: e}); v.Do != retry.Wait {
			return fmt.Errorf("%s after %d tries: %s", v.Do, tries.Tries, v.Rule)
		}
		time.Sleep(v.Min + rand.N(v.Max-v.Min+1))
	}
}

// complain shows trouble with the gate, which is no trouble of the request.
func complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// send asks once, and tells in which epoch of the gate: in the first one
// nothing was known yet.
func send(url string, epoch int) (*failure.Error, error) {
	answer, err := http.Get(url + "/" + strconv.Itoa(epoch))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode == http.StatusOK {
		return nil, err
	}
	return failure.Classify(failure.Report{Status: answer.StatusCode, Header: answer.Header, Body: body}), nil
}

// limiter lets one request a second in.
type limiter struct {
	mu      sync.Mutex
	last    time.Time
	first   int         // requests in the round that knew nothing
	arrived []time.Time // those after it
}

func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if r.URL.Path == "/0" {
		l.first++
	} else {
		l.arrived = append(l.arrived, now)
	}
	if now.Sub(l.last) < time.Second {
		w.Header().Set("retry-after", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"Rate limited"}}`)
		return
	}
	l.last = now
	io.WriteString(w, "{}")
}

// processes lets n processes ask at once, and returns how many requests the
// round had that knew nothing, when the later ones arrived, and how long all
// took.
func processes(t testing.TB, n int) (first int, later []time.Time, took time.Duration) {
	t.Helper()
	l := &limiter{}
	server := httptest.NewServer(l)
	defer server.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	dir := t.TempDir()
	commands := make([]*exec.Cmd, n)
	for i := range commands {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), envURL+"="+server.URL, envDir+"="+dir)
		c.Stdin, c.Stderr = read, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		commands[i] = c
	}
	time.Sleep(time.Duration(n) * 10 * time.Millisecond) // for all to be up
	began := time.Now()
	write.Close()
	for _, c := range commands {
		if err := c.Wait(); err != nil {
			t.Errorf("a process failed: %v", err)
		}
	}
	took = time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.arrived, took
}

func TestTenProcesses(t *testing.T) {
	t.Parallel()
	first, later, took := processes(t, 10)
	t.Logf("%d requests in the first round, %d later, %v", first, len(later), took)
	if len(later) > 12 { // nine are needed
		t.Errorf("%d requests after the first round", len(later))
	}
	if n := burst(later, 0, 600*time.Millisecond); n > 2 {
		t.Errorf("%d requests within 0.6 s", n)
	}
}

// BenchmarkFiftyProcesses is the crowd that the package is for: fifty processes
// on one account that may ask once a second.
func BenchmarkFiftyProcesses(b *testing.B) {
	for b.Loop() {
		first, later, took := processes(b, 50)
		const needed = 49 // the first round lets one in, or a few when it is slow
		b.ReportMetric(float64(first), "first-round/op")
		b.ReportMetric(float64(len(later)), "later/op")
		b.ReportMetric(float64(len(later))/needed, "later/needed")
		b.ReportMetric(took.Seconds(), "s-all/op")
		if float64(len(later)) > 1.2*needed {
			b.Errorf("%d requests after the first round, %d are needed", len(later), needed)
		}
		if n := burst(later, 0, 600*time.Millisecond); n > 2 {
			b.Errorf("%d requests within 0.6 s", n)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "gate")
	key := Key{BaseURL: "https://api.test/", Account: "sk-very-secret", Model: "m"}
	open := func(k Key) *Gate {
		g, err := Open(dir, k)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	a := open(key).Enter(Foreground)
	a.Hold()
	a.Report(Outcome{Result: OK})
	if names := files(t, dir); !slices.Equal(names, []string{"salt"}) {
		t.Errorf("with nothing to tell: %v", names)
	}
	a.Report(Outcome{Result: Limited, After: time.Minute})
	for _, same := range []Key{key, {BaseURL: "https://api.test", Account: "sk-very-secret", Model: "m"}} {
		if h := open(same).Enter(Foreground).Hold(); h.Why != ForLimit {
			t.Errorf("%v: %+v", same, h)
		}
	}
	for _, other := range []Key{
		{"https://api.test", "sk-another", "m"}, {"https://api.test", "sk-very-secret", "n"}, {"https://b.test", "sk-very-secret", "m"},
	} {
		if h := open(other).Enter(Foreground).Hold(); h != (Hold{}) {
			t.Errorf("%v: %+v", other, h)
		}
	}
	for _, name := range files(t, dir) {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		info, _ := os.Stat(filepath.Join(dir, name))
		if err != nil || len(raw) == 0 || strings.Contains(name+string(raw), "secret") || info.Mode().Perm() != 0o600 {
			t.Errorf("%s (%v): %q %v", name, info.Mode(), raw, err)
		}
	}
}

func files(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAStoppedHolderBlocksNobody(t *testing.T) {
	dir := t.TempDir()
	g, err := Open(dir, Key{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	name := string(g.store.(file))
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	h := g.Enter(Foreground).Hold()
	if took := time.Since(began); h.For != 0 || h.Err == nil || took > 5*time.Second {
		t.Errorf("%+v after %v", h, took)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "salt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Key{}); err == nil {
		t.Error("a damaged salt was used")
	}
	if _, err := Open(filepath.Join(dir, "salt", "below"), Key{}); err == nil {
		t.Error("a directory below a file was made")
	}
}
