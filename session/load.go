package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/daruma-agent/daruma/message"
)

// load returns what the journal at path amounts to, and how many of its lines
// are damaged. What the conversation no longer holds is not decoded.
func load(path string) (*History, int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("load session: %w", err)
	}
	defer f.Close()
	l := newLoader(f)
	err = scan(f, l.take)
	if err == nil && l.fill() == nil {
		return l.h, l.damaged, nil
	}
	if err == nil { // a line has a right checksum and a wrong content: look at each
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			var h *History
			var damaged int
			if h, damaged, err = foldAll(f); err == nil {
				return h, damaged, nil
			}
		}
	}
	return nil, 0, fmt.Errorf("load session %s: %w", path, err)
}

// foldAll decodes and folds every line.
func foldAll(r io.Reader) (*History, int, error) {
	h, damaged := &History{}, 0
	for e, err := range Read(r) {
		switch {
		case errors.Is(err, ErrDamaged):
			damaged++
		case err != nil:
			return nil, 0, err
		default:
			h.Apply(e)
		}
	}
	return h, damaged, nil
}

// loader folds a journal with stubs in the place of large things, and fetches
// those that are still there at the end.
type loader struct {
	file    *os.File
	h       *History
	damaged int

	messages map[*message.Message]span
	intents  map[*Intent]span
	results  []span // a stub names its place in it
	end      span   // of the last run_end that is a stub
	ended    *End
}

func newLoader(f *os.File) *loader {
	return &loader{file: f, h: &History{}, messages: map[*message.Message]span{}, intents: map[*Intent]span{}}
}

// stub marks a block that was not decoded. No provider has such a type.
const stub message.BlockType = "\x00stub"

// plain are the types of which folding needs to know only that they happened.
var plain = map[Type]bool{
	TypeRunStart: true, TypeDecision: true, TypeRetract: true, TypePermission: true, TypeRepair: true,
	TypeMismatch: true, TypeNotice: true, TypeBlock: true, TypeDelta: true, TypeWaiting: true, TypeProgress: true,
	TypeFileSaved: true, TypeHook: true,
}

func (l *loader) take(at span, line []byte) error {
	text, ok := intact(line)
	if !ok {
		l.damaged++
		return nil
	}
	if h, body, ok := glance(text); ok {
		if b := l.stub(h.kind, body, at); b != nil {
			l.h.Apply(Event{Seq: h.seq, Session: h.session, Run: h.run, Body: b})
			return nil
		}
	}
	e, err := Decode(line)
	if err != nil {
		l.damaged++
		return nil
	}
	l.h.Apply(e)
	return nil
}

// stub returns an event that folds like the one in body, or nil if it has to be
// decoded for that.
func (l *loader) stub(kind Type, body []byte, at span) Body {
	r := reader{rest: body, ok: true}
	switch {
	case plain[kind]:
		return newBody(kind)
	case kind == TypeEnd:
		l.end, l.ended = at, &End{}
		return l.ended
	case kind == TypeResult:
		r.need(`{"call":"`)
		call := string(r.text())
		if r.need(`,"name":`); !r.ok {
			return nil
		}
		l.results = append(l.results, at)
		return &Result{Call: call, Block: message.Block{Type: stub, ToolUseID: call, Text: strconv.Itoa(len(l.results) - 1)}}
	case kind == TypeIntent:
		r.need(`{"call":"`)
		call := string(r.text())
		if r.need(`,"name":`); !r.ok {
			return nil
		}
		in := &Intent{Call: call}
		l.intents[in] = at
		return in
	case len(l.h.Queued) > 0:
		return nil // whether the message answers for a prompt is in its text
	case kind == TypeMessage:
		r.need(`{"message":{"id":"`)
		if m := l.message(&r, at); m != nil {
			return &Message{Message: m}
		}
	case kind == TypeCommit || kind == TypeContinue:
		r.need(`{"attempt":`)
		r.number()
		r.need(`,"message":{"id":"`)
		if m := l.message(&r, at); m != nil {
			return &Commit{Message: m} // both fold alike
		}
	}
	return nil
}

func (l *loader) message(r *reader, at span) *message.Message {
	id := string(r.text())
	if r.need(`,"role":"`); !r.ok {
		return nil
	}
	m := &message.Message{ID: id}
	l.messages[m] = at
	return m
}

// errContent says that a line with a right checksum cannot be decoded.
var errContent = errors.New("a line does not hold what it should")

// fill puts the real things in the place of the stubs that are left.
func (l *loader) fill() error {
	for i, m := range l.h.Messages {
		if at, ok := l.messages[m]; ok {
			real, err := l.fetch(at)
			if err != nil {
				return err
			}
			if l.h.Messages[i] = answer(real); l.h.Messages[i] == nil {
				return errContent
			}
			continue
		}
		for j := range m.Blocks {
			if err := l.fillBlock(&m.Blocks[j]); err != nil {
				return err
			}
		}
	}
	for call, b := range l.h.Results {
		if err := l.fillBlock(&b); err != nil {
			return err
		}
		l.h.Results[call] = b
	}
	for call, in := range l.h.Intents {
		if at, ok := l.intents[in]; ok {
			b, err := l.fetch(at)
			if err != nil {
				return err
			}
			if l.h.Intents[call], ok = b.(*Intent); !ok {
				return errContent
			}
		}
	}
	if l.h.End != nil && l.h.End == l.ended {
		b, err := l.fetch(l.end)
		if err != nil {
			return err
		}
		l.h.End, _ = b.(*End)
	}
	return nil
}

// answer is the message of an event that has one.
func answer(b Body) *message.Message {
	switch b := b.(type) {
	case *Message:
		return b.Message
	case *Commit:
		return b.Message
	case *Continue:
		return b.Message
	}
	return nil
}

func (l *loader) fillBlock(b *message.Block) error {
	if b.Type != stub {
		return nil
	}
	n, err := strconv.Atoi(b.Text)
	if err != nil || n < 0 || n >= len(l.results) {
		return errContent
	}
	body, err := l.fetch(l.results[n])
	if err != nil {
		return err
	}
	r, ok := body.(*Result)
	if !ok {
		return errContent
	}
	*b = r.Block
	return nil
}

func (l *loader) fetch(at span) (Body, error) {
	line := make([]byte, at.size)
	if _, err := l.file.ReadAt(line, at.at); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	e, err := Decode(line)
	return e.Body, err
}
