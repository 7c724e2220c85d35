package doctor

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// piRecord is what matters of a line of pi.
type piRecord struct {
	Type    string         `json:"type"`
	ID      string         `json:"id"`
	Parent  *string        `json:"parentId"`
	Time    string         `json:"timestamp"`
	Summary string         `json:"summary"`
	Kept    string         `json:"firstKeptEntryId"`
	Target  string         `json:"targetId"`
	Content jsontext.Value `json:"content"` // of custom messages
	Message *struct {
		Role     string         `json:"role"`
		Content  jsontext.Value `json:"content"`
		API      string         `json:"api"`
		Model    string         `json:"model"`
		Stop     string         `json:"stopReason"`
		Error    string         `json:"errorMessage"`
		CallID   string         `json:"toolCallId"`
		IsError  bool           `json:"isError"`
		Output   string         `json:"output"` // of commands that the user ran
		Sections struct {
			Dir string `json:"cwd"`
		} `json:"sections"`
	} `json:"message"`

	bad    bool
	list   bool
	blocks []message.Block
}

// piBlock is a block of pi.
type piBlock struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`
	Thinking  *string        `json:"thinking"`
	Signature string         `json:"thinkingSignature"`
	Redacted  bool           `json:"redacted"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Data      string         `json:"data"`
	MIME      string         `json:"mimeType"`
}

// pi is a session of pi: a tree of messages, each in one record.
type pi struct {
	doc     *doc
	path    string
	tree    tree
	recs    []*piRecord // by node
	header  int         // line, or -1
	way     []int
	hidden  map[string]bool // taken out by context_edit
	compact int             // node of the last compaction on the way, or -1
	entries []entry
	read    bool
}

func readPi(d *doc, path string) *pi {
	c := &pi{doc: d, path: path, header: -1, compact: -1, hidden: map[string]bool{}}
	c.tree = tree{doc: d, format: Pi, idPath: "/id", path: "/parentId"}
	for i, l := range d.lines {
		r := piLine(l)
		switch {
		case r == nil || r.bad:
		case r.Type == "session":
			if c.header < 0 {
				c.header = i
			}
		case r.ID != "":
			begins := r.Message == nil || r.Message.Role != "assistant" && r.Message.Role != "toolResult"
			c.tree.add(node{line: i, id: r.ID, time: r.Time, begins: begins}, r.Parent)
			c.recs = append(c.recs, r)
		}
	}
	c.way = c.tree.chain(len(c.tree.nodes) - 1)
	for _, n := range c.way {
		switch r := c.recs[n]; r.Type {
		case "context_edit":
			c.hidden[r.Target] = true
		case "compaction":
			c.compact = n
		}
	}
	return c
}

func piLine(l *line) *piRecord {
	if r, ok := l.rec.(*piRecord); ok {
		return r
	}
	if l.blank() {
		return nil
	}
	r := &piRecord{}
	if json.Unmarshal(l.text(), r, lax) != nil {
		r.bad = true
	} else {
		r.parse()
	}
	l.rec = r
	return r
}

func (r *piRecord) parse() {
	content, model := r.Content, ""
	if r.Type == "message" {
		if r.Message == nil {
			r.bad = true
			return
		}
		content, model = r.Message.Content, r.Message.Model
	}
	switch content.Kind() {
	case jsontext.KindString:
		r.blocks = []message.Block{{Type: message.Text, Text: unquote(content)}}
	case jsontext.KindBeginArray:
		r.list = true
		var raw []jsontext.Value
		if json.Unmarshal(content, &raw, lax) != nil {
			r.bad = true
		}
		for _, one := range raw {
			r.blocks = append(r.blocks, r.block(one, model))
		}
	}
}

// unsignedWire stands for the signature of an API that signs nothing.
const unsignedWire = "-"

func (r *piRecord) block(raw jsontext.Value, model string) message.Block {
	var w piBlock
	if json.Unmarshal(raw, &w, lax) != nil || w.Type == "" {
		return message.Block{Raw: raw.Clone()}
	}
	switch w.Type {
	case "text":
		return message.Block{Type: message.Text, Text: w.Text, Model: model}
	case "thinking":
		b := message.Block{Type: message.Thinking, Model: model}
		if w.Thinking != nil { // without its words the signature is of no use
			b.Text, b.Signature = *w.Thinking, w.Signature
		}
		if w.Redacted {
			b = message.Block{Type: message.RedactedThinking, Data: w.Signature, Model: model}
		}
		if r.Message != nil && r.Message.API != "" && r.Message.API != "anthropic-messages" {
			b.Signature = unsignedWire
		}
		return b
	case "toolCall":
		return message.Block{Type: message.ToolUse, ID: w.ID, Name: w.Name, Input: w.Arguments.Clone(), Model: model}
	case "image":
		return message.Block{Type: message.Image, Media: &message.Media{Type: w.MIME, Data: w.Data}}
	}
	return message.Block{Type: message.BlockType(w.Type), Raw: raw.Clone()}
}

