package doctor

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Sizes beyond which nothing can be sent.
const (
	maxText     = 1 << 20  // characters of one text: more than 200,000 tokens
	keptText    = 20 << 10 // of its beginning, and of its end
	windowRoom  = 200_000  // tokens
	maxLineSize = 64 << 20
)

// examiner looks at one file, as it is at the moment.
type examiner struct {
	format  Format
	doc     *doc
	patient patient
	talk    []entry
	model   string // that will be asked: the one that answered last
	strip   bool   // all thinking has to go
	found   []Finding
}

func (x *examiner) find(rule Rule, e *entry, line int, mend func(*plan), format string, args ...any) {
	f := x.doc.finding(x.format, rule, line, fmt.Sprintf(format, args...), mend)
	if e != nil {
		f.Message = e.msg.ID
	}
	if line < 0 && mend == nil && f.Severity == Breaks && x.format == Codex {
		f.Effect = join(f.Effect, "it stands in the parent of this fork: heal that file")
	}
	x.found = append(x.found, f)
}

// blocks looks at every block by itself.
func (x *examiner) blocks() {
	media := x.mediaSurplus()
	for i := range x.talk {
		e := &x.talk[i]
		if len(e.at) == 0 {
			x.find(EmptyMessage, e, e.line(), x.unlessForeign(e.line(), func(p *plan) { x.patient.removeEntry(p, e) }),
				"a message of the %s has no content", speaker(e))
			continue
		}
		if x.errorWords(e) {
			continue
		}
		for j := range e.at {
			x.block(i, j, &media)
		}
		x.thinkingLast(i)
	}
}

func speaker(e *entry) string {
	switch e.msg.Role {
	case message.Assistant:
		return "model"
	case developer:
		return "developer"
	}
	return "user"
}

// developer is who says what is no part of the talk.
const developer message.Role = "developer"

// unlessForeign returns mend, or nothing when line stands in another file.
func (x *examiner) unlessForeign(line int, mend func(*plan)) func(*plan) {
	if line < 0 {
		return nil
	}
	return mend
}

// errorWords finds errors of the API that were stored as an answer.
func (x *examiner) errorWords(e *entry) bool {
	if e.msg.Role != message.Assistant {
		return false
	}
	for j := range e.msg.Blocks {
		if e.msg.Blocks[j].Type != message.Text {
			return false
		}
	}
	text := e.msg.PlainText()
	if !strings.HasPrefix(text, "API Error: ") &&
		!(strings.Contains(text[:min(len(text), 400)], `"type":"error"`) && strings.Contains(text, `_error"`)) {
		return false
	}
	x.find(ErrorAsAnswer, e, e.line(), x.unlessForeign(e.line(), func(p *plan) { x.patient.unsay(p, e) }),
		"an error of the API is stored as an answer of the model")
	return true
}

func (x *examiner) block(i, j int, media *surplus) {
	e := &x.talk[i]
	b, at := &e.msg.Blocks[j], e.at[j]
	mend := func(do func(*plan)) func(*plan) { return x.unlessForeign(at.line, do) }
	remove := mend(func(p *plan) { x.patient.remove(p, e, at) })
	assistant := e.msg.Role == message.Assistant
	switch b.Type {
	case "":
		x.find(WrongShape, e, at.line, mend(func(p *plan) { x.patient.note(p, e, at, asText(b)) }),
			"a block cannot be read")
	case message.Text:
		x.text(e, b, at, remove)
	case message.Thinking, message.RedactedThinking:
		x.thinking(e, b, at, remove)
	case message.Image, message.Document:
		if assistant {
			x.find(Misplaced, e, at.line, mend(func(p *plan) { x.patient.note(p, e, at, removed(b, "cannot stand in an answer")) }),
				"%s in a message of the model", article(b.Type))
			return
		}
		x.medium(e, b, at, media)
	case message.ToolUse:
		x.call(e, b, at)
	case message.ToolResult:
		if assistant {
			x.find(Misplaced, e, at.line, mend(func(p *plan) { x.patient.note(p, e, at, noRecord+b.PlainText()) }),
				"a result in a message of the model")
			return
		}
		x.result(e, j, media)
	default:
		x.other(e, j, remove)
	}
}

func article(t message.BlockType) string {
	if t == message.Image {
		return "an image"
	}
	return "a " + string(t)
}

func (x *examiner) text(e *entry, b *message.Block, at place, remove func(*plan)) {
	switch {
	case strings.TrimSpace(b.Text) == "":
		x.find(EmptyText, e, at.line, remove, "a text of the %s has no words", speaker(e))
	case len(b.Text) > maxText:
		x.find(LargeText, e, at.line, x.shorten(e, at, b.Text), "a text of the %s has %d characters", speaker(e), len(b.Text))
	}
}

