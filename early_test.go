package daruma_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// slow is a tool that takes its time, and remembers when it ran.
type slow struct {
	name   string
	effect tool.Effect
	access tool.AccessKind
	takes  time.Duration

	mu       sync.Mutex
	began    []time.Time
	causes   []error // why its calls were cut; nil for those that finished
	counting int     // calls that count: their answer was committed
}

func (s *slow) Spec() model.Tool {
	return model.Tool{Name: s.name, Schema: jsontext.Value(`{"type":"object"}`)}
}
func (s *slow) Effect(jsontext.Value) tool.Effect { return s.effect }
func (s *slow) Access(jsontext.Value) tool.Access { return tool.Access{Kind: s.access} }
func (s *slow) Run(ctx context.Context, c tool.Call) tool.Result {
	s.mu.Lock()
	s.began = append(s.began, time.Now())
	s.mu.Unlock()
	c.Committed(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counting++
	})
	var cause error
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.causes = append(s.causes, cause)
	if cause != nil {
		return tool.Fail(tool.ClassAborted, "cut: "+cause.Error())
	}
	return tool.Text("done")
}

// The call is complete after a few seconds, the answer a minute later.
const longAnswer = `step slowly
  when not results
  delay events 5s
model
  rule look
    when not results
    %s
    say "And now I think about what that will bring." fill=60
  rule done
    say "Good."
`

// TestEarlyStart: a pure call runs while its answer still streams; every other
// one waits for the commit (architecture: streams).
func TestEarlyStart(t *testing.T) {
	pure, bash := &slow{name: "Look", effect: tool.Pure, access: tool.AccessRead, takes: time.Second}, &slow{name: "Shell", effect: tool.Pure, access: tool.AccessShell}
	write := &slow{name: "Change", effect: tool.Unsafe, access: tool.AccessEdit}
	asks := func(cfg *daruma.Config) {
		rules, _ := permission.ParseRules("Look")
		cfg.Permission = &permission.Policy{Mode: permission.Bypass, Root: "/", Ask: rules}
		cfg.Ask = func(context.Context, permission.Question) (permission.Answer, error) {
			return permission.Answer{Behavior: permission.Allow}, nil
		}
	}
	for name, c := range map[string]struct {
		calls  string
		tool   *slow
		config func(*daruma.Config)
		early  bool
	}{
		"pure":                 {"call Look x=1", pure, nil, true},
		"with effects":         {"call Change x=1", write, nil, false},
		"behind one with such": {"call Change x=1\n    call Look x=1", pure, nil, false},
		"a command":            {"call Shell x=1", bash, nil, false},
		"must be asked about":  {"call Look x=1", pure, asks, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.tool.began, c.tool.counting = nil, 0
			p := lab{script: strings.Replace(longAnswer, "%s", c.calls, 1), config: func(cfg *daruma.Config) {
				cfg.Tools, _ = tool.NewSet(pure, bash, write)
				if c.config != nil {
					c.config(cfg)
				}
			}}.play(t)
			p.must(t, loop.Completed)
			var committed time.Time
			for _, e := range p.events {
				if _, ok := e.Body.(*session.Commit); ok && committed.IsZero() {
					committed = e.Time
				}
			}
			if len(c.tool.began) != 1 || c.tool.counting != 1 {
				t.Fatalf("it ran %d times, %d of them counted", len(c.tool.began), c.tool.counting)
			}
			if early := c.tool.began[0].Before(committed); early != c.early {
				t.Errorf("it began %s before the commit", committed.Sub(c.tool.began[0]))
			}
		})
	}
}

// TestEarlyCallIsDiscarded: what an answer started that is taken back ends, and
// nothing of it counts or is told.
func TestEarlyCallIsDiscarded(t *testing.T) {
	for name, fault := range map[string]string{
		"refusal":   "stop refusal",
		"malformed": "reply\n    call Look x=1\n    call-raw Look \"{broken\"\n    say \"and more\"",
	} {
		t.Run(name, func(t *testing.T) {
			look := &slow{name: "Look", effect: tool.Pure, access: tool.AccessRead, takes: time.Hour}
			script := "step bad\n  " + fault + "\n  delay events 5s\n" + `model
  rule look
    when n 1
    call Look x=1
    call Look x="a long input that is cut somewhere in the middle of it"
  rule done
    say "Good."
`
			p := lab{script: script, config: func(cfg *daruma.Config) { cfg.Tools, _ = tool.NewSet(look) }}.play(t)
			results := len(of[*session.Result](p))
			if len(of[*session.Retract](p)) == 0 {
				t.Fatal("nothing was taken back")
			}
			if results != 0 || look.counting != 0 {
				t.Errorf("%d results, %d of them count", results, look.counting)
			}
			if len(look.causes) == 0 || !strings.Contains(look.causes[0].Error(), "taken back") {
				t.Errorf("the early call was not ended for what it is: %v", look.causes)
			}
		})
	}
}

// TestCutInWhileToolsRun: a prompt that does not wait ends what changes nothing,
// lets finish what does, and keeps the rest from beginning (R79).
func TestCutInWhileToolsRun(t *testing.T) {
	look := &slow{name: "Look", effect: tool.Pure, access: tool.AccessRead, takes: time.Hour}
	write := &slow{name: "Change", effect: tool.Unsafe, access: tool.AccessEdit, takes: time.Minute}
	for name, c := range map[string]struct {
		calls   string
		results []string
	}{
		"pure":         {"call Look x=1\n    call Look x=2\n    call Change x=3", []string{"cut: a new prompt", "cut: a new prompt", "not run: the user sent"}},
		"with effects": {"call Change x=1\n    call Change x=2\n    call Look x=3", []string{"done", "not run: the user sent", "not run: the user sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := lab{
				script: strings.Replace("model\n  rule work\n    when not results\n    %s\n  rule done\n    say \"Good.\"\n", "%s", c.calls, 1),
				config: func(cfg *daruma.Config) { cfg.Tools, _ = tool.NewSet(look, write) },
				at: func(a *daruma.Agent, e session.Event) {
					if d, ok := e.Body.(*session.Decision); ok && strings.HasPrefix(d.Step, "tools") {
						time.AfterFunc(time.Second, func() { a.SubmitNow("Stop that.") })
					}
				},
			}.play(t)
			p.must(t, loop.Completed)
			results := of[*session.Result](p)
			for i, want := range c.results {
				if i >= len(results) || !strings.Contains(results[i].Block.PlainText(), want) {
					t.Fatalf("result %d of %d does not say %q", i+1, len(results), want)
				}
			}
			last := p.held[len(p.held)-2]
			if last.PlainText() != "Stop that." {
				t.Errorf("the prompt is not the last word before the answer: %q", last.PlainText())
			}
		})
	}
}
