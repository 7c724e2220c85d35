package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/ledongthuc/pdf"
)

// A parser that runs out of memory, or whose stack is full, ends the program,
// and there is no way to take that back. So what a PDF says of its own sizes is
// looked at before the parser believes it, and where its objects are before it
// follows them.

// pdfBounds are the largest numbers behind names of which the parser makes
// memory or loops.
var pdfBounds = map[string]int64{"Size": 10_000_000, "Index": 10_000_000, "W": 1 << 24, "Columns": 1 << 24, "N": 1_000_000}

const (
	pdfWindow = 1 << 20
	pdfName   = 64 // bytes of a name, as far as it matters here
	pdfRow    = 4096
	// maxReads bounds how often one step asks for bytes, and so how deep it can
	// be in objects that need one another.
	maxReads = 10_000
)

var errPDFBounds = errors.New("it claims sizes that no PDF has")

// inspect looks at all names and cross-reference tables of a PDF. It returns
// where encryption is spoken of.
func (s pdfSource) inspect(ctx context.Context) (encrypt []int64, err error) {
	window := make([]byte, pdfWindow+pdfName)
	for at := int64(0); at < s.size; at += pdfWindow {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := s.ReadAt(window[:min(int64(len(window)), s.size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		part := window[:n]
		for i := range starts(part, "/") {
			switch name := nameAt(part[i+1:]); {
			case name == "Encrypt":
				encrypt = append(encrypt, at+int64(i)+1)
			case name == "DecodeParms" && s.indirect(at+int64(i)), pdfBounds[name] > 0 && s.exceeds(at+int64(i), name):
				return nil, errPDFBounds
			}
		}
		for i := range starts(part, "xref") {
			if s.wildTable(at + int64(i)) {
				return nil, errPDFBounds
			}
		}
	}
	return encrypt, nil
}

// starts yields where what begins in the window of data.
func starts(data []byte, what string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := 0; i < min(len(data), pdfWindow); i++ {
			n := bytes.Index(data[i:], []byte(what))
			if i += n; n < 0 || i >= pdfWindow || !yield(i) {
				return
			}
		}
	}
}

// nameAt is the name at the beginning of data, without its escapes.
func nameAt(data []byte) string {
	end := bytes.IndexAny(data[:min(len(data), pdfName)], "\x00\t\n\f\r <>()[]{}/%")
	if end < 0 || end > pdfName/2 {
		return "" // longer than all that are looked for, also in escapes
	}
	raw := data[:end]
	if !bytes.Contains(raw, []byte("#")) {
		return string(raw)
	}
	var name []byte
	for i := 0; i < len(raw); i++ {
		if raw[i] == '#' && i+2 < len(raw) {
			if c, err := strconv.ParseUint(string(raw[i+1:i+3]), 16, 8); err == nil {
				name = append(name, byte(c))
				i += 2
				continue
			}
		}
		name = append(name, raw[i])
	}
	return string(name)
}

// tokens yields the tokens of a PDF from an offset on, the first of them left out.
func (s pdfSource) tokens(at int64, most int) func(func(string) bool) {
	return func(yield func(string) bool) {
		r := bufio.NewReaderSize(io.NewSectionReader(s, at, s.size-at), 512)
		_, _ = r.Discard(1)
		var word []byte
		for n := 0; n < most; {
			c, err := r.ReadByte()
			if err == nil && !strings.ContainsRune("\x00\t\n\f\r <>()[]{}/%", rune(c)) && len(word) < pdfName {
				word = append(word, c)
				continue
			}
			if len(word) > 0 {
				if n++; n > 1 && !yield(string(word)) {
					return
				}
				word = word[:0]
			}
			switch {
			case err != nil:
				return
			case c == '%':
				if _, err := r.ReadSlice('\n'); err != nil {
					return
				}
			case strings.ContainsRune("<>()[]{}/", rune(c)) && n > 0 && !yield(string(rune(c))):
				return
			}
		}
	}
}

// exceeds reports whether one of the numbers behind a name is out of bounds.
func (s pdfSource) exceeds(at int64, name string) bool {
	for word := range s.tokens(at, pdfRow) {
		n, err := strconv.ParseInt(word, 10, 64)
		switch {
		case word == "[":
		case word == "R":
			return name == "Columns" // written elsewhere, maybe where it cannot be seen
		case err != nil:
			return false
		case n < 0 || n > pdfBounds[name]:
			return true
		}
	}
	return false
}

// indirect reports whether parameters are written elsewhere.
func (s pdfSource) indirect(at int64) bool {
	for word := range s.tokens(at, pdfRow) {
		if word == "R" {
			return true
		}
		if word == "<" || word == "]" || word == "/" {
			return false
		}
	}
	return false
}

// wildTable reports whether a table has numbers that are larger than the file:
// neither an offset in it nor a count of what is in it is.
func (s pdfSource) wildTable(at int64) bool {
	for word := range s.tokens(at, int(min(s.size, 1<<30))) {
		n, err := strconv.ParseInt(word, 10, 64)
		switch {
		case err != nil && word != "n" && word != "f":
			return false
		case n > max(s.size, 1<<16):
			return true
		}
	}
	return false
}

// plain is a PDF in which nothing is said of encryption.
type plain struct {
	io.ReaderAt
	encrypt []int64 // where it was
}

func (p plain) ReadAt(b []byte, at int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, at)
	from, _ := slices.BinarySearch(p.encrypt, at)
	for _, where := range p.encrypt[from:] {
		if where >= at+int64(n) {
			break
		}
		b[where-at] = 'X'
	}
	return n, err
}

// stored checks that the streams in which objects are stored are not stored in
// streams themselves. The parser, which would follow them in a circle, does not
// tell, so that its memory is looked into.
func stored(r *pdf.Reader) error {
	table := reflect.ValueOf(r).Elem().FieldByName("xref")
	if table.Kind() != reflect.Slice {
		return errors.New("its objects cannot be looked up")
	}
	for i := range table.Len() {
		if e := table.Index(i); e.FieldByName("inStream").Bool() {
			id := e.FieldByName("stream").FieldByName("id").Uint()
			if id >= uint64(table.Len()) || table.Index(int(id)).FieldByName("inStream").Bool() {
				return fmt.Errorf("object %d is stored in what is no stream", i)
			}
		}
	}
	return nil
}
