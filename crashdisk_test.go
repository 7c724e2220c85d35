package daruma_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
)

// remains says what a crash leaves of the bytes that were written and not
// synced.
type remains int

const (
	leaveNothing remains = iota
	leaveAll
	leaveHalf // … of the last line
	leaveSome // any number of bytes
	leaveHole // all but one line, in whose place are zeros
)

// death is what a process dies of when its disk says so.
type death struct{}

// disk stands before the file of a journal. It holds back what is not synced,
// and ends the process at one of its operations.
type disk struct {
	session.File
	dieAt   int // number of the operation, from 1; 0: never
	late    bool
	remains remains
	rand    *rand.Rand

	ops     int
	pending [][]byte
	kept    []session.Event // that the file holds
	dead    bool
}

func (d *disk) Write(p []byte) (int, error) {
	return len(p), d.do(func() { d.pending = append(d.pending, bytes.Clone(p)) })
}

func (d *disk) Sync() error { return d.do(d.flush) }

func (d *disk) Truncate(size int64) error { return errors.New("nothing has to be taken back here") }

func (d *disk) Close() error {
	if !d.dead {
		d.flush()
	}
	return d.File.Close()
}

// do is one operation. The process dies before it or, if it is late, after it.
func (d *disk) do(op func()) error {
	if d.dead {
		return errors.New("the process is dead")
	}
	d.ops++
	if d.ops != d.dieAt || d.late {
		op()
	}
	if d.ops == d.dieAt {
		d.dead = true
		d.leave()
		panic(death{})
	}
	return nil
}

// flush is what a sync does, but for the waiting.
func (d *disk) flush() {
	for _, line := range d.pending {
		d.keep(line)
		d.put(line)
	}
	d.pending = nil
}

func (d *disk) put(p []byte) {
	if _, err := d.File.Write(p); err != nil {
		panic(err)
	}
}

// keep remembers the event of a line.
func (d *disk) keep(line []byte) {
	e, err := session.Decode(bytes.TrimLeft(line, "\n"))
	if err != nil {
		panic(err)
	}
	d.kept = append(d.kept, e)
}

// leave writes what the crash leaves of the pending lines.
func (d *disk) leave() {
	if len(d.pending) == 0 {
		return
	}
	last := len(d.pending) - 1
	total := len(bytes.Join(d.pending, nil))
	left, hole := 0, -1
	switch d.remains {
	case leaveAll:
		left = total
	case leaveHalf:
		left = total - len(d.pending[last])/2
	case leaveSome:
		left = d.rand.IntN(total + 1)
	case leaveHole:
		left, hole = total, d.rand.IntN(last+1)
	}
	for i, line := range d.pending {
		part := line[:min(left, len(line))]
		left -= len(part)
		whole := len(part) >= len(line)-1 && len(part) > 0 // the line break may lack
		switch {
		case i == hole:
			part = make([]byte, len(line))
		case hole >= 0 && i == hole+1: // it stands on a line with the zeros
		case whole:
			d.keep(line)
		}
		d.put(part)
	}
}

// world is what tools changed, over all lives of a session.
type world struct {
	mu    sync.Mutex
	calls map[string]int // executions by call
	files map[string]int // and by file
}

// worldTool is a simTool whose effects are counted.
type worldTool struct {
	simTool
	world *world
}

func (w *worldTool) Run(ctx context.Context, c tool.Call) tool.Result {
	var in struct {
		Path string `json:"file_path"`
	}
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return tool.Refuse(tool.ClassBadInput, err.Error())
	}
	// As a command does, and as Write does: nothing happens before it is on disk.
	if err := c.Started(1<<30, time.Now()); err != nil {
		return tool.Refuse(tool.ClassAborted, err.Error())
	}
	if err := c.Saved("/saga/"+in.Path, nil, []byte("x")); err != nil {
		return tool.Refuse(tool.ClassAborted, err.Error())
	}
	time.Sleep(20 * time.Millisecond)
	w.world.mu.Lock()
	w.world.calls[c.ID]++
	w.world.files[in.Path]++
	w.world.mu.Unlock()
	return w.simTool.Run(ctx, c)
}

// saga is the story of one session whose process dies again and again.
type saga struct {
	script   string
	seed     uint64 // chance of what is left
	lives    []life // after these it lives on
	submitAt int    // the event of the first life at which another prompt is submitted; 0: never
}

