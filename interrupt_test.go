package daruma_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
)

// atEveryEvent runs the rich run of the crash test again and again and does
// something at its first, second, … event, until the run has no event left for
// it. It returns the events of each run and the report of the server.
func atEveryEvent(t *testing.T, do func(ctx context.Context, a *daruma.Agent) (leave bool), after func(t *testing.T, a *daruma.Agent, events []session.Event)) {
	step := 1
	if testing.Short() {
		step = 3
	}
	for k := 1; ; k += step {
		reached := false
		ok := t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all []session.Event // also those that nobody ranges over
				agent, finish := simAgent(t, crashScript, nil, func(e session.Event) { all = append(all, e) })
				var events []session.Event
				for e, err := range agent.Run(t.Context(), "Do the task.") {
					if err != nil {
						t.Fatal(err)
					}
					events = append(events, e)
					if len(events) == k {
						reached = true
						if do(t.Context(), agent) {
							break
						}
					}
				}
				after(t, agent, events)
				checkViolations(t, finish())
				foldIsMemory(t, agent, all)
			})
		})
		if !ok || !reached {
			return
		}
	}
}

func checkViolations(t *testing.T, r fault.Report) {
	t.Helper()
	for _, v := range r.Violations {
		t.Errorf("the server saw a violation of the protocol: %s", v)
	}
}

func endOf(t *testing.T, events []session.Event) *session.End {
	t.Helper()
	end, ok := events[len(events)-1].Body.(*session.End)
	if !ok {
		t.Fatalf("the last event is %s", events[len(events)-1].Type())
	}
	return end
}

// TestInterruptAtEveryEvent cancels the run at every boundary there is: it ends
// at once, with a reason that says so, and the session goes on.
func TestInterruptAtEveryEvent(t *testing.T) {
	atEveryEvent(t, func(_ context.Context, a *daruma.Agent) bool {
		a.Interrupt()
		return false
	}, func(t *testing.T, a *daruma.Agent, events []session.Event) {
		switch end := endOf(t, events); end.Reason {
		case loop.AbortedStreaming, loop.AbortedTools, loop.Completed:
		default:
			t.Errorf("interrupted, the run ended with %s", end.Reason)
		}
		if took := endOf(t, events).Took; took > time.Minute {
			t.Errorf("it took %s to stop", took)
		}
		goesOn(t, a)
	})
}

// TestSubmitNowAtEveryEvent cuts in with a new prompt at every boundary: it is
// part of the same run, and answered.
func TestSubmitNowAtEveryEvent(t *testing.T) {
	const cutIn = "Stop that, and do this."
	atEveryEvent(t, func(_ context.Context, a *daruma.Agent) bool {
		a.SubmitNow(cutIn)
		return false
	}, func(t *testing.T, a *daruma.Agent, events []session.Event) {
		if end := endOf(t, events); end.Reason != loop.Completed {
			t.Errorf("the run ended with %s: %v", end.Reason, end.Failure)
		}
		said, queued := 0, len(a.History().Queued)
		for _, m := range a.History().Messages {
			if m.PlainText() == cutIn && !m.Synthetic {
				said++
			}
		}
		if said+queued > 1 || said+queued == 0 && len(events) > 0 && submitted(events, cutIn) {
			t.Errorf("the prompt stands %d times in the conversation, %d times in the queue", said, queued)
		}
		goesOn(t, a)
	})
}

func submitted(events []session.Event, text string) bool {
	for _, e := range events {
		if p, ok := e.Body.(*session.Prompt); ok && p.Text == text {
			return true
		}
	}
	return false
}

// TestLeaveAtEveryEvent breaks out of the range: nothing is left running, and
// the session goes on.
func TestLeaveAtEveryEvent(t *testing.T) {
	atEveryEvent(t, func(context.Context, *daruma.Agent) bool { return true }, func(t *testing.T, a *daruma.Agent, events []session.Event) {
		goesOn(t, a)
	})
}

func goesOn(t *testing.T, a *daruma.Agent) {
	t.Helper()
	result, err := daruma.Collect(a.Run(t.Context(), "Go on."))
	if err != nil {
		t.Fatal(err)
	}
	if result.Reason != loop.Completed {
		t.Errorf("the session does not go on: %s, %v", result.Reason, result.Failure)
	}
}
