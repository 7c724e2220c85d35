package doctor

import (
	"fmt"

	"github.com/daruma-agent/daruma/message"
)

// linked finds results whose id is not that of the call that they hang on,
// though nothing else belongs to that call: the link tells whose they are.
func (c *claude) linked() []Finding {
	made, answered := map[string]int{}, map[string]int{}
	for n, r := range c.recs {
		for i := range r.blocks {
			switch b := &r.blocks[i]; {
			case !c.sent(n):
			case b.Type == message.ToolUse:
				made[b.ID]++
			case b.Type == message.ToolResult:
				answered[b.ToolUseID]++
			}
		}
	}
	var out []Finding
	for n, r := range c.recs {
		up, ok := c.tree.byID[c.tree.nodes[n].parent]
		if !ok || !c.sent(n) || !c.sent(up) || !r.list || !c.recs[up].list {
			continue
		}
		res, k := only(r.blocks, message.ToolResult)
		call, j := only(c.recs[up].blocks, message.ToolUse)
		if res == nil || call == nil || res.ToolUseID == call.ID {
			continue
		}
		from, to := c.tree.nodes[n].line, c.tree.nodes[up].line
		what := fmt.Sprintf("the result of call %s hangs on call %s", res.ToolUseID, call.ID)
		switch {
		case made[res.ToolUseID] == 0 && made[call.ID] > 1 && validID(res.ToolUseID):
			made[call.ID]--
			made[res.ToolUseID]++
			out = append(out, c.doc.finding(Claude, DuplicateCall, to, what, func(p *plan) {
				c.setID(p, place{line: to}.element("/message/content", j), call, res.ToolUseID)
			}))
			out[len(out)-1].Repair = "the call gets the id that its result has"
		case answered[call.ID] == 0 && (made[res.ToolUseID] == 0 || answered[res.ToolUseID] > 1):
			answered[res.ToolUseID]--
			answered[call.ID]++
			out = append(out, c.doc.finding(Claude, Orphan, from, what+", which has none", func(p *plan) {
				c.setID(p, place{line: from}.element("/message/content", k), res, call.ID)
			}))
			out[len(out)-1].Repair = "it becomes the result of the call that it hangs on"
		}
	}
	return out
}

// only returns the one block of a type, and where it is; nothing if there are more.
func only(blocks []message.Block, kind message.BlockType) (*message.Block, int) {
	var found *message.Block
	at := 0
	for i := range blocks {
		if blocks[i].Type != kind {
			continue
		}
		if found != nil {
			return nil, 0
		}
		found, at = &blocks[i], i
	}
	return found, at
}
