package daruma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// call is one tool call on its way to its result.
type call struct {
	tool.Call
	effect  tool.Effect
	unknown bool         // there is no such tool
	known   *tool.Result // it will not run: this is its result
	stop    bool         // … and the run ends after it
	repeats bool         // it was made so often that it leads nowhere
}

func (r *run) newCall(b message.Block) *call {
	_, ok := r.cfg.Tools.Lookup(b.Name)
	return &call{
		Call:   tool.Call{ID: b.ID, Name: b.Name, Input: b.Input},
		effect: r.cfg.Tools.Effect(b.Name, b.Input), unknown: !ok,
	}
}

// verdict is what came of some calls, for the run.
type verdict struct {
	refused bool // the user refused one without a word
	ran     int  // how many were not mere repetitions
}

// runTools runs the calls of the last answer. Each gets exactly one result,
// whatever happens; the results stand in the order of the calls.
func (r *run) runTools() loop.Outcome {
	caller, blocks := r.history.Open()
	made := blocks
	ids := make([]string, len(blocks))
	for i, b := range blocks {
		ids[i] = b.ID
	}
	cut, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	r.cutBy(stop)
	defer func() { r.early.discard(nil); r.early = nil }()

	var all verdict
	for len(blocks) > 0 && !all.refused && r.halt == "" && !errors.Is(context.Cause(cut), errSubmit) {
		batch := r.batch(blocks)
		blocks = blocks[len(batch):]
		v := r.runBatch(cut, batch)
		all.refused, all.ran = v.refused, all.ran+v.ran
	}
	outcome := loop.Outcome{Kind: loop.ToolsDone}
	switch {
	case r.ctx.Err() != nil:
		outcome = r.aborted()
	case all.refused:
		outcome.Kind = loop.ToolsRefused
		r.skip(blocks, refusedAnother)
	case r.halt != "":
		all.ran += len(blocks)
		r.skip(blocks, haltedByHook)
	case len(blocks) > 0:
		all.ran += len(blocks)
		r.skip(blocks, submittedMeanwhile)
	}
	if outcome.Cause == loop.ByShutdown {
		return outcome // a resume must see which calls are in doubt (R88)
	}
	if r.deferred != nil && outcome.Kind != loop.ToolsDone {
		r.deferred = nil
		r.skip(made, "This call was not run: a hook put it off, and the run was ended.")
	}
	if r.deferred != nil {
		return loop.Outcome{Kind: loop.ToolsDeferred}
	}
	if outcome.Kind == loop.ToolsDone && all.ran == 0 && len(ids) > 0 {
		outcome.Kind = loop.Repeated
	}
	r.afterBatch(made)
	r.emit(&session.Results{ID: r.history.NextID(), Caller: caller.ID, Calls: ids})
	if r.putOff {
		r.putOff = false
		r.passOn()
		if o := r.prompted(); o.Kind == loop.Aborted && (outcome.Kind == loop.ToolsDone || outcome.Kind == loop.Repeated) {
			return o
		}
	}
	r.passOn()
	return outcome
}

// cutBy lets a prompt that does not want to wait end what stop ends: calls that
// change nothing, and those that have not begun (R79).
func (r *run) cutBy(stop context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop = stop
}

// batch takes calls from the front that may run together, as many as may run at
// once, or a single one that must run alone (R75).
func (r *run) batch(blocks []message.Block) []*call {
	var batch []*call
	for _, b := range blocks {
		c := r.newCall(b)
		alone := !r.cfg.Tools.Concurrent(c.Name, c.Input)
		if len(batch) > 0 && (alone || len(batch) == r.cfg.Parallel) {
			break
		}
		batch = append(batch, c)
		if alone {
			break
		}
	}
	return batch
}

// update is what a running tool tells the run.
type update struct {
	call   *call
	text   string             // progress
	heard  hook.Output        // what hooks said about the result
	group  int                // a process group, before it works …
	start  time.Time          // … since when
	saved  *session.FileSaved // a file, before it is changed …
	failed error              // … and why it could not be kept
	ack    chan<- error       // … which waits for this
	result *tool.Result
	took   time.Duration
}

// runBatch decides about the calls of batch and runs them together.
func (r *run) runBatch(cut context.Context, batch []*call) verdict {
	var v verdict
	for _, c := range batch {
		if v.refused {
			c.refuse(tool.ClassAborted, refusedAnother)
		} else if r.withhold(cut, c); c.known == nil {
			r.judge(c)
		}
		v.refused = v.refused || c.stop
		if !c.repeats {
			v.ran++
		}
	}
	if r.deferred != nil {
		return v
	}
	for _, c := range batch { // a no that ends the run also holds for those before it, which have not begun
		if v.refused && c.known == nil {
			c.refuse(tool.ClassAborted, refusedAnother)
		}
		if r.withhold(cut, c); c.known == nil && r.ctx.Err() == nil {
			r.assign(c)
		}
	}
	for len(batch) > 0 {
		n := r.beside(batch)
		r.together(cut, batch[:n])
		batch = batch[n:]
	}
	return v
}

