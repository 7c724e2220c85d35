package daruma

import (
	"context"
	"iter"

	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
)

// ManualCompact is the transition of a compaction that a person asked for.
const ManualCompact loop.Transition = "manual_compact"

// Compact summarises the conversation now, without waiting for the window to
// fill. instruction, which may be empty, says what the summary must not lose.
// The events are those of a run that asks nothing else: it completes when the
// conversation is smaller, or so short already that nothing can be left out, and
// leaves it as it was otherwise.
func (a *Agent) Compact(ctx context.Context, instruction string) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		r, err := a.begin(ctx, "", true, yield)
		if err != nil {
			yield(session.Event{}, err)
			return
		}
		defer a.end(r)
		r.instruction, r.manual = instruction, true
		r.prepare()
		step := loop.Step{Do: loop.Reduce, Rung: loop.Summary, Transition: ManualCompact}
		switch o := r.act(step); o.Kind {
		case loop.Reduced:
			r.finish(loop.Step{Do: loop.Finish, Reason: loop.Completed})
		case loop.Aborted:
			r.finish(loop.Step{Do: loop.Finish, Reason: loop.AbortedStreaming})
		default:
			r.finish(loop.Step{Do: loop.Finish, Reason: loop.ModelError, Surface: true})
		}
	}
}
