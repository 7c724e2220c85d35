package builtin

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
)

// paper writes a PDF: one page for each text, whose lines are placed one by one.
// extra are further entries of the trailer.
func paper(extra string, pages ...string) string {
	var b bytes.Buffer
	var at []int
	object := func(body string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), body)
	}
	b.WriteString("%PDF-1.4\n")
	var kids strings.Builder
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	object("<</Type/Catalog/Pages 2 0 R>>")
	object(fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", len(pages), kids.String()))
	object("<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
	for i, text := range pages {
		var c strings.Builder
		c.WriteString("BT /F 12 Tf 14 TL 72 700 Td\n")
		for l := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&c, "(%s) Tj T*\n", l)
		}
		c.WriteString("ET")
		object(fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents %d 0 R>>", 5+2*i))
		object(fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", c.Len(), c.String()))
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, extra, xref)
	return b.String()
}

// beReader makes the tests' program the reader of their PDFs.
func beReader() {
	if code, reader := ReaderMain(os.Args, os.Stdin, os.Stdout); reader {
		os.Exit(code)
	}
}

func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("This is page %d.\nIts second line.", i+1)
	}
	return out
}

func TestReadPDF(t *testing.T) {
	b := open(t)
	b.file("short.pdf", paper("", texts(3)...))
	b.file("long.pdf", paper("", texts(40)...))
	b.file("C097 longest.pdf", paper("", texts(120)...))

	whole := func(input in, name string, pages int) {
		t.Helper()
		r := b.call("Read", input)
		if r.IsError || len(r.Content) != 2 || r.Content[1].Type != message.Document {
			t.Fatalf("%v: %s", input, text(r))
		}
		m := r.Content[1].Media
		data, err := base64.StdEncoding.DecodeString(m.Data)
		if m.Type != "application/pdf" || m.Pages != pages || m.Title != name || err != nil || string(data) != b.content(name) {
			t.Errorf("%s %s, %d pages, %v", m.Type, m.Title, m.Pages, err)
		}
		if o := r.Output.(ReadOutput); o.Type != "pdf" || o.File.Pages != pages || o.File.Path != name {
			t.Errorf("%+v", o)
		}
	}
	whole(in{"file_path": "short.pdf"}, "short.pdf", 3)
	whole(in{"file_path": "short.pdf", "pages": "1-9"}, "short.pdf", 3)
	whole(in{"file_path": "long.pdf", "pages": "1-40"}, "long.pdf", 40)

	got := b.good("Read", in{"file_path": "long.pdf", "pages": "2 - 3"})
	wants(t, got, "--- page 2 of 40 ---\nThis is page 2.\nIts second line.\n--- page 3", "without its pictures", `go on with pages "4-40"`)
	if strings.Contains(got, "page 1.") || strings.Contains(got, "page 4.") {
		t.Errorf("other pages are in it: %s", got)
	}
	wants(t, b.good("Read", in{"file_path": "long.pdf", "pages": "40"}), "This is page 40.")
	wants(t, b.good("Read", in{"file_path": "C097 longest.pdf", "pages": "1-120"}), "This is page 50.", `go on with pages "51-100"`)

	wants(t, b.bad("Read", in{"file_path": "long.pdf"}), "40 pages", `such as "1-40"`, "80000 tokens")
	got = b.bad("Read", in{"file_path": "C097 longest.pdf"})
	wants(t, got, "120 pages", `such as "1-50"`)
	if strings.Contains(got, "tokens") {
		t.Errorf("offers what is not possible: %s", got)
	}
	for _, pages := range []string{"0", "x", "3-1", "-2", "1-", "1,2", "99999999999999999999"} {
		wants(t, b.bad("Read", in{"file_path": "short.pdf", "pages": pages}), "range of pages")
	}
	wants(t, b.bad("Read", in{"file_path": "short.pdf", "pages": "4"}), "has only 3 pages")
	b.file("a.txt", "x\n")
	wants(t, b.bad("Read", in{"file_path": "a.txt", "pages": "1"}), "is no PDF")
}

func TestReadBrokenPDF(t *testing.T) {
	b := open(t)
	good := paper("", texts(2)...)
	b.file("cut.pdf", good[:len(good)/2])
	b.file("head.pdf", "%PDF-1.7")
	b.file("pictures.pdf", paper("", "", ""))
	b.file("locked.pdf", paper("/Encrypt<</Filter/Standard/V 1/R 2/Length 40/P -4/O("+strings.Repeat("o", 32)+")/U("+strings.Repeat("u", 32)+")>>/ID[(0123456789abcdef)(0123456789abcdef)]", "secret"))
	b.file("circle.pdf", strings.Replace(paper("", "", ""), "/Kids[4 0 R 6 0 R ]", "/Kids[2 0 R 2 0 R ]", 1))
	b.file("far.pdf", strings.Replace(good, "startxref\n", "startxref\n9", 1))
	b.file("many.pdf", strings.Replace(good, "/Count 2", "/Count 9", 1))

	wants(t, b.bad("Read", in{"file_path": "cut.pdf"}), "broken", "its end is missing")
	wants(t, b.bad("Read", in{"file_path": "head.pdf"}), "broken")
	wants(t, b.bad("Read", in{"file_path": "locked.pdf"}), "protected by a password", "qpdf")
	wants(t, b.bad("Read", in{"file_path": "pictures.pdf", "pages": "1"}), "no text", "pdftoppm")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r := b.run(ctx, tool.Call{ID: "call", Name: "Read"}, in{"file_path": "circle.pdf", "pages": "1"})
	wants(t, text(r), "takes too long")
	wants(t, b.bad("Read", in{"file_path": "many.pdf", "pages": "5-6"}), "no text")
	// What only we cannot read may be right all the same: it is sent whole, and not counted.
	r = b.call("Read", in{"file_path": "far.pdf"})
	if r.IsError || len(r.Content) != 2 || r.Content[1].Media.Pages != 0 {
		t.Errorf("%s", text(r))
	}
	wants(t, b.bad("Read", in{"file_path": "far.pdf", "pages": "1"}), "cannot be read one by one", "pdftotext")
}

