package builtin

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"os"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

const (
	maxImage = 5 << 20 // bytes of an image as every host of the API takes it, in base64
	maxSide  = 1568    // pixels; the API makes larger ones smaller before the model sees them
	// maxArea bounds the pixels that are decoded: a file of a few bytes can
	// claim any number of them. At 8 bytes a pixel this is 320 MB.
	maxArea   = 40_000_000
	jpegGrade = 85
)

// codec reads one kind of image: its size from its first bytes, or all of it.
type codec struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	native bool // the API takes it as it is
}

var codecs = map[string]codec{
	"image/png":  {png.DecodeConfig, png.Decode, true},
	"image/jpeg": {jpeg.DecodeConfig, jpeg.Decode, true},
	"image/gif":  {gif.DecodeConfig, gif.Decode, true}, // the first picture, which is what the API looks at
	"image/webp": {webp.DecodeConfig, webp.Decode, true},
	"image/bmp":  {bmp.DecodeConfig, bmp.Decode, false},
}

// readImage shows an image.
func (w *Workspace) readImage(p place, f *os.File, start []byte, size int64, media string) tool.Result {
	if size > maxWhole {
		return failure("read", p.shown, refuse(ClassKind, "the image has %s, and at most %s can be read. Use Bash to make a smaller copy of it",
			bytesText(size), bytesText(maxWhole)))
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxWhole))
	if err != nil {
		return failure("read", p.shown, err)
	}
	blocks, err := w.imageBlocks(append(start, rest...), media)
	if err != nil {
		return failure("read", p.shown, err)
	}
	m := blocks[len(blocks)-1].Media
	return tool.Result{Content: blocks, Output: ReadOutput{Type: "image", File: ReadFile{
		Path: p.shown, MediaType: m.Type, Size: size, Width: m.Width, Height: m.Height,
	}}}
}

// imageBlocks makes blocks of an image: a note where it was changed, and the
// image last. Each image is decoded whole, one at a time: what the API cannot
// decode would stay in the conversation and fail every request from then on.
func (w *Workspace) imageBlocks(data []byte, media string) ([]message.Block, error) {
	w.decoding.Lock()
	defer w.decoding.Unlock()
	kind := codecs[media]
	cfg, picture, err := kind.read(data)
	if err != nil {
		return nil, err
	}
	whole := base64.StdEncoding.EncodedLen(len(data)) <= maxImage
	if kind.native && whole && max(cfg.Width, cfg.Height) <= maxSide {
		return []message.Block{{Type: message.Image, Media: &message.Media{
			Type: media, Data: base64.StdEncoding.EncodeToString(data), Width: cfg.Width, Height: cfg.Height,
		}}}, nil
	}
	small := shrink(picture)
	m, err := encodeImage(small, media)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("(the image of %d×%d pixels is shown as %s of %d×%d)", cfg.Width, cfg.Height, m.Type, m.Width, m.Height)
	return []message.Block{{Type: message.Text, Text: note}, {Type: message.Image, Media: m}}, nil
}

// read decodes an image after a look at how large it says that it is.
func (k codec) read(data []byte) (cfg image.Config, picture image.Image, err error) {
	const broken = "the image is broken, or not written to its end yet, and cannot be shown: %v. If another program can open it, convert it to png with Bash"
	defer func() {
		if v := recover(); v != nil { // decoders meet what nobody thought of
			err = refuse(ClassKind, broken, v)
		}
	}()
	cfg, err = k.config(bytes.NewReader(data))
	if err == nil && (cfg.Width <= 0 || cfg.Height <= 0) {
		err = errors.New("it has no pixels")
	}
	if err != nil {
		return cfg, nil, refuse(ClassKind, broken, err)
	}
	if cfg.Width > maxArea/cfg.Height {
		return cfg, nil, refuse(ClassKind, "the image has %d×%d pixels, and at most %d million can be read. Use Bash to make a smaller copy of it",
			cfg.Width, cfg.Height, maxArea/1_000_000)
	}
	picture, err = k.decode(bytes.NewReader(data))
	if err != nil {
		return cfg, nil, refuse(ClassKind, broken, err)
	}
	return cfg, picture, nil
}

// shrink scales a picture down to maxSide, if it is larger.
func shrink(from image.Image) image.Image {
	size := from.Bounds().Size()
	long := max(size.X, size.Y)
	if long <= maxSide {
		return from
	}
	scale := func(n int) int { return max(1, n*maxSide/long) }
	to := image.NewNRGBA(image.Rect(0, 0, scale(size.X), scale(size.Y)))
	draw.ApproxBiLinear.Scale(to, to.Bounds(), from, from.Bounds(), draw.Src, nil)
	return to
}

// encodeImage writes a photograph as JPEG and everything else as PNG, unless
// that is too large.
func encodeImage(picture image.Image, media string) (*message.Media, error) {
	var b bytes.Buffer
	kind, err := "image/png", error(nil)
	if media != "image/jpeg" {
		err = png.Encode(&b, picture)
	}
	if media == "image/jpeg" || base64.StdEncoding.EncodedLen(b.Len()) > maxImage {
		kind = "image/jpeg"
		b.Reset()
		err = jpeg.Encode(&b, onWhite(picture), &jpeg.Options{Quality: jpegGrade})
	}
	if err != nil {
		return nil, refuse(ClassKind, "the image could not be made smaller: %v. Use Bash to make a smaller copy of it", err)
	}
	size := picture.Bounds().Size()
	return &message.Media{Type: kind, Data: base64.StdEncoding.EncodeToString(b.Bytes()), Width: size.X, Height: size.Y}, nil
}

// onWhite puts a picture on white paper: JPEG would make what is transparent black.
func onWhite(from image.Image) image.Image {
	if o, ok := from.(interface{ Opaque() bool }); ok && o.Opaque() {
		return from
	}
	to := image.NewRGBA(from.Bounds())
	draw.Draw(to, to.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(to, to.Bounds(), from, from.Bounds().Min, draw.Over)
	return to
}
