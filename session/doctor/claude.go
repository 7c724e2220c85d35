package doctor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claudeRecord is what matters of a line of Claude Code.
type claudeRecord struct {
	Type      string  `json:"type"`
	Subtype   string  `json:"subtype"`
	UUID      string  `json:"uuid"`
	Parent    *string `json:"parentUuid"`
	Time      string  `json:"timestamp"`
	Logical   string  `json:"logicalParentUuid"`
	Side      bool    `json:"isSidechain"`
	Failed    bool    `json:"isApiErrorMessage"`
	Status    int     `json:"apiErrorStatus"`
	Summary   bool    `json:"isCompactSummary"`
	OnlyShown bool    `json:"isVisibleInTranscriptOnly"`
	Leaf      string  `json:"leafUuid"`
	Message   *struct {
		ID      string         `json:"id"`
		Role    string         `json:"role"`
		Model   string         `json:"model"`
		Content jsontext.Value `json:"content"`
	} `json:"message"`
	Compact *struct {
		Preserved *struct {
			Anchor string   `json:"anchorUuid"`
			UUIDs  []string `json:"uuids"`
		} `json:"preservedMessages"`
	} `json:"compactMetadata"`

	bad    bool
	blocks []message.Block
	list   bool // content is an array
	plain  bool // its blocks have no members that the API does not know
}

// claude is a session of Claude Code: a tree of records, one for each block
// of an answer.
type claude struct {
	doc      *doc
	tree     tree
	recs     []*claudeRecord // by node
	side     bool            // the file is that of a helper: all of it is a sidechain
	way      []int           // nodes from the root to the leaf
	onWay    map[int]bool
	answers  map[string][]int
	hanging  map[string][]int // records with results, by the record that they hang on
	kept     map[string]bool  // records before the compaction that are sent again
	boundary int              // node of the compaction, or -1
	entries  []entry
	read     bool
}

func readClaude(d *doc) *claude {
	c := &claude{doc: d, boundary: -1, answers: map[string][]int{}, hanging: map[string][]int{}, kept: map[string]bool{}}
	c.tree = tree{doc: d, format: Claude, idPath: "/uuid", path: "/parentUuid"}
	c.side = !slices.ContainsFunc(d.lines, func(l *line) bool {
		r := claudeLine(l)
		return r != nil && r.linked() && !r.Side
	})
	for i, l := range d.lines {
		r := claudeLine(l)
		if r == nil || !r.linked() || r.Side != c.side {
			continue
		}
		boundary := r.Subtype == "compact_boundary"
		c.tree.add(node{line: i, id: r.UUID, time: r.Time, begins: r.Type != "assistant" && !r.results(), alone: boundary}, r.Parent)
		c.recs = append(c.recs, r)
	}
	c.way = c.tree.chain(len(c.tree.nodes) - 1)
	c.onWay = make(map[int]bool, len(c.way))
	for _, n := range c.way {
		c.onWay[n] = true
	}
	c.compaction()
	for n, r := range c.recs {
		switch {
		case !c.sent(n) || c.tree.byID[r.UUID] != n:
		case r.Type == "assistant" && r.Message.ID != "":
			c.answers[r.Message.ID] = append(c.answers[r.Message.ID], n)
		case r.Type == "user" && r.results():
			c.hanging[c.tree.nodes[n].parent] = append(c.hanging[c.tree.nodes[n].parent], n)
		}
	}
	return c
}

// claudeLine reads one record, once.
func claudeLine(l *line) *claudeRecord {
	if r, ok := l.rec.(*claudeRecord); ok {
		return r
	}
	if l.blank() {
		return nil
	}
	r := &claudeRecord{}
	if err := json.Unmarshal(l.text(), r, lax); err != nil {
		r = &claudeRecord{bad: true}
	} else if r.talks() {
		r.parse()
	}
	l.rec = r
	return r
}

func (r *claudeRecord) talks() bool { return r.Type == "user" || r.Type == "assistant" }

// linked reports whether the record is part of the tree.
func (r *claudeRecord) linked() bool {
	return !r.bad && r.UUID != "" && (r.talks() || r.Type == "attachment" || r.Type == "system" || r.Type == "progress")
}