// shorten keeps the beginning and the end of a text.
func (x *examiner) shorten(e *entry, at place, text string) func(*plan) {
	return x.unlessForeign(at.line, func(p *plan) {
		head, tail := text[:keptText], text[len(text)-keptText:]
		x.patient.note(p, e, at, fmt.Sprintf("%s\n[%d characters left out]\n%s", head, len(text)-2*keptText, tail))
	})
}

func (x *examiner) thinking(e *entry, b *message.Block, at place, remove func(*plan)) {
	switch {
	case e.msg.Role != message.Assistant:
		x.find(Misplaced, e, at.line, remove, "thinking in a message of the user")
	case x.strip:
		x.find(RefusedThinking, e, at.line, remove, "thinking that is to be left out")
	case b.Type == message.Thinking && b.Signature == "":
		x.find(Unsigned, e, at.line, remove, "thinking without a signature, or without its words")
	case b.Type == message.RedactedThinking && b.Data == "":
		x.find(Altered, e, at.line, remove, "hidden thinking without its data")
	case b.Type == message.Thinking && x.altered(b.Signature):
		x.find(Altered, e, at.line, remove, "the signature of a thinking block is not whole")
	case signer(b.Signature) != "" && b.Model != "" && !sameModel(signer(b.Signature), b.Model):
		x.find(Altered, e, at.line, remove, "a thinking block of %s is signed by %s", b.Model, signer(b.Signature))
	case x.format != Codex && b.Model != "" && x.model != "" && !sameModel(b.Model, x.model):
		// Codex keeps reasoning across models, and its API takes it.
		x.find(Foreign, e, at.line, remove, "thinking of %s, and the session goes on with %s", b.Model, x.model)
	}
}

// altered reports whether a signature cannot be what the API wrote: long, and
// base64. Whether the words still fit to it only the API can tell.
func (x *examiner) altered(s string) bool {
	if strings.HasPrefix(s, "{") || s == unsignedWire {
		return false // of another API
	}
	if x.format == Codex { // its padding is not always that of base64
		return len(s) < minSignature || strings.ContainsFunc(strings.TrimRight(s, "="), func(r rune) bool {
			return r >= 0x80 || !idByte(byte(r)) && r != '+' && r != '/'
		})
	}
	_, err := base64.StdEncoding.DecodeString(s)
	return err != nil || len(s) < minSignature
}

const minSignature = 24

// signer returns the model that a signature names in clear, if it does.
func signer(signature string) string {
	plain, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(plain), "claude-")
	if !ok {
		return ""
	}
	end := strings.IndexFunc(rest, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	if end < 0 {
		end = len(rest)
	}
	return "claude-" + rest[:end]
}

// sameModel compares names of models: one may carry a date.
func sameModel(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || len(rest) == 9 && rest[0] == '-' && strings.Trim(rest[1:], "0123456789") == "")
}

// thinkingLast finds thinking at the end of a message.
func (x *examiner) thinkingLast(i int) {
	e := &x.talk[i]
	for j := len(e.at) - 1; j >= 0; j-- {
		b, at := &e.msg.Blocks[j], e.at[j]
		if e.msg.Role != message.Assistant || b.Type != message.Thinking && b.Type != message.RedactedThinking {
			return
		}
		if b.Type == message.Thinking && b.Signature == "" || b.Type == message.RedactedThinking && b.Data == "" || x.strip {
			continue // it goes anyhow
		}
		mend := x.unlessForeign(at.line, func(p *plan) {
			if !x.patient.join(p, i) {
				x.patient.remove(p, e, at)
			}
		})
		x.find(SplitThinking, e, at.line, mend, "thinking stands alone, without the words or the call that it led to")
	}
}

func (x *examiner) call(e *entry, b *message.Block, at place) {
	if e.msg.Role != message.Assistant {
		mend := x.unlessForeign(at.line, func(p *plan) {
			x.patient.note(p, e, at, fmt.Sprintf("[A call of %s stood here: %s]", b.Name, b.Input))
		})
		x.find(Misplaced, e, at.line, mend, "a call in a message of the user")
		return
	}
	if !message.ValidName(b.Name) {
		name := allowed(b.Name, "unknown_tool")
		mend := x.unlessForeign(at.line, func(p *plan) { x.patient.setName(p, at, name) })
		x.find(BadToolName, e, at.line, mend, "call %s names its tool %q", b.ID, clip(b.Name, shownAround))
	}
	if b.Input.Kind() != jsontext.KindBeginObject {
		mend := x.unlessForeign(at.line, func(p *plan) { x.patient.setInput(p, at, wrapInput(b.Input)) })
		x.find(NoObject, e, at.line, mend, "the input of call %s is no object", b.ID)
	}
}

