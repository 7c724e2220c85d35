package builtin

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"github.com/ledongthuc/pdf"
)

const (
	maxDocument = 20 << 20 // bytes of a PDF that is sent whole: a request has room for 32 MB in base64
	maxPages    = 100      // of a PDF that is sent whole, as every model takes it
	// freePages is how many pages are sent without being asked for by number.
	// A page costs about 2,000 tokens, so that 100 of them would fill a
	// conversation with one call.
	freePages    = 30
	maxTextPages = 50 // whose text one call returns
	pdfPatience  = 20 * time.Second
	// What a page may unpack to: where each letter is placed, and at all.
	maxPlaced, maxPageText = 2 << 20, 16 << 20
)

// pageRange is a range of pages, counted from 1.
type pageRange struct{ from, to int }

// parsePages reads "3" or "1-5".
func parsePages(text string) (r pageRange, err error) {
	from, to, ranged := strings.Cut(strings.TrimSpace(text), "-")
	r.from, err = strconv.Atoi(strings.TrimSpace(from))
	r.to = r.from
	if err == nil && ranged {
		r.to, err = strconv.Atoi(strings.TrimSpace(to))
	}
	if err != nil || r.from < 1 || r.to < r.from {
		return r, refuse(tool.ClassBadInput, `pages is %q, and must be a page or a range of pages, such as "3" or "1-5"`, text)
	}
	return r, nil
}

// pdfSource is a PDF: a file, or what came from the web.
type pdfSource struct {
	io.ReaderAt
	size int64
	name string // for the model
}

// pdfPlan says how a PDF is shown.
type pdfPlan struct {
	whole bool // as a document
	pages pageRange
	err   error
}

// planPDF decides how a PDF of count pages (0: nobody could count them) is
// shown. locked says that it is encrypted, though without a password.
func planPDF(size int64, count int, locked bool, pages string) pdfPlan {
	var asked pageRange
	if pages != "" {
		var err error
		if asked, err = parsePages(pages); err != nil {
			return pdfPlan{err: err}
		}
		if count > 0 && asked.from > count {
			return pdfPlan{err: refuse(tool.ClassBadInput, "the PDF has only %s", plural(count, "page", "pages"))}
		}
		if count > 0 {
			asked.to = min(asked.to, count)
		}
	}
	all := pages == "" && count <= freePages || count > 0 && count <= maxPages && asked == pageRange{1, count}
	switch {
	case all && size <= maxDocument && !locked:
		return pdfPlan{whole: true}
	case pages == "" && (count > freePages || size > maxDocument):
		most, pages := maxTextPages, "an unknown number of pages"
		if count > 0 {
			most, pages = min(most, count), plural(count, "page", "pages")
		}
		text := fmt.Sprintf(`the PDF has %s and %s. At most %d pages and %s are shown without a range: ask for the text of some with pages, such as "1-%d"`,
			pages, bytesText(size), freePages, bytesText(maxDocument), most)
		if count > freePages && count <= maxPages && size <= maxDocument && !locked {
			text += fmt.Sprintf(`, or for all of it, with its pictures, with "1-%d", which costs about %d tokens`, count, count*2000)
		}
		return pdfPlan{err: refuse(ClassKind, "%s", text)}
	case pages == "":
		return pdfPlan{pages: pageRange{1, max(1, min(count, maxTextPages))}}
	}
	asked.to = min(asked.to, asked.from+maxTextPages-1)
	return pdfPlan{pages: asked}
}

// pdfBlocks makes blocks of a PDF: all of it as a document, or the text of
// some pages. The count is 0 if the pages could not be counted.
func pdfBlocks(ctx context.Context, src pdfSource, pages string) (blocks []message.Block, count int, err error) {
	if src.ends() != nil {
		return nil, 0, refuse(ClassKind, "the PDF is broken: its end is missing, it may not be written or loaded completely")
	}
	ctx, cancel := context.WithTimeout(ctx, pdfPatience)
	defer cancel()
	doc, err := openPDF(ctx, src)
	if errors.Is(err, pdf.ErrInvalidPassword) {
		return nil, 0, refuse(ClassKind, "the PDF is protected by a password, without which it cannot be shown. "+
			"With the password, qpdf --decrypt in Bash makes an open copy")
	}
	// A PDF that only this package cannot read is left to the API to judge.
	if err != nil && pages != "" {
		return nil, 0, refuse(ClassKind, "the pages of the PDF cannot be read one by one: %v. Leave pages out to see all of it, or use pdftotext in Bash", err)
	}
	count = doc.count
	plan := planPDF(src.size, count, doc.locked, pages)
	switch {
	case plan.err != nil:
		return nil, count, plan.err
	case !plan.whole:
		text, err := doc.text(ctx, plan.pages)
		if err != nil {
			return nil, count, err
		}
		return []message.Block{{Type: message.Text, Text: text}}, count, nil
	}
	data := make([]byte, src.size)
	if _, err := io.ReadFull(io.NewSectionReader(src, 0, src.size), data); err != nil {
		return nil, count, err
	}
	note := src.name + " (PDF, " + bytesText(src.size)
	if count > 0 {
		note += ", " + plural(count, "page", "pages")
	}
	return []message.Block{{Type: message.Text, Text: note + ")"}, {Type: message.Document, Media: &message.Media{
		Type: "application/pdf", Data: base64.StdEncoding.EncodeToString(data), Pages: count, Title: src.name,
	}}}, count, nil
}

