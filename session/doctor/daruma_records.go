package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func (c *journal) structure() []Finding {
	var out []Finding
	known := map[string]bool{}
	for i, l := range c.doc.lines {
		if darumaEvent(l).bad {
			shape := c.doc.misshapen(Daruma, i)
			if out = append(out, shape...); len(shape) > 0 {
				continue
			}
			if f := c.essence(i); f != nil {
				out = append(out, *f)
				continue
			}
			out = append(out, c.doc.finding(Daruma, WrongShape, i, "an event whose fields are not what they should be", func(p *plan) { p.drop(i) }))
			continue
		}
		if c.events[i] == nil {
			continue
		}
		switch b := c.events[i].Body.(type) {
		case *session.Unknown:
			if f := c.essence(i); f != nil && !nameOfType().MatchString(string(b.Name)) {
				out = append(out, *f)
			}
		case *session.Result:
			if b.Call == "" && b.Block.ToolUseID != "" {
				out = append(out, c.doc.finding(Daruma, WrongShape, i, "an event with a result does not name the call", func(p *plan) {
					p.set(i, "/body/call", quote(b.Block.ToolUseID))
				}))
				out[len(out)-1].Repair = "it names the call that the result names"
			}
			block := rawAt(c.doc, place{line: i, path: "/body/block"})
			if isObject(block) && b.Call != "" && (b.Block.Type != message.ToolResult || b.Block.ToolUseID == "") {
				out = append(out, c.doc.finding(Daruma, WrongShape, i, "the result of call "+b.Call+" does not say what it is, or of which call", func(p *plan) {
					p.set(i, "/body/block/type", quote(string(message.ToolResult)))
					p.set(i, "/body/block/tool_use_id", quote(b.Call))
				}))
				out[len(out)-1].Repair = "it says so"
			}
		case *session.Message:
			c.role(&out, known, b.Message, i, "/body/message/role")
		case *session.Commit:
			c.role(&out, known, b.Message, i, "/body/message/role")
		case *session.Continue:
			c.role(&out, known, b.Message, i, "/body/message/role")
		case *session.Results:
			known[b.ID] = true
		case *session.Compaction:
			for k, m := range b.New {
				c.role(&out, known, m, i, fmt.Sprintf("/body/new/%d/role", k))
			}
			for _, id := range b.Order {
				if !known[id] {
					f := c.doc.finding(Daruma, BrokenCompaction, i, fmt.Sprintf("the compaction goes on with message %s, which is not in the journal", id), nil)
					f.Severity, f.Effect = Risky, "daruma goes on without that message"
					out = append(out, f)
				}
			}
		}
	}
	if len(out) == 0 {
		out = c.order()
	}
	return out
}

// order finds events that are stored twice, and events in another order than
// they were written in: both their numbers and their times tell so.
func (c *journal) order() []Finding {
	var out []Finding
	var lines []int
	seen := map[string]bool{}
	for i, e := range c.events {
		if e == nil || e.Seq == 0 || e.Time.IsZero() {
			continue
		}
		lines = append(lines, i)
		text := string(c.doc.lines[i].text())
		if _, compaction := e.Body.(*session.Compaction); seen[text] && compaction {
			out = append(out, c.doc.finding(Daruma, DuplicateRecord, i, "a compaction that stands before it already, word for word", func(p *plan) { p.drop(i) }))
			out[len(out)-1].Effect, out[len(out)-1].Repair = "it takes away all that was said since", "the copy is left out"
		}
		seen[text] = true
	}
	bySeq, byTime := slices.Clone(lines), slices.Clone(lines)
	slices.SortStableFunc(bySeq, func(a, b int) int { return cmp.Compare(c.events[a].Seq, c.events[b].Seq) })
	slices.SortStableFunc(byTime, func(a, b int) int {
		return cmp.Or(c.events[a].Time.Compare(c.events[b].Time), cmp.Compare(c.events[a].Seq, c.events[b].Seq))
	})
	if len(out) > 0 || slices.Equal(bySeq, lines) || !slices.Equal(bySeq, byTime) {
		return out
	}
	k := 0
	for bySeq[k] == lines[k] {
		k++
	}
	f := c.doc.finding(Daruma, OutOfOrder, lines[k], "from here on events are not in the order in which they were written", func(p *plan) { p.arrange(bySeq) })
	f.Effect, f.Repair = "results lose their calls, and a compaction takes away what came after it", "they are put in order"
	return []Finding{f}
}

// role notes a message, and finds one that nobody can have said.
func (c *journal) role(out *[]Finding, known map[string]bool, m *message.Message, line int, path string) {
	if m == nil {
		return
	}
	known[m.ID] = true
	if m.Role != message.User && m.Role != message.Assistant {
		*out = append(*out, c.doc.finding(Daruma, WrongRole, line, fmt.Sprintf("a message with the role %q", m.Role), func(p *plan) {
			p.set(line, path, quote(string(message.User)))
		}))
	}
}

func (c *journal) infos() []Finding {
	var out []Finding
	if c.start < 0 {
		f := c.doc.finding(Daruma, MissingHeader, 0, "the journal has no session_start", nil)
		f.Severity, f.Effect = Info, "daruma does not know the model and the folder of the session"
		out = append(out, f)
	}
	if c.running >= 0 {
		out = append(out, c.doc.finding(Daruma, Unfinished, c.running, "a run began here and has no end", nil))
	}
	return out
}

// nameOfType is how the types of events look, also those of later versions.
var nameOfType = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z_]+$`) })

// essentials are what the conversation needs of an event.
var essentials = []struct {
	kind  session.Type
	names []string
}{
	{session.TypeMessage, []string{"message"}},
	{session.TypeResult, []string{"call", "block"}},
	{session.TypeResults, []string{"id", "calls"}},
	{session.TypeCompaction, []string{"new", "order"}},
}

// essence finds an event that lost its type, or of which only what the
// conversation needs can be read.
func (c *journal) essence(line int) *Finding {
	for _, one := range essentials {
		body := []byte{'{'}
		for _, name := range one.names {
			value := rawAt(c.doc, place{line: line, path: "/body/" + name})
			if value == nil {
				break
			}
			body = append(append(append(body, quote(name)...), ':'), value...)
			body = append(body, ',')
		}
		body[len(body)-1] = '}'
		var e session.Event
		bare := fmt.Appendf(nil, `{"v":%d,"time":"2026-01-01T00:00:00Z","type":%s,"body":%s}`, session.Version, quote(string(one.kind)), body)
		if !hasAll(body, one.names) || json.Unmarshal(bare, &e, lax) != nil {
			continue
		}
		f := c.doc.finding(Daruma, WrongShape, line, "an event of which only what was said can be read", func(p *plan) {
			p.set(line, "/type", quote(string(one.kind)))
			p.set(line, "/body", body)
		})
		f.Repair = "that stays, as an event of type " + string(one.kind)
		return &f
	}
	return nil
}

func hasAll(object jsontext.Value, names []string) bool {
	for _, name := range names {
		if _, ok := locate(object, "/"+name); !ok {
			return false
		}
	}
	return true
}