func (c *pi) talk() []entry {
	if c.read {
		return c.entries
	}
	c.read = true
	if c.compact < 0 {
		for _, n := range c.way {
			c.emit(n)
		}
		return c.entries
	}
	r := c.recs[c.compact]
	e := entry{msg: message.NewText(r.ID, r.Summary), lines: []int{c.tree.nodes[c.compact].line}}
	e.at = []place{{line: e.lines[0], path: "/summary", bare: true}}
	c.entries = append(c.entries, e)
	kept, past := false, false
	for _, n := range c.way {
		kept = kept || c.recs[n].ID == r.Kept
		past = past || n == c.compact
		if kept || past {
			c.emit(n)
		}
	}
	return c.entries
}

func (c *pi) emit(n int) {
	r, line := c.recs[n], c.tree.nodes[n].line
	if c.hidden[r.ID] || r.bad {
		return
	}
	user := entry{msg: &message.Message{ID: r.ID, Role: message.User}, lines: []int{line}}
	switch r.Type {
	case "branch_summary":
		user.add(message.Block{Type: message.Text, Text: r.Summary}, place{line: line, path: "/summary", bare: true}, nil)
	case "custom_message":
		c.blocks(&user, r, "/content")
	case "message":
		switch r.Message.Role {
		case "user", "custom":
			c.blocks(&user, r, "/message/content")
		case "bashExecution":
			text := r.Message.Output
			if strings.TrimSpace(text) == "" {
				text = noOutput // pi tells the command beside it
			}
			user.add(message.Block{Type: message.Text, Text: text}, place{line: line, path: "/message/output", bare: true}, nil)
		case "toolResult":
			b := message.Block{Type: message.ToolResult, ToolUseID: r.Message.CallID, IsError: r.Message.IsError, Content: r.blocks}
			if !r.list && len(b.Content) == 1 && b.Content[0].Text == "" {
				b.Content = nil
			}
			at := place{line: line, path: "/message"}
			user.add(b, at, innerPlaces(&b, at, c.doc, "/message/content"))
		case "assistant":
			if r.Message.Stop == "error" || r.Message.Stop == "aborted" {
				return // kept for the screen, not sent
			}
			user.msg.Role, user.msg.Model = message.Assistant, r.Message.Model
			c.blocks(&user, r, "/message/content")
		default:
			return // the system prompt, and what a later version may add
		}
	default:
		return
	}
	c.entries = append(c.entries, user)
}

func (c *pi) blocks(e *entry, r *piRecord, path string) {
	for k, b := range r.blocks {
		at := place{line: e.lines[0], path: path, bare: true}
		if r.list {
			at = at.element(path, k)
		}
		e.add(b, at, nil)
	}
}

func (c *pi) structure() []Finding {
	var out []Finding
	for i, l := range c.doc.lines {
		r := piLine(l)
		if r == nil {
			continue
		}
		unread := slices.ContainsFunc(r.blocks, func(b message.Block) bool { return b.Type == "" })
		if r.bad || unread {
			shape := c.doc.misshapen(Pi, i)
			if out = append(out, shape...); len(shape) > 0 {
				continue
			}
		}
		switch {
		case !r.bad && r.Message != nil && r.Type != "message":
			out = append(out, c.doc.finding(Pi, WrongShape, i, fmt.Sprintf("a message whose type is %q", r.Type), func(p *plan) { p.set(i, "/type", quote("message")) }))
			out[len(out)-1].Repair = "its type becomes message"
		case !r.bad && r.Type == "message" && !piRoles[r.Message.Role] && r.role() != "":
			out = append(out, c.doc.finding(Pi, WrongRole, i, fmt.Sprintf("a message with the role %q", r.Message.Role),
				func(p *plan) { p.set(i, "/message/role", quote(r.role())) }))
		case !r.bad && r.Kept != "" && r.Summary != "" && r.Type != "compaction":
			out = append(out, c.doc.finding(Pi, WrongShape, i, fmt.Sprintf("a compaction whose type is %q", r.Type), func(p *plan) { p.set(i, "/type", quote("compaction")) }))
			out[len(out)-1].Repair = "its type becomes compaction"
		case !r.bad && r.ID == "" && (r.Type == "message" || r.Summary != "" || r.Type == "custom_message"):
			out = append(out, c.doc.finding(Pi, WrongShape, i, "a message without id", func(p *plan) { c.adopt(p, i) }))
			f := &out[len(out)-1]
			f.Repair = "it gets the id that the next record hangs on, or a new one; what it says stays"
		case r.bad || r.ID == "" && r.Type != "session":
			what := "a record without what its type needs, so that nothing of it can be sent"
			out = append(out, c.doc.finding(Pi, WrongShape, i, what, func(p *plan) { p.drop(i) }))
		}
	}
	if len(out) > 0 {
		return out
	}
	if out = c.headless(); len(out) > 0 {
		return out
	}
	if out = c.tree.faults(len(c.tree.nodes) - 1); len(out) > 0 {
		return out
	}
	return c.brokenCompaction()
}

