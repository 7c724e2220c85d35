package doctor

import (
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json/jsontext"
)

// removeRecord takes out what one item is: its line, or its place among the
// items of a compaction.
func (c *codex) removeRecord(p *plan, at place) {
	base, k, ok := compactedItem(at.path)
	if !ok {
		p.drop(at.line)
		return
	}
	p.cut(at.line, base+k)
	if meta := "/payload/replacement_history_metadata" + k; rawAt(c.doc, place{line: at.line, path: meta}) != nil {
		p.cut(at.line, meta)
	}
}

// compactedItem splits the path of an item of a compaction.
func compactedItem(path string) (base, k string, ok bool) {
	const list = "/payload/replacement_history"
	rest, ok := strings.CutPrefix(path, list+"/")
	if !ok {
		return "", "", false
	}
	k, _, _ = strings.Cut(rest, "/")
	return list, "/" + k, true
}

func (c *codex) remove(p *plan, e *entry, at place) {
	if !strings.Contains(at.path, "/content") {
		c.removeRecord(p, at)
		return
	}
	first, last := p.take(e, at)
	switch {
	case last || at.bare:
		c.removeRecord(p, at)
	case first:
		p.cut(at.line, at.path)
	}
}

func (c *codex) removeEntry(p *plan, e *entry) {
	for _, line := range e.lines {
		if line >= 0 {
			p.drop(line)
		}
	}
}

// note puts a text where a block stood. An item that was no message becomes
// one of the user.
func (c *codex) note(p *plan, e *entry, at place, text string) {
	kind := "input_text"
	switch inContent := strings.Contains(at.path, "/content/"); {
	case at.bare:
		p.set(at.line, at.path, quote(text))
		return
	case inContent && e.msg.Role == message.Assistant:
		kind = "output_text"
	case !inContent && !strings.Contains(at.path, "/output/"):
		item := fmt.Appendf(nil, `{"type":"message","role":"user","content":[%s]}`, textBlock(kind, text))
		p.set(at.line, at.path, item)
		return
	}
	p.set(at.line, at.path, textBlock(kind, text))
}

func (c *codex) setID(p *plan, at place, _ *message.Block, id string) {
	p.set(at.line, at.path+"/call_id", quote(id))
}

func (c *codex) setName(p *plan, at place, name string) {
	p.set(at.line, at.path+"/name", quote(name))
}

func (c *codex) setInput(p *plan, at place, in jsontext.Value) {
	p.set(at.line, at.path+"/arguments", quote(string(in)))
}

func (c *codex) setContent(p *plan, at place, text string) {
	p.set(at.line, at.path+"/output", quote(text))
}

func (c *codex) setMediaType(p *plan, at place, m *message.Media, kind string) {
	p.set(at.line, at.path+"/image_url", quote("data:"+kind+";base64,"+m.Data))
}

func (c *codex) setMediaData(p *plan, at place, m *message.Media, data string) {
	name := "/image_url"
	if rawAt(c.doc, place{line: at.line, path: at.path + name}) == nil {
		name = "/file_data"
	}
	p.set(at.line, at.path+name, quote("data:"+m.Type+";base64,"+data))
}

// answer puts each output directly behind its call, and behind the calls that
// were made together with it.
func (c *codex) answer(p *plan, i int, results []result) {
	e := &c.entries[i]
	for _, r := range results {
		call, end := e.at[r.call], r.call
		for end+1 < len(e.at) && e.msg.Blocks[end+1].Type == message.ToolUse {
			end++
		}
		last := e.at[end]
		payload := fmt.Appendf(nil, `{"type":"%s","call_id":%s,"output":%s}`,
			c.outputType(call), quote(e.msg.Blocks[r.call].ID), quote(outcomeUnknown()))
		if r.moved {
			payload = c.raw(r.at)
		}
		if base, k, ok := compactedItem(last.path); ok {
			p.splice(last.line, splice{follow, base + k, payload})
			continue
		}
		// Behind the parent of a fork, its own records begin.
		after, time := last.line, ""
		if last.line < 0 {
			after = max(c.meta, 0)
		}
		if rec := c.recs[after]; rec != nil {
			time = rec.Time
		}
		p.insert(after, c.responseItem(time, payload))
	}
}

func (c *codex) outputType(call place) string {
	if raw := c.raw(call); strings.Contains(string(raw[:min(len(raw), 200)]), `custom_tool_call`) {
		return "custom_tool_call_output"
	}
	return "function_call_output"
}

// raw is the JSON at a place, also of one in the parent.
func (c *codex) raw(at place) []byte {
	if at.line >= 0 {
		return rawAt(c.doc, at)
	}
	d := &doc{lines: c.parent.lines()}
	at.line = -1 - at.line
	return rawAt(d, at)
}

func (c *codex) responseItem(time string, payload []byte) []byte {
	return fmt.Appendf(nil, `{"timestamp":%s,"type":"response_item","payload":%s}`, quote(time), payload)
}

func (c *codex) begin(p *plan, text string) {
	line, time := c.entries[0].line(), ""
	if line < 0 {
		return
	}
	if rec := c.recs[line]; rec != nil {
		time = rec.Time
	}
	item := fmt.Appendf(nil, `{"type":"message","role":"user","content":[%s]}`, textBlock("input_text", text))
	if base, k, ok := compactedItem(c.entries[0].at[0].path); ok && k == "/0" {
		p.set(line, base+k, append(append(item, ','), rawAt(c.doc, place{line: line, path: base + k})...))
		return
	}
	p.insert(line-1, c.responseItem(time, item))
}

func (c *codex) join(*plan, int) bool { return false }

func (c *codex) unsay(p *plan, e *entry) {
	for _, at := range e.at {
		if at.line >= 0 {
			c.removeRecord(p, at)
		}
	}
}

func (c *codex) settle(*plan) {}

func (c *codex) seal(text []byte) []byte { return text }

func (c *codex) refused() bool { return false }
