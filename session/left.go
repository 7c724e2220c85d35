package session

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// CallState says what became of a call of a run that was cut off.
type CallState string

// The states.
const (
	CallDone       CallState = "done"
	CallNotStarted CallState = "not_started" // or it changes nothing
	CallPutOff     CallState = "put_off"     // a hook is asked about it again
	CallInDoubt    CallState = "in_doubt"    // it may have taken effect, in part or in full
)

// LeftCall is a call of the turn in which a run was cut off.
type LeftCall struct {
	Call    string         `json:"tool_use_id"`
	Name    string         `json:"tool_name"`
	Input   jsontext.Value `json:"tool_input,omitzero"`
	State   CallState      `json:"state"`
	Effect  string         `json:"effect,omitzero"`  // class, of one that began
	Started time.Time      `json:"started,omitzero"` // of its processes, if they are known
}

// pureEffect is the class of tools that change nothing.
const pureEffect = "pure"

// Left lists the calls of the turn in which the last run was cut off, in their
// order: what a person wants to see before going on. The next run tells the
// model the same.
func (h *History) Left() []LeftCall {
	_, calls := h.Open()
	var out []LeftCall
	for _, c := range calls {
		l := LeftCall{Call: c.ID, Name: c.Name, Input: c.Input, State: CallNotStarted}
		if _, done := h.Results[c.ID]; done {
			l.State = CallDone
		} else if h.Doubtful(c.ID) {
			l.State = CallInDoubt
			if in := h.Intents[c.ID]; in != nil {
				l.Effect, l.Started = in.Effect, in.Started
			}
		} else if h.PutOff() {
			l.State = CallPutOff
		}
		out = append(out, l)
	}
	return out
}

// PutOff reports whether the conversation ends in a call that a hook put off and
// that nobody has decided about since.
func (h *History) PutOff() bool {
	_, calls := h.Open()
	if h.End == nil || h.End.Deferred == nil || len(calls) != 1 || calls[0].ID != h.End.Deferred.ID {
		return false
	}
	_, done := h.Results[calls[0].ID]
	return !done && h.Intents[calls[0].ID] == nil
}