// Whatever a PDF holds, reading it ends, and with a result.
func FuzzPDF(f *testing.F) {
	good := paper("", "one\ntwo", "three")
	f.Add([]byte(good), "")
	f.Add([]byte(good), "1")
	f.Add([]byte(strings.Replace(good, "/Kids[4", "/Kids[2", 1)), "1-2")
	f.Add([]byte(strings.ReplaceAll(good, "0 obj", "0 obj [ ")), "2")
	w, err := New(Config{Root: f.TempDir(), Reader: []string{os.Args[0], ReaderArgument}})
	if err != nil {
		f.Fatal(err)
	}
	defer w.Close()
	f.Fuzz(func(t *testing.T, data []byte, pages string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		blocks, _, err := w.pdfBlocks(ctx, pdfSource{bytes.NewReader(data), int64(len(data)), "x.pdf"}, pages)
		if (err == nil) != (len(blocks) > 0) {
			t.Errorf("%d blocks, %v", len(blocks), err)
		}
	})
}

// crossed writes a PDF of version 1.5: objects that lie in the file, by their
// text and their number, and a stream of cross-references with more entries.
func crossed(size, extra string, objects map[int]string, entries ...[]byte) string {
	var b, packed bytes.Buffer
	b.WriteString("%PDF-1.5\n")
	table := make([]byte, 40)
	for n, o := range objects {
		table[4*n], table[4*n+1], table[4*n+2] = 1, byte(b.Len()>>8), byte(b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", n, o)
	}
	for _, e := range entries { // the number of the object, and that of the stream which it is in
		copy(table[4*e[0]:], []byte{2, 0, e[1], 0})
	}
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(table)
	z.Close()
	at := b.Len()
	fmt.Fprintf(&b, "9 0 obj\n<</Type/XRef/Size %s/W[1 2 1]/Index[0 10]/Root 1 0 R%s/Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n",
		size, extra, packed.Len(), packed.String(), at)
	return b.String()
}

// What would end the program, by its memory or its stack, is left to the API.
func TestPDFsThatFell(t *testing.T) {
	root := map[int]string{1: "<</Type/Catalog/Pages 5 0 R>>"}
	own := map[int]string{1: root[1], 7: "<</Type/ObjStm/N 1/First 4/Length 5 0 R>>\nstream\n5 0 <</Count 1>>\nendstream"}
	for name, data := range map[string]string{
		"size":          crossed("100000000000", "", root),
		"size, hidden":  strings.Replace(crossed("100000000000", "", root), "/Size", "/S#69ze%\n", 1),
		"index":         crossed("10", "/Index[100000000000 1]", root),
		"widths":        strings.Replace(crossed("10", "", root), "/W[1 2 1]", "/W[1 100000000000 1]", 1),
		"columns":       crossed("10", "/DecodeParms<</Predictor 12/Columns 100000000000>>", root),
		"table":         strings.Replace(paper("", "x"), "xref\n0 6", "xref\n%\n4000000000 1\n0000000009 00000 n\n0 6", 1),
		"in itself":     crossed("10", "", root, []byte{5, 5}),
		"in each other": crossed("10", "", root, []byte{5, 6}, []byte{6, 5}),
		"encryption":    crossed("10", "/Encrypt 5 0 R", root, []byte{5, 5}),
		"its length":    crossed("10", "", own, []byte{5, 7}),
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.file("a.pdf", data)
			r := b.call("Read", in{"file_path": "a.pdf"})
			if r.IsError || r.Content[len(r.Content)-1].Type != message.Document {
				t.Errorf("%+v", r)
			}
			wants(t, b.bad("Read", in{"file_path": "a.pdf", "pages": "1"}), "cannot be read one by one")
		})
	}
	good := map[int]string{1: root[1], 7: "<</Type/ObjStm/N 1/First 4/Length 27>>\nstream\n5 0 <</Type/Pages/Count 3>>\nendstream"}
	b := open(t)
	b.file("a.pdf", crossed("10", "", good, []byte{5, 7}))
	wants(t, b.good("Read", in{"file_path": "a.pdf"}), "3 pages")
}

// The reader of a PDF is ended when it is too large, and when it is too slow.
func TestReaderIsLimited(t *testing.T) {
	for name, limit := range map[string]func(){
		"too large": func() { limitReader(time.Now(), 1) },
		"too slow":  func() { limitReader(time.Now().Add(-time.Hour), 1<<60) },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan any, 1)
			go func() {
				defer func() { ended <- recover() }()
				limit()
			}()
			select {
			case why := <-ended:
				if why == nil {
					t.Error("it came back")
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}
