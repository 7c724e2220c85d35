package hook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
)

// post asks a service.
func (h *Hooks) post(ctx context.Context, e *Entry, data []byte) raw {
	if h.client == nil {
		return raw{ending: notStarted, http: true, why: "this program may not use the network for hooks"}
	}
	limited, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	failed := func(err error) raw {
		switch {
		case ctx.Err() != nil:
			return raw{ending: cancelled, http: true}
		case limited.Err() != nil:
			return raw{ending: timedOut, http: true}
		}
		var inner *url.Error // its text would hold the whole address
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return raw{ending: notStarted, http: true, why: clip(err.Error(), 300)}
	}
	req, err := http.NewRequestWithContext(limited, http.MethodPost, e.URL, bytes.NewReader(data))
	if err != nil {
		return failed(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range e.Headers {
		req.Header.Set(name, h.expand(value, e.AllowedEnvVars))
	}
	res, err := h.client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, mostOutput+1))
	if err != nil {
		return failed(err)
	}
	r := raw{http: true, code: res.StatusCode, stdout: body}
	if len(body) > mostOutput {
		r.cut, r.stdout = true, body[:mostOutput]
	}
	return r
}

// expand puts variables into a header. Those that are not allowed are empty: a
// settings file must not be able to send any secret anywhere.
func (h *Hooks) expand(value string, allowed []string) string {
	return os.Expand(value, func(name string) string {
		if !slices.Contains(allowed, name) {
			return ""
		}
		v, _ := lookup(h.cfg.Env, name)
		return v
	})
}

// lookup finds a variable; the last one counts, as for a program.
func lookup(env []string, name string) (string, bool) {
	for _, kv := range slices.Backward(env) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}
