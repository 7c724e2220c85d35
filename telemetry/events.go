package telemetry

import (
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// The events on the span of a run.
const (
	eventRecovery   = "daruma.recovery"
	eventWait       = "daruma.wait"
	eventCompaction = "daruma.compaction"
	eventRepair     = "daruma.repair"
	eventRefused    = "daruma.permission_refused"
	eventMismatch   = "daruma.pairing_mismatch"
	eventPrompt     = "daruma.prompt_queued"
	eventLeftover   = "daruma.leftover" // of an earlier life of the session, settled
)

func (r *run) event(e session.Event, name string, a attrs) {
	r.span.AddEvent(name, trace.WithTimestamp(e.Time), trace.WithAttributes(a...))
}

// happened notes what has no length of its own.
func (r *run) happened(e session.Event) {
	var a attrs
	switch b := e.Body.(type) {
	case *session.Recovery:
		r.recovery(&a, b)
		r.event(e, eventRecovery, a)
	case *session.Waiting:
		r.waiting(e, b)
	case *session.Compaction:
		a.text("daruma.compaction.rung", b.Rung)
		a.text("daruma.compaction.cause", b.Cause)
		a = append(a, attribute.Int("daruma.compaction.tokens_before", b.Before), attribute.Int("daruma.compaction.tokens_after", b.After))
		a.count("daruma.compaction.dropped_messages", b.Dropped)
		r.event(e, eventCompaction, a)
	case *session.Repair:
		a.count("daruma.repair.fixes", len(b.Fixes))
		a.list("daruma.repair.rules", rules(b.Fixes)...)
		r.event(e, eventRepair, a)
	case *session.Permission:
		if !b.Allowed {
			a.text(keyTool, r.toolName(b.Name))
			a.text(keyCall, r.word(b.Call))
			a.text("daruma.permission.by", b.By)
			r.event(e, eventRefused, a)
		}
	case *session.Mismatch:
		r.event(e, eventMismatch, nil)
	}
}

// recovery is the whole record but for the provider's words; its end repeats
// only what one would search for.
func (r *run) recovery(a *attrs, b *session.Recovery) {
	a.count(keyRecovery, b.ID)
	a.text("daruma.recovery.state", string(b.State))
	a.text(keyRecoveryCause, string(b.Cause))
	a.text("daruma.recovery.decision", b.Decision)
	a.text("daruma.recovery.rule", b.Rule)
	a.count(keyRecoveryAttempt, b.Attempt)
	a.count(keyRecoveryOf, b.Of)
	if b.State != session.Running {
		return
	}
	a.text("daruma.recovery.layer", b.Layer)
	a.text("daruma.recovery.outcome", b.Outcome)
	a.seconds("daruma.recovery.delay", b.Delay)
	a.text("daruma.recovery.kept", b.Kept)
	a.text("daruma.recovery.model_before", b.From)
	a.text("daruma.recovery.model_after", b.To)
	a.count("daruma.recovery.lost.chars", b.Lost.Chars)
	a.count("daruma.recovery.lost.input_tokens", input(b.Lost.Usage))
	a.count("daruma.recovery.lost.output_tokens", b.Lost.Usage.Output)
	a.money("daruma.recovery.lost.cost.usd", b.Lost.USD)
	a.flag("daruma.recovery.lost.cost.unknown", b.Lost.Unknown)
	a.seconds("daruma.recovery.lost.time", b.Lost.Took)
	a.count(keyStatus, b.Status)
	a.text(keyRequest, r.word(b.Request))
	if r.cfg.Content {
		a.text("daruma.recovery.evidence", r.clean(b.Evidence))
	}
}

// waiting notes a wait once, and again only when its end moves: its heartbeats
// would push everything else out of the span.
func (r *run) waiting(e session.Event, b *session.Waiting) {
	until := b.Until.UnixNano()
	if r.waits[b.Recovery] == until {
		return
	}
	r.waits[b.Recovery] = until
	var a attrs
	a.count(keyRecovery, b.Recovery)
	a.text(keyRecoveryCause, string(b.Cause))
	a.count(keyRecoveryAttempt, b.Attempt)
	a.count(keyRecoveryOf, b.Of)
	a.count(keyStatus, b.Status)
	a.seconds("daruma.wait.left", b.Left)
	a.text("daruma.wait.until", b.Until.UTC().Format(time.RFC3339Nano))
	r.event(e, eventWait, a)
}

// mostRules bounds a list; the number of fixes is told apart from it.
const mostRules = 16

func rules(fixes []message.Fix) []string {
	var out []string
	for _, f := range fixes[:min(len(fixes), mostRules)] {
		out = append(out, string(f.Rule))
	}
	return out
}