// speaker tells who said a message: its role, else whether it names a model.
func (r *claudeRecord) speaker() string {
	switch {
	case r.Message.Role == "user" || r.Message.Role == "assistant":
		return r.Message.Role
	case r.Message.Model != "":
		return "assistant"
	}
	return "user"
}

func (r *claudeRecord) results() bool {
	return slices.ContainsFunc(r.blocks, func(b message.Block) bool { return b.Type == message.ToolResult })
}

// unread reports whether a block of the record could not be read.
func (r *claudeRecord) unread() bool {
	return slices.ContainsFunc(r.blocks, func(b message.Block) bool { return b.Type == "" })
}

func (r *claudeRecord) parse() {
	if r.Message == nil {
		r.bad = true
		return
	}
	switch content := r.Message.Content; content.Kind() {
	case jsontext.KindString:
		r.blocks = []message.Block{{Type: message.Text, Text: unquote(content)}}
	case jsontext.KindBeginArray:
		r.list = true
		var raw []jsontext.Value
		if json.Unmarshal(content, &raw, lax) != nil {
			r.bad = true
			return
		}
		for _, one := range raw {
			r.blocks = append(r.blocks, wireBlock(one, r.Message.Model))
		}
	case jsontext.KindNull, 0:
		r.list = true
	default:
		r.bad = true
	}
}

// compaction finds the boundary that the thread begins with.
func (c *claude) compaction() {
	if len(c.way) == 0 || c.recs[c.way[0]].Subtype != "compact_boundary" {
		return
	}
	c.boundary = c.way[0]
	if meta := c.recs[c.boundary].Compact; meta != nil && meta.Preserved != nil {
		for _, id := range meta.Preserved.UUIDs {
			c.kept[id] = true
		}
	}
}

// sent reports whether a record can be part of what is sent.
func (c *claude) sent(n int) bool {
	return n >= c.boundary || c.onWay[n] || c.kept[c.recs[n].UUID]
}

func (c *claude) talk() []entry {
	if c.read {
		return c.entries
	}
	c.read = true
	done := map[int]bool{}
	for _, n := range c.way {
		c.emit(n, done)
		if c.boundary < 0 || c.recs[c.boundary].Compact == nil || c.recs[c.boundary].Compact.Preserved == nil {
			continue
		}
		if kept := c.recs[c.boundary].Compact.Preserved; kept.Anchor == c.recs[n].UUID {
			for _, id := range kept.UUIDs {
				if k, ok := c.tree.byID[id]; ok {
					c.emit(k, done)
				}
			}
		}
	}
	return c.entries
}

// emit adds the message that record n is part of. The blocks of one answer
// are gathered from all its records; results that hang on one of them but not
// on the thread follow at once.
func (c *claude) emit(n int, done map[int]bool) {
	r := c.recs[n]
	if done[n] || !r.talks() || r.bad || r.Failed || r.OnlyShown && !r.Summary {
		return
	}
	if r.Type == "user" {
		done[n] = true
		c.entries = append(c.entries, c.entry([]int{n}, message.User))
		return
	}
	nodes := []int{n}
	if r.Message.ID != "" {
		nodes = slices.DeleteFunc(slices.Clone(c.answers[r.Message.ID]), func(k int) bool { return c.recs[k].Failed })
		if !slices.Contains(nodes, n) { // an id that is used twice hides it
			nodes = append(nodes, n)
		}
	}
	for _, k := range nodes {
		done[k] = true
	}
	c.entries = append(c.entries, c.entry(nodes, message.Assistant))
	for _, k := range nodes {
		c.gather(c.recs[k].UUID, done)
	}
}

// gather emits the results that hang on a record, or on such a result.
func (c *claude) gather(id string, done map[int]bool) {
	for _, k := range c.hanging[id] {
		if done[k] || c.onWay[k] {
			continue
		}
		c.emit(k, done)
		c.gather(c.recs[k].UUID, done)
	}
}

