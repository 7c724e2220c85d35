package message

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Fix is one thing that [View] changed in what is sent.
type Fix struct {
	Message string `json:"message"` // ID of the message that was changed
	Rule    Rule   `json:"rule"`
	Detail  string `json:"detail"`
}

// Texts that stand in for what is missing. They are constant, so that a
// repaired history keeps its prompt-cache prefix.
const (
	MissingResult = "No result of this call was recorded: the run was interrupted. " +
		"It may or may not have taken effect; check before you repeat it."
	emptyResult  = "(no output)"
	missingStart = "(The beginning of this conversation is not available.)"
	// Resume asks for more where the conversation ends with an answer.
	Resume        = "Continue from where you left off."
	removedMedium = "[%s removed: %s]"
)

// View projects a history on what is sent: pseudo-messages stay behind, and
// whatever breaks rules is mended. Messages that need nothing are returned as
// they are, so what was derived from them stays valid. The projection is pure
// and idempotent, its result always satisfies [Check], and its ids depend on
// the history alone.
//
// Calls are never dropped: a call without result gets one that says so.
func View(history []*Message, rules Rules) ([]*Message, []Fix) {
	sent := history
	if slices.ContainsFunc(history, hidden) {
		sent = slices.DeleteFunc(slices.Clone(history), hidden)
	}
	if len(Check(sent, rules)) == 0 {
		return sent, nil
	}
	r := repairer{rules: rules, ids: map[string]bool{}}
	r.split(sent)
	for i := range r.turns {
		r.clean(&r.turns[i])
	}
	r.pair()
	r.join()
	r.ends()
	r.limitMedia()
	return r.emit(), r.fixes
}

func hidden(m *Message) bool { return m.Failure != nil }

// turn is a run of messages with one role, as the API reads them.
type turn struct {
	role    Role
	sources []*Message
	blocks  []Block
	calls   map[string]string // old id of each call to the id that is sent
	changed bool
}

func (t *turn) id() string { return t.sources[0].ID }

type repairer struct {
	rules Rules
	turns []turn
	ids   map[string]bool // ids of calls that are sent
	fixes []Fix
}

func (r *repairer) fix(t *turn, rule Rule, format string, args ...any) {
	t.changed = true
	r.fixes = append(r.fixes, Fix{Message: t.id(), Rule: rule, Detail: fmt.Sprintf(format, args...)})
}

func (r *repairer) split(msgs []*Message) {
	for _, m := range msgs {
		if m.Role != User && m.Role != Assistant {
			continue // nothing that a model or a person said
		}
		if n := len(r.turns); n == 0 || r.turns[n-1].role != m.Role {
			r.turns = append(r.turns, turn{role: m.Role})
		}
		t := &r.turns[len(r.turns)-1]
		t.sources = append(t.sources, m)
		t.blocks = append(t.blocks, m.Blocks...)
		// Messages that are wrong alone (empty, or ending in thinking whose
		// call is in the next record) are right once joined.
		switch n := len(m.Blocks); {
		case n == 0:
			r.fix(t, RuleEmpty, "message without content left out")
		case isThinking(m.Blocks[n-1].Type):
			r.fix(t, RuleThinkingLast, "message joined with the rest of its turn")
		}
	}
}

// clean mends or drops the blocks that are wrong by themselves.
func (r *repairer) clean(t *turn) {
	kept := make([]Block, 0, len(t.blocks))
	for _, b := range t.blocks {
		if b, ok := r.cleanBlock(t, b); ok {
			kept = append(kept, b)
		}
	}
	for n := len(kept); n > 0 && isThinking(kept[n-1].Type); n = len(kept) {
		r.fix(t, RuleThinkingLast, "thinking at the end left out")
		kept = kept[:n-1]
	}
	t.blocks = kept
}

