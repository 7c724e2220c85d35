// Package loop (layer 3) answers one question: what next?
//
// [Core.Next] takes the state of a run and the outcome of the last effect and
// returns the new state and the next step. It is pure: it knows no clock, no
// chance, no network and no history, so a test walks every state that it can
// reach, and the whole behaviour stands as text in testdata/transitions.txt.
// The package daruma performs the steps.
package loop

import "github.com/daruma-agent/daruma/failure"

// Action is what the shell does next. The outcome of an action is reported
// with the next call of Next, so an action is also the phase of the run.
type Action uint8

// The actions.
const (
	Begin    Action = iota // nothing was done yet
	Measure                // prepare the request and measure it
	Sample                 // ask the model
	Reduce                 // make the history smaller, by the rung that the step names
	RunTools               // run the calls of the committed answer
	RunHooks               // let stop hooks and queued prompts have their say
	Finish                 // end the run, for the reason that the step names
)

// Rung is one level of the compaction ladder.
type Rung uint8

// The rungs, cheap before dear.
const (
	NoRung   Rung = iota
	Collapse      // old tool results become stubs: no model call, every pair stays
	Media         // images and documents become texts that name them
	Summary       // a model call writes a summary of the older rounds
	Skeleton      // no model call: the user's words, open work and the newest rounds
)

// Step says what to do next. At most one of Discard and Keep is set.
type Step struct {
	Do         Action
	Rung       Rung       // of Reduce
	Transition Transition // why the run goes on
	Discard    bool       // take back what was streamed (tombstone)
	Keep       bool       // keep what arrived of a cut answer
	Nudge      Nudge      // what to say to the model before the next request
	Surface    bool       // show the error that was withheld
	Reason     Reason     // of Finish
}

// State is the whole memory of a run's decisions. It is small and comparable
// on purpose: unbounded things (tokens, money, time, turns) are counted by the
// shell, which reports [BudgetReached].
type State struct {
	Phase      Action
	Transition Transition
	Withheld   failure.Kind // the failure that a reduction is meant to heal
	Used       [maxRecoveries]uint8
}

// Core decides. It is immutable.
type Core struct {
	limits [maxRecoveries]uint8
}

// New returns a core with the limits of the recovery table. overrides changes
// some of them: 0 turns a recovery off, the fallback's limit is the number of
// models after the primary.
func New(overrides map[Transition]int) *Core {
	c := &Core{}
	for i, r := range table {
		limit := r.Limit
		if o, ok := overrides[r.Name]; ok {
			limit = o
		}
		c.limits[i] = uint8(min(max(limit, 0), 255))
	}
	return c
}

// NextRun returns the state in which the run after s begins: what counts for
// the session stays, all else is new.
func (c *Core) NextRun(s State) State {
	return State{Used: reset(s.Used, PerRun)}
}

// GiveUp returns s with every recovery spent, so that whatever failed is shown.
func (c *Core) GiveUp(s State) State {
	s.Used = c.limits
	return s
}

// Next decides. A combination of phase and outcome that cannot be ends the run
// as a fault of our own; it never panics.
func (c *Core) Next(s State, o Outcome) (State, Step) {
	switch {
	case o.Kind == Aborted:
		return abort(s, o)
	case o.Kind == BudgetReached:
		// What was paid for stays, as after an interrupt.
		return finish(s, Step{Reason: o.Budget.reason(), Surface: o.Budget != Turns, Keep: s.Phase == Sample})
	case !reports(s.Phase, o.Kind):
		return finish(s, Step{Reason: ModelError, Surface: true})
	case o.Kind == Unchanged:
		o = s.stillOpen()
	}
	for i, r := range table {
		if s.Used[i] < c.limits[i] && r.Answers(s, o) {
			return c.recover(s, o, i)
		}
	}
	return plain(s, o)
}

// stillOpen is what called for a reduction that did not help, for the next rung:
// the failure that it was meant to heal, or a window that is as full as before.
func (s State) stillOpen() Outcome {
	if s.Withheld != "" {
		return Outcome{Kind: Failed, Failure: s.Withheld}
	}
	return Outcome{Kind: Measured, Fit: Over}
}

