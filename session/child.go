package session

import (
	"fmt"
	"slices"
	"strings"
)

// Child says that a call is given to a sub-agent, which has a session of its
// own.
type Child struct {
	Call    string `json:"call"`
	Session string `json:"session"`        // of the sub-agent
	Again   bool   `json:"again,omitzero"` // one that worked before goes on
}

// childMark stands between the ID of a session and the number of a sub-agent.
const childMark = ".agent-"

// NextChild returns the ID of the session of the next sub-agent: it begins with
// the ID of this session, so that both are found together.
func (h *History) NextChild() string {
	n := 1
	for _, c := range h.Children {
		if !c.Again {
			n++
		}
	}
	return fmt.Sprintf("%s%s%d", h.Session, childMark, n)
}

// ChildOf returns the session of the sub-agent that works on a call; "" if none
// does.
func (h *History) ChildOf(call string) string {
	for _, c := range slices.Backward(h.Children) {
		if c.Call == call {
			return c.Session
		}
	}
	return ""
}

// HasChild reports whether the session called id is that of a sub-agent of this
// one.
func (h *History) HasChild(id string) bool {
	return slices.ContainsFunc(h.Children, func(c *Child) bool { return c.Session == id })
}

// IsChild reports whether the session called id is that of a sub-agent.
func IsChild(id string) bool { return strings.Contains(id, childMark) }
