package mcp

import (
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/tool"
)

const (
	tailBytes = 4 << 10 // kept of what a server says beside the protocol
	tailShown = 1_000   // characters of it that a message quotes
)

// tail keeps the end of what is written to it: what a server says on stderr,
// and the lines on its stdout that are no messages.
type tail struct {
	mu    sync.Mutex
	data  []byte
	stray int // lines on stdout that were no messages
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.data) - tailBytes; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// strayLine notes a line on stdout that is no message.
func (t *tail) strayLine(line []byte) {
	t.mu.Lock()
	t.stray++
	t.mu.Unlock()
	_, _ = t.Write([]byte("(stdout) " + string(line[:min(len(line), 500)]) + "\n"))
}

func (t *tail) strays() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stray
}

// String is the last words, clean, whole lines where that is possible.
func (t *tail) String() string {
	t.mu.Lock()
	text := string(t.data)
	t.mu.Unlock()
	text = strings.TrimSpace(tool.Clean(text))
	if short := tool.Middle(text, 0, tailShown, ""); short != text {
		if _, rest, ok := strings.Cut(short, "\n"); ok {
			short = rest
		}
		text = "… " + strings.TrimSpace(short)
	}
	return text
}
