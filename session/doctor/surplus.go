package doctor

import (
	"fmt"

	"github.com/daruma-agent/daruma/message"
)

// surplus counts the media that are too many, oldest first.
type surplus struct {
	over  int
	bytes int // that the request is too large by
	many  bool
}

// maxRequest is what a request can have (413), less room for what agents put
// around a conversation.
const maxRequest = 32<<20 - 1<<20

func (x *examiner) mediaSurplus() surplus {
	n, size := 0, 0
	count := func(b *message.Block) {
		size += len(b.Text) + len(b.Input) + len(b.Raw)
		if b.Media != nil {
			n++
			size += len(b.Media.Data)
		}
	}
	for i := range x.talk {
		for _, b := range x.talk[i].msg.Blocks {
			count(&b)
			for _, in := range b.Content {
				count(&in)
			}
		}
	}
	if x.format == Codex {
		return surplus{} // its API counts otherwise
	}
	return surplus{over: n - maxMedia, bytes: size - maxRequest, many: n > manyImages}
}

func (x *examiner) medium(e *entry, b *message.Block, at place, media *surplus) {
	note := func(why string) func(*plan) {
		return x.unlessForeign(at.line, func(p *plan) { x.patient.note(p, e, at, removed(b, why)) })
	}
	fault := inspect(b.Media, b.Type == message.Document)
	over, large := media.over > 0, media.bytes > 0
	media.over--
	if (fault != nil && fault.data == "" && fault.rule != WrongMediaType || over || large) && b.Media != nil { // it goes
		media.bytes -= len(b.Media.Data)
	}
	switch {
	case fault != nil && fault.rule == WrongMediaType:
		mend := x.unlessForeign(at.line, func(p *plan) { x.patient.setMediaType(p, at, b.Media, fault.kind) })
		x.find(WrongMediaType, e, at.line, mend, "%s %s", article(b.Type), fault.why)
	case fault != nil && fault.data != "":
		mend := x.unlessForeign(at.line, func(p *plan) { x.patient.setMediaData(p, at, b.Media, fault.data) })
		x.find(fault.rule, e, at.line, mend, "%s %s", article(b.Type), fault.why)
		x.found[len(x.found)-1].Repair = "it is written as the API takes it, with the same content"
	case fault != nil:
		x.find(fault.rule, e, at.line, note(fault.why), "%s %s", article(b.Type), fault.why)
	case over:
		x.find(ManyMedia, e, at.line, note("was among the oldest, and a request can carry no more"), "more than %d images and documents", maxMedia)
	case large && b.Media.Data != "":
		x.find(ManyMedia, e, at.line, note("was among the oldest, and a request can carry no more"), "images, documents and texts of more than %d MB", maxRequest>>20)
	case media.many && max(b.Media.Width, b.Media.Height) > maxManySide:
		side := max(b.Media.Width, b.Media.Height)
		why := fmt.Sprintf("has %d pixels a side, %d are possible beside more than %d images", side, maxManySide, manyImages)
		x.find(LargeMedia, e, at.line, note(why), "%s %s", article(b.Type), why)
	}
}