func (x *examiner) result(e *entry, j int, media *surplus) {
	b := &e.msg.Blocks[j]
	if b.IsError && len(b.Content) == 0 && x.format != Codex {
		at := e.at[j]
		mend := x.unlessForeign(at.line, func(p *plan) { x.patient.setContent(p, at, noOutput) })
		x.find(EmptyError, e, at.line, mend, "the error result of call %s has no words", b.ToolUseID)
	}
	for k, at := range e.inner[j] {
		in := &b.Content[k]
		mend := func(text string) func(*plan) {
			return x.unlessForeign(at.line, func(p *plan) { x.patient.note(p, e, at, text) })
		}
		switch in.Type {
		case "":
			x.find(WrongShape, e, at.line, mend(asText(in)), "a block in the result of call %s cannot be read", b.ToolUseID)
		case message.Text:
			switch {
			case strings.TrimSpace(in.Text) == "":
				x.find(EmptyText, e, at.line, mend(noOutput), "a text in the result of call %s has no words", b.ToolUseID)
			case len(in.Text) > maxText:
				x.find(LargeText, e, at.line, x.shorten(e, at, in.Text), "the result of call %s has %d characters", b.ToolUseID, len(in.Text))
			}
		case message.Image, message.Document:
			x.medium(e, in, at, media)
		case "search_result", "tool_reference":
		default:
			if x.format != Codex {
				x.find(Misplaced, e, at.line, mend(asText(in)), "a %s in the result of call %s", in.Type, b.ToolUseID)
			}
		}
	}
}

// other looks at blocks that only the provider's own tools write.
func (x *examiner) other(e *entry, j int, remove func(*plan)) {
	b := &e.msg.Blocks[j]
	kind := string(b.Type)
	if id := b.ToolUseID; strings.HasSuffix(kind, "_tool_result") && id != "" {
		for k := range j {
			if e.msg.Blocks[k].ID == id {
				return
			}
		}
		x.find(Orphan, e, e.at[j].line, remove, "a %s has no server_tool_use before it", kind)
		return
	}
	known := serverBlocks[kind] || strings.HasSuffix(kind, "_tool_result")
	if x.format == Codex {
		known = codexItems[kind]
	}
	at := e.at[j]
	why := ""
	switch {
	case !known && (e.msg.Role == message.Assistant || x.format == Codex):
		x.find(UnknownBlock, e, at.line, nil, "a block of type %q", kind)
		f := &x.found[len(x.found)-1] // the model may have written what only a later API knows
		f.Severity, f.Effect = Info, "it is kept as it is"
		return
	case x.format == Codex:
		return
	case !known:
		why = "a block of type %q in a message of the user, which the API does not know"
	case e.msg.Role != message.Assistant && kind != "container_upload" && kind != "search_result":
		why = "a block of type %q in a message of the user"
	case (kind == "server_tool_use" || kind == "mcp_tool_use") && x.unserved(e, j):
		why = "a block of type %q without its result"
	default:
		return
	}
	mend := x.unlessForeign(at.line, func(p *plan) { x.patient.note(p, e, at, asText(b)) })
	x.find(UnknownBlock, e, at.line, mend, why, kind)
}

// unserved reports whether a call that the provider runs itself has no result,
// though the conversation went on. At the end it is a pause.
func (x *examiner) unserved(e *entry, j int) bool {
	id := e.msg.Blocks[j].ID
	for k := j + 1; k < len(e.msg.Blocks); k++ {
		if e.msg.Blocks[k].ToolUseID == id {
			return false
		}
	}
	return e != &x.talk[len(x.talk)-1]
}

// asText keeps what a block said that cannot be sent.
func asText(b *message.Block) string {
	if text := struct {
		Text string `json:"text"`
	}{b.Text}; b.Type == "" {
		if json.Unmarshal(b.Raw, &text, lax) == nil && strings.TrimSpace(text.Text) != "" || len(b.Raw) == 0 && text.Text != "" {
			return text.Text
		}
		return "[a block that cannot be read: " + clip(string(b.Raw), 4*shownMost) + "]"
	}
	return fmt.Sprintf("[%s: %s]", b.Type, clip(string(b.Raw), 4*shownMost))
}

var serverBlocks = map[string]bool{
	"server_tool_use": true, "mcp_tool_use": true, "container_upload": true, "search_result": true,
	"compaction": true, "fallback": true,
}

var codexItems = map[string]bool{
	"web_search_call": true, "image_generation_call": true, "local_shell_call": true, "tool_search_call": true,
	"tool_search_output": true, "compaction": true, "compaction_summary": true, "ghost_snapshot": true, "refusal": true,
}

// sizes finds a conversation that is too large as a whole.
func (x *examiner) sizes() {
	if tokens := message.Estimate(messages(x.talk)); tokens > windowRoom {
		f := x.doc.finding(x.format, LargeSession, -1, fmt.Sprintf("the conversation has about %d tokens", tokens), nil)
		if x.mediaSurplus().bytes > 0 {
			f.Severity, f.Effect = Breaks, "the API answers 413: request too large; compaction has to send it too, and cannot help"
		}
		x.found = append(x.found, f)
	}
}