var piRoles = map[string]bool{
	"system": true, "user": true, "custom": true, "assistant": true, "toolResult": true, "bashExecution": true,
	"branchSummary": true, "compactionSummary": true,
}

// role tells by what a message holds who said it; nothing when it is empty.
func (r *piRecord) role() string {
	calls := slices.ContainsFunc(r.blocks, func(b message.Block) bool { return b.Type == message.ToolUse || b.Type == message.Thinking })
	switch {
	case r.Message.CallID != "":
		return "toolResult"
	case calls || r.Message.API != "" || r.Message.Stop != "":
		return "assistant"
	case len(r.blocks) > 0 && r.Message.Sections.Dir == "":
		return "user"
	}
	return ""
}

// adopt gives a message without id its place: the id that a record behind it
// names and nobody has, else a new one at the end of what stands before it.
func (c *pi) adopt(p *plan, line int) {
	before := ""
	for _, at := range c.tree.nodes {
		if at.line < line {
			before = at.id
			continue
		}
		if _, known := c.tree.byID[at.parent]; !known && at.parent != "" {
			p.set(line, "/id", quote(at.parent))
		} else {
			id := c.tree.newID("id", line)
			p.set(line, "/id", quote(id))
			p.set(at.line, "/parentId", quote(id))
		}
		break
	}
	if _, done := p.planned(line, "/id"); !done {
		p.set(line, "/id", quote(c.tree.newID("id", line)))
	}
	if piLine(c.doc.lines[line]).Parent == nil {
		p.set(line, "/parentId", idOrNull(before))
	}
}

// headless finds a header that is missing or not first.
func (c *pi) headless() []Finding {
	first := slices.IndexFunc(c.doc.lines, func(l *line) bool { return !l.blank() })
	switch {
	case c.header == first:
		return nil
	case c.header >= 0:
		mend := func(p *plan) {
			p.insert(-1, c.doc.lines[c.header].text())
			p.drop(c.header)
		}
		return []Finding{c.doc.finding(Pi, MissingHeader, c.header, "the header is not the first record", mend)}
	}
	return []Finding{c.doc.finding(Pi, MissingHeader, first, "the file has no header", func(p *plan) { p.insert(-1, c.newHeader()) })}
}

var piFolder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<cwd>\s*(\S[^<]*?)\s*</cwd>`) })

// newHeader makes a header of what the records and the name of the file tell.
func (c *pi) newHeader() []byte {
	id, time, dir := uuidPattern().FindString(filepath.Base(c.path)), "", "/"
	if id == "" {
		id = c.tree.newID("session", len(c.tree.nodes)) + "-0000-4000-8000-000000000000"
	}
	for _, r := range c.recs {
		time = or(time, r.Time)
		if r.Message != nil && r.Message.Sections.Dir != "" {
			if m := piFolder().FindStringSubmatch(r.Message.Sections.Dir); m != nil {
				dir = m[1]
			}
		}
	}
	return fmt.Appendf(nil, `{"type":"session","version":3,"id":%s,"timestamp":%s,"cwd":%s}`, quote(id), quote(time), quote(dir))
}

// brokenCompaction finds a compaction without summary, or one that keeps what
// is not there.
func (c *pi) brokenCompaction() []Finding {
	if c.compact < 0 {
		return nil
	}
	r, line := c.recs[c.compact], c.tree.nodes[c.compact].line
	if strings.TrimSpace(r.Summary) == "" {
		f := c.doc.finding(Pi, BrokenCompaction, line, "the conversation was compacted here, and the summary is missing", func(p *plan) { p.drop(line) })
		f.Repair = "the compaction is left out: nothing of what it stood for was summed up"
		return []Finding{f}
	}
	last := ""
	for _, n := range c.way {
		switch {
		case n == c.compact:
			what := fmt.Sprintf("the compaction keeps the conversation from %q on, which is not before it", r.Kept)
			f := c.doc.finding(Pi, BrokenCompaction, line, what, nil)
			f.Repair = "it keeps the conversation from the last prompt before it on"
			f.mend = func(p *plan) { p.set(line, "/firstKeptEntryId", quote(or(last, r.ID))) }
			if r.Kept == r.ID {
				return nil
			}
			return []Finding{f}
		case c.recs[n].ID == r.Kept:
			return nil
		case c.recs[n].Message != nil && c.recs[n].Message.Role == "user":
			last = c.recs[n].ID
		}
	}
	return nil
}

func (c *pi) infos() []Finding {
	if n := len(c.entries); n > 0 && c.entries[n-1].msg.Role == message.User {
		return []Finding{c.doc.finding(Pi, Unfinished, c.entries[n-1].line(), "the session ends with words or results that the model did not answer", nil)}
	}
	return nil
}

func (c *pi) refused() bool {
	for k := len(c.way) - 1; k >= 0; k-- {
		if m := c.recs[c.way[k]].Message; m != nil && m.Role == "assistant" {
			return m.Stop == "error" && refusesThinking(m.Error)
		}
	}
	return false
}
