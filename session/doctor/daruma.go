package doctor

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// journal is a session of daruma: events, each a line with a checksum. Its
// conversation is what they amount to, as [session.Fold] has it; here each
// block also knows its line.
type journal struct {
	doc     *doc
	events  []*session.Event // by line
	entries []entry
	read    bool
	stored  map[string]storedResult
	results map[string]int  // lines of all results that were stored, by call
	ids     map[string]bool // of messages
	start   int             // line of the first session_start, or -1
	running int             // line of the run_start without end, or -1
	shrunk  int             // line of the last compaction, or -1
}

// storedResult is a result that no message holds yet.
type storedResult struct {
	block message.Block
	line  int
}

// darumaLine is an event, or what is wrong with the line.
type darumaLine struct {
	event *session.Event
	bad   bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumFits reports whether a line is what daruma wrote.
func checksumFits(text []byte) bool {
	body, sum := splitChecksum(text)
	return sum != nil && bytes.Equal(sum, checksum(body))
}

// splitChecksum cuts a line before its checksum, which comes last.
func splitChecksum(text []byte) (body, sum []byte) {
	const length = len(`,"crc":"00000000"}`)
	if len(text) > length && bytes.HasPrefix(text[len(text)-length:], []byte(`,"crc":"`)) {
		return text[:len(text)-length], text[len(text)-length:]
	}
	return bytes.TrimSuffix(bytes.TrimSpace(text), []byte("}")), nil
}

func checksum(body []byte) []byte {
	return fmt.Appendf(nil, `,"crc":"%08x"}`, crc32.Checksum(body, castagnoli))
}

func readDaruma(d *doc) *journal {
	c := &journal{doc: d, start: -1, running: -1, shrunk: -1}
	for _, l := range d.lines {
		c.events = append(c.events, darumaEvent(l).event)
	}
	return c
}

func darumaEvent(l *line) darumaLine {
	if r, ok := l.rec.(darumaLine); ok {
		return r
	}
	var r darumaLine
	if !l.blank() {
		var e session.Event
		if err := json.Unmarshal(l.text(), &e, lax); err != nil {
			r.bad = true
		} else {
			r.event = &e
		}
	}
	l.rec = r
	return r
}

func (c *journal) talk() []entry {
	if c.read {
		return c.entries
	}
	c.read = true
	c.stored, c.ids, c.results = map[string]storedResult{}, map[string]bool{}, map[string]int{}
	for i, e := range c.events {
		if e != nil {
			c.apply(i, e)
		}
	}
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool { return e.msg.Failure != nil })
	return c.entries
}

// apply takes one event, as the journal's own fold does.
func (c *journal) apply(line int, e *session.Event) {
	switch b := e.Body.(type) {
	case *session.Start:
		if c.start < 0 {
			c.start = line
		}
	case *session.RunStart:
		c.running = line
	case *session.End:
		c.running = -1
	case *session.Message:
		c.add(b.Message, line, "/body/message/blocks")
	case *session.Commit:
		c.add(b.Message, line, "/body/message/blocks")
	case *session.Continue:
		c.add(b.Message, line, "/body/message/blocks")
	case *session.Result:
		c.stored[b.Call] = storedResult{b.Block, line}
		c.results[b.Call] = line
	case *session.Results:
		c.answers(b, line)
	case *session.Compaction:
		c.compacted(b, line)
	}
}

func (c *journal) add(m *message.Message, line int, path string) {
	if m != nil {
		c.entries = append(c.entries, c.entry(m, line, path))
	}
}

func (c *journal) entry(m *message.Message, line int, path string) entry {
	c.ids[m.ID] = true
	e := entry{msg: &message.Message{ID: m.ID, Role: m.Role, Model: m.Model, Failure: m.Failure}, lines: []int{line}}
	for k, b := range m.Blocks {
		at := place{line: line}.element(path, k)
		e.add(b, at, innerPlaces(&b, at, c.doc, at.path+"/content"))
	}
	return e
}

// results makes the message whose blocks came with events of their own.
func (c *journal) answers(b *session.Results, line int) {
	e := entry{msg: &message.Message{ID: b.ID, Role: message.User, Caller: b.Caller}, lines: []int{line}}
	c.ids[b.ID] = true
	for _, call := range b.Calls {
		if s, ok := c.stored[call]; ok {
			at := place{line: s.line, path: "/body/block"}
			e.add(s.block, at, innerPlaces(&s.block, at, c.doc, "/body/block/content"))
		}
	}
	c.stored = map[string]storedResult{}
	if len(e.at) > 0 {
		c.entries = append(c.entries, e)
	}
}

