package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// statusError is an HTTP answer that says no. The SDK reports these as text
// alone, and what is to be done depends on the number.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return fmt.Sprintf("HTTP %d %s", e.code, http.StatusText(e.code))
}

// errSilent ends a request of which nothing comes any more.
var errSilent = errors.New("it says nothing any more")

// carrier performs the HTTP requests of one server: it adds the headers, ends
// what is silent, bounds what is read, and turns the answers that matter here
// into errors.
type carrier struct {
	base    http.RoundTripper
	origin  *url.URL // headers go nowhere else, whatever a redirect says
	headers map[string]string
	helper  func(context.Context) (map[string]string, error) // nil: there is none

	firstByte time.Duration
	idle      time.Duration

	mu     sync.Mutex
	more   map[string]string // from the helper
	asked  int               // how often the helper was run
	notion error             // why it did not work the last time
}

// listenTime is how long an answer to a GET, which asks for what a server may
// want to say unasked, is waited for: connecting waits for it, too.
const listenTime = 5 * time.Second

// RoundTrip implements [http.RoundTripper].
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	ours := req.URL.Scheme == c.origin.Scheme && req.URL.Host == c.origin.Host
	more, asked := c.fromHelper(req.Context(), ours, -1)
	res, err := c.send(req, ours, more)
	if err == nil && res.StatusCode == http.StatusUnauthorized && ours && c.helper != nil && req.GetBody != nil {
		if again, n := c.fromHelper(req.Context(), true, asked); n != asked {
			res.Body.Close()
			copied := req.Clone(req.Context())
			if copied.Body, err = req.GetBody(); err == nil {
				res, err = c.send(copied, ours, again)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		if req.Header.Get("Mcp-Session-Id") == "" {
			return res, nil // it may be a server of another era
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return res, nil
	}
	res.Body.Close()
	return nil, &statusError{res.StatusCode}
}

// fromHelper returns the headers of the helper and how often it was run. If
// that was so often already as refused says, they were refused, and it is run
// once more, for all requests that wait.
func (c *carrier) fromHelper(ctx context.Context, ours bool, refused int) (map[string]string, int) {
	if c.helper == nil || !ours {
		return nil, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == 0 || c.asked == refused {
		c.asked++
		c.more, c.notion = c.helper(ctx)
	}
	return c.more, c.asked
}

// complaint is why the helper did not work the last time; nil if it did.
func (c *carrier) complaint() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notion
}

func (c *carrier) send(req *http.Request, ours bool, more map[string]string) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	out := req.Clone(ctx)
	if ours {
		for _, m := range []map[string]string{c.headers, more} {
			for k, v := range m {
				out.Header.Set(k, v)
			}
		}
	}
	listens := req.Method == http.MethodGet && req.Header.Get("Last-Event-ID") == ""
	limit := c.firstByte
	if listens {
		limit = min(limit, listenTime)
	}
	late := time.AfterFunc(limit, func() { cancel(errSilent) })
	res, err := c.base.RoundTrip(out)
	if !late.Stop() && err == nil {
		res.Body.Close()
		err = errSilent
	}
	if err != nil {
		silent := context.Cause(ctx) == errSilent
		cancel(nil)
		if silent && listens {
			return nothingToHear(req), nil
		}
		if silent {
			return nil, fmt.Errorf("no answer within %v: %w", limit, errSilent)
		}
		return nil, err
	}
	body := &watched{body: res.Body, cancel: cancel, heard: heardOf(req.Context()), left: 2 * maxMessage}
	if !listens {
		body.idle = c.idle
		body.timer = time.AfterFunc(c.idle, func() {
			if body.heard != nil {
				body.heard.silent.Store(true)
			}
			cancel(errSilent)
		})
	} else {
		body.left = 1 << 62 // it goes on for as long as the session
	}
	res.Body = body
	return res, nil
}

// nothingToHear is the answer of a server that has nothing to say unasked.
func nothingToHear(req *http.Request) *http.Response {
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
	}
}

// watched is the body of an answer; it ends with an error when nothing comes
// for too long, or too much.
type watched struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	heard  *heard
	idle   time.Duration
	timer  *time.Timer // nil: silence is no fault
	left   int
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 && w.timer != nil {
		w.timer.Reset(w.idle)
	}
	if w.left -= n; w.left < 0 {
		w.cancel(nil)
		return 0, fmt.Errorf("its answer has more than %d bytes", 2*maxMessage)
	}
	return n, err
}

func (w *watched) Close() error {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
	return w.body.Close()
}

// helperTime and helperMost bound a run of a headers helper.
const (
	helperTime = 10 * time.Second
	helperMost = 64 << 10
)

// headersOf returns what runs the headers helper of a server.
func headersOf(s Server, dir string, env []string) func(context.Context) (map[string]string, error) {
	if s.HeadersHelper == "" {
		return nil
	}
	env = append(env[:len(env):len(env)], "MCP_SERVER_NAME="+s.Name, "MCP_SERVER_URL="+s.URL)
	return func(ctx context.Context) (map[string]string, error) {
		ctx, cancel := context.WithTimeout(ctx, helperTime)
		defer cancel()
		out, err := ask(ctx, s.HeadersHelper, dir, env, helperMost)
		if err != nil {
			return nil, fmt.Errorf("its headersHelper failed: %w", err)
		}
		headers := map[string]string{}
		if json.Unmarshal(out, &headers) != nil {
			return nil, errors.New("its headersHelper did not print a JSON object of headers")
		}
		return maps.Clone(headers), nil
	}
}
