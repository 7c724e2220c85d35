// Package anthropic (–) answers one question: how is the Messages API spoken
// over the wire? JSON out, server-sent events in, watchdogs at the socket;
// nothing clever. It never retries and never reads the environment: what went
// wrong is classified once and handed on as a [failure.Error].
package anthropic

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// DefaultBaseURL is where the Messages API lives.
const DefaultBaseURL = "https://api.anthropic.com"

// Config says where the API is and how it is spoken to. The zero value of every
// field is a sensible default; credentials are sent as they are given, and none
// at all is right for a gateway that asks for none.
type Config struct {
	BaseURL     string            // scheme and host, with or without "/", "/v1" or a path before it
	Profile     Profile           // what this provider wants
	APIKey      string            // goes where the profile says
	AuthToken   string            // goes into Authorization: Bearer
	Credentials Credentials       // instead of the two: keys that can be renewed
	Beta        []string          // anthropic-beta
	Headers     map[string]string // they win over our own
	Timeouts    Timeouts

	// Transport replaces the package's own; TLS, DialContext and Proxy then do
	// not count. Redirects are never followed: they would carry the key elsewhere.
	Transport   http.RoundTripper
	TLS         TLS
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
	Whole     time.Duration // for an answer that is not streamed, to its last byte; 300 s
}

// defaultTimeouts are those of R24 and R28.
var defaultTimeouts = Timeouts{
	FirstByte: 300 * time.Second, Bytes: 180 * time.Second, Events: 300 * time.Second, Whole: 300 * time.Second,
}

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
		Whole:     pick(t.Whole, defaultTimeouts.Whole),
	}
}

// Client speaks the Messages API. It is safe for concurrent use; requests of
// one client share connections and what was encoded before.
type Client struct {
	base        string // no slash at the end, no /v1
	profile     Profile
	header      http.Header
	beta        []string
	fast        atomic.Bool // a fast request was made
	credentials Credentials
	http        *http.Client
	timeouts    Timeouts
	now         func() time.Time
	secrets     *vault
	prefixes    prefixCache
}

var _ model.Model = (*Client)(nil)

// New checks cfg and returns a client. It opens no connection.
func New(cfg Config) (*Client, error) {
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	cfg.Profile = cfg.Profile.orDefault()
	header, err := baseHeader(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Transport == nil {
		if cfg.Transport, err = newPool(cfg); err != nil {
			return nil, err
		}
	}
	c := &Client{
		base: base, profile: cfg.Profile, header: header, beta: slices.Clone(cfg.Beta), credentials: cfg.Credentials,
		timeouts: cfg.Timeouts.orDefault(), now: cfg.Now, secrets: newVault(cfg),
		http: &http.Client{
			Transport:     cfg.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// String names the address, never a credential.
func (c *Client) String() string { return "anthropic client of " + publicURL(c.base) }

// GoString names no credential either.
func (c *Client) GoString() string { return c.String() }

// DropIdle gives up the pool of connections: requests from now on open new ones.
// After a reset of a pooled connection the others are suspect too (R10).
// Requests in flight are left alone.
func (c *Client) DropIdle() { c.http.CloseIdleConnections() }

// refuse is the failure of a request that cannot even be written.
func (c *Client) refuse(err error) *failure.Error {
	e := &failure.Error{
		Kind: failure.InvalidRequest, Retry: failure.RetryNo, Rule: RuleUnsendable,
		Message: c.secrets.redact(err.Error()),
	}
	return e.Wrap(err)
}

// aborted is the failure of a request whose caller left. What made the caller
// leave is found with errors.Is.
func (c *Client) aborted(ctx context.Context) *failure.Error {
	cause := context.Cause(ctx)
	e := &failure.Error{
		Kind: failure.Aborted, Retry: failure.RetryNo,
		Message: c.secrets.redact("the caller ended the request: " + cause.Error()),
	}
	return e.Wrap(errors.Join(cause, ctx.Err()))
}
