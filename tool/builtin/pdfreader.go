package builtin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/ledongthuc/pdf"
)

// A parser of PDFs believes what these say of themselves. One that was made for
// it fills the memory or the stack, which ends the program, or keeps it going for
// ever. So it runs in a process of its own.

// ReaderArgument is the argument with which a program that calls [ReaderMain] is
// started to read a PDF.
const ReaderArgument = "pdf-reader"

const (
	maxReaderHeap  = 1 << 30
	maxReaderStack = 8 << 20
	// What a page may unpack to: where each letter is placed, and at all.
	maxPlaced, maxPageText = 2 << 20, 16 << 20
)

// pdfFacts is what the reader answers.
type pdfFacts struct {
	Count    int    `json:"count,omitzero"`
	Locked   bool   `json:"locked,omitzero"`   // encrypted, though without a password
	Password bool   `json:"password,omitzero"` // cannot be opened without one
	Error    string `json:"error,omitzero"`    // why it cannot be opened
	// Pages are those asked for, from the first on, as many as can be shown.
	Pages []pdfPage `json:"pages,omitzero"`
}

type pdfPage struct {
	Text  string `json:"text,omitzero"`
	Error string `json:"error,omitzero"`
}

// ReaderMain is the reader: if args, those of the process, say that it was
// started as one, it reads the PDF in, writes what was asked for to out, and
// returns with an exit code. Otherwise it returns false at once. Call it before
// anything else. Its process ends by itself, with another code, when the PDF
// needs more than about 1 GB or much time.
func ReaderMain(args []string, in *os.File, out io.Writer) (code int, reader bool) {
	if len(args) != 4 || args[1] != ReaderArgument {
		return 0, false
	}
	from, errFrom := strconv.Atoi(args[2])
	to, errTo := strconv.Atoi(args[3])
	if errFrom != nil || errTo != nil {
		return 2, true
	}
	debug.SetTraceback("none")
	debug.SetMaxStack(maxReaderStack)
	go limitReader(time.Now(), maxReaderHeap)
	var facts pdfFacts
	if src, err := readerSource(in); err != nil {
		facts.Error = err.Error()
	} else {
		facts.read(src, pageRange{from, to})
	}
	if json.MarshalWrite(out, facts) != nil {
		return 1, true
	}
	return 0, true
}

// limitReader ends the process when it is too large or too slow, soon after it is.
func limitReader(began time.Time, most uint64) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		if metrics.Read(heap); heap[0].Value.Uint64() > most || time.Since(began) > 2*pdfPatience {
			panic("the bounds of a reader are reached")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// readerSource is a file as it is, and all of what comes through a pipe.
func readerSource(in *os.File) (src pdfSource, err error) {
	info, err := in.Stat()
	if err != nil {
		return src, err
	}
	if info.Mode().IsRegular() {
		return pdfSource{ReaderAt: in, size: info.Size()}, nil
	}
	data, err := io.ReadAll(in)
	return pdfSource{ReaderAt: bytes.NewReader(data), size: int64(len(data))}, err
}

// read takes what pages hold, once it knows how many there are.
func (f *pdfFacts) read(src pdfSource, pages pageRange) {
	r, err := f.open(src)
	switch {
	case errors.Is(err, pdf.ErrInvalidPassword):
		f.Password = true
		return
	case err != nil:
		f.Error = err.Error()
		return
	case pages.from == 0:
		return
	}
	shown := 0
	for n := pages.from; n <= pages.to && shown <= maxShown; n++ {
		var p pdfPage
		if text, err := pageText(r, n); err != nil {
			p.Error = err.Error()
		} else {
			p.Text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
		}
		f.Pages = append(f.Pages, p)
		shown += len(p.Text)
	}
}

func (f *pdfFacts) open(src pdfSource) (r *pdf.Reader, err error) {
	defer caught(&err)
	if r, err = pdf.NewReader(src, src.size); err != nil {
		return nil, err
	}
	f.Locked = r.Trailer().Key("Encrypt").Kind() != pdf.Null
	f.Count = max(0, r.NumPage())
	return r, nil
}

// caught turns a panic, which is how the parser tells of what is broken, into
// an error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%v", v)
	}
}

func pageText(r *pdf.Reader, n int) (text string, err error) {
	defer caught(&err)
	p := r.Page(n)
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
