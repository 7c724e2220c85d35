package session

import (
	"bytes"
	"errors"
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
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// everyBody has one body of each type, with its less usual fields set.
func everyBody() []Body {
	call := message.Block{Type: message.ToolUse, ID: "c1", Name: "Bash", Input: jsontext.Value(`{"command":"ls"}`), Model: "m"}
	answer := &message.Message{ID: "m2", Role: message.Assistant, Model: "m", Stop: "tool_use", Blocks: []message.Block{
		{Type: message.Thinking, Text: "hm", Signature: "sig", Model: "m"}, {Type: message.Text, Text: "so"}, call,
	}}
	e := &failure.Error{Kind: failure.Overloaded, Status: 529, Hint: failure.Hint{After: 2 * time.Second, Given: true}}
	return []Body{
		&Start{Build: "1", Dir: "/p", Model: "m", Fallbacks: []string{"n"}, PID: 7},
		&Name{Name: "the port"}, &Hook{Event: "Stop", Name: "./x", Outcome: "error", Exit: 1, Chars: 5, Took: time.Second, Stdout: "a", Stderr: "b"}, &Child{Call: "c1", Session: "one.agent-1", Again: true}, &FileSaved{Call: "c1", Path: "/p/a", Before: Absent, After: Hash(nil)},
		&RunStart{Continue: true},
		&Message{Message: message.NewText("m1", "do it")},
		&Decision{Outcome: "prompted", Step: "measure", Transition: loop.NextTurn},
		&Begin{Attempt: 1, Model: "m", Source: "main", MaxTokens: 8000},
		&Checkpoint{Attempt: 1, Text: "so"},
		&Commit{Attempt: 1, Message: answer, Stop: "tool_use", Spent: Spent{Usage: Tokens{Input: 3}, Total: time.Second}},
		&Intent{Call: "c1", Name: "Bash", Effect: "unsafe", Input: call.Input, Group: 12, Started: time.Unix(5, 0).UTC()},
		&Permission{Call: "c1", Name: "Bash", Allowed: true, By: "rule"},
		&Result{Call: "c1", Name: "Bash", Block: message.TextResult("c1", "a\nb", false), Took: time.Millisecond},
		&Results{ID: "m3", Caller: "m2", Calls: []string{"c1"}},
		&Begin{Attempt: 2, Model: "m"},
		&Retract{Attempt: 2, Cause: "network", Failure: e, Lost: 4},
		&Recovery{ID: 1, Layer: "request", Cause: failure.Overloaded, Decision: "retry", Delay: time.Second, State: Running},
		&Begin{Attempt: 3, Model: "m"},
		&Continue{Attempt: 3, Message: &message.Message{ID: "m4", Role: message.Assistant, Blocks: []message.Block{{Type: message.Text, Text: "half"}}}, Cause: "broken text"},
		&Compaction{Rung: "summary", Before: 9, After: 3, New: []*message.Message{message.NewSynthetic("m5", "summary")}, Order: []string{"m1", "m5", "m4"}},
		&Repair{Fixes: []message.Fix{{Message: "m1", Rule: message.RuleText, Detail: "x"}}},
		&Mismatch{Said: "no", Sent: []string{"user text"}},
		&Prompt{Text: "and this"},
		&Notice{Level: Warning, Text: "careful"},
		&End{Reason: loop.APIError, IsError: true, Failure: e, Text: "half", Took: time.Minute, Denials: []Denial{{Tool: "Bash"}}},
		&Block{Attempt: 3, Block: message.Text}, &Delta{Attempt: 3, Text: "t"}, &Waiting{Recovery: 1, Left: time.Second}, &Progress{Call: "c1"},
	}
}

func events() []Event {
	var out []Event
	for i, b := range everyBody() {
		out = append(out, Event{Version: Version, Seq: uint64(i + 1), Time: time.Unix(int64(i), 0).UTC(), Session: "s", Run: 1, Turn: 1, Body: b})
	}
	return out
}

var sameEvents = []cmp.Option{cmpopts.IgnoreUnexported(message.Message{}, failure.Error{}), cmpopts.EquateEmpty()}

func TestEveryEventSurvivesItsLine(t *testing.T) {
	seen := map[Type]bool{}
	for _, e := range events() {
		seen[e.Type()] = true
		line, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("%s is not one line: %q", e.Type(), line)
		}
		got, err := Decode(line)
		if err != nil {
			t.Fatalf("%s: %v", e.Type(), err)
		}
		if diff := cmp.Diff(e, got, sameEvents...); diff != "" {
			t.Errorf("%s (-written +read):\n%s", e.Type(), diff)
		}
	}
	for typ := range bodies {
		if !seen[typ] {
			t.Errorf("everyBody has no %s", typ)
		}
	}
}

