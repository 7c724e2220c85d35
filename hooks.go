package daruma

import (
	"context"
	"fmt"

	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// StopHook judges a final answer. active says that the answer was made because
// a stop hook blocked the one before (R56). An error, or a panic, blocks
// nothing: a broken hook must not keep an agent busy.
type StopHook func(ctx context.Context, answer *message.Message, active bool) (StopVerdict, error)

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
	return loop.Outcome{Kind: loop.HooksPassed}
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
