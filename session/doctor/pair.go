package doctor

import (
	"bytes"
	"strconv"

	"github.com/daruma-agent/daruma/message"
)

// spot names a block by message and index.
type spot struct{ msg, block int }

// pairing is what is known of calls and results, in the order of the talk.
type pairing struct {
	turn    []int           // of each message: neighbours with one role are one turn
	calls   map[string]spot // the first call of each id
	results map[string][]spot
}

func (x *examiner) pairing() pairing {
	c := pairing{calls: map[string]spot{}, results: map[string][]spot{}}
	var role message.Role
	turn := -1
	for i := range x.talk {
		m := x.talk[i].msg
		if m.Role != role {
			role = m.Role
			turn++
		}
		c.turn = append(c.turn, turn)
		for j := range m.Blocks {
			switch b := &m.Blocks[j]; {
			case b.Type == message.ToolUse && m.Role == message.Assistant:
				if _, again := c.calls[b.ID]; !again {
					c.calls[b.ID] = spot{i, j}
				}
			case b.Type == message.ToolResult && m.Role == message.User:
				c.results[b.ToolUseID] = append(c.results[b.ToolUseID], spot{i, j})
			}
		}
	}
	return c
}

func (x *examiner) blockAt(s spot) (*entry, *message.Block, place) {
	e := &x.talk[s.msg]
	return e, &e.msg.Blocks[s.block], e.at[s.block]
}

// ids finds calls whose id is taken or not allowed.
func (x *examiner) ids(c pairing) {
	used := map[string]int{}
	for i := range x.talk {
		if x.talk[i].msg.Role != message.Assistant {
			continue
		}
		for j := range x.talk[i].msg.Blocks {
			e, b, at := x.blockAt(spot{i, j})
			if b.Type != message.ToolUse {
				continue
			}
			used[b.ID]++
			first := c.calls[b.ID]
			switch again := first != (spot{i, j}); {
			case again && x.copyOf(first, spot{i, j}, c):
				x.find(DuplicateCall, e, at.line, x.unlessForeign(at.line, func(p *plan) { x.patient.remove(p, e, at) }),
					"call %s is stored twice, word for word", b.ID)
			case again:
				x.find(DuplicateCall, e, at.line, x.rename(c, spot{i, j}, used[b.ID]), "call %s has the id of an earlier call", b.ID)
			case !validID(b.ID) || x.format == Codex && len(b.ID) > maxCodexID:
				x.find(BadCallID, e, at.line, x.rename(c, spot{i, j}, 1), "call id %q", b.ID)
			}
		}
	}
}

// copyOf reports whether the later call is the earlier one stored again: the
// same words in the same turn.
func (x *examiner) copyOf(first, again spot, c pairing) bool {
	_, a, _ := x.blockAt(first)
	_, b, _ := x.blockAt(again)
	return c.turn[first.msg] == c.turn[again.msg] && a.Name == b.Name && bytes.Equal(a.Input, b.Input)
}

// rename gives the n-th call of an id another one, and its result too.
func (x *examiner) rename(c pairing, call spot, n int) func(*plan) {
	_, b, at := x.blockAt(call)
	if at.line < 0 {
		return nil
	}
	id := c.freeID(b.ID, n)
	// Its result is the n-th of those in the same turn, else the first after it.
	results := c.results[b.ID]
	own := -1
	for k, r := range results {
		if r.msg > call.msg && (own < 0 || c.calls[b.ID].msg == call.msg && k < n) {
			own = k
		}
	}
	if n > 1 && c.turn[c.calls[b.ID].msg] == c.turn[call.msg] && len(results) < n {
		own = -1 // the only one is that of the first call
	}
	return func(p *plan) {
		x.patient.setID(p, at, b, id)
		if own >= 0 {
			if _, r, at := x.blockAt(results[own]); at.line >= 0 {
				x.patient.setID(p, at, r, id)
			}
		}
	}
}

// allowed makes a name of what the API allows; empty stands for none.
func allowed(name, empty string) string {
	out := []byte(name[:min(len(name), maxCodexID-4)]) // room for a number
	for i, b := range out {
		if !idByte(b) {
			out[i] = '_'
		}
	}
	if len(out) == 0 {
		return empty
	}
	return string(out)
}

