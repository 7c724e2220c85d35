package daruma

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/daruma-agent/daruma/compact"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
)

const (
	summaryRoom   = 20_000 // output room of a summary (R46)
	summaryTries  = 3      // shrinking the summary request itself (R45)
	keepShare     = 5      // the newest rounds keep a fifth of the window …
	keepMost      = 20_000 // … and at most this many tokens
	shortTalk     = 200    // tokens: a summary that a person asks for would be as long, and cost money
	progressShare = 10     // a reduction that saves less than a tenth is none
)

// reduce makes the conversation smaller by one rung of the ladder. Whatever
// goes wrong here is Unchanged: the conversation stays as it is.
func (r *run) reduce(step loop.Step) loop.Outcome {
	next, err := r.rung(step.Rung)
	if r.ctx.Err() != nil {
		o := r.aborted()
		if o.Cause == loop.ByUser {
			r.Agent.declined = message.Estimate(r.history.Messages)
		}
		return o
	}
	before, after := message.Estimate(r.history.Messages), message.Estimate(next)
	if err == nil && after > before-before/progressShare {
		err = fmt.Errorf("%w: %d tokens of %d would remain", errNoGain, after, before)
	}
	if err != nil {
		return r.unchanged(step, err)
	}
	r.replace(step, next, before, after)
	r.afterCompact(step)
	return r.refilled(step)
}

// Why a conversation cannot get smaller, although nothing went wrong: all of it is
// as new as what would be kept, or a summary would be as long.
var (
	errNothingOld = errors.New("there is nothing to leave out")
	errNoGain     = errors.New("a summary would hardly make it shorter")
)

// rung makes the smaller conversation.
func (r *run) rung(rung loop.Rung) ([]*message.Message, error) {
	window := r.scale.window(r.modelName(), r.cfg.Window)
	// What was refused may be far smaller than the window that we believe in.
	keep := min(keepMost, window/keepShare, message.Estimate(r.history.Messages)/keepShare)
	switch rung {
	case loop.Collapse:
		return compact.Collapse(r.history.Messages, keep, r.history.NextID), nil
	case loop.Media:
		return compact.StripMedia(r.history.Messages, r.offender(), r.history.NextID), nil
	case loop.Skeleton:
		keep /= 2
	}
	plan := compact.Split(r.history.Messages, keep)
	if len(plan.Old) == len(plan.Words) || r.manual && message.Estimate(r.history.Messages) < shortTalk {
		return nil, errNothingOld
	}
	if r.uncompacted {
		return nil, errors.New("a hook keeps it as it is")
	}
	if err := r.beforeCompact(r.trigger()); err != nil {
		return nil, err
	}
	if rung == loop.Skeleton {
		return compact.Skeleton(plan, r.history.NextID(), r.carried(keep)), nil
	}
	text, err := r.summary(plan, window)
	if err != nil {
		return nil, err
	}
	r.summarisedAs = text
	return compact.WithSummary(plan, r.history.NextID(), text, r.carried(keep)), nil
}

// offender picks the media that the provider's words point to; all of them
// when they point to none.
func (r *run) offender() func(m *message.Message, block int) bool {
	all := func(*message.Message, int) bool { return true }
	e := r.failure
	if e == nil || e.Numbers.Message == 0 {
		return all
	}
	// The provider counts turns: consecutive messages of one role are one.
	view, _ := message.View(r.history.Messages, r.rules(model.Lookup(r.modelName())))
	turn, first := -1, 0
	for i, m := range view {
		if i == 0 || view[i-1].Role != m.Role {
			turn, first = turn+1, 0
		}
		if at := e.Numbers.Block - 1 - first; turn == e.Numbers.Message-1 && (e.Numbers.Block == 0 || at >= 0 && at < len(m.Blocks)) {
			return func(o *message.Message, block int) bool { return o.ID == m.ID && (e.Numbers.Block == 0 || block == at) }
		}
		first += len(m.Blocks)
	}
	return all
}

// Breakers of compaction (R44).
const (
	failuresToStop = 3 // failed summaries in a row, in a session: none is tried before it is due
	refillTurns    = 3 // a window that is full again within so many turns …
	refillsToStop  = 3 // … so many times in a row ends the run
	declinedGrowth = 10
)

// unwanted reports whether the person cancelled a compaction, and the
// conversation has not grown by a tenth since: then none is begun before the
// provider demands it.
func (r *run) unwanted() bool {
	return r.declined > 0 && message.Estimate(r.history.Messages) < r.declined+r.declined/declinedGrowth
}

// refilled counts summaries that did not last.
func (r *run) refilled(step loop.Step) loop.Outcome {
	if step.Rung != loop.Summary && step.Rung != loop.Skeleton {
		return loop.Outcome{Kind: loop.Reduced}
	}
	if step.Rung == loop.Summary {
		r.Agent.failedSummaries = 0
	}
	switch since := r.turn - r.compacted; {
	case r.compacted == 0 || since > refillTurns:
		r.refills = 0
	case since > 0: // within one turn it is the next rung that was due
		r.refills++
	}
	r.compacted = r.turn
	if r.refills >= refillsToStop {
		return loop.Outcome{Kind: loop.BudgetReached, Budget: loop.Refill}
	}
	return loop.Outcome{Kind: loop.Reduced}
}

func (r *run) unchanged(step loop.Step, why error) loop.Outcome {
	if r.manual && (errors.Is(why, errNothingOld) || errors.Is(why, errNoGain)) { // what was wished for holds already
		r.notice(session.Info, "there is nothing to compact yet: the conversation is short")
		return loop.Outcome{Kind: loop.Reduced}
	}
	switch step.Rung {
	case loop.Summary:
		r.Agent.failedSummaries++
		r.notice(session.Warning, "the conversation could not be summarised: %v", why)
	case loop.Skeleton:
		r.notice(session.Warning, "the conversation could not be made smaller: %v", why)
	}
	return loop.Outcome{Kind: loop.Unchanged}
}

