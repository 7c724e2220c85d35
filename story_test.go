package daruma_test

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/builtin"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden logs of the stories")

// TestStories plays every story: a fault script, files, a prompt, and under
// them the whole log of what happened. Read the difference before you accept it.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := readStory(t, file, archive)
			synctest.Test(t, s.play)
			s.compare(t, file, archive)
		})
	}
}

// story is one txtar file.
type story struct {
	script  *fault.Script
	prompts []string // "prompt", "prompt2", …: one run each
	config  daruma.Config
	files   []txtar.File
	root    string
	got     strings.Builder
	began   time.Time
}

func readStory(t *testing.T, file string, archive *txtar.Archive) *story {
	s := &story{root: t.TempDir(), config: daruma.Config{
		Models: []string{"claude-primary"}, System: []string{"Working directory: ."}, Session: "story",
		Rand: func() float64 { return 0 },
	}}
	for _, f := range archive.Files {
		text := strings.TrimSpace(string(f.Data))
		switch {
		case f.Name == "script":
			var err error
			if s.script, err = fault.Parse(file, string(f.Data)); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(f.Name, "prompt"):
			s.prompts = append(s.prompts, text)
		case f.Name == "config":
			s.configure(t, text)
		case f.Name == "log":
		default:
			s.files = append(s.files, f)
		}
	}
	return s
}

// configure reads "key value" lines.
func (s *story) configure(t *testing.T, text string) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "fallback":
			s.config.Models = append(s.config.Models, value)
		case "max-turns":
			fmt.Sscan(value, &s.config.MaxTurns)
		case "max-tokens":
			fmt.Sscan(value, &s.config.MaxTokens)
		case "unstreamed":
			s.config.Unstreamed = true
		case "token-budget":
			fmt.Sscan(value, &s.config.TokenBudget)
		case "window":
			fmt.Sscan(value, &s.config.Window)
		case "retries":
			p := retry.Default()
			fmt.Sscan(value, &p.Retries)
			s.config.Retry = &p
		case "file": // NAME LINES: one that is too long for a story
			var name string
			var lines int
			fmt.Sscan(value, &name, &lines)
			s.files = append(s.files, txtar.File{Name: name, Data: fileOf(lines)})
		case "mode":
			s.config.Permission = &permission.Policy{Mode: permission.Mode(value), Root: s.root}
		default:
			t.Fatalf("config: unknown key %q", key)
		}
	}
}

func fileOf(lines int) []byte {
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "entry %d: the quick brown fox jumps over the lazy dog\n", i)
	}
	return b.Bytes()
}

