package doctor

import (
	"fmt"
	"slices"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json/jsontext"
)

func (c *pi) remove(p *plan, e *entry, at place) {
	first, last := p.take(e, at)
	switch {
	case last || at.bare || at.list == "":
		p.drop(at.line)
	case first:
		p.cut(at.line, at.path)
	}
}

func (c *pi) removeEntry(p *plan, e *entry) { p.drop(e.line()) }

// note puts a text where a block stood. A result becomes words of the user.
func (c *pi) note(p *plan, e *entry, at place, text string) {
	switch {
	case at.bare:
		p.set(at.line, at.path, quote(text))
	case at.list == "":
		p.set(at.line, at.path, fmt.Appendf(nil, `{"role":"user","content":[%s]}`, textBlock("text", text)))
	default:
		p.set(at.line, at.path, textBlock("text", text))
	}
}

func (c *pi) setID(p *plan, at place, b *message.Block, id string) {
	name := "/id"
	if b.Type == message.ToolResult {
		name = "/toolCallId"
	}
	p.set(at.line, at.path+name, quote(id))
}

func (c *pi) setName(p *plan, at place, name string) {
	p.set(at.line, at.path+"/name", quote(name))
}

func (c *pi) setInput(p *plan, at place, in jsontext.Value) {
	p.set(at.line, at.path+"/arguments", in)
}

func (c *pi) setContent(p *plan, at place, text string) {
	p.set(at.line, at.path+"/content", append(append([]byte{'['}, textBlock("text", text)...), ']'))
}

func (c *pi) setMediaType(p *plan, at place, _ *message.Media, kind string) {
	p.set(at.line, at.path+"/mimeType", quote(kind))
}

func (c *pi) setMediaData(p *plan, at place, _ *message.Media, data string) {
	p.set(at.line, at.path+"/data", quote(data))
}

// answer puts results into the thread behind the record of the calls; what
// followed that record follows the last of them.
func (c *pi) answer(p *plan, i int, results []result) {
	e := &c.entries[i]
	line := e.line()
	n := c.tree.byLine[line]
	last := c.recs[n].ID
	for _, r := range results {
		call := &e.msg.Blocks[r.call]
		id := c.tree.newID("result", call.ID)
		body := fmt.Appendf(nil, `{"role":"toolResult","toolCallId":%s,"toolName":%s,"content":[%s],"isError":true}`,
			quote(call.ID), quote(call.Name), textBlock("text", outcomeUnknown()))
		if r.moved {
			body = rawAt(c.doc, r.at)
		}
		p.insert(line, c.record(c.recs[n].Time, id, last, body))
		last = id
	}
	c.follow(p, n, last)
}

// follow lets what hangs on node n, on the thread, hang on the record called id.
func (c *pi) follow(p *plan, n int, id string) {
	if k := slices.Index(c.way, n); k >= 0 && k+1 < len(c.way) {
		p.set(c.tree.nodes[c.way[k+1]].line, c.tree.path, quote(id))
	}
}

func (c *pi) record(time, id, parent string, body []byte) []byte {
	return fmt.Appendf(nil, `{"type":"message","id":%s,"parentId":%s,"timestamp":%s,"message":%s}`, quote(id), idOrNull(parent), quote(time), body)
}

func (c *pi) begin(p *plan, text string) {
	line := c.entries[0].line()
	n := c.tree.byLine[line]
	if c.compact < 0 && c.tree.reconnect(p, c.way) {
		return
	}
	id := c.tree.newID("begin", c.recs[n].ID)
	body := fmt.Appendf(nil, `{"role":"user","content":[%s]}`, textBlock("text", text))
	p.insert(line-1, c.record(c.recs[n].Time, id, c.tree.nodes[n].parent, body))
	p.set(line, c.tree.path, quote(id))
}

func (c *pi) join(*plan, int) bool { return false }

func (c *pi) unsay(p *plan, e *entry) {
	p.set(e.line(), "/message/stopReason", quote("error"))
}

func (c *pi) settle(p *plan) { c.tree.settle(p) }

func (c *pi) seal(text []byte) []byte { return text }