func (c *journal) compacted(b *session.Compaction, line int) {
	c.shrunk = line
	byID := map[string]entry{}
	for _, e := range c.entries {
		byID[e.msg.ID] = e
	}
	for k, m := range b.New {
		byID[m.ID] = c.entry(m, line, fmt.Sprintf("/body/new/%d/blocks", k))
	}
	c.entries = nil
	for _, id := range b.Order {
		if e, ok := byID[id]; ok {
			c.entries = append(c.entries, e)
		}
	}
}

func (c *journal) seal(text []byte) []byte {
	body, sum := splitChecksum(text)
	if at, ok := locate(text, "/crc"); ok && sum == nil { // a member was added behind it
		body, _ = splitChecksum(cutValue(slices.Clone(text), at))
	}
	return append(slices.Clone(body), checksum(body)...)
}

func (c *journal) settle(*plan) {}

func (c *journal) join(*plan, int) bool { return false }

// message makes an event with a message of the user, in the surroundings of
// line.
func (c *journal) message(line int, m *message.Message) []byte {
	e := session.Event{Version: session.Version}
	if around := c.events[line]; around != nil {
		e = *around
	}
	e.Seq = 0 // a number of its own would have to be that of another
	e.Body = &session.Message{Message: m}
	out, err := session.Encode(e)
	if err != nil {
		return nil
	}
	return bytes.TrimRight(out, "\n")
}

// freshID makes an id for a message: the same for the same journal, and used
// nowhere in it.
func (c *journal) freshID(kind, of string) string {
	id := kind + "-" + of
	for n := 2; c.ids[id]; n++ {
		id = fmt.Sprintf("%s-%s-%d", kind, of, n)
	}
	c.ids[id] = true
	return id
}

// answer adds a message with the results behind that of the calls. Where a
// compaction came later, it takes the message into its order.
func (c *journal) answer(p *plan, i int, results []result) {
	e := &c.entries[i]
	m := &message.Message{ID: c.freshID("results", e.msg.ID), Role: message.User, Caller: e.msg.ID, Synthetic: true}
	for _, r := range results {
		call := e.msg.Blocks[r.call].ID
		block := message.TextResult(call, outcomeUnknown(), true)
		if line, ok := c.results[call]; ok && !r.moved { // the message that was to hold it is missing
			r.moved, r.at = true, place{line: line, path: "/body/block"}
		}
		if r.moved {
			var was message.Block
			if json.Unmarshal(rawAt(c.doc, r.at), &was, lax) == nil && was.Type == message.ToolResult && was.ToolUseID == call {
				block = was
			}
		}
		m.Blocks = append(m.Blocks, block)
	}
	c.put(p, e, m, false)
}

// put adds a message before or behind that of an entry.
func (c *journal) put(p *plan, e *entry, m *message.Message, before bool) {
	line := e.line()
	if c.shrunk < line || c.shrunk < 0 {
		if before {
			line--
		}
		p.insert(line, c.message(e.line(), m))
		return
	}
	raw, err := json.Marshal(m, session.JSONOptions())
	b, ok := c.events[c.shrunk].Body.(*session.Compaction)
	at := -1
	if ok {
		at = slices.Index(b.Order, e.msg.ID)
	}
	if err != nil || at < 0 {
		return
	}
	if before { // the new first one takes the place of the old one, which follows it
		p.set(c.shrunk, fmt.Sprintf("/body/order/%d", at), append(append(quote(m.ID), ','), quote(e.msg.ID)...))
	} else {
		p.splice(c.shrunk, splice{follow, fmt.Sprintf("/body/order/%d", at), quote(m.ID)})
	}
	if n := len(b.New); n > 0 {
		p.splice(c.shrunk, splice{follow, fmt.Sprintf("/body/new/%d", n-1), raw})
	} else {
		p.set(c.shrunk, "/body/new", append(append([]byte{'['}, raw...), ']'))
	}
}

func (c *journal) begin(p *plan, text string) {
	e := &c.entries[0]
	c.put(p, e, message.NewSynthetic(c.freshID("begin", e.msg.ID), text), true)
}

