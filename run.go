package daruma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// The causes that end a run from outside.
var (
	errInterrupt = errors.New("interrupted by the user")
	errShutdown  = errors.New("the process is ending")
	errLeft      = errors.New("the consumer left")
	errSubmit    = errors.New("a new prompt was submitted")
	errTime      = errors.New("the time of the run is used up")
	errUnsaved   = errors.New("the session can no longer be saved")
)

// run is one prompt until one terminal reason.
type run struct {
	*Agent
	base   context.Context         // of the run
	cancel context.CancelCauseFunc // ends the run
	ctx    context.Context         // of the step in progress
	stop   context.CancelCauseFunc // ends the step, if a new prompt may end it; nil otherwise
	yield  func(session.Event, error) bool
	left   bool // the consumer is gone: events still reach the journal

	began        time.Time
	number       int
	opening      []session.Event // written before the run could begin, not shown yet
	opens        bool            // it is the first of this agent …
	unprompted   bool            // … and nobody gave a prompt
	kept         bool            // the prompt waits in the session, as something comes before it
	turn         int
	state        loop.State
	pending      *attempt       // answered, but not yet committed, kept or taken back
	failure      *failure.Error // the last one, to be surfaced if nothing heals it
	later        time.Duration  // when trying again is worth it, if anyone said so
	records      []*session.Recovery
	stopped      string   // why the last answer that was kept stopped
	parts        []string // text of the answer in progress, over its continuations
	denials      []session.Denial
	bill         bill
	healed       int
	taken        []string             // prompts that joined this run
	spends       int                  // times that the budget of tokens made the run go on …
	spentAt      int                  // … output tokens then …
	lastGain     int                  // … and what the time before had brought
	waited       time.Duration        // for layer 1, in all requests together
	reserved     time.Duration        // of the purse, for the wait that comes next
	instruction  string               // of a compaction that a person asked for …
	manual       bool                 // … at all
	askedLimit   bool                 // the wait at the gate was decided about
	once         bool                 // the next request is the one try of a model that stands in
	spare        bool                 // another model could write the summary
	slow         bool                 // this request goes on at normal speed
	compacted    int                  // turn of the last summary
	refills      int                  // summaries in a row that did not last
	clamp        int                  // max_tokens that fit, once the provider said so; 0: never
	fixed        map[message.Fix]bool // repairs of the view that the journal knows
	repeats      repeats
	context      []string          // what hooks want the model to know, until it can be told
	objection    string            // of a stop hook, the last one …
	calledSince  int               // … and how many calls were made then
	commanded    bool              // commands that may change the machine ran since the last answer
	prompt       string            // of this run
	putOff       bool              // a call that an earlier run put off waits: nothing is said before its result
	deferred     *session.Deferred // the call that this run puts off
	halt         string            // why a hook wants the run to end
	uncompacted  bool              // a hook wants no summary
	summarisedAs string            // the last summary, for hooks
	early        *early            // calls of the committed answer that run already
	children     children
	loose        sync.WaitGroup // of calls that were started early
}

