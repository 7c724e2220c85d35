package session

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// richJournal is a long life: runs, calls, results that are still open,
// compactions that keep some and drop others, prompts that wait, deaths, words
// that need escapes, and events of a version to come.
func richJournal(rounds int, filler string) []byte {
	w := &journalWriter{}
	id := 0
	next := func() string { id++; return fmt.Sprintf("m%d", id) }
	var kept []string
	for i := range rounds {
		w.run = i + 1
		w.add(&Start{Model: "m", PID: i, Parent: map[bool]string{true: "p"}[i == 2]}, &RunStart{}, &Decision{Outcome: "x"})
		prompt := next()
		w.add(&Message{Message: message.NewText(prompt, fmt.Sprintf("prompt %d \"ü\" %s", i, filler))}, &Recovery{ID: i})
		call := fmt.Sprintf("c%d", i)
		answer := &message.Message{ID: next(), Role: message.Assistant, Blocks: []message.Block{
			{Type: message.Text, Text: "I look. " + filler}, {Type: message.ToolUse, ID: call, Name: "Bash", Input: jsontext.Value(`{"command":"ls"}`)},
			{Type: message.ToolUse, ID: call + "b\"", Name: "Bash", Input: jsontext.Value(`{}`)},
		}}
		w.add(&Begin{Attempt: 2*i + 1, Model: "m"}, &Checkpoint{Attempt: 1, Text: "I l"}, &Commit{Attempt: 2*i + 1, Message: answer})
		for _, c := range []string{call, call + "b\""} {
			w.add(&Permission{Call: c, Allowed: true}, &Intent{Call: c, Name: "Bash", Effect: "unsafe"}, &Intent{Call: c, Name: "Bash", Group: 7, Started: time.Unix(9, 0).UTC()})
			r := &Result{Call: c, Name: "Bash", Block: message.TextResult(c, "out "+filler, false), Took: time.Second}
			if c == call {
				r.Task = &Task{ID: c, Path: "/" + c, Ended: i%5 == 4}
			}
			w.add(r)
		}
		w.add(&Prompt{Text: fmt.Sprintf("and %d", i)})
		results := next()
		w.add(&Results{ID: results, Caller: answer.ID, Calls: []string{call, call + "b\"", "nobody"}})
		if i%3 != 1 {
			w.add(&Message{Message: message.NewText(next(), fmt.Sprintf("and %d", i)), Ends: []string{fmt.Sprintf("c%d", i/2)}})
		}
		w.add(&Begin{Attempt: 2*i + 2, Model: "m"}, &Retract{Attempt: 2*i + 2, Cause: "network"}, &Unknown{Name: "dream", Raw: jsontext.Value(`{"deep":[1,2]}`)})
		kept = append(kept, prompt, answer.ID, results)
		if i%4 == 3 {
			summary := next()
			w.add(&Compaction{Rung: "summary", New: []*message.Message{message.NewSynthetic(summary, "so far "+filler)}, Order: append([]string{summary, "gone"}, kept[len(kept)-4:]...)})
			kept = append([]string{summary}, kept[len(kept)-4:]...)
		}
		w.add(&Begin{Attempt: 2*i + 2, Model: "m"}, &Continue{Attempt: 1, Message: &message.Message{ID: next(), Role: message.Assistant, Blocks: []message.Block{{Type: message.Text, Text: "half"}}}})
		w.add(&Message{Message: &message.Message{ID: next(), Role: message.Assistant, Failure: &failure.Error{Kind: failure.Overloaded}}}, &Commit{Attempt: 3}, &Name{Name: fmt.Sprint("n", i)})
		if i%2 == 0 {
			w.add(&End{Reason: loop.Completed, Text: "done " + filler})
		}
	}
	return w.out.Bytes()
}

type journalWriter struct {
	out bytes.Buffer
	seq uint64
	run int
}

func (w *journalWriter) add(bodies ...Body) {
	for _, b := range bodies {
		w.seq++
		line, err := Encode(Event{Version: Version, Seq: w.seq, Time: time.Unix(int64(w.seq), 5).UTC(), Session: "s", Run: w.run, Turn: 1, Body: b})
		if err != nil {
			panic(err)
		}
		w.out.Write(line)
	}
}

// same holds that loading data is folding all of it.
func same(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, damaged, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	want, wantDamaged, err := foldAll(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	options := append([]cmp.Option{cmp.AllowUnexported(History{})}, sameEvents...)
	if diff := cmp.Diff(want, got, options...); diff != "" || damaged != wantDamaged {
		t.Fatalf("%d bytes: %d damaged lines, want %d (-folded +loaded):\n%s", len(data), damaged, wantDamaged, diff)
	}
}

func TestLoadingIsFolding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	data := richJournal(8, "word")
	for at := range len(data) {
		if data[at] == '\n' || at%4999 == 0 { // each line, and some torn ones
			same(t, path, data[:at+1])
		}
	}
	same(t, path, nil)
	data = richJournal(4, "word")
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i := range lines { // each line missing, and each line damaged
		without := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
		same(t, path, without)
		if len(lines[i]) > 40 {
			broken := bytes.Clone(data)
			broken[len(bytes.Join(lines[:i], nil))+20] ^= 1
			same(t, path, broken)
		}
	}
	same(t, path, richJournal(6, strings.Repeat("long ", 1<<16))) // lines longer than the buffer
	same(t, path, bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")))
}

// A right checksum over wrong content comes from another program; such a line
// is skipped as ever.
func TestLoadingLooksAtWrongContent(t *testing.T) {
	w := &journalWriter{}
	w.add(&Message{Message: message.NewText("m1", "one")})
	for _, body := range []string{`{"message":{"id":"m2","role":"user","blocks":7}}`, `{"message":{"id":"m3","role":"user"`} {
		line := fmt.Appendf(nil, `{"v":1,"seq":2,"time":"2026-11-30T10:00:00Z","session":"s","type":"message","body":%s`, body)
		w.out.Write(seal(line))
	}
	w.seq = 3
	w.add(&Message{Message: message.NewText("m4", "four")})
	same(t, filepath.Join(t.TempDir(), "s.jsonl"), w.out.Bytes())
}

// seal gives the beginning of a line its checksum and its end.
func seal(body []byte) []byte {
	return fmt.Appendf(body, sumFormat+"\n", crc32.Checksum(body, table))
}

// FuzzLoad holds that no bytes make loading fail.
func FuzzLoad(f *testing.F) {
	f.Add(richJournal(2, "w"))
	path := filepath.Join(f.TempDir(), "s.jsonl")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := load(path); err != nil {
			t.Fatal(err)
		}
	})
}