func (c *claude) entry(nodes []int, role message.Role) entry {
	first := c.recs[nodes[0]]
	e := entry{msg: &message.Message{ID: first.Message.ID, Role: role, Model: first.Message.Model}}
	if e.msg.ID == "" {
		e.msg.ID = first.UUID
	}
	if e.msg.Model == synthetic {
		e.msg.Model = ""
	}
	for _, n := range nodes {
		line := c.tree.nodes[n].line
		e.lines = append(e.lines, line)
		for k, b := range c.recs[n].blocks {
			at := place{line: line, path: "/message/content", bare: true}
			if c.recs[n].list {
				at = at.element("/message/content", k)
			}
			if b.Model == synthetic {
				b.Model = ""
			}
			e.add(b, at, innerPlaces(&b, at, c.doc, at.path+"/content"))
		}
	}
	return e
}

// synthetic is the model of what Claude Code says itself.
const synthetic = "<synthetic>"

func (c *claude) structure() []Finding {
	var out []Finding
	for i, l := range c.doc.lines {
		r := claudeLine(l)
		switch {
		case r == nil:
		case r.bad || r.unread():
			shape := c.doc.misshapen(Claude, i)
			if out = append(out, shape...); len(shape) > 0 || !r.bad {
				continue
			}
			out = append(out, c.doc.finding(Claude, WrongShape, i, "a record without what its type needs, so that nothing of it can be sent", func(p *plan) { p.drop(i) }))
		case !r.talks() && r.Message != nil && r.Message.Content != nil && r.UUID != "" && r.Type != "progress":
			out = append(out, c.doc.finding(Claude, WrongShape, i, fmt.Sprintf("a message whose type is %q", r.Type), func(p *plan) { p.set(i, "/type", quote(r.speaker())) }))
			out[len(out)-1].Repair = "its type becomes that of who said it"
		case r.talks() && r.UUID == "":
			out = append(out, c.doc.finding(Claude, WrongShape, i, "a message without uuid", func(p *plan) {
				p.set(i, "/uuid", quote(c.tree.newID("uuid", i)))
				if r.Parent == nil && i > 0 && len(c.tree.nodes) > 0 && c.tree.nodes[0].line < i {
					p.set(i, "/parentUuid", quote(c.lastBefore(i)))
				}
			}))
		case r.talks() && r.Message.Role != r.Type:
			out = append(out, c.doc.finding(Claude, WrongRole, i, fmt.Sprintf("a record of type %s has the role %q", r.Type, r.Message.Role),
				func(p *plan) { p.set(i, "/message/role", quote(r.Type)) }))
		}
	}
	out = append(out, c.sources()...)
	out = append(out, c.cacheMarks()...)
	extra := c.extra()
	if len(out) == 0 {
		out = c.hungBoundary()
	}
	if len(out) == 0 {
		out = c.tree.faults(len(c.tree.nodes) - 1)
	}
	if len(out) == 0 {
		out = c.linked()
	}
	return slices.Concat(out, extra, c.brokenCompaction())
}

// mostMarks is how many marks of the cache a request can carry.
const mostMarks = 4

// cacheMarks finds marks that were stored with blocks: Claude Code sets its own
// when it sends, and thinking cannot have one.
func (c *claude) cacheMarks() []Finding {
	var out []Finding
	refused := false
	marks := 0
	for n, r := range c.recs {
		line := c.tree.nodes[n].line
		if !c.sent(n) || !r.list || !bytes.Contains(c.doc.lines[line].raw, []byte(`"cache_control"`)) {
			continue
		}
		for _, path := range spread(c.doc.lines[line].text(), "/message/content/*/cache_control") {
			marks++
			k := slices.Index(spread(c.doc.lines[line].text(), "/message/content/*/type"), strings.TrimSuffix(path, "cache_control")+"type")
			refused = refused || k >= 0 && k < len(r.blocks) && strings.HasSuffix(string(r.blocks[k].Type), "thinking")
			out = append(out, c.doc.finding(Claude, CacheMark, line, "a block with cache_control", func(p *plan) { p.cut(line, path) }))
		}
	}
	if marks <= mostMarks && !refused {
		return nil
	}
	return out
}

func (c *claude) lastBefore(line int) string {
	id := ""
	for _, at := range c.tree.nodes {
		if at.line < line {
			id = at.id
		}
	}
	return id
}

