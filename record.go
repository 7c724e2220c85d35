package daruma

import (
	"time"

	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
)

// retryRecord is the record of a repetition by layer 1, with the wait drawn.
func (r *run) retryRecord(t *attempt, v retry.Verdict) *session.Recovery {
	e := t.failure
	delay := v.Min + time.Duration(r.cfg.Rand()*float64(v.Max-v.Min))
	rec := &session.Recovery{
		Layer: "request", Cause: e.Kind, Status: e.Status, Request: e.RequestID, Evidence: brief(e.Message),
		Decision: string(v.Do), Rule: v.Rule, Attempt: v.Attempt, Of: v.Of, Lost: lost(t), State: session.Running,
		From: t.request.Model,
	}
	if v.Do == retry.Wait {
		rec.Decision, rec.Delay, rec.NextAt = "retry", delay, time.Now().Add(delay).UTC()
	}
	return rec
}

// unstreaming is the record of the one try in one piece.
func (r *run) unstreaming(t *attempt) *session.Recovery {
	e := t.failure
	return &session.Recovery{
		Layer: "stream", Cause: e.Kind, Status: e.Status, Request: e.RequestID, Evidence: brief(e.Message),
		Decision: "unstreamed", Rule: "streaming_fails", Attempt: 1, Of: 1, Lost: lost(t), State: session.Running, From: t.request.Model,
	}
}

// publish numbers a record, tells it and keeps it until it is healed.
func (r *run) publish(rec *session.Recovery) *session.Recovery {
	rec.ID = r.history.Recoveries + 1
	r.records = append(r.records, rec)
	published := *rec
	r.emit(&published)
	return rec
}

// record is the record of a recovery by layer 3; nil if step is none.
func (r *run) record(o loop.Outcome, step loop.Step) *session.Recovery {
	used, limit := r.core.Used(r.state, step.Transition)
	if step.Transition == loop.KeptCalls {
		used, limit = 1, 1 // no row of the table, but a way back all the same
	}
	if step.Transition == loop.None || limit == 0 || !changes(o, step) {
		return nil
	}
	cause := o.Failure
	if o.Kind == loop.Unchanged && r.failure != nil {
		cause = r.failure.Kind // still: the rung before did not help
	}
	rec := &session.Recovery{
		Layer: "turn", Cause: cause, Outcome: o.String(), Decision: string(step.Transition), Rule: string(step.Transition),
		Attempt: used, Of: limit, State: session.Running,
	}
	if step.Do == loop.Reduce {
		rec.Layer = "context"
	}
	if e := r.failure; e != nil && cause != "" {
		rec.Status, rec.Request, rec.Evidence = e.Status, e.RequestID, brief(e.Message)
	}
	if step.Keep {
		rec.Kept = "the text so far"
		if step.Do == loop.RunTools {
			rec.Kept = "the complete calls"
		}
	}
	switch step.Transition {
	case loop.Fallback:
		rec.From, rec.To = r.cfg.Models[used-1], r.cfg.Models[used]
	case loop.AfterRefusal:
		rec.To = r.cfg.RefusalModel
	}
	return rec
}

// begun tells of a recovery by layer 3.
func (r *run) begun(rec *session.Recovery, o loop.Outcome) {
	switch loop.Transition(rec.Decision) {
	case loop.Fallback:
		r.notice(session.Warning, "switched from %s to %s for the rest of this run: %s", rec.From, rec.To, o.Failure)
	case loop.AfterRefusal:
		r.notice(session.Warning, "the model refused: %s is asked, and for the rest of the session", rec.To)
	}
	r.publish(rec)
}

// changes reports whether step is the recovery itself and not the road after
// it, which carries its name along.
func changes(o loop.Outcome, step loop.Step) bool {
	return step.Discard || step.Keep || step.Do == loop.Reduce || step.Nudge != loop.NoNudge ||
		o.Kind == loop.HooksBlocked || o.Kind == loop.Repeated
}

// heal closes every open record: an answer came.
func (r *run) heal() {
	r.healed += len(r.records)
	r.close(session.Healed)
	r.failure = nil
}

// supersede closes the newest record: its way back led nowhere.
func (r *run) supersede() {
	if n := len(r.records); n > 0 {
		end := *r.records[n-1]
		end.State = session.Superseded
		r.records = r.records[:n-1]
		r.ended(&end)
	}
}

func (r *run) close(state session.RecoveryState) {
	for _, rec := range r.records {
		if rec.State == session.Running {
			end := *rec
			end.State = state
			r.ended(&end)
		}
	}
	r.records = nil
}

// ended tells of the end of a recovery.
func (r *run) ended(rec *session.Recovery) {
	r.emit(rec)
	if r.cfg.Hooks.Any(hook.RecoveryEnd) {
		r.tell(hook.RecoveryEndInput{RecoveryRecord: forHooks(rec)})
	}
}

func lost(t *attempt) session.Lost {
	s := t.spent()
	return session.Lost{Usage: s.Usage, USD: s.USD, Unknown: s.Unknown, Took: t.took, Chars: t.shown()}
}

// brief is a provider's message as evidence: one line, bounded.
func brief(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// bill counts what a run used.
type bill struct {
	total, waste session.Total
	api          time.Duration
	purse        *purse // of the run and of all agents below it
}

func (b *bill) useful(t *attempt) {
	b.add(&b.total, t)
	b.purse.pay(t.spent().USD)
	b.api += t.took
}

// child adds what a sub-agent used; the purse knows already.
func (b *bill) child(d *Delegated) {
	b.total.Add(d.total)
	b.waste.Add(d.wasted)
}

func (b *bill) wasted(t *attempt) {
	b.add(&b.total, t)
	b.add(&b.waste, t)
	s := t.spent()
	b.purse.pay(s.USD)
	b.purse.lose(s.USD, s.Usage.Output, t.took)
	b.api += t.took
}

func (*bill) add(to *session.Total, t *attempt) {
	s := t.spent()
	one := session.Total{Usage: s.Usage, USD: s.USD}
	if s.Unknown {
		one.Unknown = 1
	}
	to.Add(one)
}
