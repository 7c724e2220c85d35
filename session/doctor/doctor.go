// Package doctor (–) answers one question: what in a saved session would make
// the API refuse it, and how is it healed?
//
// It reads the journals of daruma and the session files of Claude Code, Codex
// CLI and pi. [Open] reads a file, [File.Report] tells what is wrong in plain
// words, [File.Diff] shows the repair, [File.HealTo] writes a healed copy. The
// original is never touched, lines that need no repair stay byte for byte, and
// calls are never dropped: a call without result gets one that says that its
// outcome is unknown.
package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/daruma-agent/daruma/message"
)

// Format names whose file it is.
type Format string

// The formats.
const (
	Daruma Format = "daruma"
	Claude Format = "claude"
	Codex  Format = "codex"
	Pi     Format = "pi"
)

// Agent is the name of the program that writes the format.
func (f Format) Agent() string {
	return map[Format]string{Daruma: "daruma", Claude: "Claude Code", Codex: "Codex CLI", Pi: "pi"}[f]
}

// File is a session file as it was opened. Set its options before the first
// look; it is not safe for use by several goroutines at once.
type File struct {
	Path   string
	Format Format

	// Model is the model that the session will go on with, if it is not the
	// one that answered last. Thinking of other models is left out.
	Model string
	// DropThinking leaves out all thinking. It is for a session that the API
	// refuses because of a signature: whether words and signature still fit
	// together, only the API can tell.
	DropThinking bool

	doc    *doc
	parent *parent // of a fork whose beginning is in another file
	cured  *cure
}

// ErrFormat says that a file is no session that doctor knows.
var ErrFormat = errors.New("no session file of daruma, Claude Code, Codex CLI or pi")

// maxFile is how large a file can be. All of it is held in memory.
const maxFile = 1 << 30

// Open reads the session file at path. Pipes and devices may have no end, and
// nothing can be written beside them, so they are refused.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	data, err := readRegular(path, info)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	f, err := parse(path, data)
	if err != nil {
		return nil, err
	}
	if f.Format == Codex {
		f.parent = findParent(path, f.doc)
	}
	return f, nil
}

func readRegular(path string, info os.FileInfo) ([]byte, error) {
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w: it is no regular file; save what it holds in one first", path, ErrFormat)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s: %w: it has %d bytes, and no session has more than %d", path, ErrFormat, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

func parse(path string, data []byte) (*File, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("open session %s: %w: the file is empty, nothing was said in it", path, ErrFormat)
	}
	if bytes.HasPrefix(data, []byte("\xFF\xFE")) || bytes.HasPrefix(data, []byte("\xFE\xFF")) {
		return nil, fmt.Errorf("open session %s: %w: it is UTF-16; save it as UTF-8 first", path, ErrFormat)
	}
	d := splitLines(data)
	format := detect(d)
	if format == "" {
		return nil, fmt.Errorf("open session %s: %w: expected one JSON object a line, "+
			"with uuid and parentUuid (Claude Code), timestamp and payload (Codex CLI), "+
			"id and parentId after a header of type session (pi), or v, body and crc (daruma)", path, ErrFormat)
	}
	return &File{Path: path, Format: format, doc: d}, nil
}

// marks are what the records of each format have and those of no other. Inside
// of texts their quotes would be escaped, so they need no parsing, and torn
// lines count too.
var marks = []struct {
	format Format
	any    []string
}{
	{Daruma, []string{`"crc":"`, `{"v":1,`}},
	{Codex, []string{`"payload":{`, `"type":"session_meta"`, `"type":"response_item"`, `"type":"event_msg"`}},
	{Pi, []string{`"parentId":`, `"type":"session","version"`}},
	{Claude, []string{`"parentUuid":`, `"sessionId":"`, `"leafUuid":"`, `"isSidechain":`}},
}

// detect tells the format by what most of the first lines look like.
func detect(d *doc) Format {
	const enough = 200
	votes := map[Format]int{}
	for _, l := range d.lines[:min(len(d.lines), enough)] {
		text := bytes.ReplaceAll(l.raw[:min(len(l.raw), 1<<20)], []byte(`": `), []byte(`":`))
		for _, m := range marks {
			for _, mark := range m.any {
				if bytes.Contains(text, []byte(mark)) {
					votes[m.format]++
					break
				}
			}
		}
	}
	var best Format
	for _, m := range marks {
		if votes[m.format] > votes[best] {
			best = m.format
		}
	}
	return best
}

// Conversation is what the owning agent would send of the file, before it
// mends anything.
type Conversation struct {
	Messages []*message.Message
	Lines    [][]int // Lines[i][j] is where Messages[i].Blocks[j] stands, from 1; 0: in another file
}

// Conversation returns the conversation of the file as it is.
func (f *File) Conversation() Conversation { return conversation(f.doc, f.patient(f.doc).talk()) }

// Healed returns the conversation of the healed file.
func (f *File) Healed() Conversation {
	d := f.cure().doc
	return conversation(d, f.patient(d).talk())
}

func conversation(d *doc, talk []entry) Conversation {
	c := Conversation{Messages: messages(talk)}
	for i := range talk {
		lines := make([]int, 0, len(talk[i].at))
		for _, at := range talk[i].at {
			no := 0
			if at.line >= 0 {
				no = d.lines[at.line].no
			}
			lines = append(lines, no)
		}
		c.Lines = append(c.Lines, lines)
	}
	return c
}

// patient reads d as the agent of the file does.
func (f *File) patient(d *doc) patient {
	switch f.Format {
	case Claude:
		return readClaude(d)
	case Codex:
		return readCodex(d, f.parent, f.Path)
	case Pi:
		return readPi(d, f.Path)
	}
	return readDaruma(d)
}

// Rules is what the conversation of the file has to keep.
func (f *File) Rules() message.Rules {
	r := message.Rules{AssistantLast: true} // the next prompt follows it
	if f.Format != Codex {
		r.Media = message.MediaLimits{
			Count: maxMedia, Bytes: maxPDFBytes, Pixels: maxImageSide, ManyCount: manyImages, ManyPx: maxManySide,
		}
	}
	return r
}
