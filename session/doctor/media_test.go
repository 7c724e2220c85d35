package doctor

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
)

// media are the ways in which an image is wrong.
var media = []struct {
	name string
	rule Rule
	data func(good string) (mime, data string)
}{
	{"empty", BrokenMedia, func(string) (string, string) { return "image/png", "" }},
	{"no base64", BrokenMedia, func(s string) (string, string) { return "image/png", "%%%" + s }},
	{"words", BrokenMedia, func(string) (string, string) { return "image/png", "bm8gaW1hZ2UgYXQgYWxs" }},
	{"cut off", BrokenMedia, func(s string) (string, string) { return "image/png", s[:len(s)/8*4] }},
	{"other type", WrongMediaType, func(s string) (string, string) { return "image/jpeg", s }},
	{"unknown type", WrongMediaType, func(s string) (string, string) { return "image/heic", s }},
	{"too many pixels", LargeMedia, func(string) (string, string) { return "image/png", wide(9000) }},
}

func wide(width int) string {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 1))); err != nil {
		panic(err)
	}
	return base64Of(b.Bytes())
}

func TestMedia(t *testing.T) {
	for _, m := range media {
		for format, at := range map[Format]struct {
			line       int
			data, mime string
		}{
			Claude: {8, "/message/content/0/content/0/source/data", "/message/content/0/content/0/source/media_type"},
			Pi:     {6, "/message/content/1/data", "/message/content/1/mimeType"},
			Codex:  {16, "/payload/output/0/image_url", ""},
			Daruma: {9, "/body/block/content/1/media/data", "/body/block/content/1/media/type"},
		} {
			t.Run(m.name+"/"+string(format), func(t *testing.T) {
				b := &broken{t: t, format: format, lines: linesOf(t, format, "switched_image")}
				mime, data := m.data(pixel)
				if format == Codex {
					b.set(at.line, at.data, fmt.Sprintf("%q", "data:"+mime+";base64,"+data))
				}
				for path, value := range map[string]string{at.data: data, at.mime: mime} {
					if format != Codex && b.get(at.line, path) != fmt.Sprintf("%q", value) {
						b.set(at.line, path, fmt.Sprintf("%q", value))
					}
				}
				mustHeal(t, b.data(), m.rule)
			})
		}
	}
}

func TestDocuments(t *testing.T) {
	pages := "%PDF-1.4\n" + strings.Repeat("<< /Type /Page >>\n", 101)
	for name, c := range map[string]struct {
		content string
		rule    Rule
	}{
		"pages":    {pages, LargeMedia},
		"no PDF":   {"<html>", BrokenMedia},
		"password": {"%PDF-1.4 trailer << /Encrypt 5 0 R >>", BrokenMedia},
	} {
		b := &broken{t: t, format: Claude, lines: everyday(t, Claude), spots: spots[Claude]}
		b.set(b.spots.result, "/message/content/0/content",
			`[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"`+base64Of([]byte(c.content))+`"}}]`)
		t.Run(name, func(t *testing.T) { mustHeal(t, b.data(), c.rule) })
	}
}

func TestManyImages(t *testing.T) {
	for n, c := range map[int]struct {
		image string
		rule  Rule
	}{101: {pixel, ManyMedia}, 21: {wide(2001), LargeMedia}} {
		b := &broken{t: t, format: Claude, lines: everyday(t, Claude), spots: spots[Claude]}
		one := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + c.image + `"}}`
		b.set(b.spots.result, "/message/content/0/content", "["+strings.Repeat(one+",", n-1)+one+"]")
		mustHeal(t, b.data(), c.rule)
	}
}

// TestLargeRequest holds that of media that are too large together only the
// oldest go.
func TestLargeRequest(t *testing.T) {
	half := base64Of([]byte("%PDF-1.4\n" + strings.Repeat(" ", 12<<20)))
	e := entry{msg: &message.Message{Role: message.User}}
	for range 2 {
		e.add(message.Block{Type: message.Document, Media: &message.Media{Type: "application/pdf", Data: half}}, place{line: -1}, nil)
	}
	x := &examiner{format: Claude, doc: &doc{}, talk: []entry{e}}
	x.blocks()
	if len(x.found) != 1 || x.found[0].Rule != ManyMedia {
		t.Errorf("%v", x.found)
	}
}

// TestSourceTypes holds that a medium whose source lost its type is kept when
// what it holds tells.
func TestSourceTypes(t *testing.T) {
	for _, kind := range []string{`"bytes"`, `null`, `""`} {
		b := &broken{t: t, format: Claude, lines: linesOf(t, Claude, "switched_image")}
		b.set(8, "/message/content/0/content/0/source/type", kind)
		mustHeal(t, b.data(), WrongMediaType)
		if f := open(t, "s.jsonl", b.data()); strings.Contains(string(healed(t, f)), "[image removed") {
			t.Errorf("%s: %s", kind, f.Diff())
		}
	}
}