// ends checks that a PDF has an end. One without would be refused by the API,
// with every request from then on.
func (s pdfSource) ends() error {
	tail := make([]byte, min(s.size, 2048))
	if _, err := s.ReadAt(tail, s.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Contains(tail, []byte("startxref")) || !bytes.Contains(tail, []byte("%%EOF")) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// leash ends the reading of a PDF that leads in circles: its parser has no end
// of its own, but for everything that it follows it has to read.
type leash struct {
	io.ReaderAt
	ctx   context.Context
	reads int // since the step began
}

func (l *leash) ReadAt(b []byte, at int64) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, fmt.Errorf("it takes too long: %w", err)
	}
	if l.reads++; l.reads > maxReads {
		return 0, errors.New("it leads in circles")
	}
	return l.ReaderAt.ReadAt(b, at)
}

// document is an open PDF.
type document struct {
	*pdf.Reader
	leash  *leash
	count  int
	locked bool
}

func openPDF(ctx context.Context, src pdfSource) (doc document, err error) {
	defer caught(&err)
	encrypt, err := src.inspect(ctx)
	if err != nil {
		return document{}, err
	}
	doc.leash = &leash{ReaderAt: plain{src, encrypt}, ctx: ctx}
	if doc.Reader, err = pdf.NewReader(doc.leash, src.size); err == nil {
		err = stored(doc.Reader)
	}
	if err == nil && len(encrypt) > 0 {
		doc.leash = &leash{ReaderAt: src, ctx: ctx}
		doc.Reader, err = pdf.NewReader(doc.leash, src.size)
	}
	if err != nil {
		return document{}, err
	}
	doc.locked = doc.Trailer().Key("Encrypt").Kind() != pdf.Null
	doc.count = max(0, doc.NumPage())
	return doc, nil
}

// caught turns a panic, which is how the parser tells of what is broken, into
// an error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%v", v)
	}
}

// text returns the text of some pages, with a line before each.
func (d document) text(ctx context.Context, r pageRange) (string, error) {
	var b strings.Builder
	found, last := false, r.to
	for n := r.from; n <= r.to; n++ {
		fmt.Fprintf(&b, "--- page %d of %d ---\n", n, d.count)
		text, err := d.page(n)
		switch {
		case ctx.Err() != nil, d.leash.reads > maxReads:
			return "", refuse(tool.ClassTimeout, "page %d takes too long to read. Ask for other pages, or use pdftotext in Bash", n)
		case err != nil:
			fmt.Fprintf(&b, "(this page cannot be read: %v)\n", err)
		case strings.TrimSpace(text) == "":
			b.WriteString("(this page has no text)\n")
		default:
			found = true
			b.WriteString(strings.TrimSpace(text) + "\n")
		}
		if b.Len() > maxShown {
			last = n
			break
		}
	}
	if !found {
		return "", refuse(ClassKind, "no text can be taken from pages %d to %d of %d: they may be pictures. "+
			"Make images of them with Bash (pdftoppm -r 100 -png) and read these", r.from, r.to, d.count)
	}
	b.WriteString("(the text of the PDF without its pictures and layout")
	if last < d.count {
		fmt.Fprintf(&b, "; go on with pages \"%d-%d\"", last+1, min(d.count, last+maxTextPages))
	}
	b.WriteString(")\n")
	return b.String(), nil
}

func (d document) page(n int) (text string, err error) {
	defer caught(&err)
	d.leash.reads = 0
	p := d.Page(n)
	size := unpacked(p.V.Key("Contents"))
	if size > maxPageText {
		return "", errors.New("it is too large")
	}
	if size <= maxPlaced {
		if text = lines(p.Content().Text); strings.TrimSpace(text) != "" {
			return text, nil
		}
	}
	return p.GetPlainText(nil)
}

// unpacked measures what the content of a page unpacks to, as far as it matters.
func unpacked(v pdf.Value) (n int64) {
	if v.Kind() == pdf.Array {
		for i := 0; i < v.Len() && n <= maxPageText; i++ {
			n += unpacked(v.Index(i))
		}
		return n
	}
	if v.Kind() != pdf.Stream {
		return 0
	}
	r := v.Reader()
	defer r.Close()
	n, _ = io.Copy(io.Discard, io.LimitReader(r, maxPageText+1)) // what is broken is said when it is read
	return n
}

// lines puts letters that were placed one by one together: a step down begins a
// line, and a gap is a blank.
func lines(letters []pdf.Text) string {
	var b strings.Builder
	var last pdf.Text
	for _, l := range letters {
		if l.S == "\n" { // stands for the end of an array, not of a line
			continue
		}
		size := max(math.Abs(l.FontSize), 1)
		switch {
		case b.Len() == 0:
		case math.Abs(l.Y-last.Y) > size/2:
			b.WriteByte('\n')
		case l.X-(last.X+last.W) > size/6 && l.S != " " && last.S != " ":
			b.WriteByte(' ')
		}
		b.WriteString(l.S)
		last = l
	}
	return b.String()
}

// readPDF shows a PDF, or pages of it.
func readPDF(ctx context.Context, p place, f *os.File, size int64, pages string) tool.Result {
	blocks, count, err := pdfBlocks(ctx, pdfSource{f, size, p.shown}, pages)
	if err != nil {
		return failure("read", p.shown, err)
	}
	return tool.Result{Content: blocks, Output: ReadOutput{Type: "pdf", File: ReadFile{
		Path: p.shown, MediaType: "application/pdf", Size: size, Pages: count,
	}}}
}
