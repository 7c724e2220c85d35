package fault

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
)

// cacheMarks counts the marks in tools, system and messages and looks where they stand.
func (j *judge) cacheMarks() {
	n := countMarks(j.q.body["tools"]) + countMarks(j.q.body["system"]) + countMarks(j.q.body["messages"])
	if _, ok := j.q.body["cache_control"]; ok {
		n++
	}
	if n > 4 {
		j.add("cache-control", "A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	for _, b := range list(j.q.body["system"]) {
		if m := object(b); str(m, "type") == "text" && str(m, "text") == "" {
			if m["cache_control"] != nil {
				j.add("cache-control", "system.0: cache_control cannot be set for empty text blocks")
			} else {
				j.add("empty-text", "system: text content blocks must be non-empty")
			}
		}
	}
}

// countMarks looks at blocks and at blocks in results, not into the inputs of calls, which are the
// client's own data.
func countMarks(v any) int {
	n := 0
	for _, e := range list(v) {
		m := object(e)
		if m["cache_control"] != nil {
			n++
		}
		n += countMarks(m["content"])
	}
	return n
}

const (
	defaultImageBytes = 5 << 20
	defaultPages      = 100
	defaultMedia      = 100
)

var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

func (j *judge) media() {
	limit := j.limits.media
	if limit == 0 {
		limit = defaultMedia
	}
	if j.q.media > limit {
		j.add("media-count", "Too much media: 0 document pages + %d images > %d", j.q.media, limit)
	}
	for _, m := range j.q.messages {
		for _, b := range m.blocks {
			j.medium(b)
			for _, v := range list(b.m["content"]) {
				inner := object(v)
				j.medium(block{at: b.at + ".content", kind: str(inner, "type"), m: inner})
			}
		}
	}
}

func (j *judge) medium(b block) {
	if b.kind != "image" && b.kind != "document" {
		return
	}
	source := object(b.m["source"])
	kind := str(source, "type")
	if !slices.Contains([]string{"base64", "url", "file", "text", "content"}, kind) {
		j.add("media-data", "%s.%s.source: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'url', 'file'", b.at, b.kind, kind)
		return
	}
	if kind != "base64" {
		return
	}
	data, mediaType := str(source, "data"), str(source, "media_type")
	at := b.at + "." + b.kind + ".source.base64"
	if data == "" {
		j.add("media-empty", "%s: %s cannot be empty", at, b.kind)
		return
	}
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		j.add("media-data", "%s.data: invalid base64 data", at)
		return
	}
	if b.kind == "document" {
		j.document(at, decoded)
		return
	}
	limit := j.limits.imageBytes
	if limit == 0 {
		limit = defaultImageBytes
	}
	// The API counts the characters of the encoded data, a third more than the file has.
	if len(data) > limit {
		j.add("media-size", "%s: image exceeds %d MB maximum: %d bytes > %d bytes", at, limit>>20, len(data), limit)
	}
	if !slices.Contains(imageTypes, mediaType) {
		j.add("media-type", "%s.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'", at)
		return
	}
	switch actual := imageType(decoded); actual {
	case mediaType:
	case "":
		j.add("media-data", "Could not process image")
	default:
		j.add("media-type", "%s.data: The image was specified using the %s media type, but the image appears to be a %s image", at, mediaType, actual)
	}
}

var pagePattern = pattern(`/Type\s*/Page\b[^s]`)

func (j *judge) document(at string, data []byte) {
	limit := j.limits.pages
	if limit == 0 {
		limit = defaultPages
	}
	if n := len(pagePattern().FindAllIndex(data, -1)); n > limit {
		j.add("media-pages", "%s.data: A maximum of %d PDF pages may be provided.", strings.Replace(at, "document", "pdf", 1), limit)
	}
}

func imageType(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF8")):
		return "image/gif"
	case len(data) > 12 && bytes.HasPrefix(data, []byte("RIFF")) && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}
