// Package daruma is an agent loop that gets up again.
//
// An [Agent] asks a model, runs the tools that it calls, and goes on until the
// work is done. Every failure on the way has a named cause, a bounded way back
// and an honest end: the last event of every run says with one reason how it
// ended.
//
//	agent, err := daruma.New(daruma.Config{Wire: wire, Models: []string{"claude-sonnet-5"}, Tools: set})
//	for event, err := range agent.Run(ctx, "Make the tests pass.") { … }
//
// The package is the shell around the decision core [loop.Core]: it performs
// the steps that the core decides, and it is the only place where effects
// happen.
package daruma

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/gate"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// Config says what an agent works with. Wire and Models are needed; the zero
// value of everything else is useful.
type Config struct {
	Wire   model.Model
	Models []string // the primary, then up to three to fall back to (R92)
	System []string // parts of the system prompt, stable ones first
	Tools  *tool.Set

	// Permission decides which calls may run; nil allows all. Ask is asked
	// when it cannot decide; nil means that nobody can be asked, and then
	// what would ask is refused with a result that says so.
	Permission *permission.Policy
	Ask        permission.AskFunc

	// Journal keeps what happens; nil keeps nothing. History is what happened
	// before (see session.Store.Open); nil begins a new session called Session.
	Journal *session.Journal
	History *session.History
	Session string
	// StopUnsaved ends a run whose journal can no longer be written; without it
	// the run goes on, and what happened is written once that is possible.
	StopUnsaved bool
	// Files keeps what files held before tools changed them; nil keeps nothing.
	Files *session.Files
	Name  string // for people, if the session is to have another one than before

	MaxTurns int           // of a run; 0 means DefaultMaxTurns
	MaxUSD   float64       // of a run, failed attempts included; 0: no limit
	MaxTime  time.Duration // of a run, waits included; 0: no limit
	// Recovery bounds what failures may cost a run, all ways back together.
	Recovery RecoveryBudget
	// TokenBudget is how many output tokens a run should use: as long as most of
	// it is left, and it brings something, the model is asked to go on.
	TokenBudget int
	MaxTokens   int // output room of an answer that the user chose; 0 leaves it to the model's limits
	Window      int // context window, if smaller than the model's
	Thinking    model.Thinking
	Fast        bool // ask for the faster variant of the models, as far as it has room
	Parallel    int  // pure tools that run at once; 0 means 10 (R75)

	Retry  *retry.Policy           // nil means retry.Default
	Limits map[loop.Transition]int // overrides of the recovery table
	// Refresh renews the credentials of Wire after the provider refused them.
	Refresh func(context.Context) error
	// Gate returns what processes and sub-agents on this account know together
	// about the limits of a model; nil, or a nil gate, means that they know nothing.
	Gate func(model string) *gate.Gate
	// AskWait asks the person about a long wait; nil, or a policy that is not
	// Interactive, ends the run with the time to come back.
	AskWait func(context.Context, WaitQuestion) WaitChoice
	// RefusalModel is asked, for the rest of the session, what another one
	// refused; empty: a refusal ends the run.
	RefusalModel string
	// Cleanup runs when a run was interrupted, before its last event. Its error is
	// a notice and nothing more.
	Cleanup func(context.Context) error
	// StopHooks see each final answer before the run ends, in order.
	StopHooks []StopHook
	// Unstreamed permits one try without streaming where streaming itself is what
	// fails (R28).
	Unstreamed bool
	// Carry returns, within about budget tokens, what must survive a compaction
	// word for word beside the user's messages: open todos, files touched.
	Carry func(budget int) []string

	// Ended returns the tasks in the background that have ended and of which no
	// result told the model, each once; nil: nothing runs in the background. A new
	// Agent takes it that the tasks of before have ended with their process.
	Ended func() []tool.Task

	SubAgents *SubAgents // nil: there are none
	// Hooks are the user's; nil: there are none. Close the agent, which ends them.
	Hooks *hook.Hooks

	// Defer lets a hook put off a call that is the only one of its answer: the run
	// ends, and the next one asks the hook again. Without it the call is refused.
	Defer bool

	Redact  failure.Redactor    // knows the secrets that must not leave
	Observe func(session.Event) // sees every event before the consumer does
	Rand    func() float64      // chance in [0,1) for jitter; nil means math/rand
	Build   string              // version, for the journal
	Dir     string              // working directory, for the journal
	Servers []session.Server    // MCP servers, for the journal
	Sandbox string              // what keeps commands in bounds, for the journal
	Life    string              // mark of what this process starts, for the journal

	parent  string   // session of the agent above this one …
	depth   int      // … at which level it is …
	purse   *purse   // … what all of them used …
	permits *permits // … and what all of them may do
}

// RecoveryBudget is what may be lost to failures in one run, its sub-agents
// included; zero means no limit of its own.
type RecoveryBudget struct {
	USD    float64       // of attempts that were taken back
	Tokens int           // output tokens of them
	Time   time.Duration // of them, and of all waits
}

// DefaultMaxTurns bounds a run whose Config names no limit: every loop has a
// number.
const DefaultMaxTurns = 250

// maxChain is the longest chain of models: a primary and three to fall back to.
const maxChain = 4

