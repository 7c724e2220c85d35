package builtin

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
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
func (w *Workspace) pdfBlocks(ctx context.Context, src pdfSource, pages string) (blocks []message.Block, count int, err error) {
	if src.ends() != nil {
		return nil, 0, refuse(ClassKind, "the PDF is broken: its end is missing, it may not be written or loaded completely")
	}
	ctx, cancel := context.WithTimeout(ctx, pdfPatience)
	defer cancel()
	facts, err := w.lookInto(ctx, src, pageRange{})
	if err == nil && facts.Password {
		return nil, 0, refuse(ClassKind, "the PDF is protected by a password, without which it cannot be shown. "+
			"With the password, qpdf --decrypt in Bash makes an open copy")
	}
	// A PDF that only this package cannot read is left to the API to judge.
	if err != nil && pages != "" {
		return nil, 0, refuse(ClassKind, "the pages of the PDF cannot be read one by one: %v. Leave pages out to see all of it, or use pdftotext in Bash", err)
	}
	count = facts.Count
	plan := planPDF(src.size, count, facts.Locked, pages)
	switch {
	case plan.err != nil:
		return nil, count, plan.err
	case !plan.whole:
		facts, err := w.lookInto(ctx, src, plan.pages)
		if ctx.Err() != nil {
			return nil, count, refuse(tool.ClassTimeout, "it takes too long to read pages %d to %d. Ask for other pages, or use pdftotext in Bash", plan.pages.from, plan.pages.to)
		}
		if err != nil {
			return nil, count, refuse(ClassKind, "pages %d to %d cannot be read: %v. Ask for other pages, or use pdftotext in Bash", plan.pages.from, plan.pages.to, err)
		}
		text, err := facts.text(plan.pages)
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

// lookInto asks a process of its own, which can only end itself, for what a PDF
// holds. Without pages it only counts them.
func (w *Workspace) lookInto(ctx context.Context, src pdfSource, pages pageRange) (facts pdfFacts, err error) {
	if len(w.cfg.Reader) == 0 {
		return facts, errors.New("nothing here reads PDFs")
	}
	argv := append(slices.Clone(w.cfg.Reader), strconv.Itoa(pages.from), strconv.Itoa(pages.to))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.WaitDelay = []string{}, time.Second
	if f, ok := src.ReaderAt.(*os.File); ok {
		cmd.Stdin = f
	} else {
		cmd.Stdin = io.NewSectionReader(src, 0, src.size)
	}
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return facts, errors.New("it takes too long")
	case err != nil:
		return facts, errors.New("it claims sizes that no PDF has, or leads in circles")
	}
	if err := json.Unmarshal(out, &facts); err != nil {
		return facts, fmt.Errorf("read what is in it: %w", err)
	}
	if facts.Error != "" {
		return facts, errors.New(facts.Error)
	}
	return facts, nil
}

// text returns the text of some pages, with a line before each.
func (f pdfFacts) text(r pageRange) (string, error) {
	var b strings.Builder
	found, last := false, r.to
	for i, page := range f.Pages {
		last = r.from + i
		fmt.Fprintf(&b, "--- page %d of %d ---\n", last, f.Count)
		switch {
		case page.Error != "":
			fmt.Fprintf(&b, "(this page cannot be read: %s)\n", page.Error)
		case page.Text == "":
			b.WriteString("(this page has no text)\n")
		default:
			found = true
			b.WriteString(page.Text + "\n")
		}
	}
	if !found {
		return "", refuse(ClassKind, "no text can be taken from pages %d to %d of %d: they may be pictures. "+
			"Make images of them with Bash (pdftoppm -r 100 -png) and read these", r.from, r.to, f.Count)
	}
	b.WriteString("(the text of the PDF without its pictures and layout")
	if last < f.Count {
		fmt.Fprintf(&b, "; go on with pages \"%d-%d\"", last+1, min(f.Count, last+maxTextPages))
	}
	b.WriteString(")\n")
	return b.String(), nil
}

// readPDF shows a PDF, or pages of it.
func (w *Workspace) readPDF(ctx context.Context, p place, f *os.File, size int64, pages string) tool.Result {
	blocks, count, err := w.pdfBlocks(ctx, pdfSource{f, size, p.shown}, pages)
	if err != nil {
		return failure("read", p.shown, err)
	}
	return tool.Result{Content: blocks, Output: ReadOutput{Type: "pdf", File: ReadFile{
		Path: p.shown, MediaType: "application/pdf", Size: size, Pages: count,
	}}}
}
