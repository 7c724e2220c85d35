package anthropic

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// pool is a transport that can be given up for a new one. To close the idle
// connections of the old one is not enough: a connection of HTTP/2 that is
// broken, but has a request left on it, is not idle, and would get the next one.
type pool struct {
	build   func() *http.Transport
	current atomic.Pointer[http.Transport]
}

func newPool(cfg Config) (*pool, error) {
	secure, err := cfg.TLS.config()
	if err != nil {
		return nil, err
	}
	p := &pool{build: func() *http.Transport { return newTransport(cfg, secure.Clone()) }}
	p.current.Store(p.build())
	return p, nil
}

// RoundTrip implements [http.RoundTripper].
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.current.Load().RoundTrip(r)
}

// CloseIdleConnections is what [http.Client] calls under this name.
func (p *pool) CloseIdleConnections() { p.current.Swap(p.build()).CloseIdleConnections() }

// newTransport is made for few hosts and long answers. Dead connections are
// found by probes of the system and pings of HTTP/2: a machine that wakes up
// notices within a minute that its connections are gone.
func newTransport(cfg Config, secure *tls.Config) *http.Transport {
	dial := cfg.DialContext
	if dial == nil {
		dial = (&net.Dialer{
			Timeout:         30 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4},
		}).DialContext
	}
	return &http.Transport{
		DialContext:            dial,
		Proxy:                  cfg.Proxy,
		OnProxyConnectResponse: proxyAnswer,
		TLSClientConfig:        secure,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // a compressed stream arrives in lumps
		MaxIdleConnsPerHost:    32,   // sub-agents come in crowds
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    15 * time.Second,
		WriteBufferSize:        64 << 10, // histories are megabytes
		ReadBufferSize:         32 << 10,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}
