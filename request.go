package daruma

import (
	"context"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
)

// keepText is how much text of a broken stream is worth keeping, in bytes
// (R25, with our completion of it); less is asked for again.
const keepText = 2000

// sample asks the model for the next answer of the conversation.
func (r *run) sample() loop.Outcome {
	build := func() *model.Request { return r.build(model.Main) }
	t := r.request(build, true)
	r.pending, r.failure = t, t.failure
	if t.aborted {
		return r.aborted()
	}
	return t.outcome(keepText)
}

// request sends what build makes until an answer is whole or layer 1 gives it
// up. It performs the verdicts of [retry.Next]; build is called for every try,
// so each one is made from the state of that moment. Failed tries are taken
// back; the last one is the caller's to settle.
func (r *run) request(build func() *model.Request, show bool) *attempt {
	var tries retry.State
	for {
		req := build()
		req.Try = tries.Tries
		t := r.attempt(req, show)
		if t.failure == nil || t.aborted || t.keepable(keepText) {
			return t
		}
		var v retry.Verdict
		tries, v = retry.Next(r.policy, tries, r.facts(t))
		if v.Overflow {
			t.failure.Kind = failure.ContextOverflow // no clamp can fit: the history is too long
		}
		switch v.Do {
		case retry.HandOver:
			t.handover = true
			return t
		case retry.GiveUp:
			return t
		}
		// Taken back before the wait: nobody reads for a minute what is void.
		r.retract(t, string(t.failure.Kind))
		record := r.retrying(t, v)
		if !r.follow(v, &tries, record) {
			record.State = session.Cancelled
			r.emit(record)
			return r.stillborn(req)
		}
	}
}

// stillborn stands for the try that an abort prevented.
func (r *run) stillborn(req *model.Request) *attempt {
	t := &attempt{number: r.history.Attempts + 1, request: req, began: time.Now()}
	r.emit(&session.Begin{Attempt: t.number, Model: req.Model, Source: string(req.Source), MaxTokens: req.MaxTokens})
	t.fail(r, context.Cause(r.ctx))
	return t
}

func (r *run) facts(t *attempt) retry.Facts {
	return retry.Facts{
		Failure: t.failure, Progress: t.answer.Progress(), Source: t.request.Source,
		MaxTokens: t.request.MaxTokens, Budget: t.request.Thinking.Budget,
		Fallback: r.models() > 0 && t.request.Source == model.Main, Refresh: r.cfg.Refresh != nil,
	}
}

// models is how many models are left to fall back to.
func (r *run) models() int {
	used, limit := r.core.Used(r.state, loop.Fallback)
	return limit - used
}

// idleDropper is a wire that keeps connections open (R10).
type idleDropper interface{ DropIdle() }

// follow performs a verdict that leads to another try. It reports false when
// the run ended meanwhile.
func (r *run) follow(v retry.Verdict, tries *retry.State, record *session.Recovery) bool {
	if d, ok := r.cfg.Wire.(idleDropper); ok && v.DropPool {
		d.DropIdle()
	}
	switch v.Do {
	case retry.Clamp:
		r.clamp = v.MaxTokens
	case retry.Refresh:
		if err := r.cfg.Refresh(r.ctx); err != nil {
			r.notice(session.Warning, "the credentials could not be renewed: %v", err)
		}
	case retry.Wait:
		waited := record.Delay
		tries.Waited += waited
		return r.wait(waited, record)
	}
	return r.ctx.Err() == nil
}

// wait sleeps in slices, and says in each one why, for how long and until when
// (R17). It reports false when the run ended meanwhile.
func (r *run) wait(d time.Duration, record *session.Recovery) bool {
	until := record.NextAt
	for left := d; ; left = time.Until(until) {
		if left <= 0 {
			return r.ctx.Err() == nil
		}
		r.emit(&session.Waiting{
			Recovery: record.ID, Cause: record.Cause, Status: record.Status,
			Attempt: record.Attempt, Of: record.Of, Left: left, Until: until,
		})
		slice := r.policy.Heartbeat
		if left <= time.Minute {
			slice = min(slice, time.Second) // a countdown that a person watches
		}
		timer := time.NewTimer(min(left, slice))
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			timer.Stop()
			return false
		}
	}
}
