package builtin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/tool"
)

const readText = `Reads a file and returns its lines with their numbers, as cat -n does.

- file_path is relative to the root of the workspace, or absolute below it.
- Without offset and limit the first 2000 lines are returned. If the result says that more follow, go on with offset.
- Lines are cut after 2000 characters. The number and the tab before each line are not part of the file.
- Images (png, jpeg, gif, webp, bmp) are shown to you, large ones smaller than they are. Folders are not read: use Glob.
- PDFs of up to 30 pages are shown to you whole. Of longer ones ask for the text of some pages with pages, such as "1-20".
- Read a file before you edit it. Read several files at once by several calls in one answer.`

const (
	defaultLines = 2000
	maxLine      = 2000   // characters of a line
	maxShown     = 45_000 // characters of a result, less than a tool set allows
)

type readInput struct {
	Path   string `json:"file_path" jsonschema:"the file to read"`
	Offset int    `json:"offset,omitzero" jsonschema:"number of the first line, counted from 1"`
	Limit  int    `json:"limit,omitzero" jsonschema:"how many lines"`
	Pages  string `json:"pages,omitzero" jsonschema:"pages of a PDF, such as 3 or 1-5"`
}

// ReadOutput is the structured output of Read.
type ReadOutput struct {
	Type string   `json:"type"` // text, image or pdf
	File ReadFile `json:"file"`
}

// ReadFile is what was read of a file: lines of a text, an image, or a PDF.
type ReadFile struct {
	Path       string `json:"filePath"`
	Content    string `json:"content,omitzero"`
	NumLines   int    `json:"numLines,omitzero"`
	StartLine  int    `json:"startLine,omitzero"`
	TotalLines int    `json:"totalLines,omitzero"`
	MediaType  string `json:"mediaType,omitzero"`
	Size       int64  `json:"originalSize,omitzero"` // bytes of an image or a PDF
	Width      int    `json:"width,omitzero"`
	Height     int    `json:"height,omitzero"`
	Pages      int    `json:"pages,omitzero"` // of a PDF, if they could be counted
}

func (w *Workspace) read() tool.Tool {
	return &tool.Typed[readInput]{
		Name: "Read", Description: readText, Do: w.runRead,
		Judge: func(readInput) tool.Effect { return tool.Pure },
		Touch: func(in readInput) tool.Access {
			return tool.Access{Kind: tool.AccessRead, Paths: []string{in.Path}}
		},
	}
}

func (w *Workspace) runRead(ctx context.Context, call tool.Call, in readInput) tool.Result {
	if in.Offset < 0 || in.Limit < 0 {
		return tool.Refuse(tool.ClassBadInput, "offset and limit must not be negative")
	}
	p, err := w.locate(in.Path)
	if err != nil {
		return failure("read", in.Path, err)
	}
	f, info, err := p.open()
	if err != nil {
		return p.failure("read", in.Path, err)
	}
	defer f.Close()
	start := make([]byte, 8<<10)
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return failure("read", in.Path, err)
	}
	if start = start[:n]; n == 0 { // its size does not say so: files of the system have none
		call.Committed(func() { w.memory.read(p, sha256.Sum256(nil), 0, span{call: call.ID}) })
		return tool.Text("(the file " + p.shown + " exists and is empty)")
	}
	media := http.DetectContentType(start)
	_, picture := codecs[media]
	switch {
	case media == "application/pdf":
		return w.readPDF(ctx, p, f, info.Size(), in.Pages)
	case in.Pages != "":
		return tool.Refuse(tool.ClassBadInput, p.shown+" is no PDF: pages is for PDFs, offset and limit are for text")
	case picture:
		return w.readImage(p, f, start, info.Size(), media)
	}
	if err := refuseBinary(start, media, info.Size()); err != nil {
		return failure("read", in.Path, err)
	}
	page := page{from: max(in.Offset, 1), limit: in.Limit, big: info.Size() > maxWhole}
	if page.limit == 0 {
		page.limit = defaultLines
	}
	if err := page.scan(mortal{ctx, io.MultiReader(bytes.NewReader(start), f)}); err != nil {
		return failure("read", in.Path, err)
	}
	return w.showPage(p, call, &page)
}

// failure is that of an operation on the place, and says what is near to one
// that is not there.
func (p place) failure(op, path string, err error) tool.Result {
	r := failure(op, path, err)
	if p.area == nil || !errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if near := p.neighbours(); len(near) > 0 {
		r.Content[0].Text += ". In the same folder there is " + strings.Join(near, ", ")
	} else if _, err := p.area.root.Stat(filepath.Dir(p.rel)); err != nil {
		r.Content[0].Text += ". Its folder does not exist either: find the file with Glob"
	}
	return r
}

// refuseBinary returns an error for what is no text, naming the kind of it.
func refuseBinary(start []byte, media string, size int64) error {
	switch {
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return refuse(ClassKind, "this is text in UTF-16. Use Bash to convert it, for example with iconv -f UTF-16 -t UTF-8")
	case bytes.IndexByte(start, 0) >= 0:
		return refuse(ClassKind, "this is a binary file (%s, %s), which cannot be shown as text. Use Bash to look into it, for example with file or xxd",
			media, bytesText(size))
	}
	return nil
}

// page is a range of the lines of a text. The text is read to its end to count
// and to sum it up, but only the range is held. Of a big one, which is too
// large to be edited anyway, nothing is read behind the range.
type page struct {
	from, limit int
	big         bool

	lines   []string
	total   int
	sum     digest
	size    int  // characters in lines
	cut     int  // lines that were cut
	crlf    bool // there are lines that end in \r\n
	invalid bool // a shown line is not UTF-8
	unshown bool // a line has control characters
	more    bool // total is where reading ended, not how many lines there are
	stuck   bool // it ended in a line of which no end was found
}

