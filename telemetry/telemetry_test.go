package telemetry_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/telemetry"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite the golden trees")

// fake is a tool that does what its name says.
type fake struct {
	name   string
	effect tool.Effect
	run    func(context.Context, tool.Call) tool.Result
}

func (f fake) Spec() model.Tool {
	return model.Tool{Name: f.name, Description: "simulated", Schema: jsontext.Value(
		`{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}}}`)}
}
func (f fake) Effect(jsontext.Value) tool.Effect                { return f.effect }
func (f fake) Access(jsontext.Value) tool.Access                { return tool.Access{Kind: tool.AccessNone} }
func (f fake) Run(ctx context.Context, c tool.Call) tool.Result { return f.run(ctx, c) }
func ok(context.Context, tool.Call) tool.Result {
	time.Sleep(2 * time.Second)
	return tool.Text("ok")
}
func hang(ctx context.Context, _ tool.Call) tool.Result {
	<-ctx.Done()
	return tool.Fail(tool.ClassAborted, "stopped")
}
func broken(context.Context, tool.Call) tool.Result {
	return tool.Fail("ENOENT", "no file for "+secret)
}
func chatty(context.Context, tool.Call) tool.Result {
	return tool.Fail("it failed with "+secret, secret)
}
func panicking(context.Context, tool.Call) (never tool.Result) { panic(secret) }
func large(_ context.Context, c tool.Call) tool.Result {
	time.Sleep(time.Second)
	if strings.Contains(string(c.Input), "big") {
		time.Sleep(time.Second) // so that the order of results is known
		return tool.Text(strings.Repeat("some words of a large file, again and again\n", 200))
	}
	return tool.Text("ok")
}

// secret is planted wherever somebody can say something.
const secret = "moonlight-sonata-4711"

// stage is an agent before a fault server in memory, and what watches it.
type stage struct {
	rec      *recorder
	observer *telemetry.Observer
	agent    *daruma.Agent
	events   []session.Event
	finish   func()
}