// recover spends one use of recovery i. Only a recovery that reduces holds a
// failure back for the rung after it.
func (c *Core) recover(s State, o Outcome, i int) (State, Step) {
	r := table[i]
	step := r.Step
	step.Transition = r.Name
	s.Used[i]++
	if r.Progress {
		s.Used = reset(s.Used, PerAnswer)
	}
	s.Withheld = ""
	if step.Do == Reduce {
		s.Withheld = o.withhold()
	}
	return take(s, step)
}

// plain is the road without faults, and the end of every recovery that is spent.
func plain(s State, o Outcome) (State, Step) {
	switch o.Kind {
	case Prompted:
		if s.Phase != Begin {
			s.Used = reset(s.Used, PerTurn)
			return take(s, Step{Do: Measure, Transition: QueuedPrompt})
		}
		return take(s, Step{Do: Measure})
	case Measured:
		if o.Fit == Blocked || o.Fit == Overhead {
			return finish(s, Step{Reason: BlockingLimit, Surface: true})
		}
		return take(s, Step{Do: Sample, Transition: s.Transition})
	case Reduced:
		s.Withheld = ""
		return take(s, Step{Do: Measure, Transition: s.Transition})
	case Called:
		return take(s, Step{Do: RunTools})
	case Answered:
		return take(s, Step{Do: RunHooks})
	case Broken:
		if o.Cut == CutAfterCalls {
			return take(s, Step{Do: RunTools, Keep: true, Transition: KeptCalls})
		}
		return finish(s, Step{Reason: APIError, Keep: true, Surface: true})
	case ToolsDone:
		s.Used = reset(s.Used, PerTurn)
		return take(s, Step{Do: Measure, Transition: NextTurn})
	case BudgetLeft:
		s.Used = reset(s.Used, PerAnswer)
		return take(s, Step{Do: Measure, Transition: SpendBudget})
	case HooksPassed:
		return finish(s, Step{Reason: Completed})
	}
	if o.Kind == Empty && s.Transition == HookBlocked {
		return finish(s, Step{Reason: StopHookPrevented, Discard: true})
	}
	return finish(s, lastStep(o))
}

// lastStep ends the run for an outcome that nothing answers any more.
func lastStep(o Outcome) Step {
	switch o.Kind {
	case Failed, Overloaded:
		return Step{Reason: reasonOf(o.Failure), Discard: true, Surface: true}
	case Truncated:
		return Step{Reason: OutputLimit, Keep: true, Surface: true}
	case WindowFull:
		return Step{Reason: PromptTooLong, Keep: true, Surface: true}
	case Malformed:
		return Step{Reason: MalformedExhausted, Discard: true, Surface: true}
	case Refused:
		return Step{Reason: Refusal, Discard: true, Surface: true}
	case ToolsRefused:
		return Step{Reason: AbortedTools}
	case ToolsDeferred:
		return Step{Reason: ToolDeferred}
	case Repeated:
		return Step{Reason: ToolLoop, Surface: true}
	case HooksStopped, HooksBlocked:
		return Step{Reason: StopHookPrevented}
	}
	return Step{Reason: ModelError, Discard: true, Surface: true} // Empty, Paused without end
}

func abort(s State, o Outcome) (State, Step) {
	if o.Cause == BySubmit {
		s.Used, s.Withheld = reset(s.Used, PerTurn), ""
		return take(s, Step{Do: Measure, Keep: s.Phase == Sample, Transition: QueuedPrompt})
	}
	switch {
	case o.Cause == ByHook:
		return finish(s, Step{Reason: HookStopped, Keep: s.Phase == Sample})
	case s.Phase == RunTools:
		return finish(s, Step{Reason: AbortedTools})
	}
	return finish(s, Step{Reason: AbortedStreaming, Keep: s.Phase == Sample})
}

func take(s State, step Step) (State, Step) {
	s.Phase, s.Transition = step.Do, step.Transition
	return s, step
}

func finish(s State, step Step) (State, Step) {
	step.Do = Finish
	s.Phase, s.Transition, s.Withheld = Finish, None, ""
	return s, step
}