func TestUnknownEventsAreKept(t *testing.T) {
	line := []byte(`{"v":99,"seq":5,"time":"2026-11-30T10:00:00Z","session":"s","type":"dream","body":{"deep":[1,2]}`)
	e := Event{Version: 99, Seq: 5, Time: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), Session: "s", Body: &Unknown{Name: "dream", Raw: jsontext.Value(`{"deep":[1,2]}`)}}
	encoded, err := Encode(e)
	if err != nil || !bytes.HasPrefix(encoded, line) {
		t.Fatalf("Encode = %s, %v", encoded, err)
	}
	again, err := Decode(encoded)
	if diff := cmp.Diff(e, again); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestFold(t *testing.T) {
	h := Fold(events())
	var ids []string
	for _, m := range h.Messages {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{"m1", "m5", "m4"}, ids); diff != "" {
		t.Errorf("messages:\n%s", diff)
	}
	if h.Running || h.End == nil || h.Attempt != nil || h.Attempts != 3 || h.Recoveries != 1 || len(h.Intents) != 0 {
		t.Errorf("history: %+v", h)
	}
	if diff := cmp.Diff([]string{"and this"}, h.Queued); diff != "" {
		t.Errorf("queued prompts:\n%s", diff)
	}
	if id := h.NextID(); id != "m6" {
		t.Errorf("the next id is %s", id)
	}
}

// quick is a disk that nobody waits for.
type quick struct{ File }

func (quick) Sync() error { return nil }