func (c *journal) remove(p *plan, e *entry, at place) {
	if at.path == "/body/block" {
		c.removeResult(p, e, at)
		return
	}
	first, last := p.take(e, at)
	switch {
	case last:
		c.removeEntry(p, e)
	case first:
		p.cut(at.line, at.path)
	}
}

// removeResult takes a result out of the message that holds it.
func (c *journal) removeResult(p *plan, e *entry, at place) {
	b, ok := c.events[e.line()].Body.(*session.Results)
	if !ok {
		return
	}
	if first, last := p.take(e, at); last {
		p.drop(e.line())
	} else if first {
		for k, other := range e.at {
			if other == at {
				p.cut(e.line(), fmt.Sprintf("/body/calls/%d", slices.Index(b.Calls, e.msg.Blocks[k].ToolUseID)))
			}
		}
	}
}

func (c *journal) removeEntry(p *plan, e *entry) {
	path := ""
	if len(e.at) > 0 {
		path = e.at[0].list
	}
	if rest, ok := strings.CutPrefix(path, "/body/new/"); ok {
		k, _, _ := strings.Cut(rest, "/")
		p.cut(e.line(), "/body/new/"+k)
		return
	}
	if b, ok := c.events[e.line()].Body.(*session.Compaction); ok {
		for k, m := range b.New {
			if m.ID == e.msg.ID {
				p.cut(e.line(), fmt.Sprintf("/body/new/%d", k))
			}
		}
		return
	}
	p.drop(e.line())
}

// note puts a text where a block stood.
func (c *journal) note(p *plan, e *entry, at place, text string) {
	if at.path != "/body/block" {
		p.set(at.line, at.path, textBlock("text", text))
		return
	}
	// A result that becomes words needs a message of its own.
	c.removeResult(p, e, at)
	p.insert(e.line(), c.message(e.line(), message.NewSynthetic(c.freshID("words", e.msg.ID), text)))
}

func (c *journal) setID(p *plan, at place, b *message.Block, id string) {
	name := "/id"
	if b.Type == message.ToolResult {
		name = "/tool_use_id"
		if at.path == "/body/block" {
			c.renameResult(p, at.line, b.ToolUseID, id)
		}
	}
	p.set(at.line, at.path+name, quote(id))
	c.unecho(p, at, b)
}

// renameResult carries a new id to the events that name it.
func (c *journal) renameResult(p *plan, line int, old, id string) {
	p.set(line, "/body/call", quote(id))
	for i := line + 1; i < len(c.events); i++ {
		if c.events[i] == nil {
			continue
		}
		if b, ok := c.events[i].Body.(*session.Results); ok {
			if k := slices.Index(b.Calls, old); k >= 0 {
				p.set(i, fmt.Sprintf("/body/calls/%d", k), quote(id))
			}
			return
		}
	}
}

// unecho drops the copy of a block as the wire sent it, once they differ.
func (c *journal) unecho(p *plan, at place, b *message.Block) {
	if len(b.Raw) > 0 {
		p.cut(at.line, at.path+"/raw")
	}
}

func (c *journal) setName(p *plan, at place, name string) {
	p.set(at.line, at.path+"/name", quote(name))
	if rawAt(c.doc, place{line: at.line, path: at.path + "/raw"}) != nil {
		p.cut(at.line, at.path+"/raw")
	}
}

func (c *journal) setInput(p *plan, at place, in jsontext.Value) {
	p.set(at.line, at.path+"/input", in)
	if rawAt(c.doc, place{line: at.line, path: at.path + "/raw"}) != nil {
		p.cut(at.line, at.path+"/raw")
	}
}

func (c *journal) setContent(p *plan, at place, text string) {
	p.set(at.line, at.path+"/content", append(append([]byte{'['}, textBlock("text", text)...), ']'))
}

func (c *journal) setMediaType(p *plan, at place, _ *message.Media, kind string) {
	p.set(at.line, at.path+"/media/type", quote(kind))
}

func (c *journal) setMediaData(p *plan, at place, _ *message.Media, data string) {
	p.set(at.line, at.path+"/media/data", quote(data))
}

func (c *journal) unsay(p *plan, e *entry) {
	if len(e.at) > 0 {
		p.set(e.line(), strings.TrimSuffix(e.at[0].list, "/blocks")+"/failure", []byte(`{"kind":"unknown"}`))
	}
}

func (c *journal) refused() bool { return false }
