package daruma

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/gate"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
)

// keepText is how much text of a broken stream is worth keeping, in bytes
// (R25, with our completion of it); less is asked for again.
const keepText = 2000

// sample asks the model for the next answer of the conversation.
func (r *run) sample() loop.Outcome {
	t := r.request(func() *model.Request { return r.build(r.source()) }, true)
	if t == nil {
		return r.aborted()
	}
	r.pending, r.failure, r.later = t, t.failure, t.later
	if t.aborted {
		return r.aborted()
	}
	if t.budget != loop.NoBudget {
		r.pending = nil
		r.retract(t, string(t.failure.Kind))
		return loop.Outcome{Kind: loop.BudgetReached, Budget: t.budget}
	}
	o := t.outcome(keepText)
	o.Full = o.Kind == loop.Truncated && r.full(t)
	return o
}

// request sends what build makes until an answer is whole or layer 1 gives it
// up. It performs the verdicts of [retry.Next]; build is called for every try,
// so each one is made from the state of that moment. Failed tries are taken
// back; the last one is the caller's to settle. Only what is shown can be kept
// in part. It returns nil when the run ended between two tries.
func (r *run) request(build func() *model.Request, show bool) *attempt {
	tries := retry.State{Once: r.once, Before: r.waited}
	r.once, r.slow = false, false
	var ticket *gate.Ticket
	var failed []*failure.Error // of the streamed tries
	whole := false              // the next try asks for the answer in one piece
	for {
		req := build()
		req.Try, req.Unstreamed = tries.Tries, whole
		if ticket == nil {
			ticket = r.ticket(req)
		}
		held, ok := r.pass(ticket, req)
		if !ok {
			return nil
		}
		var t *attempt
		if held != nil {
			t = r.unsent(req, held)
		} else {
			t = r.attempt(req, ticket, show)
		}
		if t.failure == nil || t.aborted || show && t.keepable(keepText) {
			return t
		}
		if whole {
			return t // the one try in one piece
		}
		if failed = append(failed, t.failure); r.streamingFails(failed) {
			whole = true
			r.retract(t, string(t.failure.Kind))
			r.publish(r.unstreaming(t))
			continue
		}
		var v retry.Verdict
		tries, v = retry.Next(r.policy, tries, r.facts(t))
		v = r.afford(v, t)
		if v.Do == retry.Ask {
			v = r.askAboutWait(v, t)
		}
		if !v.Do.Ends() {
			v = r.heedRetry(v, t)
		}
		if v = r.afford(v, t); v.Do.Ends() {
			t.end(v)
			r.once = v.Once
			return t
		}
		// Taken back before the wait: nobody reads for a minute what is void.
		r.retract(t, string(t.failure.Kind))
		r.noteCutOff(t)
		if failed := r.follow(v, &tries, r.publish(r.retryRecord(t, v))); failed != nil {
			return r.unsent(req, failed)
		}
		if r.ctx.Err() != nil {
			return nil
		}
	}
}

// afford gives t up where it, and the wait that v wants, would take more than is
// left of a budget: a wait that cannot end in another try is no use. The wait is
// taken out of the purse at once, since others may want the same rest.
func (r *run) afford(v retry.Verdict, t *attempt) retry.Verdict {
	r.bill.purse.lose(0, 0, -r.reserved)
	if r.reserved = 0; v.Do.Ends() {
		return v
	}
	wait := time.Duration(0)
	if v.Do == retry.Wait || v.Do == retry.Ask {
		wait = v.Min
	}
	s := t.spent()
	t.budget = r.bill.purse.reserve(wait, func(usd float64, lost RecoveryBudget) loop.Budget {
		lost.USD, lost.Tokens, lost.Time = lost.USD+s.USD, lost.Tokens+s.Usage.Output, lost.Time+t.took+wait
		return r.cfg.exceeded(usd+s.USD, lost)
	})
	if t.budget != loop.NoBudget {
		v.Do, v.Rule, v.Later = retry.GiveUp, "budget", v.Min
		return v
	}
	r.reserved = wait
	return v
}

// cutOffNote tells the model what a command of its own may have done.
const cutOffNote = "[Right after the commands above there was no connection to the model any more. " +
	"If one of them changed the network, do not do the like again, and say so.]"

