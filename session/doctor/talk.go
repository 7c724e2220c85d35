package doctor

import (
	"fmt"
	"strconv"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json/jsontext"
)

// place is where a block stands in the file.
type place struct {
	line int    // index in the doc; negative: in the parent of a fork
	path string // of the block within its line
	list string // of the array that holds it; empty when the record is the block
	bare bool   // the value at path is the text itself, not a block
}

func (at place) element(list string, k int) place {
	return place{line: at.line, path: list + "/" + strconv.Itoa(k), list: list}
}

// entry is one message of the conversation, with the places of its blocks.
type entry struct {
	msg   *message.Message
	at    []place
	inner map[int][]place // of the content of results, by block
	lines []int           // the records that it was made of
}

func (e *entry) add(b message.Block, at place, inner []place) {
	if len(inner) > 0 {
		if e.inner == nil {
			e.inner = map[int][]place{}
		}
		e.inner[len(e.at)] = inner
	}
	e.msg.Blocks = append(e.msg.Blocks, b)
	e.at = append(e.at, at)
}

// line is where the entry begins.
func (e *entry) line() int {
	if len(e.lines) > 0 {
		return e.lines[0]
	}
	return -1
}

// result is a result that a call is to get: one that stood elsewhere, or none.
type result struct {
	call  int  // index of the block of the call
	moved bool // at tells from where
	at    place
}

// patient is one file as its agent reads it, and the hand that writes into it.
// There is one for each format.
type patient interface {
	// talk is the conversation as the agent would send it, before it mends anything.
	talk() []entry
	// structure finds what is wrong with the records and their links.
	structure() []Finding
	// infos finds what is worth knowing.
	infos() []Finding
	// refused reports whether the last request was refused for its thinking.
	refused() bool

	remove(p *plan, e *entry, at place)
	removeEntry(p *plan, e *entry)
	note(p *plan, e *entry, at place, text string)
	setID(p *plan, at place, b *message.Block, id string)
	setName(p *plan, at place, name string) // of the tool of a call
	setInput(p *plan, at place, in jsontext.Value)
	setContent(p *plan, at place, text string) // of a result
	setMediaType(p *plan, at place, m *message.Media, kind string)
	setMediaData(p *plan, at place, m *message.Media, data string)
	// answer puts results directly behind the calls of entry i.
	answer(p *plan, i int, results []result)
	// begin puts a first message of the user before the conversation.
	begin(p *plan, text string)
	// join makes one message of entry i, which is thinking alone, and the next.
	join(p *plan, i int) bool
	// unsay takes an error message out of what is sent.
	unsay(p *plan, e *entry)

	// settle completes a plan: what hung on lines that go hangs on others.
	settle(p *plan)
	// seal finishes a new line.
	seal(text []byte) []byte
}

// Words that stand in for what is missing. They never change, so that a file
// that was healed twice is the same file.
const (
	noBeginning = "(The beginning of this conversation is not available.)"
	noOutput    = "(no output)"
	noRecord    = "[Result of a call that is not in this record] "
)

// removed tells what stood in the place of a medium.
func removed(b *message.Block, why string) string {
	return fmt.Sprintf("[%s removed: it %s]", b.Type, why)
}

// wrapInput makes an object of an input that is none.
func wrapInput(in jsontext.Value) jsontext.Value {
	if len(in) == 0 || in.Kind() == jsontext.KindNull {
		return jsontext.Value(`{}`)
	}
	text := string(in)
	if in.Kind() == jsontext.KindString {
		text = unquote(in)
	}
	return append(append(jsontext.Value(`{"INVALID_JSON":`), quote(text)...), '}')
}

// outcomeUnknown is the result of a call that has none.
func outcomeUnknown() string { return message.MissingResult }

// messages are the messages of a talk.
func messages(talk []entry) []*message.Message {
	out := make([]*message.Message, len(talk))
	for i := range talk {
		out[i] = talk[i].msg
	}
	return out
}
