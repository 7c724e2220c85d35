package anthropic

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/daruma-agent/daruma/model"
)

// fastBeta opens the faster variants of models.
const fastBeta = "fast-mode-2026-02-01"

// baseHeader is what all requests of a client share.
func baseHeader(cfg Config) (http.Header, error) {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "daruma/"+moduleVersion())
	h.Set("Anthropic-Version", cfg.Profile.Version)
	switch {
	case cfg.Credentials != nil && (cfg.APIKey != "" || cfg.AuthToken != ""):
		return nil, errors.New("set key: there are a fixed key and a source of keys; give one of them")
	case cfg.APIKey != "" && cfg.AuthToken != "" && cfg.Profile.Keys == KeyAsBearer:
		return nil, errors.New("set key: API key and auth token would both go into the header Authorization; give one of them")
	}
	if cfg.APIKey != "" {
		cfg.Profile.Keys.set(h, cfg.APIKey)
	}
	if cfg.AuthToken != "" {
		KeyAsBearer.set(h, cfg.AuthToken)
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

// post builds the request for r at path. The body is a list of slices that are
// shared with the history: nothing is joined.
func (c *Client) post(ctx context.Context, path string, r *model.Request, b body, key Key) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, b.reader())
	if err != nil {
		return nil, c.refuse(fmt.Errorf("make request: %w", err))
	}
	req.ContentLength = b.size()
	req.GetBody = b.again
	if key.Value != "" {
		key.Style.set(req.Header, key.Value)
	}
	maps.Copy(req.Header, c.header.Clone())
	set := func(name, value string) {
		if _, taken := req.Header[http.CanonicalHeaderKey(name)]; !taken {
			req.Header.Set(name, value)
		}
	}
	if beta := c.betas(r.Fast); len(beta) > 0 {
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

// betas are the features of a request. Once a fast request was made, all that
// follow name fast mode as well, be they fast or not: the header is part of the
// key of the provider's prompt cache, and a key that flips pays for the whole
// prompt again (R13).
func (c *Client) betas(fast bool) []string {
	if fast {
		c.fast.Store(true)
	}
	if !c.fast.Load() || slices.Contains(c.beta, fastBeta) {
		return c.beta
	}
	return append(slices.Clip(c.beta), fastBeta)
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