// freeID makes an id that is allowed and not taken.
func (c *pairing) freeID(old string, n int) string {
	base := allowed(old, "call")
	name := base
	for k := max(n, 1); ; k++ {
		if k > 1 {
			name = base + "_" + strconv.Itoa(k)
		}
		if _, taken := c.calls[name]; !taken {
			c.calls[name] = spot{-1, -1}
			return name
		}
	}
}

// maxCodexID is what the Responses API takes of the id of a call.
const maxCodexID = 64

// validID holds the API's pattern for the ids of calls.
func validID(id string) bool {
	for i := 0; i < len(id); i++ {
		if !idByte(id[i]) {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

func idByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// pairs finds results without calls, calls without results, and results that
// stand elsewhere than behind their call.
func (x *examiner) pairs(c pairing) {
	answered := map[string]bool{}
	well := map[spot]bool{}
	x.eachResult(func(s spot, b *message.Block, other bool) {
		call, known := c.calls[b.ToolUseID]
		if known && !answered[b.ToolUseID] && !other && c.turn[s.msg] == c.turn[call.msg]+1 {
			answered[b.ToolUseID], well[s] = true, true
		}
	})
	moved := map[int][]result{}
	x.eachResult(func(s spot, b *message.Block, _ bool) {
		if well[s] {
			return
		}
		e, _, at := x.blockAt(s)
		call, known := c.calls[b.ToolUseID]
		switch {
		case !known:
			x.find(Orphan, e, at.line, x.unlessForeign(at.line, func(p *plan) { x.patient.note(p, e, at, noRecord+b.PlainText()) }),
				"the result of call %s, and no such call", b.ToolUseID)
		case answered[b.ToolUseID]:
			x.find(SecondResult, e, at.line, x.unlessForeign(at.line, func(p *plan) { x.patient.remove(p, e, at) }),
				"call %s has a result already", b.ToolUseID)
		default:
			answered[b.ToolUseID] = true
			moved[call.msg] = append(moved[call.msg], result{call.block, true, at})
			x.find(DisplacedResult, e, at.line, x.unlessForeign(at.line, func(p *plan) { x.patient.remove(p, e, at) }),
				"the result of call %s does not follow its call", b.ToolUseID)
		}
	})
	x.unanswered(answered, moved)
}

// eachResult visits the results in order. other says that the turn held
// something else before.
func (x *examiner) eachResult(visit func(s spot, b *message.Block, other bool)) {
	other := false
	for i := range x.talk {
		m := x.talk[i].msg
		if m.Role != message.User {
			other = false
			continue
		}
		for j := range m.Blocks {
			if b := &m.Blocks[j]; b.Type == message.ToolResult {
				visit(spot{i, j}, b, other)
			} else {
				other = true
			}
		}
	}
}

// unanswered finds the calls that have no result, and plans all results that a
// message is to get at once, since they become neighbours.
func (x *examiner) unanswered(answered map[string]bool, moved map[int][]result) {
	for i := range x.talk {
		e := &x.talk[i]
		results := moved[i]
		first := len(x.found)
		for j := range e.msg.Blocks {
			b := &e.msg.Blocks[j]
			if b.Type != message.ToolUse || e.msg.Role != message.Assistant || answered[b.ID] {
				continue
			}
			results = append(results, result{call: j})
			x.find(Unanswered, e, e.at[j].line, func(*plan) {}, "call %s (%s) has no result", b.ID, b.Name)
			if x.format == Daruma && i == len(x.talk)-1 {
				f := &x.found[len(x.found)-1]
				f.Severity, f.Effect = Info, "the run was cut off there; on resume daruma tells the model what is known of the call"
			}
		}
		if len(results) == 0 {
			continue
		}
		answer := func(p *plan) { x.patient.answer(p, i, results) }
		if first < len(x.found) {
			x.found[first].mend = answer
		} else {
			x.carry(answer)
		}
	}
}

// carry adds a repair to the last finding.
func (x *examiner) carry(mend func(*plan)) {
	for k := len(x.found) - 1; k >= 0; k-- {
		if f := &x.found[k]; f.Rule == DisplacedResult && f.mend != nil {
			before := f.mend
			f.mend = func(p *plan) { before(p); mend(p) }
			return
		}
	}
}

// first finds a conversation that does not begin with the user.
func (x *examiner) first() {
	if len(x.talk) > 0 && x.talk[0].msg.Role != message.User {
		e := &x.talk[0]
		x.find(WrongFirst, e, e.line(), func(p *plan) { x.patient.begin(p, noBeginning) }, "the conversation begins with the model")
	}
}
