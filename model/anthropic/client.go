// Package anthropic (–) answers one question: how is the Messages API spoken
// over the wire? JSON out, server-sent events in, watchdogs at the socket;
// nothing clever. It never retries and never reads the environment: what went
// wrong is classified once and handed on as a [failure.Error].
package anthropic

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// DefaultBaseURL is where the Messages API lives.
const DefaultBaseURL = "https://api.anthropic.com"

const (
	defaultVersion = "2023-06-01"
	fastBeta       = "fast-mode-2026-02-01"
)

// Config says where the API is and how it is spoken to. The zero value of every
// field is a sensible default; credentials are sent as they are given, and none
// at all is right for a gateway that asks for none.
type Config struct {
	BaseURL   string            // scheme and host, with or without "/", "/v1" or a path before it
	APIKey    string            // goes into x-api-key
	AuthToken string            // goes into Authorization: Bearer
	Version   string            // anthropic-version
	Beta      []string          // anthropic-beta
	Headers   map[string]string // added last: they win over our own
	Timeouts  Timeouts

	// Transport replaces the package's own; DialContext and Proxy then do not
	// count. Redirects are never followed: they would carry the key elsewhere.
	Transport   http.RoundTripper
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Proxy       func(*http.Request) (*url.URL, error)

	// Now is the wall clock: reset dates become waits by it, and a gap between
	// it and the monotonic clock shows that the machine slept. No timer uses it.
	Now func() time.Time
}

// String names no credential.
func (c Config) String() string { return "anthropic.Config{BaseURL: " + publicURL(c.BaseURL) + "}" }

// GoString names no credential either.
func (c Config) GoString() string { return c.String() }

// Timeouts bound the waits for the server; zero means the default, a negative
// value none. They count only time in which the reader waits for the server: a
// slow consumer is no stall, and neither is a machine that slept.
type Timeouts struct {
	FirstByte time.Duration // from the request to the first byte of the answer's body; 300 s
	Bytes     time.Duration // without any byte; 180 s
	Events    time.Duration // without an event that makes the answer grow, pings or not; 300 s
}

// defaultTimeouts are those of R24.
var defaultTimeouts = Timeouts{FirstByte: 300 * time.Second, Bytes: 180 * time.Second, Events: 300 * time.Second}

func (t Timeouts) orDefault() Timeouts {
	pick := func(d, otherwise time.Duration) time.Duration {
		if d == 0 {
			return otherwise
		}
		return max(d, 0) // from here on zero means none
	}
	return Timeouts{
		FirstByte: pick(t.FirstByte, defaultTimeouts.FirstByte),
		Bytes:     pick(t.Bytes, defaultTimeouts.Bytes),
		Events:    pick(t.Events, defaultTimeouts.Events),
	}
}

// Client speaks the Messages API. It is safe for concurrent use; requests of
// one client share connections and what was encoded before.
type Client struct {
	base     string // no slash at the end, no /v1
	header   http.Header
	beta     []string
	http     *http.Client
	timeouts Timeouts
	now      func() time.Time
	secrets  failure.Redactor
	prefixes prefixCache
}

var _ model.Model = (*Client)(nil)