// mortal is a reader that ends with its context.
type mortal struct {
	ctx context.Context
	io.Reader
}

func (m mortal) Read(b []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	return m.Reader.Read(b)
}

func (p *page) scan(r io.Reader) error {
	hash := sha256.New()
	if !p.big {
		r = io.TeeReader(r, hash)
	}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line.text) > 0 || err == nil {
			p.total++
			p.add(line)
		}
		switch {
		case err != nil:
			hash.Sum(p.sum[:0])
			return nil
		case line.endless:
			p.big, p.more, p.stuck = true, true, true
			return nil
		case p.big && (len(p.lines) >= p.limit || p.size >= maxShown):
			p.more = true
			return nil
		}
	}
}

func (p *page) add(l line) {
	if p.total < p.from || len(p.lines) >= p.limit || p.size >= maxShown && len(p.lines) > 0 {
		return
	}
	text, ended := strings.CutSuffix(string(l.text), "\n")
	if bare, ok := strings.CutSuffix(text, "\r"); ok && ended {
		text, p.crlf = bare, true
	}
	if p.total == 1 {
		text = strings.TrimPrefix(text, bom)
	}
	p.invalid = p.invalid || !l.cut && !utf8.ValidString(text)
	p.unshown = p.unshown || strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && r != 0 && unicode.IsControl(r) })
	if l.cut || utf8.RuneCountInString(text) > maxLine {
		p.cut++
		text = tool.Middle(strings.ToValidUTF8(text, ""), maxLine, 0, "… [line cut here]")
	}
	if size := utf8.RuneCountInString(text) + 8; len(p.lines) == 0 || p.size+size <= maxShown {
		p.lines = append(p.lines, text)
		p.size += size
		return
	}
	p.size = maxShown // the page is full: a shorter line must not slip in behind
}

const bom = "\uFEFF"

type line struct {
	text    []byte // with its end
	cut     bool   // text is only the beginning
	endless bool   // its end was not looked for any longer
}

// readLine reads a line of any length and holds only so much of it as is shown.
func readLine(in *bufio.Reader) (l line, err error) {
	for n := 0; ; {
		part, err := in.ReadSlice('\n')
		room := (maxLine+8)*utf8.UTFMax - len(l.text)
		if len(part) > room {
			l.cut = true
			part = part[:max(room, 0)]
		}
		l.text = append(l.text, part...)
		if n += in.Size(); n > maxWhole && errors.Is(err, bufio.ErrBufferFull) {
			l.endless = true
			return l, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}

// showPage writes the page for the model and remembers what it shows.
func (w *Workspace) showPage(p place, call tool.Call, page *page) tool.Result {
	switch {
	case page.from > page.total && page.more:
		return tool.Refuse(ClassKind, fmt.Sprintf("line %d of %s does not end within %s, and no line behind it can be shown. Use Bash, for example with cut or jq",
			page.total, p.shown, bytesText(maxWhole)))
	case page.from > page.total:
		return tool.Refuse(tool.ClassBadInput, fmt.Sprintf("%s has only %s: offset %d is behind its end",
			p.shown, plural(page.total, "line", "lines"), page.from))
	}
	var b strings.Builder
	for i, l := range page.lines {
		fmt.Fprintf(&b, "%6d\t%s\n", page.from+i, l)
	}
	last := page.from + len(page.lines) - 1
	if notes := page.notes(last); len(notes) > 0 {
		fmt.Fprintf(&b, "(%s)\n", strings.Join(notes, "; "))
	}
	switch {
	case page.more:
		page.total = 0 // not known
	case page.big: // it cannot be changed here
	case page.cut == 0 && !page.invalid:
		call.Committed(func() { w.memory.read(p, page.sum, page.total, span{call.ID, page.from, last}) })
	default:
		call.Committed(func() { w.memory.read(p, page.sum, page.total, span{call: call.ID}) }) // known, but not line for line
	}
	r := tool.Text(b.String())
	r.Output = ReadOutput{Type: "text", File: ReadFile{
		Path: p.shown, Content: tool.Clean(strings.Join(page.lines, "\n")),
		NumLines: len(page.lines), StartLine: page.from, TotalLines: page.total,
	}}
	return r
}

// notes say what a reader of the page has to know, whose last line is last.
func (p *page) notes(last int) (notes []string) {
	switch {
	case p.stuck && last == p.total:
		notes = append(notes, fmt.Sprintf("line %d has more than %s, and what is behind it was not read: use Bash, for example with cut or jq",
			last, bytesText(maxWhole)))
	case p.more:
		notes = append(notes, fmt.Sprintf("lines %d to %d of a file that is too large to count them; go on with offset %d", p.from, last, last+1))
	case last < p.total:
		notes = append(notes, fmt.Sprintf("lines %d to %d of %d; go on with offset %d", p.from, last, p.total, last+1))
	}
	if p.cut > 0 {
		notes = append(notes, fmt.Sprintf("%s cut after %d characters", plural(p.cut, "line was", "lines were"), maxLine))
	}
	if p.crlf {
		notes = append(notes, `lines end in \r\n, which Edit and Write keep`)
	}
	if p.invalid {
		notes = append(notes, "not all of this is UTF-8; what is not is shown as \uFFFD")
	}
	if p.unshown {
		notes = append(notes, `there are control characters, which are not shown (a \r in a line is shown as its end); in old_string they are written as in \r or \u001b`)
	}
	return notes
}