// life is how a process dies.
type life struct {
	op      int // of its journal
	late    bool
	remains remains
}

// TestCrashAtEveryOperation lets the process die at each write and each sync of
// the journal of one rich run, before it and after it, with every kind of what
// a disk may keep.
func TestCrashAtEveryOperation(t *testing.T) {
	healthy := saga{script: sagaScript}.tell(t)
	for _, want := range []session.Type{session.TypeRetract, session.TypeContinue, session.TypeCompaction, session.TypeIntent, session.TypeRecovery, session.TypeFileSaved} {
		if healthy.types[want] == 0 {
			t.Fatalf("the run writes no %s", want)
		}
	}
	if healthy.types[session.TypeIntent] < 4 || healthy.ops < 60 {
		t.Fatalf("a poor run: %d operations, %v", healthy.ops, healthy.types)
	}
	step := 1
	if testing.Short() {
		step = 25
	}
	for op := 1; op <= healthy.ops; op += step {
		t.Run(fmt.Sprint(op), func(t *testing.T) {
			t.Parallel()
			for _, late := range []bool{false, true} {
				for r := leaveNothing; r <= leaveHole; r++ {
					saga{script: sagaScript, seed: uint64(op), lives: []life{{op, late, r}}}.tell(t)
				}
			}
		})
	}
}

// TestCrashSeeds lets processes die at random operations, up to three in a row,
// under random faults.
func TestCrashSeeds(t *testing.T) {
	if *simSeed != 0 {
		sagaOf(*simSeed).tell(t)
		return
	}
	n := uint64(1000)
	if testing.Short() {
		n = 60
	}
	shares := uint64(runtime.GOMAXPROCS(0))
	for share := range shares {
		t.Run(fmt.Sprintf("share%d", share), func(t *testing.T) {
			t.Parallel()
			for seed := 1 + share; seed <= n && !t.Failed(); seed += shares {
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { sagaOf(seed).tell(t) }) {
					t.Errorf("run it alone: go test -run TestCrashSeeds -seed %d .\n%s", seed, sagaOf(seed).script)
				}
			}
		})
	}
}

// passing are faults that every run gets over.
var passing = []string{
	"status 529", "status 500", "status 503", "status 429\n  header retry-after \"3\"", "reset headers", "close headers",
	"cut text 5 close", "cut tool reset", "cut tool-start end", "cut block 1 reset", "cut json close",
	"error text overloaded_error \"Overloaded\"", "error tool overloaded_error \"Overloaded\"", "truncate 20 tokens",
	"drop message_stop", "stop pause_turn", "noise pings 3", "chunk 7", "mangle cut content_block_delta",
}

func sagaOf(seed uint64) saga {
	r := rand.New(rand.NewPCG(seed, 11))
	s := saga{seed: seed}
	if r.IntN(2) == 0 {
		s.script = "window 2400\n"
	}
	for i := range r.IntN(4) {
		s.script += fmt.Sprintf("step s%d\n  when n %d..\n  %s\n", i, 1+r.IntN(8), passing[r.IntN(len(passing))])
	}
	s.script += sagaModel
	for range 1 + r.IntN(3) {
		s.lives = append(s.lives, life{1 + r.IntN(90), r.IntN(2) == 0, remains(r.IntN(int(leaveHole) + 1))})
	}
	if r.IntN(3) == 0 {
		s.submitAt = 1 + r.IntN(40)
	}
	return s
}

const sagaScript = `window 2400
step busy
  status 529
step break
  when results
  cut text 5 close
step short times 2
  when called Write "e"
  truncate 30 tokens
` + sagaModel

// sagaModel works on a list of steps. A step that was not run is taken again, as
// the result asks; one that may have taken effect is not.
const sagaModel = `
model
  rule again-g
    when called Write "\"g\"", result-of Write, result "was not run"
    call Write file_path="g" content="y"
  rule again-e
    when called Write "\"e\"", not called Write "\"g\"", result-of Write, result "was not run"
    call Write file_path="e" content="x"
  rule again-c
    when called Write "\"c\"", not called Write "\"e\"", result-of Write, result "was not run"
    call Write file_path="c" content="x"
  rule look
    when not called Read
    say "I look at two files."
    call Read file_path="a"
    call Read file_path="big"
  rule one
    when not called Write "\"c\""
    say "Now I write."
    call Write file_path="c" content="x"
  rule two
    when not called Write "\"e\""
    say "And the second." fill=30
    call Write file_path="e" content="x"
  rule three
    when not called Write "\"g\""
    say "And two more."
    call Write file_path="f" content="y"
    call Write file_path="g" content="y"
  rule report
    when called Write
    say "All done." fill=60
`

