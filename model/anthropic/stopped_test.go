//go:build unix

package anthropic

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The limits of the process that is stopped, and how long it stands still.
const (
	stoppedLimit = time.Second
	stoppedFor   = 2500 * time.Millisecond
	stoppedURL   = "DARUMA_TEST_STOPPED_URL"
)

// TestStoppedProcess: a process is stopped for longer than its watchdogs wait,
// and goes on: no watchdog fires for the time in which it did not run, be the
// bytes in the socket by then or not.
func TestStoppedProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes eight seconds")
	}
	started := make(chan int, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		pid := <-started
		write := func(s string) {
			_, _ = io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
		standStill := func(meanwhile string) {
			time.Sleep(100 * time.Millisecond) // the child waits in a read
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			time.Sleep(stoppedFor / 2)
			write(meanwhile)
			time.Sleep(stoppedFor / 2)
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Error(err)
			}
			time.Sleep(stoppedLimit / 2)
		}
		standStill("") // headers, then nothing
		write(sse(start, textOpen, textHi))
		standStill(sse(`{"type":"ping"}`)) // it lives, but does not grow
		write(sse(textHi))
		standStill("") // not a byte
		write(sse(textHi, close0, endTurn, stop))
	}))
	defer srv.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestStoppedChild$", "-test.v")
	child.Env = append(os.Environ(), stoppedURL+"="+srv.URL)
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	started <- child.Process.Pid
	if err := child.Wait(); err != nil || !strings.Contains(out.String(), "hihihi") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestStoppedChild is the process that TestStoppedProcess stops.
func TestStoppedChild(t *testing.T) {
	url := os.Getenv(stoppedURL)
	if url == "" {
		t.Skip("a part of TestStoppedProcess")
	}
	limits := Timeouts{FirstByte: stoppedLimit, Bytes: stoppedLimit, Events: stoppedLimit}
	c := mustNew(t, Config{BaseURL: url, Timeouts: limits})
	defer c.DropIdle()
	events, err := collect(t.Context(), c, hello)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		fmt.Print(e.Text)
	}
}
