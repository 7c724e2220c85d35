package doctor

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func (c *codex) structure() []Finding {
	out := c.unreadable()
	if len(out) > 0 {
		return out
	}
	out = c.header()
	mirrored := c.mirrored()
	for i, r := range c.recs {
		if r == nil || r.Type != "response_item" {
			continue
		}
		switch r.item.Type {
		case "message":
			switch r.item.Role {
			case "user", "assistant":
			case "developer", "system":
				out = append(out, c.developer(i, &r.item)...)
			default:
				out = append(out, c.doc.finding(Codex, WrongRole, i, fmt.Sprintf("a message with the role %q", r.item.Role),
					func(p *plan) { p.set(i, "/payload/role", quote("user")) }))
			}
		case "reasoning":
			if shown, ok := mirrored[r.item.ID]; ok && shown != r.item.thought() {
				out = append(out, c.doc.finding(Codex, Altered, i, "the reasoning is not the one that was shown when it was written",
					func(p *plan) { p.drop(i) }))
			}
		}
	}
	return out
}

// unreadable finds records that Codex skips, or reads a second time.
func (c *codex) unreadable() []Finding {
	var out []Finding
	seen := map[string]bool{}
	for i, r := range c.recs {
		if r == nil {
			continue
		}
		if r.lost != "" {
			out = append(out, c.doc.finding(Codex, WrongShape, i, fmt.Sprintf("a %s whose type is %q", r.lost, r.Type), func(p *plan) { p.set(i, "/type", quote(r.lost)) }))
			out[len(out)-1].Repair = "its type becomes what it holds"
			continue
		}
		shape := c.shape(i, r)
		out = append(out, shape...)
		switch text := string(c.doc.lines[i].text()); {
		case r.bad && len(shape) == 0:
			f := c.doc.finding(Codex, WrongShape, i, "a record without what its type needs, so that nothing of it can be sent", func(p *plan) { p.drop(i) })
			if r.Payload == nil && r.Time == "" { // none of Codex
				f.Severity, f.Effect = Risky, "Codex skips it"
			}
			out = append(out, f)
		case r.Type != "response_item" && r.Type != "compacted", r.item.CallID != "": // of calls and results pairing tells more
		case seen[text]:
			out = append(out, c.doc.finding(Codex, DuplicateRecord, i, "a record that stands before it already, word for word", func(p *plan) { p.drop(i) }))
			out[len(out)-1].Repair = "the copy is left out"
			out[len(out)-1].Effect = "Codex reads it twice; a compaction that is read again takes away all that was said since"
		default:
			seen[text] = true
		}
	}
	return out
}

// shape finds what is of another kind than Codex reads, in records that it
// skips for it and in contents and outputs, which it cannot send then.
func (c *codex) shape(i int, r *codexRecord) []Finding {
	if r.bad {
		return c.doc.misshapen(Codex, i)
	}
	path, value := "/payload/content", r.item.Content
	switch r.item.Type {
	case "message":
	case "function_call_output", "custom_tool_call_output":
		path, value = "/payload/output", r.item.Output
	default:
		return nil
	}
	to := quote(noOutput)
	switch {
	case value.Kind() == jsontext.KindNull, value == nil:
		if path == "/payload/content" {
			return nil // a text without words
		}
	case fits(value, words):
		return nil
	default:
		to = reshaped(value, words, Codex)
	}
	f := c.doc.finding(Codex, WrongShape, i, fmt.Sprintf("%s is %s, and has to be %s", path[1:], kindName(value.Kind()), kindName(words)),
		func(p *plan) { p.set(i, path, to) })
	f.Repair = "it becomes a text or a list"
	return []Finding{f}
}

// codexTypes are the types of records whose payload is told apart by its own type.
var codexTypes = map[string]bool{
	"session_meta": true, "response_item": true, "event_msg": true, "turn_context": true, "world_state": true,
	"token_usage_record": true, "compacted": true,
}

// lostCodexType tells by what a record holds which type it had; nothing when
// it has one, or when nothing tells.
func lostCodexType(kind string, payload jsontext.Value) string {
	if codexTypes[kind] {
		return ""
	}
	var holds struct {
		Type    string         `json:"type"`
		Version string         `json:"cli_version"`
		History jsontext.Value `json:"replacement_history"`
	}
	switch err := json.Unmarshal(payload, &holds, lax); {
	case err != nil:
	case holds.History != nil:
		return "compacted"
	case holds.Version != "":
		return "session_meta"
	case holds.Type == "message", holds.Type == "reasoning", strings.HasSuffix(holds.Type, "_call"), strings.HasSuffix(holds.Type, "_call_output"):
		return "response_item"
	}
	return ""
}

// developer finds what is wrong with what the developer says: it is sent
// beside the talk.
func (c *codex) developer(line int, item *codexItem) []Finding {
	e := entry{msg: &message.Message{ID: item.ID, Role: developer}, lines: []int{line}}
	e.say(item, place{line: line, path: "/payload"})
	x := &examiner{format: Codex, doc: c.doc, patient: c, talk: []entry{e}}
	x.blocks()
	return x.found
}

