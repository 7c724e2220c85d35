package daruma

import (
	"fmt"

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
	progressShare = 10     // a reduction that saves less than a tenth is none
)

// reduce makes the conversation smaller by one rung of the ladder. Whatever
// goes wrong here is Unchanged: the conversation stays as it is.
func (r *run) reduce(step loop.Step) loop.Outcome {
	window := r.scale.window(r.modelName(), r.cfg.Window)
	keep := min(keepMost, window/keepShare)
	if step.Rung == loop.Skeleton {
		keep /= 2
	}
	plan := compact.Split(r.history.Messages, keep)
	if len(plan.Old) == len(plan.Words) {
		return r.unchanged("there is nothing to leave out")
	}
	var next []*message.Message
	id := r.history.NextID()
	if step.Rung == loop.Summary {
		text, err := r.summary(plan, window)
		if r.ctx.Err() != nil {
			return r.aborted()
		}
		if err != nil {
			return r.unchanged(err.Error())
		}
		next = compact.WithSummary(plan, id, text, r.carried())
	} else {
		next = compact.Skeleton(plan, id, r.carried())
	}
	before, after := message.Estimate(r.history.Messages), message.Estimate(next)
	if after > before-before/progressShare {
		return r.unchanged(fmt.Sprintf("%d tokens of %d would remain", after, before))
	}
	r.replace(step, next, before, after)
	return loop.Outcome{Kind: loop.Reduced}
}

func (r *run) unchanged(why string) loop.Outcome {
	r.notice(session.Warning, "the conversation could not be made smaller: %s", why)
	return loop.Outcome{Kind: loop.Unchanged}
}

// replace puts next in the place of the conversation.
func (r *run) replace(step loop.Step, next []*message.Message, before, after int) {
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
}

func (r *run) carried() []string {
	if r.cfg.Carry == nil {
		return nil
	}
	return r.cfg.Carry()
}

func (r *run) modelName() string {
	draft := r.core.Draft(r.state)
	return r.cfg.Models[min(draft.Model, len(r.cfg.Models)-1)]
}

// summary asks the model to summarise what plan leaves out. The request keeps
// system prompt, tools and the beginning of the conversation, so that the
// provider's cache serves it; when it is too long itself, the oldest rounds go.
func (r *run) summary(plan compact.Plan, window int) (string, error) {
	base := r.build(model.Compact)
	base.Thinking = model.Thinking{}
	base.MaxTokens = min(summaryRoom, model.Lookup(base.Model).MaxOutput, max(window/keepShare, 1000))
	limit := window - base.MaxTokens - r.scale.overhead(base)
	if f, ok := r.scale.factor[base.Model]; ok {
		limit = int(float64(limit) / f)
	}
	old, _ := message.View(plan.Old, message.Rules{Model: base.Model, AssistantLast: true})
	ask := compact.Request(old, limit, "summary")
	for try := 0; ; try++ {
		msgs, _ := message.View(ask, r.rules(model.Lookup(base.Model)))
		t := r.request(func() *model.Request {
			req := *base
			req.Messages = msgs
			return &req
		}, false)
		if t.failure == nil {
			return r.judgeSummary(t, plan)
		}
		r.retract(t, string(t.failure.Kind))
		k := t.failure.Kind
		if t.aborted || try == summaryTries || k != failure.ContextOverflow && k != failure.RequestTooLarge {
			return "", fmt.Errorf("no summary: %w", t.failure)
		}
		over := 0
		if n := t.failure.Numbers; n.InputTokens > n.Limit && n.Limit > 0 {
			over = n.InputTokens - n.Limit + base.MaxTokens
		}
		ask = compact.Shrink(ask, over)
	}
}

func (r *run) judgeSummary(t *attempt, plan compact.Plan) (string, error) {
	m := &message.Message{Blocks: t.answer.Blocks}
	text := m.PlainText()
	r.bill.useful(t)
	r.emit(&session.Commit{Attempt: t.number, Stop: string(t.answer.Stop), RequestID: t.answer.RequestID, Spent: t.spent()})
	return text, compact.Judge(text, t.answer.Stop != model.StopMaxTokens, plan.Old)
}