// play sets the stage. It has to be called inside of a bubble.
func play(t *testing.T, script string, change func(*telemetry.Config)) *stage {
	t.Helper()
	parsed, err := fault.Parse("script", script)
	if err != nil {
		t.Fatal(err)
	}
	network := fault.NewMemoryNet()
	server := fault.New(parsed, fault.Options{}).Serve(network)
	wire, err := anthropic.New(anthropic.Config{BaseURL: "http://fault.test", APIKey: "any-key", DialContext: network.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(
		fake{"Read", tool.Pure, large}, fake{"Write", tool.Unsafe, ok}, fake{"Hang", tool.Unsafe, hang},
		fake{"Broken", tool.Unsafe, broken}, fake{"Chatty", tool.Pure, chatty}, fake{"Panicking", tool.Unsafe, panicking},
		fake{"Forbidden", tool.Unsafe, ok},
	)
	if err != nil {
		t.Fatal(err)
	}
	deny, err := permission.ParseRule("Forbidden")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{rec: newRecorder()}
	cfg := telemetry.Config{Tracer: s.rec, Provider: "anthropic"}
	if change != nil {
		change(&cfg)
	}
	s.observer = telemetry.New(cfg)
	s.agent, err = daruma.New(daruma.Config{
		Wire: wire, Models: []string{"claude-a", "claude-b"}, Tools: set, Session: "story", Build: "v1",
		System: []string{"Be brief."}, Rand: func() float64 { return 0 },
		Permission: &permission.Policy{Mode: permission.Bypass, Deny: []permission.Rule{deny}, Root: "/w"},
		Observe:    func(e session.Event) { s.events = append(s.events, e); s.observer.Observe(e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.finish = func() {
		wire.DropIdle()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		report := server.Report()
		for _, v := range report.Violations {
			t.Errorf("the server saw a violation of the protocol: %s", v)
		}
		for _, p := range report.Problems {
			t.Errorf("the script cannot be played: %s", p)
		}
	}
	return s
}

// run runs a prompt, and does something at each event; the run is left when
// that says so.
func (s *stage) run(t *testing.T, prompt string, at func(session.Event) (leave bool)) {
	t.Helper()
	for e, err := range s.agent.Run(t.Context(), prompt) {
		if err != nil {
			t.Fatal(err)
		}
		if at != nil && at(e) {
			break
		}
	}
}

// turns are the stories in which somebody steps in.
var turns = map[string]func(*stage, session.Event) (leave bool){
	"interrupt": func(s *stage, e session.Event) bool {
		if in, ok := e.Body.(*session.Intent); ok && in.Name == "Hang" {
			s.agent.Interrupt()
		}
		return false
	},
	"leave": func(_ *stage, e session.Event) bool { return e.Type() == session.TypeDelta && e.Turn == 2 },
}

// TestTrees plays stories, and compares the whole tree of their spans.
func TestTrees(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) != 2 || archive.Files[0].Name != "script" || archive.Files[1].Name != "tree" {
				t.Fatal("a story has a script and a tree")
			}
			var got string
			synctest.Test(t, func(t *testing.T) {
				s := play(t, string(archive.Files[0].Data), nil)
				s.run(t, "Do the task, and keep "+secret+" for yourself.", func(e session.Event) bool {
					return turns[name] != nil && turns[name](s, e)
				})
				s.finish()
				got = s.rec.tree()
				lawful(t, s.rec)
				if places := s.rec.holding(secret); len(places) > 0 {
					t.Errorf("the secret stands in %v", places)
				}
				s.observer.Close()
				s.observer.Observe(s.events[len(s.events)-1])
				if again := s.rec.tree(); again != got {
					t.Errorf("after its end the run changed:\n%s", cmp.Diff(got, again))
				}
				replay(t, s)
			})
			if *update {
				archive.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("run with -update to accept:\n%s", diff)
			}
		})
	}
}

// replay holds that a journal tells the same as the run did, but for what only
// a live one has: its waits.
func replay(t *testing.T, s *stage) {
	t.Helper()
	replayed := newRecorder()
	replayed.began = s.rec.began
	o := telemetry.New(telemetry.Config{Tracer: replayed, Provider: "anthropic"})
	for _, e := range s.events {
		if !e.Type().Durable() {
			continue
		}
		line, err := session.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if e, err = session.Decode(line); err != nil {
			t.Fatal(err)
		}
		o.Observe(e)
	}
	for _, sp := range s.rec.spans {
		for i := len(sp.names) - 1; i >= 0; i-- {
			if sp.names[i] == "daruma.wait" {
				sp.names, sp.events = append(sp.names[:i:i], sp.names[i+1:]...), append(sp.events[:i:i], sp.events[i+1:]...)
			}
		}
	}
	if diff := cmp.Diff(s.rec.tree(), replayed.tree()); diff != "" {
		t.Errorf("the journal tells another story:\n%s", diff)
	}
}

// eventful is a script that makes a run write every kind of event.
func eventful(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/eventful.fault")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStopAnywhere steps in at every event of an eventful run but its deltas:
// every span that began is ended once, and the reason is told.
func TestStopAnywhere(t *testing.T) {
	for name, stop := range map[string]func(*daruma.Agent) (leave bool){
		"interrupt": func(a *daruma.Agent) bool { a.Interrupt(); return false },
		"leave":     func(*daruma.Agent) bool { return true },
		"shutdown":  func(a *daruma.Agent) bool { a.Shutdown(); return false },
	} {
		t.Run(name, func(t *testing.T) {
			for k, reached := 0, true; reached && !t.Failed(); k++ {
				reached = false
				synctest.Test(t, func(t *testing.T) {
					s, n := play(t, eventful(t), nil), 0
					s.run(t, "Do the task.", func(e session.Event) bool {
						if e.Type() == session.TypeDelta {
							return false
						}
						n++
						reached = reached || n > k
						return n == k+1 && stop(s.agent)
					})
					s.finish()
					lawful(t, s.rec)
					root := s.rec.spans[0]
					if reason := root.attr("daruma.reason"); reason == "" {
						t.Errorf("the end did not reach the observer")
					} else if strings.HasPrefix(reason, "aborted_") != (root.attr("daruma.interrupted") == "true") {
						t.Errorf("reason %s, interrupted %q", reason, root.attr("daruma.interrupted"))
					}
				})
			}
		})
	}
}

// TestLost ends the observation behind every event, as the death of a process
// does: what is open is ended by Close, and told apart from what has an end.
func TestLost(t *testing.T) {
	var events []session.Event
	synctest.Test(t, func(t *testing.T) {
		s := play(t, eventful(t), nil)
		s.run(t, "Do the task.", nil)
		s.finish()
		events = s.events
	})
	for k := range events {
		rec := newRecorder()
		o := telemetry.New(telemetry.Config{Tracer: rec, Provider: "anthropic"})
		for _, e := range events[:k] {
			o.Observe(e)
		}
		o.Close()
		o.Close()
		lawful(t, rec)
		if len(rec.spans) > 0 && rec.spans[0].attr("error.type") != "unfinished" {
			t.Errorf("lost behind %s: %s", events[k].Type(), rec.tree())
		}
		for _, e := range events { // the next run, of the same observer
			o.Observe(e)
		}
		if lawful(t, rec); rec.spans[len(rec.spans)-1].ends != 1 {
			t.Errorf("lost behind %s, nothing more is observed", events[k].Type())
		}
		if t.Failed() {
			return
		}
	}
}

// TestPanic lets the consumer panic: the run has no end, until Close gives it one.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, eventful(t), nil)
		func() {
			defer func() { _ = recover() }()
			defer s.observer.Close()
			s.run(t, "Do the task.", func(e session.Event) bool {
				if e.Type() == session.TypeDelta {
					panic("the consumer")
				}
				return false
			})
		}()
		s.finish()
		lawful(t, s.rec)
		if root := s.rec.spans[0]; root.attr("error.type") != "unfinished" || root.attr("daruma.reason") != "" {
			t.Errorf("the run looks like\n%s", s.rec.tree())
		}
	})
}

