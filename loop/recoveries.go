package loop

import "github.com/daruma-agent/daruma/message"

// Recovery is one way back: what it answers, how often, and what it changes
// before the model is asked again. To add one: one file, and one line below.
type Recovery struct {
	Name    Transition
	Doc     Doc // the same in words
	Answers func(State, Outcome) bool
	Limit   int   // uses within Scope
	Scope   Scope // what gives the uses back
	Step    Step  // the action; Next adds the name
	// Progress marks a recovery after which the model starts a new answer, so
	// that what is counted per answer begins anew.
	Progress bool
	// Edit changes the draft of every request while the recovery counts as
	// used; nil when the step says it all.
	Edit func(d *Draft, used int)
}

// Scope says what sets a count back to zero. No recovery can reset its own
// count: a scope ends by something that the model did.
type Scope uint8

// The scopes, narrow before wide.
const (
	PerAnswer  Scope = iota // a whole answer, or a stop hook that demands another one
	PerTurn                 // tools ran (R95); a stop hook keeps the count (R56)
	PerRun                  // the next prompt
	PerSession              // nothing
)

// Draft is what recoveries change of the next request. The shell makes the
// request from it at each attempt, so nothing stale can be asked with.
type Draft struct {
	Model int  // position in the chain of models; 0 is the primary
	Raise bool // ask for the raised output room
	// AfterRefusal asks the model that is named for what others refuse.
	AfterRefusal bool
	NoThinking   bool // leave all thinking blocks out of the view
	Flat         bool // send the calls and results of earlier turns as text
}

const maxRecoveries = 24

// table holds the recoveries in the order in which they are tried: cheap
// before dear.
var table = []*Recovery{
	stripThinking,
	flatten,
	dropTool,
	escalate,
	continueOutput,
	repeatCall,
	continueBroken,
	askAgain,
	askForm,
	resumePause,
	stripMedia,
	collapseDrain,
	proactiveCompact,
	reactiveCompact,
	windowCompact,
	skeleton,
	fallback,
	afterRefusal,
	hookBlocked,
	breakLoop,
}

// Draft returns the changes that the recoveries used so far make.
func (c *Core) Draft(s State) Draft {
	var d Draft
	for i, r := range table {
		if s.Used[i] > 0 && r.Edit != nil {
			r.Edit(&d, int(s.Used[i]))
		}
	}
	return d
}

// Used reports how often the recovery called name was used, of how many times.
func (c *Core) Used(s State, name Transition) (used, limit int) {
	for i, r := range table {
		if r.Name == name {
			return int(s.Used[i]), int(c.limits[i])
		}
	}
	return 0, 0
}

// reset gives the uses of scope and of every narrower scope back.
func reset(used [maxRecoveries]uint8, scope Scope) [maxRecoveries]uint8 {
	for i, r := range table {
		if r.Scope <= scope {
			used[i] = 0
		}
	}
	return used
}

// Nudge names a synthetic user message that goes before the next request.
type Nudge string

// The nudges.
const (
	NoNudge        Nudge = ""
	NudgeContinue  Nudge = "continue"  // go on exactly where the text was cut
	NudgeCutCall   Nudge = "cut_call"  // the call was cut and not run
	NudgeAnswer    Nudge = "answer"    // the answer was empty
	NudgeMalformed Nudge = "malformed" // the call could not be read
)

// Text is what the nudge says. tail is the end of what was kept of the cut
// answer, shown so that the model can go on from it to the letter.
func (n Nudge) Text(tail string) string {
	switch n {
	case NudgeContinue:
		return "Your answer was cut off. Go on from the exact point where it stopped, in the middle of a word if need be. " +
			"No apology, no summary, no repetition. It ends with:\n" + tail
	case NudgeCutCall:
		return "Your tool call was cut off and was not run. Make it again, whole, or in smaller pieces " +
			"(for a long file: write a first part, then add the rest with edits)."
	case NudgeAnswer:
		return "Your last answer was empty. Go on with the task, or say what the result is."
	case NudgeMalformed:
		return "Your tool call could not be read (its name, or the JSON of its input) and was not run. Make it again."
	}
	return ""
}

// NewNudge returns the synthetic message for n.
func NewNudge(id string, n Nudge, tail string) *message.Message {
	return message.NewSynthetic(id, n.Text(tail))
}