// Agent runs prompts, one at a time. Its methods may be called from any
// goroutine.
type Agent struct {
	cfg     Config
	core    *loop.Core
	alone   *tool.Set // the tools without that for sub-agents
	policy  retry.Policy
	history *session.History
	state   loop.State // of the last run: session-wide counts
	scale   scale
	speed   retry.Speed     // of the session
	dropped map[string]bool // tools that the provider does not accept
	// failedSummaries counts in a row; see failuresToStop.
	failedSummaries int
	declined        int // estimate of the conversation when a compaction of it was cancelled; see unwanted

	gone []*session.Task // tasks of an earlier life, until the model knows

	mu      sync.Mutex
	current *run
	queued  []string                    // submitted, not yet in the conversation
	unsaved map[string]*session.History // of sub-agents without a journal
	leaving bool                        // the process ends: no run goes on
	started bool                        // the session's first event is out
	warned  bool                        // of prices that are not known
	mute    bool                        // the journal failed, and what happens is not saved
}

// Errors of a wrong call; a model's failure is never an error here but the
// reason in the last event.
var (
	ErrRunning = errors.New("a run is in progress; use Submit, or Interrupt it first")
	ErrEmpty   = errors.New("the prompt is empty")
)

// New returns an agent. It fails only on a Config that cannot work.
func New(cfg Config) (*Agent, error) {
	switch {
	case cfg.Wire == nil:
		return nil, errors.New("new agent: Config.Wire is missing")
	case len(cfg.Models) == 0 || slices.Contains(cfg.Models, ""):
		return nil, errors.New("new agent: Config.Models must name a model")
	}
	cfg.Models = chain(cfg.Models)
	if len(cfg.Models) > maxChain {
		return nil, fmt.Errorf("new agent: %d models to fall back to, at most %d are possible", len(cfg.Models)-1, maxChain-1)
	}
	if cfg.Tools == nil {
		cfg.Tools, _ = tool.NewSet()
	}
	if cfg.MaxTurns <= 0 {
		cfg.MaxTurns = DefaultMaxTurns
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 10
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.permits == nil {
		cfg.permits = &permits{policy: cfg.Permission}
	}
	a := &Agent{cfg: cfg, core: loop.New(limits(cfg)), alone: cfg.Tools, policy: retry.Default(), history: cfg.History, scale: newScale()}
	if cfg.SubAgents != nil {
		var err error
		if a.cfg.Tools, err = cfg.Tools.With(a.agentTool()); err != nil {
			return nil, fmt.Errorf("new agent: %w", err)
		}
		a.cfg.Tools.Longer = patienceWithAgents(cfg)
	}
	if cfg.Retry != nil {
		a.policy = *cfg.Retry
	}
	if a.history == nil {
		a.history = &session.History{Session: cfg.Session}
	}
	a.gone = slices.Clone(a.history.Tasks)
	return a, nil
}

// limits adapts the recovery table to what the models and the user allow.
func limits(cfg Config) map[loop.Transition]int {
	limits := map[loop.Transition]int{loop.Fallback: len(cfg.Models) - 1}
	if cfg.RefusalModel != "" {
		limits[loop.AfterRefusal] = 1
	}
	for name, n := range cfg.Limits {
		limits[name] = n
	}
	return limits
}

// chain drops repetitions: no model is tried twice.
func chain(models []string) []string {
	var out []string
	for _, m := range models {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// Run answers prompt. The events end with exactly one [session.End]; leaving
// the range earlier cancels the run and leaves a session that can go on. The
// error is about the call itself ([ErrRunning], [ErrEmpty], a journal that
// cannot be written), comes alone, and then nothing has happened.
func (a *Agent) Run(ctx context.Context, prompt string) iter.Seq2[session.Event, error] {
	return a.run(ctx, prompt, false)
}

// Continue goes on from the conversation as it stands, without a new prompt.
func (a *Agent) Continue(ctx context.Context) iter.Seq2[session.Event, error] {
	return a.run(ctx, "", true)
}

func (a *Agent) run(ctx context.Context, prompt string, goOn bool) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		r, err := a.begin(ctx, prompt, goOn, yield)
		if err != nil {
			yield(session.Event{}, err)
			return
		}
		defer a.end(r)
		r.perform()
	}
}

// Submit gives the agent another prompt while it works: it joins the
// conversation at the next turn, or is answered when the present answer is
// done. With no run in progress it waits for the next one.
func (a *Agent) Submit(prompt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queued = append(a.queued, prompt)
}

// SubmitNow is [Agent.Submit] for a prompt that does not want to wait: what the
// model is saying is cut off, what it said stays, and the prompt follows. Tools
// that run are let finish (R83).
func (a *Agent) SubmitNow(prompt string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queued = append(a.queued, prompt)
	if a.current != nil && a.current.stop != nil {
		a.current.stop(errSubmit)
	}
}

// Interrupt ends the run in progress, if there is one, and reports whether
// there was. The session stays valid.
func (a *Agent) Interrupt() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil {
		return false
	}
	a.current.cancel(errInterrupt)
	return true
}

// Shutdown ends the run in progress, and every later one as it begins, because the
// process ends: nothing is made up for calls that are open, so that a resume sees
// the true state (R88).
func (a *Agent) Shutdown() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = true
	if a.current != nil {
		a.current.cancel(errShutdown)
	}
}

// takeQueued returns what was submitted and forgets it.
func (a *Agent) takeQueued() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queued
	a.queued = nil
	return q
}

// History returns the conversation and what else the session amounts to. It
// must not be read while a run is in progress.
func (a *Agent) History() *session.History { return a.history }