func (r *repairer) cleanBlock(t *turn, b Block) (Block, bool) {
	assistant := t.role == Assistant
	switch b.Type {
	case Text:
		if blank(b.Text) {
			r.fix(t, RuleText, "empty text left out")
			return b, false
		}
	case Thinking, RedactedThinking:
		if !assistant || b.Type == Thinking && b.Signature == "" || foreign(&b, r.rules.Model) {
			r.fix(t, RuleSignature, "thinking left out: not signed for this model")
			return b, false
		}
	case Image, Document:
		if assistant || b.Media == nil {
			r.fix(t, RuleMisplaced, "%s replaced by text", b.Type)
			return Block{Type: Text, Text: fmt.Sprintf(removedMedium, b.Type, "not possible here")}, true
		}
	case ToolUse:
		if !assistant {
			r.fix(t, RuleMisplaced, "tool_use in a user message left out")
			return b, false
		}
		return r.cleanCall(t, b), true
	case ToolResult:
		if assistant {
			r.fix(t, RuleMisplaced, "tool_result in an assistant message left out")
			return b, false
		}
		return r.cleanResult(t, b), true
	}
	return b, true
}

func (r *repairer) cleanCall(t *turn, b Block) Block {
	if t.calls == nil {
		t.calls = map[string]string{}
	}
	old := b.ID
	id := mended(old, "call", 100) // with room for a number
	for base, n := id, 2; r.ids[id]; n++ {
		id = base + "_" + strconv.Itoa(n)
	}
	r.ids[id] = true
	if _, again := t.calls[old]; !again {
		t.calls[old] = id
	}
	if id != old {
		r.fix(t, RuleUniqueID, "id %q is sent as %q", old, id)
		b.ID, b.Raw = id, nil
	}
	if !ValidName(b.Name) {
		r.fix(t, RuleName, "tool name %q", b.Name)
		b.Name, b.Raw = mended(b.Name, "unnamed", 128), nil
	}
	if !IsObject(b.Input) {
		r.fix(t, RuleInput, "input of %q is not an object", id)
		b.Input, b.Raw = wrapInput(b.Input), nil
	}
	return b
}

// mended is an id or a name as the API accepts it: otherwise if nothing is left.
func mended(text, otherwise string, most int) string {
	text = strings.Map(func(c rune) rune {
		if c < 128 && idByte(byte(c)) {
			return c
		}
		return '_'
	}, text)
	if text == "" {
		return otherwise
	}
	return text[:min(len(text), most)]
}

// wrapInput gives broken input back in the form that the API's documentation
// advises for input that is no JSON object.
func wrapInput(in jsontext.Value) jsontext.Value {
	if len(in) == 0 {
		return jsontext.Value(`{}`)
	}
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(string(in), "\uFFFD"))
	if err != nil {
		return jsontext.Value(`{}`)
	}
	return slices.Concat(jsontext.Value(`{"INVALID_JSON":`), quoted, jsontext.Value(`}`))
}

func (r *repairer) cleanResult(t *turn, b Block) Block {
	bad := func(in Block) bool {
		return in.Type == Text && blank(in.Text) || (in.Type == Image || in.Type == Document) && in.Media == nil
	}
	if !slices.ContainsFunc(b.Content, bad) {
		return b
	}
	r.fix(t, RuleText, "empty content of the result of %q replaced", b.ToolUseID)
	b.Content = slices.DeleteFunc(slices.Clone(b.Content), bad)
	if len(b.Content) == 0 {
		b.Content = []Block{{Type: Text, Text: emptyResult}}
	}
	b.Raw = nil
	return b
}

// pair gives every call its result in the turn that follows it, results first,
// in the order of the calls, and leaves out results that answer nothing.
func (r *repairer) pair() {
	var out []turn
	used := map[[2]int]bool{}
	for i := range r.turns {
		t := r.turns[i]
		if t.role == User {
			var after *turn
			if n := len(out); n > 0 && out[n-1].role == Assistant {
				after = &out[n-1]
			}
			out = append(out, r.pairTurn(i, t, after, used))
			continue
		}
		out = append(out, t)
		if len(t.calls) > 0 && (i+1 == len(r.turns)) {
			missing := turn{role: User, sources: []*Message{NewSynthetic("results-"+t.id(), "")}}
			out = append(out, r.pairTurn(i+1, missing, &out[len(out)-1], used))
		}
	}
	r.turns = out
}

