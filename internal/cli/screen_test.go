package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json/jsontext"
)

// TestMarked shows what turns the direction of a line; other languages and
// pictures stay.
func TestMarked(t *testing.T) {
	for in, want := range map[string]string{
		"ls \u202e x": "ls ⟨U+202E⟩ x", "\u2066a\u2069\u200b": "⟨U+2066⟩a⟨U+2069⟩⟨U+200B⟩",
		"שלום, 日本語, 👩\u200d👧": "שלום, 日本語, 👩\u200d👧",
	} {
		if got := marked(in); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
	var out bytes.Buffer
	r := &renderer{out: &out, lines: true}
	r.event(session.Event{Body: &session.Delta{Text: "a \u202eb\n"}})
	r.stream = true
	r.event(session.Event{Body: &session.Delta{Text: "a \u202eb\n"}})
	r.line("? Bash \u202ex")
	if got := out.String(); got != "a ⟨U+202E⟩b\n? Bash ⟨U+202E⟩x\n" {
		t.Errorf("%q", got)
	}
}

// TestTodos shows a list of what is to do by lines, and anything else not at all.
func TestTodos(t *testing.T) {
	list := `{"todos":[{"content":"one","status":"completed"},{"content":"two\u001b[2J","status":"in_progress"},{"content":"three","status":"pending"}]}`
	if got := todos("TodoWrite", jsontext.Value(list)); got != "\n  ✓ one\n  ▸ two\n  · three" {
		t.Errorf("%q", got)
	}
	for _, c := range [][2]string{{"Bash", list}, {"TodoWrite", `{"todos":"x"}`}, {"TodoWrite", `{}`}} {
		if got := todos(c[0], jsontext.Value(c[1])); got != "" {
			t.Errorf("%s %s: %q", c[0], c[1], got)
		}
	}
}

// TestKeys takes out of the keyboard what is no text: keys that stop, and what
// is pasted, wherever a read cuts it.
func TestKeys(t *testing.T) {
	const typed = "a\x03b\x1a\x1b[A\x1b[200~x\r\n\ty\r\x1b[201~c\x1b[200~one line\x1b[201~\r"
	for size := range 5 {
		if size == 1 {
			continue // a lone Esc cannot be told from the beginning of a sequence
		}
		events := ""
		k := &keys{in: &chunks{data: typed, size: size}, interrupt: func(ctrlC bool) {
			if ctrlC {
				events += "C"
			}
		}, suspend: func() { events += "Z" }}
		if size > 0 { // sequences that begin a paste come as a whole from terminals
			k.in = &chunks{data: typed[strings.Index(typed, pasteStart):], size: size, first: len(pasteStart)}
		}
		got, err := io.ReadAll(k)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(string(got), "ab\x1b[A")
		if !strings.HasPrefix(text, "[pasted 1: 2 lines]c") || size == 0 && (events != "CZ" || !strings.HasSuffix(text, "cone line\r")) {
			t.Errorf("reads of %d: %q, %s", size, got, events)
		}
		if line := k.pasted("> [pasted 1: 2 lines]c"); line != "> x\n\tyc" {
			t.Errorf("%q", line)
		}
	}
}

// chunks is a reader of so many bytes at a time; all of them for 0. The first read may be longer.
type chunks struct {
	data        string
	size, first int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.data == "" {
		return 0, io.EOF
	}
	n := c.size
	if c.first > 0 {
		n, c.first = c.first, 0
	}
	if n == 0 {
		n = len(c.data)
	}
	n = copy(p, c.data[:min(n, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// TestListFits prints short IDs and whole lines on a screen, all of them elsewhere.
func TestListFits(t *testing.T) {
	list := []listed{{ID: "4625b462-3bdb-4f80-8ae9-328008dcefc6", State: "completed", Runs: 2, Modified: time.Now(), Prompt: strings.Repeat("long ", 20)}}
	var wide, screen bytes.Buffer
	if err := printList(&wide, list, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := printList(&screen, list, 0, 80); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(wide.String(), list[0].ID+"  ") || !strings.HasPrefix(screen.String(), "4625b462  ") || len([]rune(strings.TrimSpace(screen.String()))) > 80 {
		t.Errorf("%q\n%q", wide.String(), screen.String())
	}
}

// TestRecoveriesFit prints the rows for a screen, each with its way and none too wide.
func TestRecoveriesFit(t *testing.T) {
	var out bytes.Buffer
	rows := wayBackRows()
	if err := printRecoveryLines(&out, rows, 60); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(out.String(), "\n") {
		if len([]rune(line)) > 60 {
			t.Errorf("%q", line)
		}
	}
	for _, r := range rows {
		if !strings.Contains(out.String(), "("+r.Name+")") {
			t.Errorf("%s is missing", r.Name)
		}
	}
}

// TestReaderLeaves holds that head is no failure of what only tells something.
func TestReaderLeaves(t *testing.T) {
	if err := shown(&os.PathError{Op: "write", Path: "stdout", Err: syscall.EPIPE}); err != nil {
		t.Error(err)
	}
	if shown(io.ErrShortWrite) == nil || written(syscall.EPIPE) == nil {
		t.Error("a failure is silent")
	}
}
