package builtin

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image"
	_ "image/gif"  // to know the size of a picture
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
)

const (
	maxImage  = 5 << 20 // bytes of an image as the API takes it, in base64
	maxPixels = 8000    // of a side
)

var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// inspect checks that an image is one that the API accepts: an image that it
// refuses would stay in the conversation and fail every request from then on.
func inspect(data []byte, size int64, media string) (*message.Media, error) {
	if n := base64.StdEncoding.EncodedLen(int(min(size, maxImage))); n > maxImage || size > maxImage {
		return nil, refuse(ClassKind, "the image has %s, and at most %s can be shown. Use Bash to make a smaller copy of it",
			bytesText(size), bytesText(maxImage/4*3))
	}
	cfg, err := dimensions(data, media)
	if err != nil {
		return nil, refuse(ClassKind, "the image is broken and cannot be shown: %v", err)
	}
	if cfg.Width > maxPixels || cfg.Height > maxPixels {
		return nil, refuse(ClassKind, "the image has %d×%d pixels, and a side may have at most %d. Use Bash to make a smaller copy of it",
			cfg.Width, cfg.Height, maxPixels)
	}
	return &message.Media{
		Type: media, Data: base64.StdEncoding.EncodeToString(data), Width: cfg.Width, Height: cfg.Height,
	}, nil
}

func showImage(p place, m *message.Media, size int64) tool.Result {
	return tool.Result{
		Content: []message.Block{{Type: message.Image, Media: m}},
		Output: ReadOutput{Type: "image", File: ReadFile{
			Path: p.shown, MediaType: m.Type, Size: size, Width: m.Width, Height: m.Height,
		}},
	}
}

func dimensions(data []byte, media string) (image.Config, error) {
	if media == "image/webp" {
		return webp(data)
	}
	cfg, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err == nil && (cfg.Width <= 0 || cfg.Height <= 0) {
		err = errors.New("it has no pixels")
	}
	return cfg, err
}

// webp reads the size of a WebP image from the first chunk of its three formats.
func webp(b []byte) (cfg image.Config, err error) {
	if len(b) < 30 {
		return cfg, errors.New("it ends in its header")
	}
	switch string(b[12:16]) {
	case "VP8 ": // lossy: after the frame tag and the start code
		cfg.Width = int(binary.LittleEndian.Uint16(b[26:])) & 0x3fff
		cfg.Height = int(binary.LittleEndian.Uint16(b[28:])) & 0x3fff
	case "VP8L": // lossless: 14 bits each, less one
		bits := binary.LittleEndian.Uint32(b[21:])
		cfg.Width, cfg.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	case "VP8X": // extended: 24 bits each, less one
		cfg.Width = int(b[24]) | int(b[25])<<8 | int(b[26])<<16 + 1
		cfg.Height = int(b[27]) | int(b[28])<<8 | int(b[29])<<16 + 1
	}
	if cfg.Width == 0 || cfg.Height == 0 {
		return cfg, errors.New("it has no pixels")
	}
	return cfg, nil
}
