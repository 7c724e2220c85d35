package daruma

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/tool"
)

// errDiscarded is why a call ends whose answer was taken back.
var errDiscarded = errors.New("the answer that made the call was taken back")

// early are the pure calls of one attempt that run while the answer still
// streams. What they find counts once the answer is committed; if it is taken
// back they end, and nobody hears of them.
type early struct {
	closed bool // a call came that must be the first of its batch: none behind it starts
	calls  map[string]*earlyCall
}

type earlyCall struct {
	call   tool.Call
	cancel context.CancelCauseFunc
	done   chan struct{}
	result tool.Result
	took   time.Duration

	mu       sync.Mutex
	adopted  bool
	progress func(string) // of the call, once it was adopted
	later    []func()     // what counts from then
}

// startEarly starts the call that e completes, if it may run before the rest of
// the answer is known (architecture: streams): it is pure, so is every call
// before it, no hook wants to see it and nobody has to be asked. Commands wait:
// their processes must be in the ledger first.
func (r *run) startEarly(t *attempt, e model.Event) {
	if e.Kind != model.EventBlockStop || e.Block.Type != message.ToolUse || t.early.closed {
		return
	}
	c := r.newCall(*e.Block)
	if c.effect != tool.Pure {
		t.early.closed = true
		return
	}
	access := r.cfg.Tools.Access(c.Name, c.Input)
	if _, twice := t.early.calls[c.ID]; twice || c.ID == "" || c.unknown || len(t.early.calls) >= r.cfg.Parallel ||
		access.Kind == tool.AccessShell || !message.IsObject(c.Input) || r.cfg.Redact.Known(string(c.Input)) != string(c.Input) ||
		r.repeats.nowhere(c) > 0 || r.hooked(c) {
		return
	}
	if p := r.cfg.permits.now(); p != nil && p.Decide(c.Call, access).Behavior != permission.Allow {
		return
	}
	ctx, cancel := context.WithCancelCause(r.base)
	started := &earlyCall{call: c.Call, cancel: cancel, done: make(chan struct{})}
	if t.early.calls == nil {
		t.early.calls = map[string]*earlyCall{}
	}
	t.early.calls[c.ID] = started
	r.loose.Go(func() { started.run(ctx, r.cfg.Tools) })
}

func (e *earlyCall) run(ctx context.Context, set *tool.Set) {
	defer close(e.done)
	began := time.Now()
	c := e.call
	c.Progress = func(text string) {
		e.mu.Lock()
		report := e.progress
		e.mu.Unlock()
		if report != nil {
			report(text)
		}
	}
	c.OnCommit = func(f func()) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.adopted {
			f()
			return
		}
		e.later = append(e.later, f)
	}
	e.result, e.took = set.Run(ctx, c), time.Since(began)
}

// adopt makes an early call one of a committed answer, and waits for its result.
func (e *earlyCall) adopt(ctx context.Context, progress func(string)) tool.Result {
	defer context.AfterFunc(ctx, func() { e.cancel(context.Cause(ctx)) })()
	e.mu.Lock()
	e.adopted, e.progress = true, progress
	for _, f := range e.later {
		f()
	}
	e.mu.Unlock()
	<-e.done
	return e.result
}

// of returns the early call that c is.
func (e *early) of(c *call) *earlyCall {
	if e == nil {
		return nil
	}
	if found := e.calls[c.ID]; found != nil && found.call.Name == c.Name && bytes.Equal(found.call.Input, c.Input) {
		return found
	}
	return nil
}

// discard ends what was started early and is not wanted.
func (e *early) discard(cause error) {
	if e == nil {
		return
	}
	for _, c := range e.calls {
		c.cancel(cause)
	}
}