// told is what came of a saga.
type toldSaga struct {
	ops   int // of the journal of the last life
	types map[session.Type]int
}

const submitted2 = "Also say hello."

// tell lives through s and holds it to the laws.
func (s saga) tell(t *testing.T) (out toldSaga) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		script, err := fault.Parse("saga", s.script)
		if err != nil {
			t.Fatal(err)
		}
		network := fault.NewMemoryNet()
		server := fault.New(script, fault.Options{}).Serve(network)
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			for _, v := range server.Report().Violations {
				t.Errorf("the server saw a violation of the protocol: %s", v)
			}
			if t.Failed() {
				t.Logf("%s", server.Report())
			}
		}()
		p := &process{saga: s, t: t, dir: dir, network: network, world: &world{calls: map[string]int{}, files: map[string]int{}}}
		for n := 0; ; n++ {
			if alive := p.live(n); alive {
				break
			}
		}
		p.laws()
		out.ops, out.types = p.disk.ops, map[session.Type]int{}
		for _, e := range p.disk.kept {
			out.types[e.Type()]++
		}
	})
	return out
}

// process is the one that works on the session at present, and what is known of
// those before it.
type process struct {
	saga
	t       *testing.T
	dir     string
	network *fault.MemoryNet
	world   *world
	disk    *disk
	agent   *daruma.Agent
	doubts  map[string]bool // calls that a resume found in doubt
	result  *daruma.Result
}