// replace puts next in the place of the conversation.
func (r *run) replace(step loop.Step, next []*message.Message, before, after int) {
	r.Agent.declined = 0
	old := make(map[string]bool, len(r.history.Messages))
	for _, m := range r.history.Messages {
		old[m.ID] = true
	}
	c := &session.Compaction{
		Rung: step.Rung.String(), Cause: string(step.Transition), Before: before, After: after,
		Dropped: len(r.history.Messages),
	}
	for _, m := range next {
		c.Order = append(c.Order, m.ID)
		if old[m.ID] {
			c.Dropped--
		} else {
			c.New = append(c.New, m)
		}
	}
	r.emit(c)
	r.repeats.forgetReads() // the model may no longer see what they said
	r.clamp = 0             // it was the room beside a longer conversation
}

func (r *run) carried(budget int) []string {
	if r.cfg.Carry == nil {
		return nil
	}
	return r.cfg.Carry(budget)
}

func (r *run) modelName() string {
	draft := r.core.Draft(r.state)
	if draft.AfterRefusal {
		return r.cfg.RefusalModel
	}
	return r.cfg.Models[min(draft.Model, len(r.cfg.Models)-1)]
}

// summary asks for a summary of what plan leaves out: the model of the run, or,
// where that is overloaded or broken, the next of the chain whose window is not
// smaller (R92).
func (r *run) summary(plan compact.Plan, window int) (text string, err error) {
	used, _ := r.core.Used(r.state, loop.Fallback)
	able := slices.DeleteFunc(slices.Clone(r.cfg.Models[used:]), func(name string) bool {
		return name != r.modelName() && r.scale.window(name, r.cfg.Window) < window
	})
	for i, name := range able {
		r.spare = i+1 < len(able)
		var t *attempt
		if text, t, err = r.summaryBy(name, plan, window); t == nil || !t.handover {
			break
		}
		if r.spare {
			r.notice(session.Warning, "%s could not write the summary, %s is asked: %s", name, able[i+1], t.failure.Kind)
		}
	}
	r.spare = false
	return text, err
}

// summaryBy asks one model, and returns the attempt that failed. The request
// keeps system prompt, tools and the beginning of the conversation, so that the
// provider's cache serves it; when it is too long itself, the oldest rounds go.
func (r *run) summaryBy(name string, plan compact.Plan, window int) (string, *attempt, error) {
	base := r.buildFor(name, model.Compact)
	base.Thinking = model.Thinking{}
	base.MaxTokens = min(summaryRoom, model.Lookup(name).MaxOutput, max(window/keepShare, 1000))
	ask := compact.Request(r.summarised(base, plan, window))
	var t *attempt
	for try, size := 0, math.MaxInt; ; try++ {
		msgs, _ := message.View(ask, r.rules(model.Lookup(name)))
		if now := message.Estimate(msgs); now < size {
			size = now
		} else { // it is one round already
			return "", t, fmt.Errorf("no summary: %w", t.failure)
		}
		t = r.request(func() *model.Request {
			req := *base
			req.Messages = msgs
			if r.clamp > 0 {
				req.MaxTokens = min(req.MaxTokens, r.clamp)
			}
			return &req
		}, false)
		if t == nil {
			return "", nil, r.ctx.Err()
		}
		if t.failure == nil {
			text, err := r.judgeSummary(t, plan)
			return text, nil, err
		}
		r.retract(t, string(t.failure.Kind))
		k := t.failure.Kind
		if t.aborted || try == summaryTries || k != failure.ContextOverflow && k != failure.RequestTooLarge {
			return "", t, fmt.Errorf("no summary: %w", t.failure)
		}
		ask = compact.Shrink(ask, tooMuch(ask, t.failure.Numbers))
	}
}

// tooMuch is by how much ask was too long, in our own measure and with a little
// room, as the share that the provider's numbers say (R45); 0: they do not say.
func tooMuch(ask []*message.Message, n failure.Numbers) int {
	if n.Limit <= 0 || n.InputTokens <= n.Limit {
		return 0
	}
	total := message.Estimate(ask)
	return total - int(float64(total)*float64(n.Limit)/float64(n.InputTokens)*0.98)
}

// summarised is what base is to summarise, within which limit, and the name of
// the message that asks for it.
func (r *run) summarised(base *model.Request, plan compact.Plan, window int) (old []*message.Message, limit int, ask *message.Message) {
	limit = window - base.MaxTokens - r.scale.overhead(base)
	if f, ok := r.scale.factor[base.Model]; ok {
		limit = int(float64(limit) / f)
	}
	if e := r.failure; e != nil && (e.Kind == failure.ContextOverflow || e.Kind == failure.RequestTooLarge) {
		// As long as this was refused, whatever the window is said to be.
		limit = min(limit, message.Estimate(r.history.Messages)*9/10)
	}
	old, _ = message.View(plan.Old, message.Rules{Model: base.Model, AssistantLast: true})
	return old, limit, compact.Ask("summary", r.instruction)
}

func (r *run) judgeSummary(t *attempt, plan compact.Plan) (string, error) {
	m := &message.Message{Blocks: t.answer.Blocks}
	text := m.PlainText()
	r.bill.useful(t)
	r.emit(&session.Commit{Attempt: t.number, Stop: string(t.answer.Stop), RequestID: t.answer.RequestID, Spent: t.spent()})
	return text, compact.Judge(text, t.outcome(keepText).Kind == loop.Answered, plan.Old)
}