// noteCutOff tells the model once when a connection cannot be made directly
// behind commands that may have broken it.
func (r *run) noteCutOff(t *attempt) {
	if !r.commanded || t.failure.Kind != failure.Network || !undialed(t.failure) {
		return
	}
	r.commanded = false
	r.say(message.NewSynthetic(r.history.NextID(), cutOffNote))
}

// streamJudge is a wire that knows when failures speak against streaming itself.
type streamJudge interface {
	StreamingFails(failures ...*failure.Error) bool
}

func (r *run) streamingFails(failed []*failure.Error) bool {
	judge, ok := r.cfg.Wire.(streamJudge)
	return ok && r.cfg.Unstreamed && judge.StreamingFails(failed...)
}

// end notes what layer 1 said at last about t.
func (t *attempt) end(v retry.Verdict) {
	t.handover, t.later, t.rule = v.Do == retry.HandOver, v.Later, v.Rule
	if v.Overflow {
		t.failure.Kind = failure.ContextOverflow // no clamp can fit: the history is too long
	}
}

func (r *run) facts(t *attempt) retry.Facts {
	return retry.Facts{
		Failure: t.failure, Progress: t.answer.Progress(), Source: t.request.Source,
		MaxTokens: t.request.MaxTokens, Budget: t.request.Thinking.Budget,
		Fallback: r.another(t), Refresh: r.cfg.Refresh != nil,
		Fast: t.request.Fast, FastOff: t.failure.FastOff,
	}
}

// another reports whether another model could answer in the place of t's.
func (r *run) another(t *attempt) bool {
	switch t.request.Source {
	case model.Main, model.SubAgent:
		return r.models() > 0
	case model.Compact:
		return r.spare
	}
	return false
}

// WaitQuestion asks a person about a wait that is longer than anyone sits
// through.
type WaitQuestion struct {
	Failure  *failure.Error
	Wait     time.Duration
	Fallback bool // another model is left
}

// WaitChoice is the answer.
type WaitChoice string

// The choices; every other answer stops.
const (
	WaitForIt    WaitChoice = "wait"
	AnotherModel WaitChoice = "model"
	StopHere     WaitChoice = "stop"
)

// askAboutWait lets the person choose; without one, or in doubt, the run ends
// with the time at which it is worth going on.
func (r *run) askAboutWait(v retry.Verdict, t *attempt) retry.Verdict {
	q := WaitQuestion{Failure: t.failure, Wait: v.Min, Fallback: r.another(t)}
	choice := StopHere
	if r.cfg.AskWait != nil {
		choice = r.cfg.AskWait(r.ctx, q)
	}
	switch {
	case choice == WaitForIt:
		v.Do = retry.Wait
	case choice == AnotherModel && q.Fallback:
		v.Do = retry.HandOver
	default:
		v.Do = retry.GiveUp
	}
	return v
}

// models is how many models are left to fall back to.
func (r *run) models() int {
	used, limit := r.core.Used(r.state, loop.Fallback)
	return limit - used
}

// idleDropper is a wire that keeps connections open (R10).
type idleDropper interface{ DropIdle() }

// follow performs a verdict that leads to another try. It returns a failure
// when the verdict itself cannot be performed.
func (r *run) follow(v retry.Verdict, tries *retry.State, record *session.Recovery) *failure.Error {
	if d, ok := r.cfg.Wire.(idleDropper); ok && v.DropPool {
		d.DropIdle()
	}
	switch v.Do {
	case retry.Clamp:
		r.clamp = v.MaxTokens
	case retry.Refresh:
		if err := r.cfg.Refresh(r.ctx); err != nil && r.ctx.Err() == nil {
			// To ask again with what was refused would be refused again (R15).
			return &failure.Error{Kind: failure.Auth, Retry: failure.RetryNo, Rule: "refresh",
				Message: r.cfg.Redact.Redact("the credentials could not be renewed: " + err.Error())}
		}
	case retry.LeaveFast:
		r.notice(session.Warning, "fast mode is off for now: %s", v.Why)
		r.slow = true
		r.Agent.speed = r.speed.After(v, time.Now())
	case retry.Wait:
		tries.Waited += record.Delay
		r.await(record.Delay)
		r.wait(record.Delay, record)
	}
	return nil
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
		if !r.pause(min(left, slice)) {
			return false
		}
	}
}
