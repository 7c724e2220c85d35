package doctor

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	_ "image/gif" // for the sizes of images
	_ "image/jpeg"
	_ "image/png"
	"regexp"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/message"
)

// What one medium may have (recovery 9.2).
const (
	maxImageBase64 = 5 << 20 // as every host of the API takes it
	maxImageSide   = 8000
	manyImages     = 20
	maxManySide    = 2000
	maxMedia       = 100
	maxPDFBytes    = 32 << 20
	maxPDFPages    = 100
)

// mediaFault is what is wrong with one medium.
type mediaFault struct {
	rule Rule
	why  string // follows "the image "
	kind string // WrongMediaType: what it is
	data string // BrokenMedia: the same medium in base64 as the API takes it
}

// inspect looks into the bytes of m, and notes its size in it.
func inspect(m *message.Media, document bool) *mediaFault {
	switch {
	case m == nil:
		return &mediaFault{rule: BrokenMedia, why: "has no data"}
	case m.URL != "" || m.FileID != "":
		return nil // stored elsewhere: nothing to look at
	case m.Data == "":
		return &mediaFault{rule: BrokenMedia, why: "is empty"}
	}
	if data := plainBase64(m.Data); data != m.Data {
		return &mediaFault{rule: BrokenMedia, why: "is written in base64 that the API does not take", data: data}
	}
	data, err := base64.StdEncoding.DecodeString(m.Data)
	switch {
	case err != nil:
		return &mediaFault{rule: BrokenMedia, why: "is no valid base64"}
	case len(data) == 0:
		return &mediaFault{rule: BrokenMedia, why: "is empty"}
	case document && m.Type != "application/pdf":
		return nil // plain text and what else a document may be
	case document:
		return inspectPDF(m, data)
	}
	return inspectImage(m, data)
}

var otherBase64 = strings.NewReplacer("\n", "", "\r", "", " ", "", "-", "+", "_", "/")

// plainBase64 writes base64 with line breaks, in the alphabet of URLs, without
// its padding or behind the head of a data URL as the API takes it. What is no
// base64 at all stays as it is.
func plainBase64(data string) string {
	out := data
	if strings.HasPrefix(out, "data:") {
		_, out, _ = strings.Cut(out, ";base64,")
	}
	if strings.ContainsAny(out, "\n\r -_") {
		out = otherBase64.Replace(out)
	}
	if !strings.HasSuffix(out, "=") && len(out)%4 > 1 {
		out += "=="[:4-len(out)%4]
	}
	if out == data {
		return data
	}
	if _, err := base64.StdEncoding.DecodeString(out); err != nil || out == "" {
		return data
	}
	return out
}

func inspectImage(m *message.Media, data []byte) *mediaFault {
	kind := imageKind(data)
	if kind == "" {
		return &mediaFault{rule: BrokenMedia, why: "is no PNG, JPEG, GIF or WebP"}
	}
	if why := damaged(kind, data); why != "" {
		return &mediaFault{rule: BrokenMedia, why: why}
	}
	if kind == "image/webp" {
		m.Width, m.Height = webpSize(data)
	} else {
		conf, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return &mediaFault{rule: BrokenMedia, why: "cannot be decoded"}
		}
		m.Width, m.Height = conf.Width, conf.Height
	}
	switch side := max(m.Width, m.Height); {
	case len(m.Data) > maxImageBase64:
		return &mediaFault{rule: LargeMedia, why: fmt.Sprintf("has %d bytes in base64, %d are possible", len(m.Data), maxImageBase64)}
	case side > maxImageSide:
		return &mediaFault{rule: LargeMedia, why: fmt.Sprintf("has %d pixels a side, %d are possible", side, maxImageSide)}
	case kind != m.Type && !(kind == "image/jpeg" && m.Type == "image/jpg"):
		return &mediaFault{rule: WrongMediaType, kind: kind, why: fmt.Sprintf("is called %s and is %s", m.Type, kind)}
	case m.Type == "image/jpg":
		return &mediaFault{rule: WrongMediaType, kind: kind, why: "is called image/jpg, which the API does not know"}
	}
	return nil
}

// imageKind tells the type by the first bytes.
func imageKind(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xFF\xD8\xFF")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) > 15 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// damaged reports whether an image ends before its end, as files do that were
// read while they were written.
func damaged(kind string, data []byte) string {
	const short = "is cut off"
	switch kind {
	case "image/png":
		return damagedPNG(data[8:])
	case "image/jpeg":
		if !bytes.Contains(data[max(0, len(data)-1024):], []byte("\xFF\xD9")) {
			return short
		}
	case "image/gif":
		if end := bytes.TrimRight(data, "\x00"); end[len(end)-1] != ';' {
			return short
		}
	case "image/webp":
		if int64(binary.LittleEndian.Uint32(data[4:]))+8 > int64(len(data)) {
			return short
		}
	}
	return ""
}

func damagedPNG(chunks []byte) string {
	for len(chunks) >= 12 {
		n := int64(binary.BigEndian.Uint32(chunks))
		if n+12 > int64(len(chunks)) {
			break
		}
		body, sum := chunks[4:8+n], binary.BigEndian.Uint32(chunks[8+n:])
		if crc32.ChecksumIEEE(body) != sum {
			return "is damaged: a checksum inside of it is wrong"
		}
		if string(body[:4]) == "IEND" {
			return ""
		}
		chunks = chunks[12+n:]
	}
	return "is cut off"
}

func webpSize(data []byte) (width, height int) {
	if len(data) < 30 {
		return 0, 0
	}
	switch string(data[12:16]) {
	case "VP8X":
		u24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
		return u24(data[24:]) + 1, u24(data[27:]) + 1
	case "VP8L":
		bits := binary.LittleEndian.Uint32(data[21:])
		return int(bits&0x3FFF) + 1, int(bits>>14&0x3FFF) + 1
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(data[26:]) & 0x3FFF), int(binary.LittleEndian.Uint16(data[28:]) & 0x3FFF)
	}
	return 0, 0
}

var pdfPage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/Type\s*/Page\b`) })

func inspectPDF(m *message.Media, data []byte) *mediaFault {
	switch {
	case !bytes.HasPrefix(bytes.TrimLeft(data[:min(len(data), 1024)], "\x00\t\n\f\r \xEF\xBB\xBF"), []byte("%PDF-")):
		return &mediaFault{rule: BrokenMedia, why: "is no PDF"}
	case bytes.Contains(data, []byte("/Encrypt ")):
		return &mediaFault{rule: BrokenMedia, why: "is locked by a password"}
	case len(m.Data) > maxPDFBytes:
		return &mediaFault{rule: LargeMedia, why: fmt.Sprintf("has %d bytes in base64, %d are possible", len(m.Data), maxPDFBytes)}
	}
	m.Pages = len(pdfPage().FindAllIndex(data, -1))
	if m.Pages > maxPDFPages {
		return &mediaFault{rule: LargeMedia, why: fmt.Sprintf("has %d pages, %d are possible", m.Pages, maxPDFPages)}
	}
	return nil
}

// dataURL reads data:image/png;base64,….
func dataURL(url string) *message.Media {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return &message.Media{URL: url}
	}
	kind, data, _ := strings.Cut(rest, ",")
	return &message.Media{Type: strings.TrimSuffix(kind, ";base64"), Data: data}
}