// brokenCompaction finds a boundary without the summary that belongs to it.
func (c *claude) brokenCompaction() []Finding {
	if c.boundary < 0 {
		return nil
	}
	b := c.tree.nodes[c.boundary]
	for _, n := range c.way {
		if c.recs[n].Summary {
			return c.lostKept()
		}
	}
	from := c.recs[c.boundary].Logical
	if n, ok := c.tree.byID[from]; !ok || c.tree.reaches(n, c.boundary) {
		from = c.tree.before(c.boundary)
	}
	f := c.doc.finding(Claude, BrokenCompaction, b.line, "the conversation was compacted here, and the summary is missing", func(p *plan) {
		p.set(b.line, c.tree.path, idOrNull(from)) // for what hangs on it
		p.drop(b.line)
	})
	f.Repair = "the thread goes on from before the compaction: nothing of it was summed up"
	return []Finding{f}
}

// hungBoundary finds a boundary that hangs on another record. Claude Code reads
// from the last boundary on, so that nothing is lost when it hangs on nothing.
func (c *claude) hungBoundary() []Finding {
	for _, n := range slices.Backward(c.way) {
		if at := c.tree.nodes[n]; at.alone {
			if at.parent == "" {
				return nil
			}
			f := c.doc.finding(Claude, BrokenCompaction, at.line, "a compaction that hangs on record "+at.parent, func(p *plan) {
				p.set(at.line, c.tree.path, []byte("null"))
			})
			f.Effect, f.Repair = "the conversation from before the compaction is read again", "it hangs on nothing, as every compaction"
			return []Finding{f}
		}
	}
	return nil
}

// lostKept finds records that the compaction would send again, and that are
// not there.
func (c *claude) lostKept() []Finding {
	var out []Finding
	for id := range c.kept {
		if _, ok := c.tree.byID[id]; !ok {
			f := c.doc.finding(Claude, BrokenCompaction, c.tree.nodes[c.boundary].line, "the compaction keeps record "+id+", which is not in the file", nil)
			f.Severity, f.Effect = Risky, "the session goes on without that record"
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.What, b.What) })
	return out
}

func (c *claude) infos() []Finding {
	if n := len(c.entries); n > 0 {
		switch e := &c.entries[n-1]; {
		case e.msg.HasResults():
			return []Finding{c.doc.finding(Claude, Unfinished, e.line(), "the session ends with results that the model has not seen", nil)}
		case e.msg.Role == message.User:
			return []Finding{c.doc.finding(Claude, Unfinished, e.line(), "the session ends with a prompt that was not answered", nil)}
		}
	}
	return nil
}

func (c *claude) refused() bool {
	for k := len(c.way) - 1; k >= 0; k-- {
		if r := c.recs[c.way[k]]; r.Type == "assistant" && !r.bad {
			return r.Failed && len(r.blocks) > 0 && refusesThinking(r.blocks[0].Text)
		}
	}
	return false
}

func refusesThinking(text string) bool {
	text = strings.ReplaceAll(text, "`", "")
	return strings.Contains(text, "Invalid signature in thinking") || strings.Contains(text, "blocks in the latest assistant message cannot be modified")
}

func (c *claude) seal(text []byte) []byte { return text }

func (c *claude) settle(p *plan) {
	c.tree.settle(p)
	for i, l := range c.doc.lines {
		if r := claudeLine(l); r != nil && r.Leaf != "" && !p.dropped(i) {
			if id, changed := c.tree.standing(p, r.Leaf); changed && id != "" {
				p.set(i, "/leafUuid", quote(id))
			}
		}
	}
}

func (c *claude) join(p *plan, i int) bool {
	if i+1 >= len(c.entries) {
		return false
	}
	e, next := &c.entries[i], &c.entries[i+1]
	if next.msg.Role != message.Assistant || next.msg.Model != e.msg.Model || next.msg.ID == "" {
		return false
	}
	for _, b := range e.msg.Blocks {
		if b.Type != message.Thinking && b.Type != message.RedactedThinking {
			return false
		}
	}
	for _, line := range e.lines {
		p.set(line, "/message/id", quote(next.msg.ID))
	}
	return true
}

func (c *claude) unsay(p *plan, e *entry) {
	for _, line := range e.lines {
		p.set(line, "/isApiErrorMessage", []byte("true"))
	}
}

// rawAt is the JSON of what stands at a place.
func rawAt(d *doc, at place) []byte {
	text := d.lines[at.line].text()
	v, ok := locate(text, at.path)
	if !ok {
		return nil
	}
	return bytes.Clone(text[v.start:v.end])
}
