package doctor

import (
	"slices"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func (c *claude) remove(p *plan, e *entry, at place) {
	first, last := p.take(e, at)
	switch {
	case last || at.bare:
		p.drop(at.line)
	case first:
		p.cut(at.line, at.path)
	}
}

func (c *claude) removeEntry(p *plan, e *entry) {
	for _, line := range e.lines {
		p.drop(line)
	}
}

func (c *claude) note(p *plan, _ *entry, at place, text string) {
	if at.bare {
		p.set(at.line, at.path, quote(text))
		return
	}
	p.set(at.line, at.path, textBlock("text", text))
}

func textBlock(kind, text string) []byte {
	return append(append([]byte(`{"type":"`+kind+`","text":`), quote(text)...), '}')
}

func (c *claude) setID(p *plan, at place, b *message.Block, id string) {
	name := "/id"
	if b.Type == message.ToolResult {
		name = "/tool_use_id"
	}
	p.set(at.line, at.path+name, quote(id))
}

func (c *claude) setName(p *plan, at place, name string) {
	p.set(at.line, at.path+"/name", quote(name))
}

func (c *claude) setInput(p *plan, at place, in jsontext.Value) {
	p.set(at.line, at.path+"/input", in)
}

func (c *claude) setContent(p *plan, at place, text string) {
	p.set(at.line, at.path+"/content", quote(text))
}

func (c *claude) setMediaType(p *plan, at place, _ *message.Media, kind string) {
	p.set(at.line, at.path+"/source/media_type", quote(kind))
}

func (c *claude) setMediaData(p *plan, at place, _ *message.Media, data string) {
	p.set(at.line, at.path+"/source/data", quote(data))
}

// written is a record that healing adds. It carries what the records around
// it carry.
type written struct {
	Parent     *string        `json:"parentUuid"`
	Side       bool           `json:"isSidechain"`
	AgentID    string         `json:"agentId,omitzero"`
	Type       string         `json:"type"`
	Message    jsontext.Value `json:"message"`
	UUID       string         `json:"uuid"`
	Timestamp  string         `json:"timestamp,omitzero"`
	Source     string         `json:"sourceToolAssistantUUID,omitzero"`
	UserType   string         `json:"userType,omitzero"`
	Entrypoint string         `json:"entrypoint,omitzero"`
	Dir        string         `json:"cwd,omitzero"`
	Session    string         `json:"sessionId,omitzero"`
	Version    string         `json:"version,omitzero"`
	Branch     string         `json:"gitBranch,omitzero"`
}

// user makes a record of the user in the surroundings of line.
func (c *claude) user(line int, id, parent, source string, content []byte) []byte {
	var around, w written
	if json.Unmarshal(c.doc.lines[line].text(), &around, lax) == nil {
		w = around
	}
	w.Type, w.UUID, w.Source, w.Side = "user", id, source, c.side
	w.Parent = nil
	if parent != "" {
		w.Parent = &parent
	}
	w.Message = append(append(jsontext.Value(`{"role":"user","content":`), content...), '}')
	out, err := json.Marshal(w, lax)
	if err != nil { // not possible: all of it was read from JSON
		return []byte(`{}`)
	}
	return out
}

// answer hangs each result on the record of its call, as Claude Code does. The
// record that follows on the thread hangs on the last of them.
func (c *claude) answer(p *plan, i int, results []result) {
	e := &c.entries[i]
	group := map[string]bool{}
	for _, line := range e.lines {
		group[c.recs[c.tree.byLine[line]].UUID] = true
	}
	deepest := ""
	results = c.front(p, i, results)
	if len(results) == 0 {
		return
	}
	for _, r := range results {
		at := e.at[r.call]
		call := c.recs[c.tree.byLine[at.line]]
		id := c.tree.newID("result", e.msg.Blocks[r.call].ID)
		block := append(append([]byte(`{"tool_use_id":`), quote(e.msg.Blocks[r.call].ID)...), `,"type":"tool_result","content":`...)
		block = append(append(block, quote(outcomeUnknown())...), `,"is_error":true}`...)
		if r.moved {
			block = rawAt(c.doc, r.at)
		}
		p.insert(at.line, c.user(at.line, id, call.UUID, call.UUID, append(append([]byte{'['}, block...), ']')))
		deepest = id
		if c.boundary >= 0 && c.tree.byLine[at.line] < c.boundary {
			c.keep(p, call.UUID, id)
		}
	}
	c.follow(p, group, deepest)
}

// front puts results that stand behind other content of the turn that answers
// entry i before that content, and returns the others. Hung on its call, such a
// result would still come after a record that hangs on an earlier one.
func (c *claude) front(p *plan, i int, results []result) []result {
	if i+1 >= len(c.entries) || len(c.entries[i+1].at) == 0 {
		return results
	}
	turn := map[int]bool{}
	for k := i + 1; k < len(c.entries) && c.entries[k].msg.Role == message.User; k++ {
		for _, line := range c.entries[k].lines {
			turn[line] = true
		}
	}
	first := c.entries[i+1].at[0]
	var others []result
	var moved []byte
	for _, r := range results {
		if !r.moved || !turn[r.at.line] || first.list == "" || r.at == first || c.entries[i+1].msg.Blocks[0].Type != message.ToolResult {
			others = append(others, r)
			continue
		}
		moved = append(append(moved, rawAt(c.doc, r.at)...), ',')
	}
	if moved != nil {
		p.set(first.line, first.path, append(moved, rawAt(c.doc, first)...))
	}
	return others
}

// follow lets the record that comes behind the calls of a group, and behind
// their results, hang on the record called id.
func (c *claude) follow(p *plan, group map[string]bool, id string) {
	inGroup := false
	for _, n := range c.way {
		parent := c.tree.nodes[n].parent
		switch {
		case group[c.recs[n].UUID]:
			inGroup = true
		case inGroup && group[parent] && c.recs[n].Type == "user" && c.recs[n].results() && !p.dropped(c.tree.nodes[n].line):
			group[c.recs[n].UUID] = true
		case inGroup && !p.dropped(c.tree.nodes[n].line):
			p.set(c.tree.nodes[n].line, c.tree.path, quote(id))
			return
		}
	}
}

// keep lets a compaction send a new record too, next to its call.
func (c *claude) keep(p *plan, call, id string) {
	line := c.tree.nodes[c.boundary].line
	for k, kept := range c.recs[c.boundary].Compact.Preserved.UUIDs {
		if kept == call {
			at := place{}.element("/compactMetadata/preservedMessages/uuids", k)
			p.splice(line, splice{follow, at.path, quote(id)})
		}
	}
}

func (c *claude) begin(p *plan, text string) {
	first := c.entries[0]
	if c.boundary < 0 && c.tree.reconnect(p, c.way) {
		return
	}
	for _, n := range c.way {
		line := c.tree.nodes[n].line
		if !slices.Contains(first.lines, line) {
			continue
		}
		id := c.tree.newID("begin", c.recs[n].UUID)
		p.insert(line-1, c.user(line, id, c.tree.nodes[n].parent, "", quote(text)))
		p.set(line, c.tree.path, quote(id))
		return
	}
}
