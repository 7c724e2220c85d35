package daruma_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// withAgents gives a lab sub-agents beside its own tools.
func withAgents(s daruma.SubAgents, more ...func(*daruma.Config)) func(*daruma.Config) {
	return func(cfg *daruma.Config) {
		cfg.SubAgents = &s
		for _, f := range more {
			f(cfg)
		}
	}
}

// A parent that hands over one task; the sub-agent is told from it by its prompt.
const parentAndChild = `step %s
  when purpose subagent
  %s
model
  rule child-look
    when purpose subagent, not called Read
    say "I read a first."
    call Read file_path="a"
  rule child
    when purpose subagent
    say "Found: forty-two."
  rule hand-over
    when not called Agent
    say "I hand that over."
    call Agent prompt="SUBTASK: read a and report"
  rule done
    say "All done."
`

func familyScript(name, fault string) string {
	return strings.Replace(strings.Replace(parentAndChild, "%s", name, 1), "%s", fault, 1)
}

// TestSubAgent: a task goes to an agent with a conversation of its own, which
// heals its own failures, and whose answer is the result.
func TestSubAgent(t *testing.T) {
	p := lab{script: familyScript("busy times 3", "status 529"), config: withAgents(daruma.SubAgents{})}.play(t)
	end := p.must(t, loop.Completed)
	r := of[*session.Result](p)
	if len(r) != 1 || r[0].Block.PlainText() != "Found: forty-two." || r[0].Block.IsError {
		t.Fatalf("the result is not the answer of the sub-agent: %+v", r)
	}
	children := of[*session.Child](p)
	if len(children) != 1 || children[0].Session != "story.agent-1" {
		t.Errorf("the sub-agent is not on record: %+v", children)
	}
	sources := map[string]int{}
	for _, q := range p.sent {
		sources[string(q.Source)]++
		if string(q.Source) == "subagent" && slices.ContainsFunc(q.Tools, func(t model.Tool) bool { return t.Name == daruma.AgentTool }) {
			t.Error("a sub-agent could have sub-agents, below the depth that is allowed")
		}
	}
	if sources["subagent"] != 5 || sources["main"] != 2 {
		t.Errorf("requests by source: %v", sources)
	}
	if end.Total.Usage.Output == 0 || end.Wasted.USD != 0 {
		t.Errorf("total %+v, wasted %+v", end.Total, end.Wasted)
	}
	for _, m := range p.held {
		if strings.Contains(m.PlainText(), "I read a first") {
			t.Error("what the sub-agent said on the way is in the parent's conversation")
		}
	}
}

// TestSubAgentFails: whatever ends a sub-agent, the parent gets what it has,
// marked as incomplete, and the id under which it goes on (corpus: C001 variant,
// C137, C138, C139).
func TestSubAgentFails(t *testing.T) {
	for name, c := range map[string]struct {
		fault string
		subs  daruma.SubAgents
		want  string
	}{
		"C138 its requests stall":       {"stall headers", daruma.SubAgents{}, "the request failed"},
		"C001 it is throttled for good": {"status 429\n  header retry-after \"90000\"", daruma.SubAgents{}, "the request failed"},
		"C139 its time is up":           {"pings event 2 3h every 10s", daruma.SubAgents{MaxTime: time.Minute}, "the budget is used up"},
		"its turns are up":              {"delay headers 1s", daruma.SubAgents{MaxTurns: 1}, "the limit of turns is reached"},
		"it refuses":                    {"stop refusal", daruma.SubAgents{}, "the model refused"},
	} {
		t.Run(name, func(t *testing.T) {
			script := familyScript("bad always", c.fault)
			if c.subs.MaxTurns == 0 { // it fails once it has said something
				script = strings.Replace(script, "when purpose subagent", "when purpose subagent, called Read", 1)
			}
			p := lab{script: script, config: withAgents(c.subs)}.play(t)
			p.must(t, loop.Completed)
			r := of[*session.Result](p)[0]
			text := r.Block.PlainText()
			for _, want := range []string{"INCOMPLETE", c.want, "I read a first.", `resume="story.agent-1"`} {
				if !strings.Contains(text, want) {
					t.Errorf("the result lacks %q: %s", want, text)
				}
			}
			if !r.Block.IsError || r.Class != daruma.ClassIncomplete {
				t.Errorf("class %q, error %v", r.Class, r.Block.IsError)
			}
		})
	}
}

