package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestTries(t *testing.T) {
	for _, c := range []struct {
		rounds int
		since  time.Duration
		n      int
		wait   time.Duration
	}{
		{0, 0, 5, 0},                             // it was there before
		{1, 0, 0, 10 * time.Second},              // it has just failed
		{1, 4 * time.Second, 0, 6 * time.Second}, //
		{1, 10 * time.Second, 1, 0},              // C148: half open
		{900, time.Hour, 1, 0},                   // C148: never dead for good
		{900, time.Second, 0, 9 * time.Second},
	} {
		if n, wait := tries(c.rounds, c.since, time.Second); n != c.n || wait != c.wait {
			t.Errorf("tries(%d, %v) = %d, %v; want %d, %v", c.rounds, c.since, n, wait, c.n, c.wait)
		}
	}
}

func TestClassify(t *testing.T) {
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	rejected := &jsonrpc.Error{Code: -32005, Message: "rejected by transport"}
	post := func(err error) error {
		return fmt.Errorf("calling: %w: %w", rejected, &url.Error{Op: "Post", URL: "http://h", Err: err})
	}
	answer := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}
	for name, c := range map[string]struct {
		ctx     context.Context
		err     error
		program bool
		want    ending
	}{
		"an answer":                      {err: nil, want: answered},
		"C151 cancelled":                 {ctx: dead, err: context.Canceled, want: cancelled},
		"C151 cancelled, and dead":       {ctx: dead, err: io.EOF, program: true, want: cancelled},
		"time over":                      {err: errLate, want: late},
		"no progress":                    {err: errIdle, program: true, want: silent},
		"no byte":                        {err: post(fmt.Errorf("no answer: %w", errSilent)), want: silent},
		"401":                            {err: post(&statusError{401}), want: denied},
		"403":                            {err: post(&statusError{403}), want: denied},
		"404 of a session":               {err: post(&statusError{404}), want: forgotten},
		"C147 503":                       {err: post(&statusError{503}), want: busy},
		"429":                            {err: post(&statusError{429}), want: busy},
		"connection refused":             {err: post(&net.OpError{Op: "dial", Err: errors.New("refused")}), want: unsent},
		"connection reset":               {err: post(&net.OpError{Op: "read", Err: errors.New("reset")}), want: lost},
		"closed before":                  {err: fmt.Errorf("%w: calling", sdk.ErrConnectionClosed), program: true, want: unsent},
		"died":                           {err: fmt.Errorf("calling: %w", io.EOF), program: true, want: lost},
		"the request is wrong":           {err: fmt.Errorf("calling: %w", answer), want: refused},
		"the request is wrong, HTTP 400": {err: fmt.Errorf("sending: %w: %w: Bad Request", answer, rejected), want: refused},
		"stream over":                    {err: errors.New("request terminated without response"), want: lost},
		"no result":                      {err: &json.UnmarshalTypeError{}, program: true, want: garbled},
	} {
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		if got := classify(c.ctx, c.err, c.program); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// What may have run and changes things is never called again; nothing is called
// a third time.
func TestAgain(t *testing.T) {
	for e := answered; e <= lost; e++ {
		for _, effect := range []tool.Effect{tool.Pure, tool.Idempotent, tool.Unsafe, ""} {
			want := e == unsent || e == forgotten || (e == lost || e == busy) && (effect == tool.Pure || effect == tool.Idempotent)
			if effect == "" {
				want = want || e == lost || e == busy // no tool of ours has none
			}
			if got := again(e, effect, 0); got != want {
				t.Errorf("again(%d, %q) = %t", e, effect, got)
			}
			if again(e, effect, 1) {
				t.Errorf("again(%d, %q) a second time", e, effect)
			}
		}
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("y", 300<<10)
	r := bufio.NewReaderSize(strings.NewReader("one\n\n"+`{"id":7,`+long+`"z":1}`+"\nlast"), 64<<10)
	for _, want := range []struct {
		text, end string
		size      int
	}{{"one\n", "", 4}, {"\n", "", 1}, {`{"id":7,`, "\"z\":1}\n", len(long) + 15}, {"last", "", 4}} {
		l, _ := readLine(r, 100<<10)
		if !strings.HasPrefix(string(l.text), want.text) || !strings.HasSuffix(string(l.end), want.end) || l.size != want.size {
			t.Errorf("got %.50q … %.50q of %d bytes, want %+v", l.text, l.end, l.size, want)
		}
		if len(l.text)+len(l.end) > 1000 {
			t.Errorf("%d bytes of a long line are kept", len(l.text)+len(l.end))
		}
	}
}

func TestTail(t *testing.T) {
	var l tail
	for i := range 10_000 {
		fmt.Fprintf(&l, "line %d \x1b[31mred\x1b[0m\r\n", i)
	}
	got := l.String()
	if len(got) > 1_010 || !strings.HasPrefix(got, "… line ") || !strings.HasSuffix(got, "line 9999 red") || strings.Contains(got, "\x1b") {
		t.Errorf("got %d bytes: %.40q … %q", len(got), got, got[max(0, len(got)-20):])
	}
}

func TestPicture(t *testing.T) {
	lossless := []byte("RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f\x04\xc0\x00\x00\x00\x00\x00\x00\x00\x00")
	if m, err := picture("image/webp", lossless); err != nil || m.Width != 5 || m.Height != 4 {
		t.Errorf("webp: %+v, %v", m, err)
	}
	for mime, data := range map[string]string{"image/webp": "RIFF", "image/png": "GIF89a\x01\x00\x01\x00\x00\x00\x00", "image/svg+xml": "<svg/>", "image/jpeg": strings.Repeat("x", 5<<20)} {
		if m, err := picture(mime, []byte(data)); err == nil {
			t.Errorf("%s is shown: %+v", mime, m)
		}
	}
}

// Headers go to the origin of the server alone.
func TestOrigin(t *testing.T) {
	origin, _ := url.Parse("https://a.example/mcp")
	for to, want := range map[string]bool{
		"https://a.example/other": true, "http://a.example/mcp": false, "https://a.example:444/mcp": false, "https://b.example/mcp": false,
	} {
		seen := false
		c := &carrier{origin: origin, headers: map[string]string{"X-Key": "k"}, firstByte: time.Minute, idle: time.Minute,
			base: roundTrip(func(r *http.Request) (*http.Response, error) {
				seen = r.Header.Get("X-Key") == "k"
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			})}
		req, _ := http.NewRequest(http.MethodPost, to, nil)
		res, err := c.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if seen != want || req.Header.Get("X-Key") != "" {
			t.Errorf("%s got the header: %t; the request was changed: %t", to, seen, req.Header.Get("X-Key") != "")
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
