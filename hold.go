package daruma

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/gate"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
)

// ticket is the request's place at the gate that all processes on this account
// and model share; nil when there is no gate.
func (r *run) ticket(req *model.Request) *gate.Ticket {
	if r.cfg.Gate == nil {
		return nil
	}
	g := r.cfg.Gate(req.Model)
	if g == nil {
		return nil
	}
	priority := gate.Foreground
	if retry.Background(req.Source) {
		priority = gate.Background
	}
	return g.Enter(priority)
}

// pass waits at the gate as long as another process knows of a limit. A limit
// that lasts longer than this run would wait for by itself is a failure like
// the provider's own: the same patience decides about it, and nothing is sent.
// It reports false when the run ended meanwhile.
func (r *run) pass(t *gate.Ticket, req *model.Request) (held *failure.Error, ok bool) {
	if t == nil {
		return nil, true
	}
	var record *session.Recovery
	for h := t.Hold(); h.For > 0; h = t.Hold() {
		if left := time.Until(h.Until); h.Why == gate.ForLimit && left > r.policy.HintLimit && !r.askedLimit {
			r.askedLimit = true
			return &failure.Error{
				Kind: failure.RateLimit, Retry: failure.RetryAfter, Rule: "gate",
				Hint: failure.Hint{After: left, Given: true}, Message: "another process met the limit of this account and model",
			}, true
		}
		if h.For < quietHold && record == nil {
			r.await(h.For)
			if !r.pause(h.For) {
				return nil, false
			}
			continue
		}
		if record == nil {
			record = r.publish(&session.Recovery{
				Layer: "request", Cause: failure.RateLimit, Decision: "gate", Rule: "gate-" + string(h.Why),
				Attempt: 1, Of: 1, Delay: h.For, State: session.Running, From: req.Model,
			})
		}
		record.NextAt = time.Now().Add(h.For).UTC()
		r.await(h.For)
		if !r.wait(h.For, record) {
			return nil, false
		}
	}
	r.askedLimit = false
	return nil, true
}

// quietHold is a hold that nobody notices: it only spaces requests, so it is
// neither told nor counted as a way back.
const quietHold = 250 * time.Millisecond

// await counts a wait before it begins.
func (r *run) await(d time.Duration) {
	r.waited += d
	r.bill.purse.lose(0, 0, d-r.reserved)
	r.reserved = 0
}

// pause sleeps; it reports false when the run ended meanwhile.
func (r *run) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// unsent stands for a request that was held at the gate.
func (r *run) unsent(req *model.Request, held *failure.Error) *attempt {
	t := &attempt{number: r.history.Attempts + 1, request: req, failure: held, unsent: true, began: time.Now()}
	r.emit(&session.Begin{Attempt: t.number, Model: req.Model, Source: string(req.Source), MaxTokens: req.MaxTokens, Held: true})
	return t
}

// tell reports to the gate what became of t, once: as soon as an answer begins.
func (t *attempt) tell() {
	if t.ticket == nil || t.told {
		return
	}
	t.told = true
	o := gate.Outcome{Result: gate.OK}
	if e := t.failure; e != nil {
		o.After = e.Hint.After
		switch e.Kind {
		case failure.RateLimit, failure.QuotaExhausted:
			o.Result = gate.Limited
		case failure.Overloaded:
			o.Result = gate.Overloaded
		default:
			o.Result = gate.Failed
		}
	}
	_ = t.ticket.Report(o) // a gate that cannot be written holds nobody
}
