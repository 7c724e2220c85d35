//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStart measures the real binary from exec to the first byte of its
// first request, and its largest memory. The answer is a final error, so the
// process ends at once.
func BenchmarkStart(b *testing.B) {
	binary := build(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	arrived := make(chan time.Time, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- time.Now()
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"type":"error","error":{"type":"invalid_request_error","message":"enough"}}`)
	})}
	go server.Serve(l)
	defer server.Close()
	dir, state := b.TempDir(), b.TempDir()
	var total time.Duration
	var memory int64
	for b.Loop() {
		cmd := exec.Command(binary, "-p", "hello")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ANTHROPIC_BASE_URL=http://"+l.Addr().String(), "ANTHROPIC_API_KEY=any", "XDG_STATE_HOME="+state)
		began := time.Now()
		_ = cmd.Run() // it fails: see above
		total += (<-arrived).Sub(began)
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = max(memory, usage.Maxrss)
		}
	}
	began := time.Now()
	for range 20 { // what this machine needs to start any process
		_ = exec.Command("true").Run()
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000/20, "ms-true")
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms-to-request")
	b.ReportMetric(float64(memory)/1024, "MB-max")
}
