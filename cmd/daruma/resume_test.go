//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// longSession writes the journal of a session of about so many megabytes into
// the state folder of a project: answers and results of a few kilobytes, and a
// compaction after each megabyte and a half.
func longSession(b *testing.B, state, project string, megabytes int) {
	store := session.Store{Dir: filepath.Join(state, "daruma", "sessions"), Project: project}
	j, err := store.Create(fmt.Sprint("long-", megabytes))
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.OpenFile(j.Path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		b.Fatal(err)
	}
	h := &session.History{Session: "long"}
	filler := strings.Repeat("a line of source code, or of what a test printed\n", 80)
	size, since := 0, 0
	add := func(bodies ...session.Body) {
		var out bytes.Buffer
		for _, body := range bodies {
			e := session.Event{Version: session.Version, Seq: h.Seq + 1, Time: time.Unix(1, 0).UTC(), Session: "long", Run: 1, Turn: 1, Body: body}
			line, err := session.Encode(e)
			if err != nil {
				b.Fatal(err)
			}
			h.Apply(e)
			out.Write(line)
		}
		size, since = size+out.Len(), since+out.Len()
		if _, err := f.Write(out.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
	add(&session.Start{Model: "claude-sonnet-5"}, &session.RunStart{}, &session.Message{Message: message.NewText("m0", "Do the task.")})
	for i := 1; size < megabytes<<20; i++ {
		call, answer, results := fmt.Sprint("toolu_", i), fmt.Sprint("m", 3*i), fmt.Sprint("m", 3*i+1)
		add(&session.Begin{Attempt: i, Model: "claude-sonnet-5"},
			&session.Commit{Attempt: i, Message: &message.Message{ID: answer, Role: message.Assistant, Blocks: []message.Block{
				{Type: message.Text, Text: filler}, {Type: message.ToolUse, ID: call, Name: "Bash", Input: []byte(`{"command":"make"}`)},
			}}},
			&session.Intent{Call: call, Name: "Bash", Effect: "unsafe"},
			&session.Result{Call: call, Name: "Bash", Block: message.TextResult(call, filler+filler, false)},
			&session.Results{ID: results, Caller: answer, Calls: []string{call}})
		if since > 3<<19 {
			summary := message.NewText(fmt.Sprint("m", 3*i+2), filler)
			order := []string{summary.ID}
			for _, m := range h.Messages[len(h.Messages)-8:] {
				order = append(order, m.ID)
			}
			add(&session.Compaction{Rung: "summary", New: []*message.Message{summary}, Order: order})
			since = 0
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkResume goes on with sessions of 1, 20 and 200 MB with the real
// binary, and measures until its first request arrives, and its largest memory.
// The answer is a final error, so the process ends at once.
func BenchmarkResume(b *testing.B) {
	binary := build(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	arrived := make(chan time.Time, 1)
	sent := 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		sent = body.Len()
		arrived <- time.Now()
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"type":"error","error":{"type":"invalid_request_error","message":"enough"}}`)
	})}
	go server.Serve(l)
	defer server.Close()
	for _, megabytes := range []int{1, 20, 200} {
		dir, state := b.TempDir(), b.TempDir()
		longSession(b, state, dir, megabytes)
		b.Run(fmt.Sprintf("%dMB", megabytes), func(b *testing.B) {
			var total time.Duration
			var memory int64
			for b.Loop() {
				cmd := exec.Command(binary, "-p", "--continue", "hello")
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "ANTHROPIC_BASE_URL=http://"+l.Addr().String(), "ANTHROPIC_API_KEY=any", "XDG_STATE_HOME="+state)
				began := time.Now()
				if err := cmd.Run(); err == nil {
					b.Fatal("it did not fail")
				}
				total += (<-arrived).Sub(began)
				if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
					memory = max(memory, usage.Maxrss)
				}
			}
			b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms-to-request")
			b.ReportMetric(float64(memory)/1024, "MB-max")
			b.ReportMetric(float64(sent)/(1<<20), "MB-sent")
		})
	}
}