func TestTornTail(t *testing.T) {
	store := Store{Dir: t.TempDir(), Project: "/some/project"}
	j, err := store.Create("one")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events()[:8] {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	store.Disk = func(f File) File { return quick{f} }
	// The file may end at any byte: what stands before is read, and what is
	// appended afterwards is read too.
	for cut := range len(whole) {
		if err := os.WriteFile(j.Path(), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, h, damaged, err := store.Open("one")
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(whole[:cut], []byte("\n"))
		if want := cut - (bytes.LastIndexByte(whole[:cut], '\n') + 1); damaged > 1 || want == 0 && damaged != 0 {
			t.Fatalf("cut at %d: %d damaged lines", cut, damaged)
		}
		if int(h.Seq) < lines {
			t.Fatalf("cut at %d: read up to event %d of %d", cut, h.Seq, lines)
		}
		if err := j.Append(Event{Version: 1, Seq: 100, Body: &Notice{Text: "after"}}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		again, _, err := load(j.Path())
		if err != nil || again.Seq != 100 {
			t.Fatalf("cut at %d: what came after is lost: event %d, %v", cut, again.Seq, err)
		}
	}
}

func TestOneWriter(t *testing.T) {
	store := Store{Dir: t.TempDir(), Project: "/p"}
	j, err := store.Create("one")
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, err = store.Open("one")
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("(process %d on ", os.Getpid())) {
		t.Errorf("the second writer got %v, want the name of the first", err)
	}
	if err := errors.Join(j.Append(said(1, "first")), j.Close()); err != nil {
		t.Fatal(err)
	}
	again, _, _, err := store.Open("one")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	here, there := Store{Dir: dir, Project: "/here"}, Store{Dir: dir, Project: "/there"}
	for _, c := range []struct {
		store Store
		id    string
	}{{here, "aaa-1"}, {here, "abb-2"}, {there, "ccc-3"}} {
		j, err := c.store.Create(c.id)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(j.Append(Event{Body: &Notice{}}), j.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"aaa-1": "aaa-1", "ab": "abb-2", "ccc-3": "ccc-3", "ccc": "ccc-3", "a": "", "zzz": "", "": "", "../x": ""} {
		path, err := here.Find(id)
		if got := strings.TrimSuffix(filepath.Base(path), ".jsonl"); err == nil && got != want || err != nil && want != "" {
			t.Errorf("find %q = %q, %v; want %q", id, got, err, want)
		}
	}
	if _, err := (Store{Dir: dir, Project: "/new"}).Latest(); !errors.Is(err, ErrNotFound) {
		t.Errorf("the last session of a project without any: %v", err)
	}
}

// FuzzRead holds that no bytes make reading or folding fail otherwise than by
// naming damaged lines, and that the folded conversation can be mended. Lines
// get a right checksum, else no changed one would be looked at.
func FuzzRead(f *testing.F) {
	for _, e := range events() {
		line, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte("{}\n\n\x00\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var sealed bytes.Buffer
		for line := range bytes.Lines(data) {
			line = bytes.TrimRight(line, "\n")
			if body, ok := bytes.CutSuffix(line, []byte("}")); ok {
				line = fmt.Appendf(body[:len(body):len(body)], sumFormat, crc32.Checksum(body, table))
			}
			sealed.Write(append(line[:len(line):len(line)], '\n'))
		}
		var h History
		for e, err := range Read(&sealed) {
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatal(err)
				}
				continue
			}
			h.Apply(e)
		}
		h.NextID()
		h.Open()
		view, _ := message.View(h.Messages, message.Rules{Model: "m"})
		if problems := message.Check(view, message.Rules{Model: "m"}); len(problems) > 0 {
			t.Fatalf("the view breaks rules: %v", problems)
		}
	})
}

func BenchmarkAppendSync(b *testing.B) {
	j, err := Store{Dir: b.TempDir(), Project: "/p"}.Create("one")
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	e := Event{Version: 1, Seq: 1, Body: &Message{Message: message.NewText("m1", strings.Repeat("word ", 400))}}
	b.Run("journal", func(b *testing.B) {
		for b.Loop() {
			if err := errors.Join(j.Append(e), j.Sync()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare_disk", func(b *testing.B) {
		line, _ := Encode(e)
		f, err := os.Create(filepath.Join(b.TempDir(), "f"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for b.Loop() {
			if _, err := f.Write(line); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkTurnSync appends the events of one turn with a call, synced where a
// run syncs them, and beside it the same bytes with as many bare syncs, and with
// one.
func BenchmarkTurnSync(b *testing.B) {
	text := strings.Repeat("word ", 400)
	answer := &message.Message{ID: "m2", Role: message.Assistant, Blocks: []message.Block{{Type: message.Text, Text: text}}}
	turn := []struct {
		body Body
		sync bool
	}{
		{&Decision{Outcome: "fits", Step: "sample"}, false}, {&Begin{Attempt: 1, Model: "m"}, false},
		{&Commit{Attempt: 1, Message: answer}, true}, {&Decision{Outcome: "called", Step: "run tools"}, false},
		{&Permission{Call: "c", Allowed: true}, false}, {&Intent{Call: "c", Effect: "unsafe"}, true}, {&Intent{Call: "c", Effect: "unsafe", Group: 9}, true},
		{&Result{Call: "c", Block: message.TextResult("c", text, false)}, true}, {&Results{ID: "m3", Calls: []string{"c"}}, false},
	}
	j, err := Store{Dir: b.TempDir(), Project: "/p"}.Create("one")
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	b.Run("journal", func(b *testing.B) {
		for b.Loop() {
			for _, step := range turn {
				err := j.Append(Event{Version: 1, Seq: 1, Body: step.body})
				if step.sync && err == nil {
					err = j.Sync()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	var lines [][]byte
	for _, step := range turn {
		line, err := Encode(Event{Version: 1, Seq: 1, Body: step.body})
		if err != nil {
			b.Fatal(err)
		}
		lines = append(lines, line)
	}
	for _, syncs := range []string{"bare_same_syncs", "bare_one_sync"} {
		b.Run(syncs, func(b *testing.B) {
			f, err := os.Create(filepath.Join(b.TempDir(), "f"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			for b.Loop() {
				for i, line := range lines {
					_, err := f.Write(line)
					if last := i == len(lines)-1; err == nil && (syncs == "bare_same_syncs" && turn[i].sync || syncs == "bare_one_sync" && last) {
						err = f.Sync()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