// TestContent holds that words are told only on demand, without known secrets,
// and bounded.
func TestContent(t *testing.T) {
	const script = `model
  rule act
    when first
    say "I try moonlight-sonata-4711."
    call Broken file_path="moonlight-sonata-4711"
  rule done
    say "Done."
`
	for _, c := range []struct {
		name   string
		change func(*telemetry.Config)
		places []string
	}{
		{"none", nil, nil},
		{"all", func(c *telemetry.Config) { c.Content = true }, []string{
			"#1 gen_ai.input.messages", "#2 gen_ai.output.messages",
			"#3 gen_ai.tool.call.arguments", "#3 gen_ai.tool.call.result",
		}},
		{"redacted", func(c *telemetry.Config) { c.Content, c.Redact = true, failure.NewRedactor(secret) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t, script, c.change)
				s.run(t, secret+strings.Repeat(" and so on", 10_000), nil)
				s.finish()
				lawful(t, s.rec)
				if got := s.rec.holding(secret); !slices.Equal(got, c.places) {
					t.Errorf("the secret stands in %q, want %q", got, c.places)
				}
				for where, text := range s.rec.texts() {
					if len(text) > 17<<10 {
						t.Errorf("%s has %d bytes", where, len(text))
					}
				}
				if root := s.rec.spans[0]; (c.change == nil) != (root.attr("gen_ai.output.messages") == "") {
					t.Errorf("the answer: %q", root.attr("gen_ai.output.messages"))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := play(t, script, func(c *telemetry.Config) { c.Content = true })
		s.run(t, "A \"question\".", nil)
		s.finish()
		for key, want := range map[string]string{
			"gen_ai.input.messages":  `[{"role":"user","parts":[{"type":"text","content":"A \"question\"."}]}]`,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"Done."}],"finish_reason":"stop"}]`,
		} {
			if got := s.rec.spans[0].attr(key); got != want {
				t.Errorf("%s = %s, want %s", key, got, want)
			}
		}
	})
}

// every is one event of each type that a run can tell, with nothing in it.
func every() []session.Event {
	var out []session.Event
	for _, b := range []session.Body{
		nil, new(session.Start), new(session.RunStart), new(session.Prompt), new(session.Message), new(session.Decision),
		new(session.Begin), new(session.Block), new(session.Delta), new(session.Checkpoint), new(session.Commit),
		new(session.Continue), new(session.Retract), new(session.Recovery), new(session.Waiting), new(session.Intent),
		new(session.Progress), new(session.Result), new(session.Results), new(session.Permission),
		new(session.Compaction), new(session.Repair), new(session.Mismatch), new(session.Notice), new(session.End),
		new(session.Unknown),
	} {
		out = append(out, session.Event{Session: "s", Run: 1, Body: b})
	}
	return out
}

// TestAnyOrder feeds events that say nothing, in orders in which no run tells
// them.
func TestAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rec := newRecorder()
		o := telemetry.New(telemetry.Config{Tracer: rec, Provider: "p", Content: r.IntN(2) == 0})
		o.Observe(session.Event{Session: "s", Run: 1, Body: new(session.RunStart)})
		for range 3 {
			events := every()
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for _, e := range events {
				o.Observe(e)
			}
		}
		n := len(rec.spans)
		o.Observe(session.Event{Session: "s", Run: 1, Body: new(session.RunStart)})
		o.Close()
		if len(rec.spans) != n+1 {
			t.Fatalf("the observer panicked, and gave up: %d spans, then %d", n, len(rec.spans))
		}
		if lawful(t, rec); t.Failed() {
			t.Fatal(rec.tree())
		}
	}
}

// TestOtherRuns holds that events of other runs and sessions, and those outside
// of runs, change nothing.
func TestOtherRuns(t *testing.T) {
	rec := newRecorder()
	o := telemetry.New(telemetry.Config{Tracer: rec, Provider: "p"})
	o.Observe(session.Event{Session: "s", Run: 1, Body: new(session.End)})
	o.Observe(session.Event{Session: "s", Run: 2, Body: new(session.RunStart)})
	o.Observe(session.Event{Session: "s", Run: 1, Body: &session.Begin{Attempt: 1}})
	o.Observe(session.Event{Session: "t", Run: 2, Body: new(session.End)})
	if len(rec.spans) != 1 || rec.spans[0].ends != 0 {
		t.Errorf("spans:\n%s", rec.tree())
	}
	o.Close()
}

// TestParent holds that a run can be a part of something else.
func TestParent(t *testing.T) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{7}, Remote: true})
	rec := newRecorder()
	o := telemetry.New(telemetry.Config{Tracer: rec, Parent: parent})
	o.Observe(session.Event{Run: 1, Body: new(session.RunStart)})
	o.Observe(session.Event{Run: 1, Body: new(session.Begin)})
	if run := rec.spans[0]; !run.parent.Equal(parent) || rec.spans[1].parent.SpanID() != run.SpanContext().SpanID() ||
		rec.spans[1].SpanContext().TraceID() != parent.TraceID() {
		t.Errorf("the run is a part of %v", run.parent)
	}
}

// bomb is a tracer that panics; it has to be called once for that.
type bomb struct {
	embedded.Tracer
	calls int
}

func (b *bomb) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	b.calls++
	panic("the tracer")
}

// TestTracerPanics holds that a run survives its tracer, and that without a
// tracer nothing happens.
func TestTracerPanics(t *testing.T) {
	b := new(bomb)
	for _, o := range []*telemetry.Observer{telemetry.New(telemetry.Config{Tracer: b}), telemetry.New(telemetry.Config{})} {
		for range 2 {
			for _, e := range every() {
				o.Observe(e)
			}
		}
		o.Close()
	}
	if b.calls != 1 {
		t.Errorf("the tracer was called %d times, want once", b.calls)
	}
}

// TestDeltasAreFree holds that the most frequent events cost nothing.
func TestDeltasAreFree(t *testing.T) {
	o := telemetry.New(telemetry.Config{Tracer: newRecorder()})
	o.Observe(session.Event{Run: 1, Body: new(session.RunStart)})
	e := session.Event{Run: 1, Body: &session.Delta{Text: "some words"}}
	if n := testing.AllocsPerRun(100, func() { o.Observe(e) }); n != 0 {
		t.Errorf("a delta makes %v allocations", n)
	}
	o.Close()
}
