package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/tool"
)

// keys reads the keyboard, and takes out of it what interrupts: Ctrl+C, and an
// Esc that begins no sequence; Ctrl+Z; and what is pasted: several lines are one
// prompt, and no answer to a question that they never saw.
type keys struct {
	in        io.Reader
	interrupt func(ctrlC bool)
	suspend   func()

	out     []byte // read, and not asked for yet
	pasting bool
	paste   []byte
	pastes  []string // those that the line stands for with a few words
}

const (
	keyCtrlC = 0x03
	keyCtrlZ = 0x1a
	keyEsc   = 0x1b

	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	// longPaste is what the line takes as it is; the rest stands for itself as a mark.
	longPaste = 1000
)

func (k *keys) Read(p []byte) (int, error) {
	for len(k.out) == 0 {
		n, err := k.in.Read(p)
		k.take(p[:n])
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, k.out)
	k.out = k.out[n:]
	return n, nil
}

func (k *keys) take(data []byte) {
	for len(data) > 0 {
		if k.pasting {
			data = k.takePaste(data)
			continue
		}
		if rest, ok := bytes.CutPrefix(data, []byte(pasteStart)); ok {
			k.pasting, data = true, rest
			continue
		}
		switch b := data[0]; {
		case b == keyCtrlC:
			k.interrupt(true)
		case b == keyCtrlZ:
			k.suspend()
		case b == keyEsc && len(data) == 1:
			k.interrupt(false)
		default:
			k.out = append(k.out, b)
		}
		data = data[1:]
	}
}

// takePaste takes what is pasted, and returns what stands behind it.
func (k *keys) takePaste(data []byte) (rest []byte) {
	from := max(0, len(k.paste)-len(pasteEnd))
	k.paste = append(k.paste, data...)
	i := bytes.Index(k.paste[from:], []byte(pasteEnd))
	if i < 0 {
		return nil
	}
	text := string(k.paste[:from+i])
	rest = bytes.Clone(k.paste[from+i+len(pasteEnd):])
	k.pasting, k.paste = false, nil
	text = strings.TrimRight(tool.Clean(text), "\n")
	if strings.ContainsAny(text, "\n\t") || utf8.RuneCountInString(text) > longPaste {
		k.pastes = append(k.pastes, text)
		text = k.mark(len(k.pastes) - 1)
	}
	k.out = append(k.out, text...)
	return rest
}

// mark stands in the line for the pasted text i.
func (k *keys) mark(i int) string {
	return fmt.Sprintf("[pasted %d: %s]", i+1, count(strings.Count(k.pastes[i], "\n")+1, "line"))
}

// pasted puts what was pasted in the place of its marks.
func (k *keys) pasted(line string) string {
	var pairs []string
	for i, text := range k.pastes {
		pairs = append(pairs, k.mark(i), text)
	}
	return strings.NewReplacer(pairs...).Replace(line)
}

// plainScreen is a terminal that cannot take anything back (TERM=dumb): it edits
// lines itself, and gets whole ones.
type plainScreen struct {
	in  *bufio.Reader
	out io.Writer

	mu     sync.Mutex
	prompt string
	shown  bool // the prompt is the last thing that was written
}

func (s *plainScreen) ReadLine() (string, error) {
	line, err := s.in.ReadString('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.shown = false // Enter has ended its line
	} else if line != "" {
		err = nil
	}
	return line, err
}

func (s *plainScreen) SetPrompt(prompt string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompt = prompt
}

func (s *plainScreen) SetSize(int, int) error { return nil }

// Write writes text below what stands there; nothing at all asks for the prompt.
func (s *plainScreen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(text) == 0 && s.shown:
		return 0, nil
	case len(text) == 0:
		s.shown = true
		_, err := io.WriteString(s.out, s.prompt)
		return 0, err
	case s.shown:
		s.shown = false
		if _, err := io.WriteString(s.out, "\n"); err != nil {
			return 0, err
		}
	}
	return s.out.Write(text)
}
