package session

import (
	"fmt"
	"io"
	"os"

	"github.com/daruma-agent/daruma/message"
)

// Outline is what a session amounts to, without its conversation.
type Outline struct {
	History *History // has no messages
	Prompt  string   // what a person asked first
	Damaged int      // lines, as far as they were looked at
}

// A list looks at many files. Of the large ones it reads the ends.
const (
	lookWhole = 4 << 20
	lookEnd   = 512 << 10
)

// Look reads the outline of the session at path. It is what a list needs: of a
// large file whose last run came to its end it reads the beginning and the end,
// of any other one everything, without keeping it.
func Look(path string) (*Outline, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("look at session: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > lookWhole {
		if out := glimpse(f, info.Size()); out != nil {
			return out, nil
		}
	}
	l := newLoader(f)
	out := &Outline{History: l.h}
	err = scan(f, func(at span, line []byte) error {
		if out.Prompt == "" {
			if h, _, ok := glance(line); !ok || h.kind == TypeMessage {
				if e, err := Decode(line); err == nil {
					out.Prompt = typed(e)
				}
			}
		}
		return l.take(at, line)
	})
	if err != nil {
		return nil, fmt.Errorf("look at session %s: %w", path, err)
	}
	l.h.Messages = nil
	if err := l.fill(); err != nil {
		l.h.End = nil // what it says cannot be read
	}
	out.Damaged = l.damaged
	return out, nil
}

// typed is what a person said in e; empty if it is something else.
func typed(e Event) string {
	b, ok := e.Body.(*Message)
	if !ok || b.Message == nil || b.Message.Role != message.User || b.Message.Synthetic {
		return ""
	}
	return b.Message.PlainText()
}

// glimpse makes an outline of the beginning and the end of a file; nil if the end
// does not tell how the last run ended.
func glimpse(file io.ReaderAt, size int64) *Outline {
	out := &Outline{History: &History{}}
	take := func(from int64, visit func(Event)) {
		// Neither reading nor a part of a line is an error here.
		_ = scan(io.NewSectionReader(file, from, lookEnd), func(_ span, line []byte) error {
			if e, err := Decode(line); err == nil {
				visit(e)
			}
			return nil
		})
	}
	take(0, func(e Event) {
		switch e.Body.(type) {
		case *Start, *Name:
			out.History.Apply(e)
		}
		if out.Prompt == "" {
			out.Prompt = typed(e)
		}
	})
	ended := false
	take(size-lookEnd, func(e Event) {
		switch b := e.Body.(type) {
		case *End:
			ended, out.History.Name = true, b.Name
			out.History.Apply(e)
		case *Start, *Name, *RunStart:
			out.History.Apply(e)
		default:
			out.History.Runs = max(out.History.Runs, e.Run)
		}
	})
	if !ended {
		return nil
	}
	return out
}
