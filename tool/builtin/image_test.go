package builtin

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
	"golang.org/x/image/bmp"
)

// webpPicture is a lossless WebP of one pixel.
const webpPicture = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

func picture(w, h int) *image.NRGBA {
	p := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range p.Pix {
		p.Pix[i] = 0xff
	}
	p.Set(w/2, h/2, color.Black)
	return p
}

func noise(w, h int) *image.NRGBA {
	p := picture(w, h)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range p.Pix {
		p.Pix[i] = byte(random.Uint32())
	}
	return p
}

func encoded(t *testing.T, kind string, p image.Image) string {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch kind {
	case "png":
		err = png.Encode(&b, p)
	case "jpeg":
		err = jpeg.Encode(&b, p, nil)
	case "gif":
		err = gif.Encode(&b, p, nil)
	case "bmp":
		err = bmp.Encode(&b, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shown reads an image and returns the medium, its bytes, and what was said.
func (b *bench) shown(name string) (*message.Media, string, string) {
	b.t.Helper()
	r := b.call("Read", in{"file_path": name})
	if r.IsError || len(r.Content) == 0 || r.Content[len(r.Content)-1].Type != message.Image {
		b.t.Fatalf("%s: %+v", name, text(r))
	}
	m := r.Content[len(r.Content)-1].Media
	data, err := base64.StdEncoding.DecodeString(m.Data)
	if err != nil || len(m.Data) > maxImage {
		b.t.Fatalf("%s: %d characters, %v", name, len(m.Data), err)
	}
	cfg, kind, err := image.DecodeConfig(bytes.NewReader(data))
	if m.Type != "image/webp" && (err != nil || "image/"+kind != m.Type || cfg.Width != m.Width || cfg.Height != m.Height) {
		b.t.Errorf("%s: it is %s of %d×%d, and is said to be %s of %d×%d: %v", name, kind, cfg.Width, cfg.Height, m.Type, m.Width, m.Height, err)
	}
	if o := r.Output.(ReadOutput); o.Type != "image" || o.File.MediaType != m.Type || o.File.Width != m.Width || o.File.Size != int64(len(b.content(name))) {
		b.t.Errorf("%s: output %+v", name, o)
	}
	return m, string(data), text(r)
}

func TestReadImages(t *testing.T) {
	b := open(t)
	small := picture(30, 20)
	webp, err := base64.StdEncoding.DecodeString(webpPicture)
	if err != nil {
		t.Fatal(err)
	}
	// What is small goes as it is, whatever the name says (C080).
	for name, c := range map[string]struct{ data, media string }{
		"a.png":           {encoded(t, "png", small), "image/png"},
		"a.jpg":           {encoded(t, "jpeg", small), "image/jpeg"},
		"a.gif":           {encoded(t, "gif", small), "image/gif"},
		"a.webp":          {string(webp), "image/webp"},
		"C080 webp.png":   {string(webp), "image/webp"},
		"C080 jpeg.png":   {encoded(t, "jpeg", small), "image/jpeg"},
		"C080 png.txt":    {encoded(t, "png", small), "image/png"},
		"with a tail.png": {encoded(t, "png", small) + "more", "image/png"},
	} {
		b.file(name, c.data)
		if m, data, _ := b.shown(name); m.Type != c.media || data != c.data {
			t.Errorf("%s: %s, the same: %v", name, m.Type, data == c.data)
		}
	}
	// What is large, or of another kind, is made fit.
	for name, c := range map[string]struct {
		data, media   string
		width, height int
	}{
		"a.bmp":           {encoded(t, "bmp", small), "image/png", 30, 20},
		"large.png":       {encoded(t, "png", picture(3000, 1500)), "image/png", 1568, 784},
		"large.jpg":       {encoded(t, "jpeg", picture(1500, 3000)), "image/jpeg", 784, 1568},
		"large.gif":       {encoded(t, "gif", picture(2000, 20)), "image/png", 1568, 15},
		"wide.png":        {encoded(t, "png", picture(9000, 1)), "image/png", 1568, 1},
		"C077 photo.png":  {encoded(t, "png", noise(1500, 1500)), "image/jpeg", 1500, 1500},
		"C077 padded.png": {encoded(t, "png", small) + strings.Repeat("x", 5<<20), "image/png", 30, 20},
	} {
		b.file(name, c.data)
		m, _, said := b.shown(name)
		if m.Type != c.media || m.Width != c.width || m.Height != c.height || !strings.Contains(said, "is shown as") {
			t.Errorf("%s: %s of %d×%d: %s", name, m.Type, m.Width, m.Height, said)
		}
	}
}

// giant is the head of a PNG that claims to be large.
func giant(width, height uint32) string {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), width), height)
	head = append(head, 8, 6, 0, 0, 0)
	return "\x89PNG\r\n\x1a\n\x00\x00\x00\x0d" + string(binary.BigEndian.AppendUint32(head, crc32.ChecksumIEEE(head)))
}

func TestReadRefusesImages(t *testing.T) {
	b := open(t)
	whole, photo := encoded(t, "png", noise(60, 60)), encoded(t, "jpeg", noise(300, 300))
	for _, c := range []struct {
		name, data string
		want       []string
	}{
		{"C079 cut in its head.png", whole[:20], []string{"broken, or not written to its end"}},
		{"C079 cut in its middle.png", whole[:len(whole)/2], []string{"broken, or not written to its end"}},
		{"C079 cut in its middle.jpg", photo[:len(photo)/2], []string{"broken, or not written to its end"}},
		{"C079 damaged.png", whole[:60] + "damage" + whole[66:], []string{"broken", "Bash"}},
		{"C080 vector.webp", "RIFF\x1a\x00\x00\x00WEBPVP8X\x0d\x00\x00\x00\x02\x1d\xc0\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", []string{"cannot be shown"}},
		{"bomb.png", giant(60_000, 60_000), []string{"60000×60000", "smaller copy"}},
		{"bomb two.png", giant(1<<31-1, 1<<31-1), []string{"cannot be shown"}},
	} {
		b.file(c.name, c.data)
		wants(t, b.bad("Read", in{"file_path": c.name}), c.want...)
	}
	b.file("C078 empty.png", "")
	wants(t, b.good("Read", in{"file_path": "C078 empty.png"}), "is empty")
	b.file("C080 drawing.png", `<svg xmlns="http://www.w3.org/2000/svg"/>`)
	wants(t, b.good("Read", in{"file_path": "C080 drawing.png"}), "<svg")
	b.file("C080 heic.png", "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00")
	wants(t, b.bad("Read", in{"file_path": "C080 heic.png"}), "binary file")
}
