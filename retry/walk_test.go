package retry

import (
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// small keeps the walk short without losing a kind of state: no count above
// two, and times in whole seconds.
func small() Policy {
	return Policy{
		Retries: 2, Base: time.Second, Cap: 4 * time.Second, Jitter: 1, HintLimit: 8 * time.Second,
		Handover: 2, Stalls: 1, Thoughts: 1, Refreshes: 1,
		UnattendedRetries: 3, UnattendedCap: 8 * time.Second,
		WaitLimit: 20 * time.Second, TotalLimit: 45 * time.Second,
	}
}

// mode is one way to run, with its patience.
type mode struct {
	name  string
	apply func(*Policy)
}

var modes = []mode{
	{"headless", func(*Policy) {}},
	{"person", func(p *Policy) { p.Interactive = true }},
	{"waiting", func(p *Policy) { p.WaitForLimit = 6 * time.Hour }},
	{"unattended", func(p *Policy) { p.Unattended = true }},
}

func (m mode) of(p Policy) Policy {
	m.apply(&p)
	if p.WaitForLimit > p.TotalLimit {
		p.WaitForLimit = p.TotalLimit - 10*time.Second
	}
	return p
}

// words are the classes of what a server can say about another try, besides
// the kind of its failure.
var words = []failure.Error{
	{Retry: failure.RetryNo},
	{Retry: failure.RetryYes},
	{Retry: failure.RetryYes, Hint: failure.Hint{Given: true}},
	{Retry: failure.RetryAfter, Hint: failure.Hint{Given: true, After: 6 * time.Second}},
	{Retry: failure.RetryAfter, Hint: failure.Hint{Given: true, After: 25 * time.Second}},
	{Retry: failure.RetryAfter, Hint: failure.Hint{Given: true, After: 100 * time.Hour}},
	{Retry: failure.RetryAfter, Hint: failure.Hint{Reset: "9PM"}},
	{Retry: failure.RetryNo, Hint: failure.Hint{Given: true, After: 6 * time.Second}},
	{Retry: failure.RetryNo, Hint: failure.Hint{ShouldRetry: "true"}},
	{Retry: failure.RetryYes, Hint: failure.Hint{ShouldRetry: "false"}},
	{Retry: failure.RetryNo, Numbers: failure.Numbers{QuotaWindow: "day"}},
}

// faults are the same for what must be changed: there is no time to name.
var faults = []failure.Error{
	{Retry: failure.RetryNo},
	{Retry: failure.RetryNo, Hint: failure.Hint{ShouldRetry: "true"}},
	{Retry: failure.RetryNo, Hint: failure.Hint{ShouldRetry: "false"}},
}

// figures are the classes of what an overflow of max_tokens can say.
var figures = []failure.Error{
	{},
	{Numbers: failure.Numbers{InputTokens: 190_000, Limit: 200_000}},
	{Numbers: failure.Numbers{InputTokens: 198_000, Limit: 200_000}},
	{Numbers: failure.Numbers{Limit: 8192}},
	{Numbers: failure.Numbers{InputAtLeast: 134_145, MaxTokens: 128_000, Limit: 262_144}},
}

// facts lists what can be known of a failure of kind, as far as it matters.
func facts(kind failure.Kind) []Facts {
	said := words
	switch kind {
	case failure.MaxTokensOverflow:
		said = figures
	case failure.Overloaded, failure.RateLimit, failure.QuotaExhausted, failure.Billing,
		failure.ServerError, failure.Timeout, failure.Network:
	default:
		said = faults
	}
	var all []Facts
	for _, e := range said {
		e.Kind = kind
		all = append(all, Facts{Failure: &e, MaxTokens: 16_000})
	}
	vary := func(change ...func(*Facts)) {
		n := len(all)
		for _, c := range change {
			for _, f := range all[:n] {
				c(&f)
				all = append(all, f)
			}
		}
	}
	switch kind {
	case failure.Overloaded, failure.RateLimit, failure.QuotaExhausted, failure.Billing:
		vary(func(f *Facts) { f.Fast = true }, func(f *Facts) { f.Fast, f.FastOff = true, "out_of_credits" })
	case failure.Network:
		vary(func(f *Facts) { f.Progress.Thinking = true })
	case failure.Timeout:
		all = append(all, Facts{Failure: &failure.Error{Kind: kind, Retry: failure.RetryYes, Stalled: true}})
	case failure.Auth:
		vary(func(f *Facts) { f.Refresh = true })
	case failure.MaxTokensOverflow:
		vary(func(f *Facts) { f.Budget = 7000 })
	}
	if kind == failure.Overloaded {
		vary(func(f *Facts) { f.Source = model.Title })
	}
	vary(func(f *Facts) { f.Fallback = true })
	return all
}

// edge is one decision.
type edge struct {
	policy Policy
	from   State
	facts  Facts
	to     State
	v      Verdict
}

// walk visits every state that a request can reach when any failure of kinds
// may follow any other, and every wait lasts as long as it can. It returns the
// edges between them, as numbers of states.
func walk(p Policy, kinds []failure.Kind, visit func(edge)) [][]int32 {
	var all []Facts
	for _, k := range kinds {
		all = append(all, facts(k)...)
	}
	states := []State{{}, {Once: true}}
	index := map[State]int32{states[0]: 0, states[1]: 1}
	var next [][]int32
	for i := 0; i < len(states); i++ {
		seen := map[int32]bool{}
		for _, f := range all {
			to, v := Next(p, states[i], f)
			if v.Do == Wait || v.Do == Ask {
				to.Waited += v.Max
			}
			visit(edge{p, states[i], f, to, v})
			if v.Do.Ends() {
				continue
			}
			to.Tries = 0 // only a number for people: no rule reads it
			if !p.Unattended && p.WaitForLimit == 0 && p.Total == 0 {
				to.Waited = 0 // nor, without a limit on time, this
			}
			j, known := index[to]
			if !known {
				j = int32(len(states))
				index[to] = j
				states = append(states, to)
			}
			seen[j] = true
		}
		var out []int32
		for j := range seen {
			out = append(out, j)
		}
		next = append(next, out)
	}
	return next
}

// groups has one kind for each way in which a sequence of failures can matter.
// The clamp shares no count with the others, so few are enough beside it. The
// golden table, which uses all kinds, shows the classes.
var groups = [][]failure.Kind{
	{failure.Overloaded, failure.QuotaExhausted, failure.Billing, failure.ServerError, failure.Network, failure.Timeout,
		failure.Auth, failure.InvalidRequest},
	{failure.MaxTokensOverflow, failure.Overloaded, failure.Network, failure.Auth},
}

func TestWalk(t *testing.T) {
	used := map[string]bool{"aborted": true, "model_missing": true} // in the golden table
	for _, m := range modes {
		p := m.of(small())
		states, edges, steps := 0, 0, 0
		for _, kinds := range groups {
			next := walk(p, kinds, func(e edge) {
				edges++
				used[e.v.Rule] = true
				if law := broken(e); law != "" {
					t.Fatalf("%s: %s\n%+v\n%+v %+v\n-> %+v\n%+v", m.name, law, e.from, e.facts, e.facts.Failure, e.v, e.to)
				}
			})
			states += len(next)
			steps = max(steps, longest(t, next))
		}
		t.Logf("%s: %d states, %d decisions; at most %d requests", m.name, states, edges, steps+1)
		// Waits, stalls, thinking, login, fast mode, and halvings of max_tokens.
		most := 1 + p.Retries + p.Stalls + p.Thoughts + p.Refreshes + 1 + 6
		if p.Unattended {
			most += int(p.TotalLimit / p.Base)
		}
		if steps+1 > most {
			t.Errorf("%s: a request can be sent %d times, want at most %d", m.name, steps+1, most)
		}
	}
	for _, r := range rules {
		if !used[r.name] {
			t.Errorf("rule %s never decides", r.name)
		}
	}
}

// broken names the law that an edge breaks.
func broken(e edge) string {
	for _, law := range []func(edge) string{brokenCount, brokenWait, brokenEnd} {
		if name := law(e); name != "" {
			return name
		}
	}
	return ""
}

func brokenCount(e edge) string {
	p, from, to := e.policy, e.from, e.to
	switch {
	case e.v.Rule == "" || e.v.Why == "":
		return "a verdict without a reason"
	case to.Waits < from.Waits, to.Stalls < from.Stalls, to.Thoughts < from.Thoughts, to.Refreshes < from.Refreshes,
		from.Slow && !to.Slow, from.Once && !to.Once, to.Waited < from.Waited:
		return "what was spent came back"
	case to.Stalls > p.Stalls, to.Thoughts > p.Thoughts, to.Refreshes > p.Refreshes, to.Overloads > p.Handover:
		return "a count went over its limit"
	case !p.Unattended && to.Waits > p.Retries:
		return "more waits than retries"
	case from.Clamped > 0 && to.Clamped > from.Clamped:
		return "a clamp was loosened"
	case e.v.Of > 0 && e.v.Attempt > e.v.Of:
		return "an attempt above their number"
	}
	return ""
}

func brokenWait(e edge) string {
	p, v, hint := e.policy, e.v, e.facts.Failure.Hint
	switch {
	case v.Do != Wait && v.Do != Ask && (v.Min != 0 || v.Max != 0):
		return "a sleep that nothing follows, or that nothing needs"
	case v.Min < 0 || v.Max < v.Min:
		return "a wait that ends before it begins"
	case v.Do == Wait && hint.Given && v.Min < min(hint.After, p.WaitLimit) && v.Rule != "stall" && v.Rule != "after_thinking":
		return "the server's hint is no floor"
	case v.Do == Wait && v.Min < p.Base && v.Rule != "stall":
		return "a hint shortened the backoff"
	case v.Do == Wait && !p.Unattended && p.WaitForLimit == 0 && v.Min > max(p.HintLimit, fastPatience):
		return "a silent wait above the limit for hints"
	case p.Unattended && v.Max > p.WaitLimit:
		return "a single wait above its cap"
	case p.Unattended && e.to.Waited > p.TotalLimit:
		return "all waits together above their cap"
	case v.Do == Wait && p.WaitForLimit > 0 && v.Min > p.HintLimit && v.Rule != "fast_wait" && e.to.Waited > p.WaitForLimit:
		return "more waited for limits than granted"
	case v.Do == Ask && !p.Interactive:
		return "nobody is there to be asked"
	}
	return ""
}

func brokenEnd(e edge) string {
	f, v, kind := e.facts, e.v, e.facts.Failure.Kind
	switch {
	case kind == failure.Overloaded && Background(f.Source) && v.Do != GiveUp:
		return "an overload in the background costs a second request"
	case v.Do == HandOver && !f.Fallback:
		return "handed over to nobody"
	case v.Do == HandOver && kind != failure.Overloaded && kind != failure.ServerError && kind != failure.ModelNotFound:
		return "handed over for what another model cannot cure"
	case v.Do == GiveUp && f.Fallback && (kind == failure.Overloaded || kind == failure.ServerError) && !Background(f.Source):
		return "given up with a model left"
	case v.Do == LeaveFast && (!f.Fast || e.from.Slow):
		return "left fast mode twice"
	case v.Do == LeaveFast && v.Cooldown > 0 && (v.FastOff != "" || v.Cooldown < fastCoolFloor || e.policy.Unattended || !capacity(kind)):
		return "a cooldown out of place"
	case v.Do == Clamp && (v.MaxTokens >= f.MaxTokens || v.MaxTokens <= f.Budget):
		return "a clamp that changes nothing, or leaves thinking no room"
	case v.Do == Wait && kind == failure.Billing && f.Failure.Retry == failure.RetryNo, v.Do == Wait && kind == failure.Auth:
		return "waited for money or a login"
	case e.from.Once && kind == failure.ServerError && v.Do == Wait:
		return "a stand-in was asked twice"
	}
	return ""
}

// longest is the number of steps of the longest path. It fails on a cycle:
// this is the proof that every request ends.
func longest(t *testing.T, next [][]int32) int {
	const unseen, open = 0, -1
	length := make([]int, len(next)) // of the path from each state, plus one
	var visit func(i int32) int
	visit = func(i int32) int {
		switch length[i] {
		case open:
			t.Fatal("a request can be sent for ever")
		case unseen:
			length[i] = open
			most := 0
			for _, to := range next[i] {
				most = max(most, visit(to))
			}
			length[i] = most + 1
		}
		return length[i]
	}
	return max(visit(0), visit(1)) - 1
}