// begin checks the call, opens the session and makes the run.
func (a *Agent) begin(ctx context.Context, prompt string, goOn bool, yield func(session.Event, error) bool) (*run, error) {
	if strings.TrimSpace(prompt) == "" && !goOn {
		return nil, ErrEmpty
	}
	stopTimer := context.CancelFunc(func() {})
	if a.cfg.MaxTime > 0 {
		ctx, stopTimer = context.WithTimeoutCause(ctx, a.cfg.MaxTime, errTime)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, stopTimer)
	r := &run{Agent: a, base: ctx, ctx: ctx, cancel: cancel, yield: yield, prompt: prompt, began: time.Now(), fixed: map[message.Fix]bool{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		cancel(nil)
		return nil, ErrRunning
	}
	if prompt == "" && a.blank() {
		cancel(nil)
		return nil, ErrEmpty
	}
	r.number = a.history.Runs + 1
	r.bill.purse = cmp.Or(a.cfg.purse, &purse{})
	r.state = a.core.NextRun(a.state)
	if err := r.open(prompt, goOn); err != nil {
		cancel(nil)
		return nil, err
	}
	a.current = r
	if a.leaving {
		cancel(errShutdown)
	}
	return r, nil
}

// blank reports whether nothing was said yet, and no hook could say anything.
func (a *Agent) blank() bool {
	return len(a.history.Messages) == 0 && len(a.history.Queued) == 0 && len(a.queued) == 0 && !a.cfg.Hooks.Any(hook.SessionStart)
}

// open writes the first events. They are the proof that the journal works, so
// here a journal that never did is an error and not a notice.
func (r *run) open(prompt string, goOn bool) error {
	var first []session.Body
	r.opens, r.unprompted = !r.started, goOn
	if r.opens {
		host, _ := os.Hostname()
		first = append(first, &session.Start{
			Build: r.cfg.Build, Dir: r.cfg.Dir, Model: r.cfg.Models[0], Fallbacks: r.cfg.Models[1:],
			Tools: r.cfg.Tools.Names(), Permission: r.mode(), Sandbox: r.cfg.Sandbox, Resumed: len(r.history.Messages) > 0,
			PID: os.Getpid(), Host: host, Parent: r.cfg.parent, Servers: r.cfg.Servers,
			Life: r.cfg.Life,
		})
	}
	if r.cfg.Name != "" && !r.started && r.cfg.Name != r.history.Name {
		first = append(first, &session.Name{Name: r.cfg.Name})
	}
	first = append(first, &session.RunStart{Continue: goOn})
	later := r.cfg.Hooks.Any(hook.UserPromptSubmit) || r.opens && r.cfg.Hooks.Any(hook.SessionStart)
	_, left := r.history.Open()
	later = later || len(left) > 0 || r.history.Attempt != nil || len(r.history.Queued) > 0
	r.kept = r.cfg.depth == 0 && prompt != "" && later
	if r.kept { // hooks, and what an earlier life left, come first, and the process may not live to their end
		first = append(first, &session.Prompt{Text: prompt, State: session.PromptStarted})
	}
	for _, body := range first {
		e := r.event(body)
		err := r.write(e)
		if err != nil && (!r.started || r.cfg.StopUnsaved) {
			return fmt.Errorf("start run: %w", err)
		}
		if told := r.saving(err); told != nil {
			r.opening = append(r.opening, beside(e, told))
		}
		r.history.Apply(e)
		r.opening = append(r.opening, e)
	}
	r.started = true
	return nil
}

// origin says where the session of this agent comes from, as hooks know it.
func (r *run) origin() string {
	switch {
	case r.cfg.History == nil || len(r.cfg.History.Messages) == 0:
		return "startup"
	case r.cfg.History.Parent != "" && r.number == 1:
		return "fork"
	}
	return "resume"
}

func (r *run) mode() string {
	if p := r.cfg.permits.now(); p != nil {
		return string(p.Mode)
	}
	return ""
}

func (a *Agent) end(r *run) {
	r.cancel(nil)
	r.loose.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state, a.current = r.state, nil
}

// prepare begins the first turn, behind what an earlier life left open.
func (r *run) prepare() {
	for _, e := range r.opening {
		r.show(e)
	}
	r.putOff = r.history.PutOff() && !r.manual
	if !r.putOff {
		r.settleEarlierLife()
	}
	if r.opens && r.cfg.depth == 0 {
		r.greet(r.origin())
	}
	if !r.putOff { // a turn begins behind the call that waits
		r.turn = 1
	}
}

// perform is the whole run: the core decides, the shell acts.
func (r *run) perform() {
	r.prepare()
	first := loop.Outcome{Kind: loop.Called}
	if !r.putOff {
		first = r.prompted()
	}
	r.warnOfPrices()
	state, step := r.decide(r.state, first)
	for step.Do != loop.Finish {
		outcome := r.act(step)
		state, step = r.decide(state, outcome)
	}
	r.finish(step)
}

// prompted puts the prompts into the conversation.
func (r *run) prompted() loop.Outcome {
	prompts := slices.Clone(r.history.Queued) // typed in an earlier run, and never answered
	if r.prompt != "" && !r.kept {
		prompts = append(prompts, r.prompt)
	}
	if len(prompts) == 0 && r.history.Answered() {
		// In the view alone it would be gone when the answer is there.
		r.say(message.NewSynthetic(r.history.NextID(), message.Resume))
	}
	admitted := len(prompts) == 0
	for _, text := range prompts {
		admitted = r.admit(text) || admitted
	}
	if r.ctx.Err() != nil {
		return r.aborted()
	}
	if !admitted || r.halt != "" {
		return loop.Outcome{Kind: loop.Aborted, Cause: loop.ByHook}
	}
	return loop.Outcome{Kind: loop.Prompted}
}

// warnOfPrices says once that a budget of money cannot hold a model whose price
// is not known.
func (r *run) warnOfPrices() {
	if r.warned || r.cfg.MaxUSD <= 0 && r.cfg.Recovery.USD <= 0 {
		return
	}
	r.Agent.warned = true
	for _, name := range r.cfg.Models {
		if !model.Lookup(name).Priced {
			r.notice(session.Warning, "the price of %s is not known: the budget of money does not count it; set a limit of time or turns", name)
		}
	}
}

// decide asks the core, and settles what the decision says about the answer
// that is still provisional.
func (r *run) decide(state loop.State, o loop.Outcome) (loop.State, loop.Step) {
	next, step := r.core.Next(state, o)
	r.state = next
	rec := r.record(o, step)
	if rec != nil {
		next, step = r.heedStep(state, o, next, step, rec)
		r.state = next
		rec = r.record(o, step)
	}
	r.emit(&session.Decision{Outcome: o.String(), Step: step.String(), Transition: step.Transition})
	r.settle(o, step)
	if o.Kind == loop.Unchanged {
		r.supersede() // this rung did not help: the next one, or the end, is due
	}
	if rec != nil {
		r.begun(rec, o)
	}
	return next, step
}

// act performs one step and reports what came of it.
func (r *run) act(step loop.Step) loop.Outcome {
	defer r.enter(step.Do)()
	if r.ctx.Err() != nil {
		// Calls get their results also then, unless a resume must see the true state (R88).
		if o := r.aborted(); step.Do != loop.RunTools || o.Cause == loop.ByShutdown {
			return o
		}
	}
	if r.halt != "" {
		return loop.Outcome{Kind: loop.Aborted, Cause: loop.ByHook}
	}
	if step.Do == loop.Sample || step.Do == loop.Reduce {
		if b := r.spentUp(); b != loop.NoBudget {
			return loop.Outcome{Kind: loop.BudgetReached, Budget: b}
		}
	}
	switch step.Do {
	case loop.Measure:
		return r.measure(step)
	case loop.Sample:
		return r.sample()
	case loop.Reduce:
		return r.reduce(step)
	case loop.RunTools:
		return r.runTools()
	case loop.RunHooks:
		return r.runHooks()
	}
	panic("unreachable: the core has no action " + step.Do.String())
}

// enter begins a step, with a context of its own. A prompt that is submitted
// with [Agent.SubmitNow] ends it; tools that run have their own rule (R79).
func (r *run) enter(do loop.Action) (leave func()) {
	ctx, stop := context.WithCancelCause(r.base)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.stop = ctx, stop
	if do == loop.RunTools {
		r.stop = nil
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stop = nil
		stop(nil)
	}
}

// joinQueued moves submitted prompts into the conversation.
func (r *run) joinQueued() (joined bool) {
	for _, text := range r.takeQueued() {
		r.emit(&session.Prompt{Text: text, State: session.PromptStarted})
		if r.admit(text) {
			r.taken = append(r.taken, text)
			joined = true
		}
	}
	return joined
}

// aborted says who ended the run.
func (r *run) aborted() loop.Outcome {
	cause := loop.ByUser
	switch err := context.Cause(r.ctx); {
	case errors.Is(err, errLeft):
		cause = loop.ByConsumer
	case errors.Is(err, errShutdown), errors.Is(err, errUnsaved):
		cause = loop.ByShutdown
	case errors.Is(err, errSubmit):
		cause = loop.BySubmit
	case errors.Is(err, errTime):
		return loop.Outcome{Kind: loop.BudgetReached, Budget: loop.Time}
	}
	return loop.Outcome{Kind: loop.Aborted, Cause: cause}
}

// settleEarlierLife closes what an earlier life of the session left open: an
// attempt without end, calls without results (architecture: ledger).
func (r *run) settleEarlierLife() {
	if open := r.history.Attempt; open != nil {
		r.emit(&session.Retract{Attempt: open.Attempt, Cause: "the process ended", Spent: session.Spent{Unknown: true}})
	}
	caller, calls := r.history.Open()
	if len(calls) == 0 {
		return
	}
	ids := make([]string, 0, len(calls))
	for _, c := range calls {
		ids = append(ids, c.ID)
		if _, done := r.history.Results[c.ID]; done {
			continue
		}
		text := "This call was not run: the run ended before it. Make it again if it is still needed."
		if r.history.Doubtful(c.ID) {
			text = "The run ended while this call was in progress: it may have taken effect, in part or in full. " +
				"Check what it did before you repeat it."
		}
		if id := r.history.ChildOf(c.ID); id != "" {
			text += fmt.Sprintf(" Its agent can go on: call %s with resume=%q.", AgentTool, id)
		}
		r.emit(&session.Result{Call: c.ID, Name: c.Name, Block: message.TextResult(c.ID, text, true), Class: tool.ClassAborted})
	}
	r.emit(&session.Results{ID: r.history.NextID(), Caller: caller.ID, Calls: ids})
}

// say adds m to the conversation.
func (r *run) say(m *message.Message) { r.emit(&session.Message{Message: m}) }

// notice tells the person something.
func (r *run) notice(level session.Level, format string, args ...any) {
	r.emit(&session.Notice{Level: level, Text: r.cfg.Redact.Redact(fmt.Sprintf(format, args...))})
}

func (r *run) event(body session.Body) session.Event {
	e := session.Event{
		Version: session.Version, Time: time.Now().UTC(), Session: r.history.Session,
		Run: r.number, Turn: r.turn, Body: body,
	}
	if e.Type().Durable() {
		e.Seq = r.history.Seq + 1
	}
	return e
}

// emit is the one way out: journal first, then memory, then the consumer.
func (r *run) emit(body session.Body) {
	e := r.event(body)
	if e.Seq > 0 {
		told := r.saving(r.write(e))
		switch {
		case told != nil && e.Type() == session.TypeEnd: // nothing comes behind it
			r.show(beside(e, told))
		case told != nil:
			defer r.emit(told)
		}
		r.history.Apply(e)
	}
	r.show(e)
}

// beside is an event that nobody keeps, of the time of e.
func beside(e session.Event, body session.Body) session.Event {
	e.Seq, e.Body = 0, body
	return e
}

// saving says once that the journal fails, with err, and once that it works
// again; nil in between. The run goes on without it, or ends where it is: like
// the end of the process, so that nothing is made up which the journal would
// lack.
func (r *run) saving(err error) *session.Notice {
	if r.mute == (err != nil) {
		return nil
	}
	if r.mute = !r.mute; err == nil {
		return &session.Notice{Level: session.Info, Text: "the session is saved again, with what happened meanwhile"}
	}
	what := "and goes on unsaved"
	if r.cfg.StopUnsaved {
		what = "so the run stops"
		r.cancel(errUnsaved)
	}
	text := fmt.Sprintf("the session can no longer be saved, %s: %v; free some space or make the folder writable", what, err)
	return &session.Notice{Level: session.Warning, Text: r.cfg.Redact.Redact(text)}
}

// syncs are the events after which the journal must be on disk: what cost
// money or changed the world cannot be had again.
var syncs = map[session.Type]bool{
	session.TypeMessage: true, session.TypeCommit: true, session.TypeContinue: true, session.TypeIntent: true,
	session.TypeResult: true, session.TypeCompaction: true, session.TypeEnd: true,
	session.TypeFileSaved: true, session.TypeChild: true, session.TypePrompt: true,
}

func (r *run) write(e session.Event) error {
	if r.cfg.Journal == nil {
		return nil
	}
	if err := r.cfg.Journal.Append(e); err != nil {
		return err
	}
	if syncs[e.Type()] {
		return r.cfg.Journal.Sync()
	}
	return nil
}

func (r *run) show(e session.Event) {
	if r.cfg.Observe != nil {
		r.cfg.Observe(e)
	}
	if !r.left && !r.yield(e, nil) {
		r.left = true
		r.cancel(errLeft)
	}
}