// New checks cfg and returns a client. It opens no connection.
func New(cfg Config) (*Client, error) {
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	header, err := baseHeader(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{
		base: base, header: header, beta: slices.Clone(cfg.Beta),
		timeouts: cfg.Timeouts.orDefault(), now: cfg.Now, secrets: secretsOf(cfg),
		http: &http.Client{
			Transport:     cfg.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.now == nil {
		c.now = time.Now
	}
	if cfg.Transport == nil {
		c.http.Transport = newTransport(cfg)
	}
	return c, nil
}

// String names the address, never a credential.
func (c *Client) String() string { return "anthropic client of " + publicURL(c.base) }

// GoString names no credential either.
func (c *Client) GoString() string { return c.String() }

// DropIdle closes the connections that wait for a next request. After a reset
// of a pooled connection the others are suspect too (R10).
func (c *Client) DropIdle() { c.http.CloseIdleConnections() }

// parseBase accepts what people write: with and without a slash at the end,
// with and without /v1, and the whole address of the endpoint.
func parseBase(raw string) (string, error) {
	if raw == "" {
		return DefaultBaseURL, nil
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "", fmt.Errorf("read base URL: it is no URL; write it like %s", DefaultBaseURL)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("read base URL %q: it must begin with http:// or https://, like %s", publicURL(raw), DefaultBaseURL)
	case u.Host == "":
		return "", fmt.Errorf("read base URL %q: it names no host; write it like %s", publicURL(raw), DefaultBaseURL)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("read base URL %q: leave out what follows the path (? or #)", publicURL(raw))
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimRight(strings.TrimSuffix(path, "/messages"), "/")
	u.Path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	u.RawPath = ""
	return u.String(), nil
}

// publicURL is raw without the password and the query that it may hold.
func publicURL(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "(not a URL)"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

func baseHeader(cfg Config) (http.Header, error) {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "daruma/"+moduleVersion())
	h.Set("Anthropic-Version", cfg.Version)
	if cfg.Version == "" {
		h.Set("Anthropic-Version", defaultVersion)
	}
	if cfg.APIKey != "" {
		h.Set("X-Api-Key", cfg.APIKey)
	}
	if cfg.AuthToken != "" {
		h.Set("Authorization", "Bearer "+cfg.AuthToken)
	}
	for name, value := range cfg.Headers {
		h.Set(name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		// net/http would refuse it at every request; it is said once, here.
		if strings.ContainsFunc(name, notInName) || name == "" {
			return nil, fmt.Errorf("set header %q: no header can have this name", name)
		}
		if strings.ContainsFunc(h.Get(name), notInValue) {
			return nil, fmt.Errorf("set header %s: its value holds a line break or control character; look at the end of the key or token", name)
		}
	}
	return h, nil
}

func notInName(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
}

func notInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// secretsOf knows every value that must not be repeated: the credentials, and
// the values of headers whose names sound like some.
func secretsOf(cfg Config) failure.Redactor {
	values := []string{cfg.APIKey, cfg.AuthToken}
	for name, value := range cfg.Headers {
		name = strings.ToLower(name)
		for _, word := range []string{"key", "token", "auth", "secret", "cookie", "password"} {
			if strings.Contains(name, word) {
				values = append(values, value)
				break
			}
		}
	}
	if u, err := url.Parse(cfg.BaseURL); err == nil {
		if password, ok := u.User.Password(); ok {
			values = append(values, password)
		}
	}
	return failure.NewRedactor(values...)
}

// newTransport is made for few hosts and long answers. Dead connections are
// found by probes of the system and pings of HTTP/2: a machine that wakes up
// notices within a minute that its connections are gone.
func newTransport(cfg Config) *http.Transport {
	dial := cfg.DialContext
	if dial == nil {
		dial = (&net.Dialer{
			Timeout:         30 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4},
		}).DialContext
	}
	return &http.Transport{
		DialContext:         dial,
		Proxy:               cfg.Proxy,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // a compressed stream arrives in lumps
		MaxIdleConnsPerHost: 32,   // sub-agents come in crowds
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 15 * time.Second,
		WriteBufferSize:     64 << 10, // histories are megabytes
		ReadBufferSize:      32 << 10,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// moduleVersion is the version of this module in the running program.
func moduleVersion() string {
	const module = "github.com/daruma-agent/daruma"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "devel"
}

// post builds the request for r at path. The body is a list of slices that are
// shared with the history: nothing is joined.
func (c *Client) post(ctx context.Context, path string, r *model.Request, b body) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, b.reader())
	if err != nil {
		return nil, c.refuse(fmt.Errorf("make request: %w", err))
	}
	req.ContentLength = b.size()
	req.GetBody = b.again
	req.Header = c.header.Clone()
	set := func(name, value string) {
		if _, taken := req.Header[http.CanonicalHeaderKey(name)]; !taken {
			req.Header.Set(name, value)
		}
	}
	beta := c.beta
	if r.Fast && !slices.Contains(beta, fastBeta) {
		beta = append(slices.Clip(beta), fastBeta)
	}
	if len(beta) > 0 {
		set("Anthropic-Beta", strings.Join(beta, ","))
	}
	source := r.Source
	if source == "" {
		source = model.Main
	}
	set("X-Stainless-Retry-Count", strconv.Itoa(r.Try))
	set("X-Client-Request-Id", rand.Text())
	set("X-Daruma-Source", string(source))
	set("Accept", "application/json")
	return req, nil
}

// refuse is the failure of a request that cannot even be written.
func (c *Client) refuse(err error) *failure.Error {
	e := &failure.Error{
		Kind: failure.InvalidRequest, Retry: failure.RetryNo, Rule: RuleUnsendable,
		Message: c.secrets.Redact(err.Error()),
	}
	return e.Wrap(err)
}

// aborted is the failure of a request whose caller left. What made the caller
// leave is found with errors.Is.
func (c *Client) aborted(ctx context.Context) *failure.Error {
	cause := context.Cause(ctx)
	e := &failure.Error{
		Kind: failure.Aborted, Retry: failure.RetryNo,
		Message: c.secrets.Redact("the caller ended the request: " + cause.Error()),
	}
	return e.Wrap(errors.Join(cause, ctx.Err()))
}