// beside is how many calls at the front of batch may run together, now that
// nobody changes their inputs any more (R75).
func (r *run) beside(batch []*call) int {
	alone := func(c *call) bool { return c.known == nil && !r.cfg.Tools.Concurrent(c.Name, c.Input) }
	if i := slices.IndexFunc(batch, alone); i >= 0 {
		return max(i, 1)
	}
	return len(batch)
}

// withhold keeps a call from beginning if the run took another course while it
// was decided about.
func (r *run) withhold(cut context.Context, c *call) {
	switch {
	case c.known != nil, r.ctx.Err() != nil, r.early.of(c) != nil:
	case errors.Is(context.Cause(cut), errSubmit):
		c.refuse(tool.ClassAborted, submittedMeanwhile)
	case r.halt != "":
		c.refuse(tool.ClassHook, haltedByHook)
	}
}

// together runs calls that are decided about. When cut ends, those that change
// nothing end with it.
func (r *run) together(cut context.Context, batch []*call) {
	updates := make(chan update)
	var running sync.WaitGroup
	running.Add(1)
	started := sync.OnceFunc(running.Done)
	go func() { running.Wait(); close(updates) }()
	ended := false
	defer func() {
		if started(); ended {
			return
		}
		r.cancel(errLeft) // the consumer panicked: the calls end before the run does
		for range updates {
		}
	}()
	for _, c := range batch {
		r.withhold(cut, c)
		ctx := r.ctx
		if c.effect == tool.Pure {
			ctx = cut
		} else if c.known == nil && r.ctx.Err() == nil {
			r.commanded = r.commanded || r.cfg.Tools.Access(c.Name, c.Input).Kind == tool.AccessShell
			r.emit(&session.Intent{Call: c.ID, Name: c.Name, Effect: string(c.effect), Input: r.told(c)})
		}
		running.Go(func() { r.work(ctx, c, updates) })
	}
	started()
	for u := range updates {
		r.take(u)
	}
	ended = true
}

// judge decides whether a call runs.
func (r *run) judge(c *call) {
	if n := r.repeats.nowhere(c); n > 0 && r.ctx.Err() == nil {
		c.refuse(tool.ClassRepeated, fmt.Sprintf("This call was not run: it was made %d times before with the same result, "+
			"and nothing has changed since. Making it again leads nowhere. Do something else, or say what keeps you from going on.", n))
		c.repeats = true
		return
	}
	if c.known = r.cfg.Tools.Check(c.Call); c.known != nil || r.ctx.Err() != nil {
		return
	}
	q := r.preToolUse(c)
	if c.known == nil && r.deferred == nil {
		r.permit(c, q)
	}
}

// Results of calls that did nothing wrong.
const (
	refusedAnother     = "This call was not run: the user refused another one and ended the run."
	haltedByHook       = "This call was not run: a hook ended the run."
	submittedMeanwhile = "This call was not run: the user sent a new message meanwhile."
)

// refuse gives a call that will not run its result.
func (c *call) refuse(class, text string) {
	refusal := tool.Refuse(class, text)
	c.known = &refusal
}

// work runs one call, in its own goroutine.
func (r *run) work(ctx context.Context, c *call, updates chan<- update) {
	if c.known != nil {
		updates <- update{call: c, result: c.known}
		return
	}
	progress := func(text string) { updates <- update{call: c, text: text} }
	begins := ctx.Err() == nil || r.early.of(c) != nil
	done := func(result tool.Result, took time.Duration) {
		u := update{call: c, result: &result, took: took}
		if begins { // of others there is nothing to say
			r.postToolUse(ctx, c, &u)
		}
		updates <- u
	}
	if e := r.early.of(c); e != nil {
		done(e.adopt(ctx, progress), e.took)
		return
	}
	began := time.Now()
	c.Progress = progress
	c.Started = func(group int, start time.Time) error {
		return r.settled(update{call: c, group: group, start: start}, updates)
	}
	if r.cfg.Files != nil {
		c.Saved = func(path string, before, after []byte) error { return r.saveFile(c, path, before, after, updates) }
	}
	done(r.cfg.Tools.Run(ctx, c.Call), time.Since(began))
}

// saveFile stores what a file holds before a tool changes it, and waits until the
// journal says so: a change that cannot be taken back is not made.
func (r *run) saveFile(c *call, path string, before, after []byte, updates chan<- update) error {
	saved := &session.FileSaved{Call: c.ID, Path: path, Before: session.Absent, After: session.Hash(after)}
	var failed error
	if before != nil {
		saved.Before, failed = r.cfg.Files.Keep(before)
	}
	return r.settled(update{call: c, saved: saved, failed: failed}, updates)
}