func (r *repairer) pairTurn(i int, t turn, after *turn, used map[[2]int]bool) turn {
	var results, rest []Block
	for _, b := range t.blocks {
		if b.Type != ToolResult {
			rest = append(rest, b)
		}
	}
	if after != nil {
		for _, call := range after.blocks {
			if call.Type == ToolUse {
				results = append(results, r.resultFor(i, &t, after, call, used))
			}
		}
	}
	for j, b := range t.blocks {
		if b.Type == ToolResult && !used[[2]int{i, j}] {
			r.fix(&t, RuleOrphan, "result of %q left out: no call here needs it", b.ToolUseID)
		}
	}
	blocks := append(results, rest...)
	if !t.changed && !sameOrder(blocks, t.blocks) {
		r.fix(&t, RuleResultOrder, "results moved to the front")
	}
	t.blocks = blocks
	return t
}

// resultFor finds the result of call: in the turn that follows, else wherever
// it was put later, else it makes one.
func (r *repairer) resultFor(i int, t, after *turn, call Block, used map[[2]int]bool) Block {
	old := call.ID
	for o, sent := range after.calls {
		if sent == call.ID {
			old = o
		}
	}
	for k := i; k < len(r.turns); k++ {
		if k > i && r.turns[k].calls[old] != "" {
			break // from here on the id belongs to a later call
		}
		for j, b := range r.turns[k].blocks {
			at := [2]int{k, j}
			if b.Type != ToolResult || b.ToolUseID != old || used[at] {
				continue
			}
			used[at] = true
			if k > i {
				r.fix(t, RuleUnanswered, "result of %q moved next to its call", call.ID)
				r.turns[k].changed = true
			}
			if b.ToolUseID != call.ID {
				t.changed = true
				b.ToolUseID, b.Raw = call.ID, nil
			}
			return b
		}
	}
	r.fix(t, RuleUnanswered, "result of %q added", call.ID)
	return TextResult(call.ID, MissingResult, true)
}

func sameOrder(a, b []Block) bool {
	return slices.EqualFunc(a, b, func(x, y Block) bool {
		return x.Type == y.Type && x.ToolUseID == y.ToolUseID
	})
}

// join drops turns that became empty and makes one turn of neighbours that now
// have the same role.
func (r *repairer) join() {
	out := r.turns[:0]
	for _, t := range r.turns {
		if len(t.blocks) == 0 {
			r.fix(&t, RuleEmpty, "message without content left out")
			continue
		}
		if n := len(out); n > 0 && out[n-1].role == t.role {
			out[n-1].sources = append(out[n-1].sources, t.sources...)
			out[n-1].blocks = append(out[n-1].blocks, t.blocks...)
			out[n-1].changed = true
			continue
		}
		out = append(out, t)
	}
	r.turns = out
}

func (r *repairer) ends() {
	if len(r.turns) == 0 || r.turns[0].role != User {
		t := syntheticTurn("start", missingStart)
		r.fix(&t, RuleFirst, "a first user message added")
		r.turns = slices.Insert(r.turns, 0, t)
	}
	last := &r.turns[len(r.turns)-1]
	if last.role == Assistant && !r.rules.AssistantLast {
		t := syntheticTurn("resume-"+last.id(), Resume)
		r.fix(&t, RuleLast, "a request to continue added")
		r.turns = append(r.turns, t)
	}
}

func syntheticTurn(id, text string) turn {
	m := NewSynthetic(id, text)
	return turn{role: User, sources: []*Message{m}, blocks: m.Blocks}
}

// emit returns the turns as messages: the sources where nothing was changed,
// one new message where something was.
func (r *repairer) emit() []*Message {
	var out []*Message
	for i := range r.turns {
		t := &r.turns[i]
		if !t.changed {
			out = append(out, t.sources...)
			continue
		}
		first := t.sources[0]
		out = append(out, &Message{
			ID: first.ID, Role: t.role, Blocks: t.blocks,
			Model: first.Model, Stop: first.Stop, Caller: first.Caller, Synthetic: first.Synthetic,
		})
	}
	return out
}