// TestSubAgentEndsWithItsParent: an interrupt reaches it, and every open call
// has its result (corpus: C103).
func TestSubAgentEndsWithItsParent(t *testing.T) {
	p := lab{
		script:  familyScript("slow", "delay headers 10m"),
		prompts: []string{"Do the task.", "Go on."},
		config:  withAgents(daruma.SubAgents{}),
		at: func(a *daruma.Agent, e session.Event) {
			if _, ok := e.Body.(*session.Child); ok && e.Run == 1 {
				time.AfterFunc(time.Second, func() { a.Interrupt() })
			}
		},
	}.play(t)
	if p.ends[0].Reason != loop.AbortedTools || p.ends[0].Took > time.Minute {
		t.Errorf("the parent ended with %s after %s", p.ends[0].Reason, p.ends[0].Took)
	}
	p.must(t, loop.Completed)
	if r := of[*session.Result](p)[0]; r.Class != tool.ClassAborted || !strings.Contains(r.Block.PlainText(), "resume=") {
		t.Errorf("result: %s %s", r.Class, r.Block.PlainText())
	}
}

// TestSubAgentsSideBySide: their failures are their own, and all results are
// there in the order of the calls (corpus: C278).
func TestSubAgentsSideBySide(t *testing.T) {
	const script = `step bad
  when purpose subagent, user "TASK-B"
  stop refusal
model
  rule work
    when purpose subagent
    say "Done with it."
  rule hand-over
    when not results
    call Agent prompt="TASK-A"
    call Agent prompt="TASK-B"
    call Agent prompt="TASK-C"
    call Agent prompt=""
    call Agent prompt="TASK-D" resume="story.agent-9"
  rule done
    say "All done."
`
	p := lab{script: script, config: withAgents(daruma.SubAgents{Count: 3})}.play(t)
	p.must(t, loop.Completed)
	want := []string{"Done with it.", "INCOMPLETE", "Done with it.", "prompt is empty", "no agent of this session"}
	blocks := p.held[len(p.held)-2].Blocks
	for i, w := range want {
		if i >= len(blocks) || !strings.Contains(blocks[i].PlainText(), w) {
			t.Fatalf("result %d of %d does not say %q", i+1, len(blocks), w)
		}
	}
}

// inTwoHalves hands a task over, and lets the sub-agent go on with it.
const inTwoHalves = `model
  rule hand-over
    when n 1
    call Agent prompt="SUBTASK"
  rule child
    when n 2
    say "Half of it."
  rule again
    when n 3
    call Agent prompt="And the rest?" resume="story.agent-1"
`

// TestSubAgentGoesOn: with its id an agent works on with all that it knows, in
// its own journal.
func TestSubAgentGoesOn(t *testing.T) {
	const script = inTwoHalves + `  rule child-again
    when n 4
    say "The other half."
  rule done
    say "All done."
`
	store := session.Store{Dir: t.TempDir(), Project: "/p"}
	open := func(id string, again bool) (daruma.Workplace, error) {
		var w daruma.Workplace
		var err error
		if w.Tools, err = tool.NewSet(); err != nil {
			return w, err
		}
		if again {
			w.Journal, w.History, _, err = store.Open(id)
		} else {
			w.Journal, err = store.Create(id)
		}
		w.Close = func() { w.Journal.Close() }
		return w, err
	}
	p := lab{script: script, config: withAgents(daruma.SubAgents{Open: open})}.play(t)
	p.must(t, loop.Completed)
	r := of[*session.Result](p)
	if len(r) < 2 || r[0].Block.PlainText() != "Half of it." || r[1].Block.PlainText() != "The other half." {
		t.Fatalf("results: %d", len(r))
	}
	h, err := store.Load("story.agent-1")
	if err != nil || len(h.Messages) != 4 || h.Running {
		t.Errorf("its journal: %v, %+v", err, h)
	}
	if list, err := store.List(); err != nil || len(list) != 0 {
		t.Errorf("sub-agents are among the sessions: %v, %v", list, err)
	}
}