// settled waits until u is in the journal, or the run is over, also where a
// consumer that panicked ended it.
func (r *run) settled(u update, updates chan<- update) error {
	ack := make(chan error, 1)
	u.ack = ack
	updates <- u
	select {
	case err := <-ack:
		return err
	case <-r.base.Done():
		return context.Cause(r.base)
	}
}

// take turns an update into events.
func (r *run) take(u update) {
	c := u.call
	if u.result != nil {
		if d, ok := u.result.Output.(*Delegated); ok { // it is spent, whoever hears of the result
			r.bill.child(d)
		}
	}
	switch {
	case u.saved != nil && u.failed != nil && !r.mute: // a run that goes on unsaved was told of
		u.ack <- u.failed
	case u.saved != nil:
		r.emit(u.saved)
		u.ack <- context.Cause(r.ctx)
	case u.ack != nil:
		r.emit(&session.Intent{Call: c.ID, Name: c.Name, Effect: string(c.effect), Input: r.told(c), Group: u.group, Started: u.start.UTC()})
		u.ack <- context.Cause(r.ctx)
	case u.result == nil:
		r.emit(&session.Progress{Call: c.ID, Name: c.Name, Text: r.cfg.Redact.Known(u.text)})
	case u.result.Class == tool.ClassAborted && r.aborted().Cause == loop.ByShutdown && r.ctx.Err() != nil:
		// No result is made up for what the end of the process cut.
	default:
		r.result(c, u)
		r.object(u.heard)
	}
}

func (r *run) result(c *call, u update) {
	block := message.Block{
		Type: message.ToolResult, ToolUseID: c.ID, IsError: u.result.IsError, Content: r.clean(u.result.Content),
	}
	if c.repeats {
		r.repeats.again(c)
	} else {
		r.repeats.add(c, block, u.took)
	}
	if u.result.Denied {
		r.denials = append(r.denials, session.Denial{Tool: c.Name, Call: c.ID, Input: r.told(c)})
	}
	r.emit(&session.Result{
		Call: c.ID, Name: c.Name, Block: block, Class: u.result.Class, Denied: u.result.Denied,
		Took: u.took, Output: r.cleanOutput(u.result.Output), Task: begunOrEnded(u.result.Task),
	})
}

// clean removes the secrets that this agent knows from what a tool said.
func (r *run) clean(content []message.Block) []message.Block {
	content = slices.Clone(content)
	for i := range content {
		if content[i].Type == message.Text {
			content[i].Text = r.cfg.Redact.Known(content[i].Text)
		}
	}
	return content
}

// cleanOutput is a structured output without the secrets that this agent knows.
func (r *run) cleanOutput(output any) any {
	if output == nil {
		return nil
	}
	data, err := json.Marshal(output, session.JSONOptions())
	if err != nil {
		return nil // for screens only, and the result itself is there
	}
	return jsontext.Value(r.cfg.Redact.Known(string(data)))
}

// skip gives calls that will not run their results.
func (r *run) skip(blocks []message.Block, why string) {
	for _, b := range blocks {
		r.emit(&session.Result{Call: b.ID, Name: b.Name, Block: message.TextResult(b.ID, why, true), Class: tool.ClassAborted})
	}
}

// permit asks the policy, and through it the person, about one call that a hook
// may have spoken on.
func (r *run) permit(c *call, q permission.Question) {
	p := r.cfg.permits.now()
	if p == nil && q.Hook == permission.Ask {
		p = &permission.Policy{Mode: permission.Bypass, Root: r.cfg.Dir}
	}
	if p == nil || r.ctx.Err() != nil {
		return
	}
	q.AccessOf = func(input jsontext.Value) tool.Access { return r.cfg.Tools.Access(c.Name, input) }
	q.Call, q.Access = c.Call, q.AccessOf(c.Input)
	ask, updates := r.asker(p, q)
	d := p.Resolve(r.ctx, q, ask)
	if r.ctx.Err() != nil {
		return // the call will not run, and nobody refused it
	}
	allowed := d.Behavior == permission.Allow
	r.emit(&session.Permission{Call: c.ID, Name: c.Name, Allowed: allowed, By: string(d.ReasonType), Reason: r.cfg.Redact.Redact(d.Reason)})
	if len(d.Remember) > 0 {
		r.apply(permission.Remember(d.Remember))
	}
	if !allowed {
		c.refuse(tool.ClassDenied, d.Message)
		c.known.Denied, c.stop = true, d.Interrupt
		return
	}
	r.relax(updates)
	if d.Input != nil {
		r.change(c, d.Input)
	}
}

// told is the input of a call as it is kept and shown: a hook may have put a
// secret into it.
func (r *run) told(c *call) jsontext.Value {
	return jsontext.Value(r.cfg.Redact.Known(string(c.Input)))
}

// change gives a call another input, and judges it anew.
func (r *run) change(c *call, input jsontext.Value) {
	c.Input = input
	c.effect = r.cfg.Tools.Effect(c.Name, c.Input)
	c.known = r.cfg.Tools.Check(c.Call)
}