// mirrored are the words of the reasoning items as they were shown: what the
// items say must still be the same.
func (c *codex) mirrored() map[string]string {
	out := map[string]string{}
	for _, r := range c.recs {
		if r == nil || r.Type != "event_msg" || !bytes.Contains(r.Payload, []byte(`"Reasoning"`)) {
			continue
		}
		var event struct {
			Item struct {
				Type    string   `json:"type"`
				ID      string   `json:"id"`
				Summary []string `json:"summary_text"`
			} `json:"item"`
		}
		if json.Unmarshal(r.Payload, &event, lax) == nil && event.Item.Type == "Reasoning" {
			out[event.Item.ID] = strings.Join(event.Item.Summary, "")
		}
	}
	return out
}

func (item *codexItem) thought() string {
	var text strings.Builder
	for _, part := range item.Summary {
		text.WriteString(part.Text)
	}
	return text.String()
}

// header finds a session_meta that is missing or not first.
func (c *codex) header() []Finding {
	first := 0
	for first < len(c.recs) && c.recs[first] == nil {
		first++
	}
	switch {
	case c.meta >= 0 && c.meta == first:
		return c.otherName()
	case c.meta >= 0:
		mend := func(p *plan) {
			p.insert(-1, c.doc.lines[c.meta].text())
			p.drop(c.meta)
		}
		return []Finding{c.doc.finding(Codex, MissingHeader, c.meta, "session_meta is not the first record", mend)}
	}
	meta := c.newMeta()
	f := c.doc.finding(Codex, MissingHeader, first, "the file has no session_meta", nil)
	if meta == nil {
		f.What += ", and neither its name nor its records tell the id of the session"
	} else {
		f.mend, f.Repair = func(p *plan) { p.insert(-1, meta) }, rules[MissingHeader].repair
	}
	return []Finding{f}
}

var uuidPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
})

// otherName finds a file whose name has another id than its first record.
func (c *codex) otherName() []Finding {
	var meta struct {
		ID string `json:"id"`
	}
	name := filepath.Base(c.path)
	id := uuidPattern().FindString(name)
	if !strings.HasPrefix(name, "rollout-") || id == "" || json.Unmarshal(c.recs[c.meta].Payload, &meta, lax) != nil || meta.ID == id {
		return nil
	}
	f := c.doc.finding(Codex, MissingHeader, c.meta, fmt.Sprintf("the name of the file has the id %s, its first record %s", id, meta.ID), nil)
	f.Severity, f.Effect = Risky, "Codex refuses the file: the thread source changed; give it a name with the id of the record"
	return []Finding{f}
}

// newMeta makes a session_meta of what the file tells, or nothing when it does
// not tell the id of the session.
func (c *codex) newMeta() []byte {
	type payload struct {
		ID         string `json:"id"`
		Session    string `json:"session_id"`
		Timestamp  string `json:"timestamp"`
		Dir        string `json:"cwd"`
		Originator string `json:"originator"`
		Version    string `json:"cli_version"`
		Source     string `json:"source"`
		Provider   string `json:"model_provider"`
		Mode       string `json:"history_mode"`
	}
	p := payload{Originator: "codex_exec", Version: "0.0.0", Source: "exec", Provider: "openai", Mode: "paginated"}
	for _, r := range c.recs {
		if r == nil || r.bad {
			continue
		}
		var told struct {
			Thread   string `json:"thread_id"`
			Dir      string `json:"cwd"`
			Settings struct {
				Provider string `json:"model_provider_id"`
			} `json:"thread_settings"`
		}
		if p.Timestamp == "" {
			p.Timestamp = r.Time
		}
		if r.Type == "response_item" || json.Unmarshal(r.Payload, &told, lax) != nil {
			continue
		}
		p.ID, p.Dir = or(p.ID, told.Thread), or(p.Dir, told.Dir)
		if told.Settings.Provider != "" {
			p.Provider = told.Settings.Provider
		}
	}
	if id := uuidPattern().FindString(filepath.Base(c.path)); id != "" {
		p.ID = id
	}
	if p.ID == "" {
		return nil
	}
	p.Session, p.Dir = p.ID, or(p.Dir, "/")
	out, err := json.Marshal(struct {
		Time    string  `json:"timestamp"`
		Type    string  `json:"type"`
		Payload payload `json:"payload"`
	}{p.Timestamp, "session_meta", p}, lax)
	if err != nil {
		return nil
	}
	return out
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (c *codex) infos() []Finding {
	var out []Finding
	open, summary := -1, -1
	for i, r := range c.recs {
		if r == nil {
			continue
		}
		kind := r.item.Type
		if r.Type == "event_msg" {
			var event codexItem
			if json.Unmarshal(r.Payload, &event, lax) == nil {
				kind = event.Type
			}
		}
		switch {
		case kind == "task_started":
			open = i
		case kind == "task_complete" || kind == "turn_aborted":
			open = -1
		case r.Meta.Summary:
			summary = i
		case r.Type == "compacted":
			summary = -1
		}
	}
	if open >= 0 {
		out = append(out, c.doc.finding(Codex, Unfinished, open, "a turn began here and has no end", nil))
	}
	if summary >= 0 {
		f := c.doc.finding(Codex, BrokenCompaction, summary, "a summary was written here, and the compaction that it was for is missing", nil)
		f.Severity, f.Effect = Risky, "Codex goes on with the whole conversation and takes the summary for an answer of the model"
		out = append(out, f)
	}
	return out
}