func (s *story) play(t *testing.T) {
	s.began = time.Now()
	for _, f := range s.files {
		path := filepath.Join(s.root, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		data := f.Data
		if name, encoded := strings.CutSuffix(path, ".base64"); encoded { // what is no text
			var err error
			if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(f.Data))); err != nil {
				t.Fatal(err)
			}
			path = name
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	network := fault.NewMemoryNet()
	server := fault.New(s.script, fault.Options{}).Serve(network)
	wire, err := anthropic.New(anthropic.Config{BaseURL: "http://fault.test", APIKey: "key-of-the-story", DialContext: network.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	s.config.Wire = wire
	s.config.Tools = s.tools(t)
	journal, dir := s.journal(t)
	s.config.Journal = journal
	agent, err := daruma.New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	var events []session.Event
	for _, prompt := range s.prompts {
		for e, err := range agent.Run(t.Context(), prompt) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	wire.DropIdle()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	laws(t, events, agent, server.Report())
	journalIsMemory(t, agent, journal, dir)
	s.tell(events)
	fmt.Fprintf(&s.got, "\n%s", landing(server.Report()))
}

func (s *story) tools(t *testing.T) *tool.Set {
	ws, err := builtin.New(builtin.Config{Root: s.root, Spill: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(ws.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (s *story) journal(t *testing.T) (*session.Journal, session.Store) {
	store := session.Store{Dir: t.TempDir(), Project: s.root}
	j, err := store.Create("story")
	if err != nil {
		t.Fatal(err)
	}
	return j, store
}

func (s *story) compare(t *testing.T, file string, archive *txtar.Archive) {
	got := strings.ReplaceAll(s.got.String(), s.root, "$WORK")
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "log" })
	if i < 0 {
		i = len(archive.Files)
		archive.Files = append(archive.Files, txtar.File{Name: "log"})
	}
	if *update {
		archive.Files[i].Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := string(archive.Files[i].Data); got != want {
		t.Errorf("the story goes differently; run go test -run TestStories -update . and read git diff\n%s", got)
	}
}

func landing(r fault.Report) string {
	var b strings.Builder
	for _, l := range r.Landing {
		fmt.Fprintf(&b, "%s %s: fired %d\n", l.Kind, l.ID, l.Fired)
	}
	return b.String()
}

// laws are what holds after every run, whatever failed in it.
func laws(t *testing.T, events []session.Event, agent *daruma.Agent, report fault.Report) {
	t.Helper()
	for _, v := range report.Violations {
		t.Errorf("the server saw a violation of the protocol: %s", v)
	}
	if missed := report.Missed(); len(missed) > 0 {
		t.Errorf("faults that never landed: %v", missed)
	}
	open, ended := map[int]bool{}, false
	surfaced := 0
	for i, e := range events {
		switch b := e.Body.(type) {
		case *session.RunStart:
			ended, surfaced = false, 0
		case *session.Begin:
			open[b.Attempt] = true
		case *session.Commit:
			closeAttempt(t, open, b.Attempt)
		case *session.Continue:
			closeAttempt(t, open, b.Attempt)
		case *session.Retract:
			closeAttempt(t, open, b.Attempt)
		case *session.Message:
			if b.Message.Failure == nil {
				break
			}
			surfaced++
			if next := i + 1; next >= len(events) || events[next].Type() != session.TypeEnd {
				t.Errorf("an error was shown, but the run went on with %s", events[next].Type())
			}
		case *session.End:
			if ended {
				t.Error("two ends in one run")
			}
			ended = true
			if b.IsError == (b.Reason == loop.Completed) {
				t.Errorf("is_error is %v for %s", b.IsError, b.Reason)
			}
		}
	}
	if !ended || events[len(events)-1].Type() != session.TypeEnd {
		t.Error("the run has no end, or something comes after it")
	}
	if surfaced > 1 {
		t.Errorf("%d errors were shown", surfaced)
	}
	for n := range open {
		t.Errorf("attempt %d was never settled", n)
	}
	foldIsMemory(t, agent, events)
}

func closeAttempt(t *testing.T, open map[int]bool, n int) {
	if !open[n] {
		t.Errorf("attempt %d ended twice, or never began", n)
	}
	delete(open, n)
}

// foldIsMemory holds that the events, written as lines and read again, amount
// to what the agent has in memory.
func foldIsMemory(t *testing.T, agent *daruma.Agent, events []session.Event) {
	var read session.History
	for _, e := range events {
		if !e.Type().Durable() {
			continue
		}
		line, err := session.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := session.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		read.Apply(again)
	}
	sameHistory(t, &read, agent.History())
}

// journalIsMemory holds the same of the file on disk.
func journalIsMemory(t *testing.T, agent *daruma.Agent, journal *session.Journal, store session.Store) {
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	again, read, damaged, err := store.Open("story")
	if err != nil || damaged != 0 {
		t.Fatalf("open the journal again: %v, %d damaged lines", err, damaged)
	}
	defer again.Close()
	sameHistory(t, read, agent.History())
}

func sameHistory(t *testing.T, read, live *session.History) {
	t.Helper()
	if len(read.Messages) != len(live.Messages) || read.Seq != live.Seq || !slices.Equal(read.Queued, live.Queued) {
		t.Fatalf("the log holds %d messages up to event %d, memory %d up to %d", len(read.Messages), read.Seq, len(live.Messages), live.Seq)
	}
	for i, m := range live.Messages {
		r := read.Messages[i]
		if r.ID != m.ID || r.Role != m.Role || r.PlainText() != m.PlainText() || len(r.Blocks) != len(m.Blocks) {
			t.Errorf("message %d differs between log and memory", i)
		}
	}
}
