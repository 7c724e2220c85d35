package daruma_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
)

// lab is one experiment: prompts against a fault script, in memory and in the
// time of a bubble.
type lab struct {
	script  string
	prompts []string // one run each; none means "Do the task."
	config  func(*daruma.Config)
	at      func(*daruma.Agent, session.Event) // sees each event as the consumer
}

// played is what came of it.
type played struct {
	events []session.Event
	ends   []*session.End
	sent   []*model.Request // of all sources
	report fault.Report
	held   []*message.Message // the conversation at the end
}

// play runs the experiment and holds it to the laws.
func (l lab) play(t *testing.T) *played {
	t.Helper()
	if len(l.prompts) == 0 {
		l.prompts = []string{"Do the task."}
	}
	p := &played{}
	synctest.Test(t, func(t *testing.T) { l.run(t, p) })
	return p
}

func (l lab) run(t *testing.T, p *played) {
	agent, finish := simulated(t, l.script, func(cfg *daruma.Config) {
		cfg.Wire, cfg.Models = &witness{Client: cfg.Wire.(*anthropic.Client), sent: &p.sent}, []string{"claude-a"}
		if l.config != nil {
			l.config(cfg)
		}
	})
	for _, prompt := range l.prompts {
		for e, err := range agent.Run(t.Context(), prompt) {
			if err != nil {
				t.Fatal(err)
			}
			p.events = append(p.events, e)
			if l.at != nil {
				l.at(agent, e)
			}
		}
		p.ends = append(p.ends, endOf(t, p.events))
	}
	p.report, p.held = finish(), agent.History().Messages
	defer func() {
		if t.Failed() {
			s := &story{began: p.events[0].Time}
			s.tell(p.events)
			t.Logf("%s\n%s", s.got.String(), p.report)
		}
	}()
	laws(t, p.events, agent, p.report)
	for _, b := range p.report.Problems {
		t.Error(b)
	}
}

// witness is a wire that remembers what was asked.
type witness struct {
	*anthropic.Client
	sent *[]*model.Request
	mu   sync.Mutex // sub-agents ask at the same time
}

func (w *witness) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Event, error] {
	w.mu.Lock()
	*w.sent = append(*w.sent, r)
	w.mu.Unlock()
	return w.Client.Stream(ctx, r)
}

// end is how the last run ended.
func (p *played) end() *session.End { return p.ends[len(p.ends)-1] }

// must ends the test unless the last run ended for reason.
func (p *played) must(t *testing.T, reason loop.Reason) *session.End {
	t.Helper()
	if end := p.end(); end.Reason != reason {
		t.Fatalf("the run ended with %s, not %s: %v", end.Reason, reason, end.Failure)
	}
	return p.end()
}

// of returns the bodies of one type.
func of[B session.Body](p *played) []B {
	var out []B
	for _, e := range p.events {
		if b, ok := e.Body.(B); ok {
			out = append(out, b)
		}
	}
	return out
}

// ways lists the recoveries in the order in which they began.
func (p *played) ways() []string {
	var out []string
	for _, r := range of[*session.Recovery](p) {
		if r.State == session.Running {
			out = append(out, r.Decision)
		}
	}
	return out
}

// asked lists what f says of each request for source; of all with an empty one.
func asked[V any](p *played, source model.Source, f func(*model.Request) V) []V {
	var out []V
	for _, r := range p.sent {
		if source == "" || r.Source == source {
			out = append(out, f(r))
		}
	}
	return out
}

func modelOf(r *model.Request) string { return r.Model }
func roomOf(r *model.Request) int     { return r.MaxTokens }

// same holds that got is want, element by element.
func same[V comparable](t *testing.T, what string, got []V, want ...V) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// tries is a Config with so many retries.
func tries(n int) func(*daruma.Config) {
	return func(c *daruma.Config) {
		p := retry.Default()
		p.Retries = n
		c.Retry = &p
	}
}

// chain is a Config with these models.
func chain(models ...string) func(*daruma.Config) {
	return func(c *daruma.Config) { c.Models = models }
}

func both(a, b func(*daruma.Config)) func(*daruma.Config) {
	return func(c *daruma.Config) { a(c); b(c) }
}
