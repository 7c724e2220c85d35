package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
)

// sessionOf writes a journal of about so many megabytes: answers and results of
// a few kilobytes, and a compaction after each megabyte and a half.
func sessionOf(b testing.TB, megabytes int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "s.jsonl")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	filler := strings.Repeat("a line of source code, or of what a test printed\n", 80)
	w := &journalWriter{run: 1}
	w.add(&Start{Model: "m"}, &RunStart{})
	var order []string
	for size, i, since := 0, 0, 0; size < megabytes<<20; i++ {
		call, answer, results := fmt.Sprint("c", i), fmt.Sprint("m", 3*i), fmt.Sprint("m", 3*i+1)
		w.add(&Decision{Outcome: "tools_done", Step: "measure"}, &Begin{Attempt: i + 1, Model: "m"},
			&Commit{Attempt: i + 1, Message: &message.Message{ID: answer, Role: message.Assistant, Blocks: []message.Block{
				{Type: message.Text, Text: filler}, {Type: message.ToolUse, ID: call, Name: "Bash", Input: []byte(`{"command":"make"}`)},
			}}},
			&Intent{Call: call, Name: "Bash", Effect: "unsafe"}, &Permission{Call: call, Allowed: true},
			&Result{Call: call, Name: "Bash", Block: message.TextResult(call, filler+filler, false)},
			&Results{ID: results, Caller: answer, Calls: []string{call}})
		order = append(order, answer, results)
		if since += w.out.Len(); since > 3<<19 {
			summary := fmt.Sprint("m", 3*i+2)
			order = append([]string{summary}, order[len(order)-8:]...)
			w.add(&Compaction{Rung: "summary", New: []*message.Message{message.NewSynthetic(summary, filler)}, Order: order})
			since = 0
		}
		size += w.out.Len()
		if _, err := w.out.WriteTo(f); err != nil {
			b.Fatal(err)
		}
	}
	return path
}

// BenchmarkOpen opens sessions of 1, 20 and 200 MB, and beside it folds every
// line of the same files.
func BenchmarkOpen(b *testing.B) {
	for _, megabytes := range []int{1, 20, 200} {
		path := sessionOf(b, megabytes)
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%dMB/load", megabytes), func(b *testing.B) {
			b.SetBytes(info.Size())
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := load(path); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%dMB/fold_all", megabytes), func(b *testing.B) {
			b.SetBytes(info.Size())
			b.ReportAllocs()
			for b.Loop() {
				f, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := foldAll(f); err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}
