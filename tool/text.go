package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxText  = 50_000 // characters of a good result
	maxError = 10_000 // characters of a failed one (R71)
	// What is left of a result that was too large: enough to see what it is,
	// since the whole is in a file.
	keepHead, keepTail = 6_000, 3_000
)

// Rewritten is r with another text for the model, as JSON: a text, or anything
// else as it stands. Nil changes nothing.
func (s *Set) Rewritten(call Call, r Result, output jsontext.Value) *Result {
	if output != nil {
		var text string
		if json.Unmarshal(output, &text) != nil {
			text = string(output)
		}
		r.Content = Text(text).Content
		r = s.finish(call, r)
	}
	return &r
}

// finish makes r fit to be sent to a model.
func (s *Set) finish(call Call, r Result) Result {
	var content []message.Block
	size := 0
	for _, b := range r.Content {
		switch {
		case b.Type == message.Text:
			if b.Text = Clean(b.Text); b.Text != "" {
				size += utf8.RuneCountInString(b.Text)
				content = append(content, b)
			}
		case !r.IsError: // the API accepts nothing but text in an error
			content = append(content, b)
		}
	}
	limit := maxText
	if r.IsError {
		limit = maxError
		if r.Class == "" {
			r.Class = ClassUnknown
		}
		if blankText(content) {
			content = []message.Block{{Type: message.Text, Text: call.Name + " failed and said nothing about why."}}
		}
	} else if len(content) == 0 || size > 0 && blankText(content) && onlyText(content) {
		// Some models take an empty result for the end of the conversation.
		content = []message.Block{{Type: message.Text, Text: "(" + call.Name + " completed with no output)"}}
	}
	if size > limit {
		content = s.shrink(call.Name, content, size)
	}
	r.Content = content
	return r
}

func blankText(content []message.Block) bool {
	for _, b := range content {
		if b.Type == message.Text && strings.TrimSpace(b.Text) != "" {
			return false
		}
	}
	return true
}

func onlyText(content []message.Block) bool {
	for _, b := range content {
		if b.Type != message.Text {
			return false
		}
	}
	return true
}

// shrink moves the text of content to a file and keeps its head and tail.
func (s *Set) shrink(name string, content []message.Block, size int) []message.Block {
	var all strings.Builder
	var rest []message.Block
	for _, b := range content {
		if b.Type != message.Text {
			rest = append(rest, b)
			continue
		}
		if all.Len() > 0 {
			all.WriteString("\n")
		}
		all.WriteString(b.Text)
	}
	where := "what was left out was not kept"
	if s.Spill != "" {
		kept := all.String()
		if s.Hide != nil {
			kept = s.Hide(kept)
		}
		path, err := save(s.Spill, name, kept)
		if err != nil {
			where = "what was left out could not be kept: " + err.Error()
		} else {
			where = "the whole text is in " + path
		}
	}
	text := Middle(all.String(), keepHead, keepTail, fmt.Sprintf("\n\n[## of %d characters left out here; %s]\n\n", size, where))
	return append([]message.Block{{Type: message.Text, Text: text}}, rest...)
}

func save(dir, name, text string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, fileSafe().ReplaceAllString(name, "_")+"-*.txt")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		os.Remove(f.Name()) // half a text under the name of the whole would mislead
		return "", err
	}
	return filepath.Abs(f.Name())
}

var fileSafe = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_.]+`) })

// Middle cuts the middle out of text if it has more than head+tail characters.
// marker stands in its place; ## in it becomes the number of characters cut.
func Middle(text string, head, tail int, marker string) string {
	cut := utf8.RuneCountInString(text) - head - tail
	if cut <= 0 {
		return text
	}
	from, to := 0, len(text)
	for range head {
		_, n := utf8.DecodeRuneInString(text[from:])
		from += n
	}
	for range tail {
		_, n := utf8.DecodeLastRuneInString(text[:to])
		to -= n
	}
	return text[:from] + strings.Replace(marker, "##", strconv.Itoa(cut), 1) + text[to:]
}

// Terminal sequences: CSI (colours, cursor), OSC (titles, links; ended by BEL or
// ST), and the short ones.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)|[()*+][0-9A-Za-z]|[@-Z\\\\-_=>])")
})

// Clean makes text fit for JSON, for a model and for a terminal: valid UTF-8,
// line ends as \n, no terminal sequences and no control characters but \n and
// \t. A NUL, which often separates things, is shown as ␀.
func Clean(text string) string {
	if clean(text) {
		return text
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = escapes().ReplaceAllString(text, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return '\n'
		case r == 0:
			return '␀'
		case r < ' ', 0x7f <= r && r < 0xa0:
			return -1
		}
		return r
	}, text)
}

// clean reports whether Clean would change nothing, which is nearly always so.
func clean(text string) bool {
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0 || r == utf8.RuneError {
			return false
		}
	}
	return true
}
