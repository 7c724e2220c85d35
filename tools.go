package daruma

import (
	"context"
	"slices"
	"sync"
	"time"

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
	effect tool.Effect
	denied *tool.Result // permission said no: the result is known
	stop   bool         // … and the run ends after it
}

// runTools runs the calls of the last answer. Each gets exactly one result,
// whatever happens; the results stand in the order of the calls.
func (r *run) runTools() loop.Outcome {
	caller, blocks := r.history.Open()
	outcome := loop.Outcome{Kind: loop.ToolsDone}
	ids := make([]string, len(blocks))
	for i, b := range blocks {
		ids[i] = b.ID
	}
	for len(blocks) > 0 {
		batch := r.batch(blocks)
		blocks = blocks[len(batch):]
		if r.runBatch(batch) {
			outcome.Kind = loop.ToolsRefused
			r.skip(blocks, "This call was not run: the user refused another one and ended the run.")
			break
		}
	}
	if r.ctx.Err() != nil {
		outcome = r.aborted()
	}
	if outcome.Cause == loop.ByShutdown {
		return outcome // a resume must see which calls are in doubt (R88)
	}
	r.emit(&session.Results{ID: r.history.NextID(), Caller: caller.ID, Calls: ids})
	return outcome
}

// batch takes calls from the front that may run together: pure ones, as many
// as may run at once, or a single one that is not pure (R75).
func (r *run) batch(blocks []message.Block) []*call {
	var batch []*call
	for _, b := range blocks {
		c := &call{Call: tool.Call{ID: b.ID, Name: b.Name, Input: b.Input}, effect: r.cfg.Tools.Effect(b.Name, b.Input)}
		alone := c.effect != tool.Pure
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
	group  int                // a process group, before it works …
	start  time.Time          // … since when
	saved  *session.FileSaved // a file, before it is changed …
	failed error              // … and why it could not be kept
	ack    chan<- error       // … which waits for this
	result *tool.Result
	took   time.Duration
}

// runBatch decides about the calls of batch, runs them together and reports
// whether the user ended the run by refusing one.
func (r *run) runBatch(batch []*call) (refused bool) {
	for _, c := range batch {
		r.permit(c)
		refused = refused || c.stop
	}
	updates := make(chan update)
	var running sync.WaitGroup
	for _, c := range batch {
		if c.denied == nil && c.effect != tool.Pure {
			r.emit(&session.Intent{Call: c.ID, Name: c.Name, Effect: string(c.effect), Input: c.Input})
		}
		running.Go(func() { r.work(c, updates) })
	}
	go func() { running.Wait(); close(updates) }()
	// A consumer that panics leaves nobody stuck: what comes is thrown away.
	defer func() {
		go func() {
			for range updates {
			}
		}()
	}()
	for u := range updates {
		r.take(u)
	}
	return refused
}

// work runs one call, in its own goroutine.
func (r *run) work(c *call, updates chan<- update) {
	began := time.Now()
	if c.denied != nil {
		updates <- update{call: c, result: c.denied}
		return
	}
	c.Progress = func(text string) { updates <- update{call: c, text: text} }
	c.Started = func(group int, start time.Time) error {
		ack := make(chan error)
		updates <- update{call: c, group: group, start: start, ack: ack}
		return <-ack
	}
	if r.cfg.Files != nil {
		c.Saved = func(path string, before, after []byte) error { return r.saveFile(c, path, before, after, updates) }
	}
	result := r.cfg.Tools.Run(r.ctx, c.Call)
	updates <- update{call: c, result: &result, took: time.Since(began)}
}

// saveFile stores what a file holds before a tool changes it, and waits until the
// journal says so: a change that cannot be taken back is not made.
func (r *run) saveFile(c *call, path string, before, after []byte, updates chan<- update) error {
	saved := &session.FileSaved{Call: c.ID, Path: path, Before: session.Absent, After: session.Hash(after)}
	var failed error
	if before != nil {
		saved.Before, failed = r.cfg.Files.Keep(before)
	}
	ack := make(chan error)
	updates <- update{call: c, saved: saved, failed: failed, ack: ack}
	return <-ack
}

// take turns an update into events.
func (r *run) take(u update) {
	c := u.call
	switch {
	case u.saved != nil && u.failed != nil && !r.mute: // a run that goes on unsaved was told of
		u.ack <- u.failed
	case u.saved != nil:
		r.emit(u.saved)
		u.ack <- context.Cause(r.ctx)
	case u.ack != nil:
		r.emit(&session.Intent{Call: c.ID, Name: c.Name, Effect: string(c.effect), Input: c.Input, Group: u.group, Started: u.start.UTC()})
		u.ack <- context.Cause(r.ctx)
	case u.result == nil:
		r.emit(&session.Progress{Call: c.ID, Name: c.Name, Text: r.cfg.Redact.Known(u.text)})
	case u.result.Class == tool.ClassAborted && r.aborted().Cause == loop.ByShutdown && r.ctx.Err() != nil:
		// No result is made up for what the end of the process cut.
	default:
		r.result(c, u)
	}
}

func (r *run) result(c *call, u update) {
	block := message.Block{
		Type: message.ToolResult, ToolUseID: c.ID, IsError: u.result.IsError, Content: r.clean(u.result.Content),
	}
	if u.result.Denied {
		r.denials = append(r.denials, session.Denial{Tool: c.Name, Call: c.ID, Input: c.Input})
	}
	r.emit(&session.Result{
		Call: c.ID, Name: c.Name, Block: block, Class: u.result.Class, Denied: u.result.Denied,
		Took: u.took, Output: r.cleanOutput(u.result.Output),
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

// permit asks the policy, and through it the person, about one call. A call of
// an unknown tool needs no permission: it will not run.
func (r *run) permit(c *call) {
	p := r.cfg.Permission
	if _, known := r.cfg.Tools.Lookup(c.Name); p == nil || !known || r.ctx.Err() != nil {
		return
	}
	access := func(input jsontext.Value) tool.Access { return r.cfg.Tools.Access(c.Name, input) }
	d := p.Resolve(r.ctx, permission.Question{Call: c.Call, Access: access(c.Input), AccessOf: access}, r.cfg.Ask)
	if r.ctx.Err() != nil {
		return // the call will not run, and nobody refused it
	}
	allowed := d.Behavior == permission.Allow
	r.emit(&session.Permission{Call: c.ID, Name: c.Name, Allowed: allowed, By: string(d.ReasonType), Reason: r.cfg.Redact.Redact(d.Reason)})
	if len(d.Remember) > 0 {
		r.remember(d.Remember)
	}
	if !allowed {
		refusal := tool.Refuse(tool.ClassDenied, d.Message)
		refusal.Denied = true
		c.denied, c.stop = &refusal, d.Interrupt
		return
	}
	if d.Input != nil {
		c.Input = d.Input
	}
}