// TestSubAgentsShareTheBudget: what they spend is the parent's money.
func TestSubAgentsShareTheBudget(t *testing.T) {
	p := lab{script: strings.Replace(familyScript("slow", "delay headers 1s"), "when purpose subagent", "when n 1", 1), config: withAgents(daruma.SubAgents{}, func(cfg *daruma.Config) {
		cfg.Models, cfg.MaxUSD = []string{"claude-sonnet-5"}, 0.0000001
	})}.play(t)
	if end := p.end(); end.Reason != loop.BudgetExhausted {
		t.Errorf("the run ended with %s", end.Reason)
	}
}

// TestSubAgentsShareWhatFailuresMayCost: side by side they spend one budget of
// recoveries together, not each the whole of it, and the parent ends with it.
func TestSubAgentsShareWhatFailuresMayCost(t *testing.T) {
	const script = `step busy always
  when purpose subagent
  status 429
  header retry-after "2"
model
  rule hand-over
    when purpose main, not results
    call Agent prompt="TASK-A"
    call Agent prompt="TASK-B"
    call Agent prompt="TASK-C"
  rule done
    say "All done."
`
	p := lab{script: script, config: withAgents(daruma.SubAgents{}, tries(100), func(cfg *daruma.Config) {
		cfg.Recovery.Time = 20 * time.Second
	})}.play(t)
	p.must(t, loop.Completed) // a little is left for it: no wait begins that the rest would not hold
	// Each wait is two seconds, so nine of them and the first tries of three.
	if n := len(asked(p, model.SubAgent, modelOf)); n != 9+3 {
		t.Errorf("%d requests of sub-agents: the waits of three fill a budget of 20 seconds", n)
	}
	for _, r := range of[*session.Result](p) {
		if !strings.Contains(r.Block.PlainText(), "the budget is used up") {
			t.Errorf("result: %s", r.Block.PlainText())
		}
	}
}

// TestRecoveryBudgetInOneRequest: the tries of one request end with the budget,
// also where each of them would be allowed, and the failure is shown.
func TestRecoveryBudgetInOneRequest(t *testing.T) {
	p := lab{script: "step busy always\n  status 429\n  header retry-after \"4\"\n", config: both(tries(100), func(cfg *daruma.Config) {
		cfg.Recovery.Time = 10 * time.Second
	})}.play(t)
	end := p.must(t, loop.BudgetExhausted)
	if end.Took != 8*time.Second || end.Failure == nil || end.Failure.Kind != failure.RateLimit || end.NextAt.IsZero() {
		t.Errorf("after %s: %v, worth it at %s", end.Took, end.Failure, end.NextAt)
	}
}

// TestAlwaysHoldsForAll: what a person allows one sub-agent always is asked
// neither of another one at work, nor of the parent, nor in the next run; what a
// rule denies is denied to all.
func TestAlwaysHoldsForAll(t *testing.T) {
	const script = `model
  rule work
    when purpose subagent, not results
    call Change x=1
    call Forbidden x=1
  rule worked
    when purpose subagent
    say "Done with it."
  rule hand-over
    when purpose main, not called Agent
    call Agent prompt="TASK-A"
    call Agent prompt="TASK-B"
  rule own
    when purpose main, not called Change
    call Change x=2
  rule again
    when user "Once more", not results
    call Change x=3
  rule done
    say "All done."
`
	change := &slow{name: "Change", effect: tool.Unsafe, access: tool.AccessOther}
	forbidden := &slow{name: "Forbidden", effect: tool.Unsafe, access: tool.AccessOther}
	var questions atomic.Int32
	p := lab{script: script, prompts: []string{"Do the task.", "Once more."}, config: withAgents(daruma.SubAgents{}, func(cfg *daruma.Config) {
		cfg.Tools, _ = tool.NewSet(change, forbidden)
		deny, _ := permission.ParseRules("Forbidden")
		always, _ := permission.ParseRules("Change")
		cfg.Permission = &permission.Policy{Mode: permission.Default, Root: "/w", Deny: deny}
		cfg.Ask = func(context.Context, permission.Question) (permission.Answer, error) {
			questions.Add(1)
			for range 100_000 { // the other one comes to wait
				runtime.Gosched()
			}
			return permission.Answer{Behavior: permission.Allow, Remember: always}, nil
		}
	})}.play(t)
	p.must(t, loop.Completed)
	if n := questions.Load(); n != 1 {
		t.Errorf("%d questions, but the first one was answered for all", n)
	}
	if len(change.began) != 4 || len(forbidden.began) != 0 {
		t.Errorf("%d calls ran, and %d that a rule denies", len(change.began), len(forbidden.began))
	}
}
