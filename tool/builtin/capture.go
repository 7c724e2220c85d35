package builtin

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/tool"
)

const (
	maxSpill = 100 << 20 // bytes of one output on disk
	maxFresh = 4 << 10   // bytes of one report of progress
)

// capture takes the output of a command. Whatever its size, memory holds only
// its head and tail; the whole goes to a file as soon as it does not fit.
type capture struct {
	dir  string                   // for the file; empty: there is none
	keep int                      // bytes of the head, and of the tail
	hide func(text string) string // takes secrets out of the file; may be nil

	mu    sync.Mutex
	head  []byte
	tail  []byte
	fresh []byte // came since the last report
	total int64

	file    *os.File
	written int64
	fault   error // why there is no whole file
}

// Write never fails: a full disk must not break the pipe of the command.
func (c *capture) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(b)
	if c.total <= int64(2*c.keep) && c.total+int64(n) > int64(2*c.keep) {
		c.spill()
	}
	c.total += int64(n)
	c.fresh = last(append(c.fresh, last(b, maxFresh)...), maxFresh)
	c.store(b)
	if room := c.keep - len(c.head); room > 0 {
		room = min(room, len(b))
		c.head = append(c.head, b[:room]...)
		b = b[room:]
	}
	if c.tail = append(c.tail, b...); len(c.tail) > 8*c.keep {
		c.tail = append(c.tail[:0], last(c.tail, c.keep)...)
	}
	return n, nil
}

func last(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}

// spill opens the file and writes what came so far.
func (c *capture) spill() {
	if c.dir == "" || c.file != nil || c.fault != nil {
		return
	}
	c.file, c.fault = os.CreateTemp(c.dir, "Bash-*.txt")
	c.store(c.head)
	c.store(c.tail)
}

func (c *capture) store(b []byte) {
	if c.file == nil || c.fault != nil || c.written >= maxSpill {
		return
	}
	b = b[:min(int64(len(b)), maxSpill-c.written)]
	n, err := c.file.Write(b)
	c.written += int64(n)
	c.fault = err
}

// news returns what came since it was last asked, at most the end of it.
func (c *capture) news() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := tool.Clean(string(whole(c.fresh)))
	c.fresh = c.fresh[:0]
	return text
}

// result returns the output for the model in at most limit bytes and the path of
// the file that holds all of it, if there is one. Nothing may be written after it.
func (c *capture) result(limit int) (text, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	binary := isBinary(c.head)
	if c.total > int64(limit) || binary {
		c.spill()
	}
	where := c.finish()
	if c.file != nil && c.fault == nil {
		path = c.file.Name()
	}
	if binary {
		return fmt.Sprintf("[binary output of %s, not shown; %s]", bytesText(c.total), where), path
	}
	all := append(bytes.Clone(c.head), c.tail...)
	if c.total <= int64(limit) {
		return tool.Clean(string(all)), path
	}
	head, tail := whole(all[:min(limit/2, len(all))]), whole(last(all, limit/2))
	cut := c.total - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s\n[%d bytes left out here; %s]\n%s",
		tool.Clean(string(head)), cut, where, tool.Clean(string(tail))), path
}

// hideSecrets writes the closed file anew if it holds a secret. A file that
// cannot be cleaned is not kept.
func (c *capture) hideSecrets() {
	if c.hide == nil {
		return
	}
	data, err := os.ReadFile(c.file.Name())
	if err == nil {
		if clean := c.hide(string(data)); clean != string(data) {
			err = os.WriteFile(c.file.Name(), []byte(clean), 0o600)
		}
	}
	if err != nil && c.fault == nil {
		c.fault = err
		_ = os.Remove(c.file.Name())
	}
}

// finish closes the file and says where the whole output is.
func (c *capture) finish() string {
	if c.file != nil {
		if err := c.file.Close(); c.fault == nil {
			c.fault = err
		}
		c.hideSecrets()
	}
	switch {
	case c.dir == "":
		return "it was not kept"
	case c.fault != nil:
		return "it could not be kept: " + c.fault.Error()
	case c.file == nil:
		return "it was not kept"
	case c.written < c.total:
		return fmt.Sprintf("the first %s of the output are in %s", bytesText(c.written), c.file.Name())
	}
	return "the whole output is in " + c.file.Name()
}

// whole takes the parts of characters off both ends of b.
func whole(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// isBinary reports whether the beginning of some output is no text: a NUL alone
// can be a separator, but text is not full of what cannot be shown.
func isBinary(b []byte) bool {
	b = whole(b[:min(len(b), 8<<10)])
	if bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) {
		return false
	}
	odd, n := 0, 0
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\n' && r != '\t' && r != '\r' && r != 0x1b && r != '\b' {
			odd++
		}
		b = b[size:]
		n++
	}
	return odd*4 > n
}
