package daruma

import (
	"context"
	"fmt"

	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// StopHook judges a final answer. active says that the answer was made because
// a stop hook blocked the one before (R56). An error, or a panic, blocks
// nothing: a broken hook must not keep an agent busy.
type StopHook func(ctx context.Context, answer *message.Message, active bool) (StopVerdict, error)

// hooked reports whether a hook wants to see c before it runs.
func (r *run) hooked(c *call) bool {
	return r.cfg.Hooks.Matches(r.input(hook.PreToolUseInput{ToolCall: c.forHooks()}))
}

// StopVerdict is what a stop hook says; the zero value lets the run end.
type StopVerdict struct {
	Block string // go on, and tell the model this
	Stop  bool   // end the run here, as not completed (R57)
}

// runHooks is the place where an answer can be refused; prompts that were
// submitted in the meantime are answered before the run ends.
func (r *run) runHooks() loop.Outcome {
	if r.joinQueued() {
		r.parts = nil
		return loop.Outcome{Kind: loop.Prompted}
	}
	for _, hook := range r.cfg.StopHooks {
		v, err := r.stopHook(hook)
		if r.ctx.Err() != nil {
			return r.aborted()
		}
		switch {
		case err != nil:
			r.notice(session.Warning, "a stop hook failed and is passed over: %v", err)
		case v.Stop:
			return loop.Outcome{Kind: loop.HooksStopped}
		case v.Block != "":
			r.parts = nil
			r.say(message.NewSynthetic(r.history.NextID(), v.Block))
			return loop.Outcome{Kind: loop.HooksBlocked}
		}
	}
	switch v := r.stopping(); {
	case r.ctx.Err() != nil:
		return r.aborted()
	case v.Stop:
		return loop.Outcome{Kind: loop.HooksStopped}
	case v.Block != "" && v.Block == r.objection && r.calledSince == r.repeats.made:
		r.notice(session.Warning, "a stop hook says the same again, and nothing was done in between: %s", v.Block)
		return loop.Outcome{Kind: loop.HooksStopped}
	case v.Block != "":
		r.objection, r.calledSince = v.Block, r.repeats.made
		r.parts = nil
		r.say(message.NewSynthetic(r.history.NextID(), v.Block))
		r.passOn()
		return loop.Outcome{Kind: loop.HooksBlocked}
	}
	return r.spend()
}

// Bounds of going on with a budget of tokens (R54).
const (
	budgetShare = 0.9 // of it used: done
	leastGain   = 500 // tokens that going on must bring …
	patientFor  = 3   // … after so many times
)

// spend goes on as long as the user's budget of output tokens is not used, going
// on brings something, and there is a turn left for it.
func (r *run) spend() loop.Outcome {
	used := r.bill.total.Usage.Output
	gain, before := used-r.spentAt, r.lastGain
	if r.cfg.TokenBudget <= 0 || r.turn >= r.cfg.MaxTurns || float64(used) >= budgetShare*float64(r.cfg.TokenBudget) ||
		r.spends >= patientFor && gain < leastGain && before < leastGain {
		return loop.Outcome{Kind: loop.HooksPassed}
	}
	r.spends, r.spentAt, r.lastGain = r.spends+1, used, gain
	r.say(message.NewSynthetic(r.history.NextID(), fmt.Sprintf(
		"%d%% of the budget of %d tokens is used. Go on working on the task: do not summarise, and do not stop before it is done.",
		100*used/r.cfg.TokenBudget, r.cfg.TokenBudget)))
	return loop.Outcome{Kind: loop.BudgetLeft}
}

func (r *run) stopHook(hook StopHook) (v StopVerdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = StopVerdict{}, fmt.Errorf("it panicked: %v", p)
		}
	}()
	used, _ := r.core.Used(r.state, loop.HookBlocked)
	var answer *message.Message
	if n := len(r.history.Messages); n > 0 {
		answer = r.history.Messages[n-1]
	}
	return hook(r.ctx, answer, used > 0)
}