// live is the life of process n; it reports whether it reached its end.
func (p *process) live(n int) (alive bool) {
	store := session.Store{Dir: p.dir, Project: "/saga"}
	d := &disk{rand: rand.New(rand.NewPCG(p.seed, uint64(n)))}
	if n < len(p.lives) {
		d.dieAt, d.late, d.remains = p.lives[n].op, p.lives[n].late, p.lives[n].remains
	}
	if p.disk != nil {
		d.kept = p.disk.kept
	}
	p.disk = d
	store.Disk = func(f session.File) session.File { d.File = f; return d }
	journal, history := p.open(store, n)
	defer func() {
		d.dieAt = 0
		if err := journal.Close(); err != nil && !d.dead {
			p.t.Error(err)
		}
		if d.dead { // the dead cannot take their signature away
			if err := os.WriteFile(strings.TrimSuffix(journal.Path(), ".jsonl")+".owner", []byte("a dead process"), 0o600); err != nil {
				p.t.Error(err)
			}
		}
	}()
	wire := p.employ(journal, history)
	defer wire.DropIdle()
	var observed []session.Event
	defer func() {
		switch r := recover().(type) {
		case nil:
		case death:
			p.remember(observed)
		default:
			panic(r)
		}
	}()
	prompt := "Do the task."
	if n > 0 {
		prompt = "Go on."
	}
	result, err := daruma.Collect(func(yield func(session.Event, error) bool) {
		for e, err := range p.agent.Run(p.t.Context(), prompt) {
			if err == nil && e.Type().Durable() {
				observed = append(observed, e)
			}
			if n == 0 && len(observed) == p.submitAt && p.submitAt > 0 {
				p.agent.Submit(submitted2)
			}
			if !yield(e, err) {
				return
			}
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.result = result
	return true
}

// open opens the journal, and holds what was read to what the disk kept.
func (p *process) open(store session.Store, n int) (*session.Journal, *session.History) {
	if n == 0 {
		journal, err := store.Create("saga")
		if err != nil {
			p.t.Fatal(err)
		}
		return journal, &session.History{Session: "saga"}
	}
	journal, history, _, err := store.Open("saga")
	if errors.Is(err, session.ErrNotFound) || len(p.disk.kept) == 0 && err != nil {
		p.t.Fatal(err)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	want := session.Fold(p.disk.kept)
	sameHistory(p.t, history, want)
	if len(history.Intents) != len(want.Intents) || len(history.Results) != len(want.Results) {
		p.t.Errorf("read %d intents and %d results, written were %d and %d", len(history.Intents), len(history.Results), len(want.Intents), len(want.Results))
	}
	if p.doubts == nil {
		p.doubts = map[string]bool{}
	}
	for call := range history.Intents {
		p.doubts[call] = true
	}
	return journal, history
}

func (p *process) employ(journal *session.Journal, history *session.History) *anthropic.Client {
	wire, err := anthropic.New(anthropic.Config{BaseURL: "http://fault.test", APIKey: "any-key", DialContext: p.network.DialContext})
	if err != nil {
		p.t.Fatal(err)
	}
	var bad []string
	set, err := tool.NewSet(
		&simTool{name: "Read", effect: tool.Pure, bad: &bad},
		&worldTool{simTool{name: "Write", effect: tool.Unsafe, bad: &bad}, p.world},
	)
	if err != nil {
		p.t.Fatal(err)
	}
	files := session.FilesOf(journal.Path())
	p.agent, err = daruma.New(daruma.Config{
		Files: &files,
		Wire:  wire, Models: []string{"claude-a", "claude-b"}, Tools: set, Session: "saga", System: []string{"Be brief."},
		Rand: func() float64 { return 0 }, Journal: journal, History: history,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return wire
}

// remember holds the memory of the process that just died to what it showed:
// what the next one reads is compared with that.
func (p *process) remember(observed []session.Event) {
	memory := p.agent.History()
	if len(observed) > 0 && memory.Seq != observed[len(observed)-1].Seq {
		p.t.Errorf("memory is at event %d, %d were shown", memory.Seq, observed[len(observed)-1].Seq)
	}
	whole := len(p.disk.kept) > 0 && p.disk.kept[len(p.disk.kept)-1].Seq == memory.Seq && p.disk.remains != leaveHole
	if whole { // nothing was lost: disk and memory are the same
		sameHistory(p.t, session.Fold(p.disk.kept), memory)
	}
}

// laws hold at the end of every saga.
func (p *process) laws() {
	if p.result.Reason != loop.Completed {
		p.t.Errorf("the run ended with %s: %v", p.result.Reason, p.result.Failure)
	}
	results, asked := map[string][]string{}, map[string]string{}
	started := false
	for _, e := range p.disk.kept {
		switch b := e.Body.(type) {
		case *session.Commit:
			writes(asked, b.Message)
		case *session.Continue:
			writes(asked, b.Message)
		case *session.Result:
			results[b.Call] = append(results[b.Call], b.Block.PlainText())
		case *session.Prompt:
			started = started || b.Text == submitted2
		}
	}
	notSure := map[string]bool{}
	for call, path := range asked {
		said, ran := results[call], p.world.calls[call]
		if len(said) != 1 {
			p.t.Errorf("call %s has %d results", call, len(said))
			continue
		}
		doubt := strings.Contains(said[0], "may have taken effect")
		notSure[path] = notSure[path] || doubt
		switch {
		case ran > 1:
			p.t.Errorf("call %s ran %d times", call, ran)
		case doubt != p.doubts[call]:
			p.t.Errorf("call %s in doubt: %v, the model was told %q", call, p.doubts[call], said[0])
		case doubt:
		case ran == 1 && strings.Contains(said[0], "was not run"), ran == 0 && !strings.Contains(said[0], "was not run"):
			p.t.Errorf("call %s ran %d times, and the model was told %q", call, ran, said[0])
		}
	}
	for _, path := range []string{"c", "e", "g"} {
		if n := p.world.files[path]; n != 1 && !(n == 0 && notSure[path]) {
			p.t.Errorf("step %s happened %d times (in doubt: %v)", path, n, notSure[path])
		}
	}
	if started && !slices.Contains(append(spoken(p.agent.History().Messages), p.agent.History().Queued...), submitted2) && !p.said(submitted2) {
		p.t.Error("a prompt that was submitted is lost")
	}
}

// writes adds the calls of Write in m, with the file of each.
func writes(asked map[string]string, m *message.Message) {
	if m == nil {
		return
	}
	for _, c := range m.Calls() {
		var in struct {
			Path string `json:"file_path"`
		}
		if c.Name == "Write" && json.Unmarshal(c.Input, &in) == nil {
			asked[c.ID] = in.Path
		}
	}
}

// said reports whether a message of the journal has this text.
func (p *process) said(text string) bool {
	return slices.ContainsFunc(p.disk.kept, func(e session.Event) bool {
		b, ok := e.Body.(*session.Message)
		return ok && b.Message.PlainText() == text
	})
}
