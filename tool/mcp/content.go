package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // to know the size of a picture
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxImage  = 5 << 20 // bytes of an image as the API takes it, in base64
	maxPixels = 8000    // of a side
	maxImages = 20      // of a result
)

// answer makes a result of what a server answered. How much text reaches the
// model is for [tool.Set] to say, as for every tool.
func (s *server) answer(r *remote, res *sdk.CallToolResult) tool.Result {
	if res.NeedsInput() {
		return tool.Fail(ClassInput, fmt.Sprintf("The MCP server %s wants to ask a person before it goes on with %s, and nobody can be asked. "+
			"The call was not completed: go on without it, or ask the user to do it.", s.cfg.Name, r.name))
	}
	c := converter{}
	for _, one := range res.Content {
		c.add(one)
	}
	if len(c.blocks) == 0 && res.StructuredContent != nil {
		if b, err := json.Marshal(res.StructuredContent, json.Deterministic(true)); err == nil {
			c.text(string(b))
		}
	}
	out := tool.Result{Content: c.blocks, Output: Output{Server: s.cfg.Name, Tool: r.name, Meta: small(res.Meta)}}
	if res.IsError { // in the server's own words
		out.IsError, out.Class = true, ClassTool
		if !slices.ContainsFunc(out.Content, func(b message.Block) bool { return b.Type == message.Text && strings.TrimSpace(b.Text) != "" }) {
			c.text(fmt.Sprintf("%s of the MCP server %s failed and said nothing about why.", r.name, s.cfg.Name))
			out.Content = c.blocks
		}
	}
	return out
}

// Output is the structured output of a call, for screens and streams.
type Output struct {
	Server string         `json:"server"`
	Tool   string         `json:"tool"` // as the server calls it
	Meta   jsontext.Value `json:"mcpMeta,omitzero"`
}

// maxMeta bounds what is kept of what a server says about its answer.
const maxMeta = 10_000

// small writes what a server says about its answer, if it is little.
func small(meta sdk.Meta) jsontext.Value {
	if len(meta) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any(meta), json.Deterministic(true))
	if err != nil || len(b) > maxMeta {
		return nil
	}
	return b
}

// converter turns contents into blocks.
type converter struct {
	blocks []message.Block
	images int
}

func (c *converter) text(text string) {
	c.blocks = append(c.blocks, message.Block{Type: message.Text, Text: text})
}

func (c *converter) add(one sdk.Content) {
	switch v := one.(type) {
	case *sdk.TextContent:
		c.text(v.Text)
	case *sdk.ImageContent:
		c.media(v.MIMEType, v.Data)
	case *sdk.AudioContent:
		c.text(fmt.Sprintf("[audio of type %s with %d bytes, which cannot be heard]", v.MIMEType, len(v.Data)))
	case *sdk.ResourceLink:
		text := "[resource " + v.URI
		for _, more := range []string{v.Name, v.Description, v.MIMEType} {
			if more != "" {
				text += "; " + more
			}
		}
		c.text(text + "]")
	case *sdk.EmbeddedResource:
		switch {
		case v.Resource == nil:
		case len(v.Resource.Blob) > 0:
			c.text("[resource " + v.Resource.URI + "]")
			c.media(v.Resource.MIMEType, v.Resource.Blob)
		default:
			c.text("[resource " + v.Resource.URI + "]\n" + v.Resource.Text)
		}
	default:
		c.text(fmt.Sprintf("[content of a kind that is not known: %T]", one))
	}
}

// media shows an image that the API accepts: one that it refuses would stay in
// the conversation and fail every request from then on. Everything else is
// described.
func (c *converter) media(mime string, data []byte) {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	m, err := picture(mime, data)
	if err == nil && c.images == maxImages {
		err = fmt.Errorf("a result can have %d images", maxImages)
	}
	if err != nil {
		c.text(fmt.Sprintf("[%s with %d bytes, which is not shown: %v]", tool.Middle(mime, 100, 0, "…"), len(data), err))
		return
	}
	c.images++
	c.blocks = append(c.blocks, message.Block{Type: message.Image, Media: m})
}

// formats are the types of images that the API accepts, with the format's name.
var formats = map[string]string{"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}

func picture(mime string, data []byte) (*message.Media, error) {
	format, ok := formats[mime]
	if !ok {
		return nil, errors.New("only PNG, JPEG, GIF and WebP images can be")
	}
	if n := base64.StdEncoding.EncodedLen(len(data)); n > maxImage {
		return nil, fmt.Errorf("at most %d bytes can be", maxImage/4*3)
	}
	var width, height int
	if format == "webp" {
		width, height = webp(data)
	} else if cfg, is, err := image.DecodeConfig(bytes.NewReader(data)); err == nil && is == format {
		width, height = cfg.Width, cfg.Height
	}
	if width <= 0 || height <= 0 {
		return nil, errors.New("it is broken, or not what it is said to be")
	}
	if width > maxPixels || height > maxPixels {
		return nil, fmt.Errorf("it has %d×%d pixels, and a side can have %d", width, height, maxPixels)
	}
	return &message.Media{Type: mime, Data: base64.StdEncoding.EncodeToString(data), Width: width, Height: height}, nil
}

// webp reads the size of a WebP image from its first chunk; zero if it is none.
func webp(b []byte) (width, height int) {
	if len(b) < 30 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WEBP" {
		return 0, 0
	}
	two := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	switch string(b[12:16]) {
	case "VP8 ":
		return two(26) & 0x3fff, two(28) & 0x3fff
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[21:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1
	case "VP8X":
		return (two(24) | int(b[26])<<16) + 1, (two(27) | int(b[29])<<16) + 1
	}
	return 0, 0
}
