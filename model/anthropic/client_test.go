package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "very-secret-api-key-0123456789"

// serve starts a server on loopback and a client for it.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	c := mustNew(t, Config{BaseURL: srv.URL, APIKey: testKey})
	t.Cleanup(c.DropIdle)
	return c
}

func TestBaseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                "https://api.anthropic.com",
		"http://127.0.0.1:8080":           "http://127.0.0.1:8080",
		"http://127.0.0.1:8080/":          "http://127.0.0.1:8080",
		"http://127.0.0.1:8080/v1":        "http://127.0.0.1:8080",
		"http://127.0.0.1:8080/v1/":       "http://127.0.0.1:8080",
		"https://h/anthropic/v1/messages": "https://h/anthropic",
		" https://h/anthropic// ":         "https://h/anthropic",
	} {
		if c := mustNew(t, Config{BaseURL: raw}); c.base != want {
			t.Errorf("%q: base %q, want %q", raw, c.base, want)
		}
	}
	for raw, says := range map[string]string{
		"api.anthropic.com":   "http:// or https://",
		"localhost:8080":      "http:// or https://",
		"ftp://h":             "http:// or https://",
		"http://":             "no host",
		"http://h/?key=s3cre": "leave out",
		"http://h:port":       "no URL",
	} {
		_, err := New(Config{BaseURL: raw})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cre") {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestNewRefusesBrokenHeaders(t *testing.T) {
	for _, cfg := range []Config{
		{APIKey: testKey + "\n"},
		{AuthToken: testKey + "\r"},
		{Headers: map[string]string{"X Y": "z"}},
		{Headers: map[string]string{"": "z"}},
	} {
		if _, err := New(cfg); err == nil || strings.Contains(err.Error(), testKey) {
			t.Errorf("%v: %v", cfg, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	var got http.Header
	record := transport(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		return nil, errors.New("enough")
	})
	c := mustNew(t, Config{
		APIKey: "key", AuthToken: "token", Profile: Profile{Version: "2026-10-21", Keys: KeyAsHeader}, Beta: []string{"a", "b"},
		Headers: map[string]string{"x-team": "red", "User-Agent": "mine"}, Transport: record,
	})
	_, _ = collect(t.Context(), c, &model.Request{Fast: true, Try: 3, Source: model.SubAgent})
	first := got.Get("X-Client-Request-Id")
	for name, want := range map[string]string{
		"x-api-key": "key", "Authorization": "Bearer token", "anthropic-version": "2026-10-21",
		"anthropic-beta": "a,b," + fastBeta, "content-type": "application/json", "accept": "application/json",
		"x-stainless-retry-count": "3", "x-daruma-source": "subagent", "x-team": "red", "user-agent": "mine",
	} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
	c = mustNew(t, Config{Transport: record})
	_, _ = collect(t.Context(), c, &model.Request{})
	if got.Get("Anthropic-Version") != "2023-06-01" || got.Get("X-Daruma-Source") != "main" || !strings.HasPrefix(got.Get("User-Agent"), "daruma/") {
		t.Errorf("defaults: %v", got)
	}
	for _, name := range []string{"X-Api-Key", "Authorization", "Anthropic-Beta"} {
		if got.Get(name) != "" {
			t.Errorf("%s: %q without being asked for", name, got.Get(name))
		}
	}
	if second := got.Get("X-Client-Request-Id"); second == "" || second == first {
		t.Errorf("request ids %q, %q", first, second)
	}
}

func TestStatusFailures(t *testing.T) {
	for _, tc := range []struct {
		status int
		header map[string]string
		body   string
		kind   failure.Kind
		says   string
	}{
		{429, map[string]string{"retry-after": "17"}, `{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"},"request_id":"req_7"}`, failure.RateLimit, "Slow down"},
		{529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, failure.Overloaded, "Overloaded"},
		{500, nil, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, failure.ServerError, "Internal"},
		{502, nil, `<html><h1>502 Bad Gateway</h1></html>`, failure.ServerError, "Bad Gateway"},
		{503, nil, ``, failure.ServerError, ""},
		{400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 211000 tokens > 200000 maximum"}}`, failure.ContextOverflow, "too long"},
		{401, nil, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key ` + testKey + `"}}`, failure.Auth, "[redacted]"},
		{413, nil, `<html>Request Entity Too Large</html>`, failure.RequestTooLarge, ""},
		{307, map[string]string{"location": "http://elsewhere.invalid/"}, ``, "", ""},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for name, value := range tc.header {
					w.Header().Set(name, value)
				}
				w.Header().Set("request-id", "req_7")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			events, err := collect(t.Context(), c, hello)
			e := failureIn(err)
			if e == nil || len(events) > 0 {
				t.Fatalf("%d events, %v", len(events), err)
			}
			if tc.kind != "" && e.Kind != tc.kind || e.Status != tc.status || e.RequestID != "req_7" || !strings.Contains(e.Message, tc.says) {
				t.Errorf("%+v", e)
			}
			if tc.status == 429 && e.Hint.After != 17*time.Second {
				t.Errorf("hint %+v", e.Hint)
			}
			hidesKey(t, e)
		})
	}
}

// hidesKey holds that no print of e shows the key.
func hidesKey(t *testing.T, e *failure.Error) {
	t.Helper()
	asJSON, err := json.Marshal(e)
	if err != nil {
		t.Error(err)
	}
	for _, s := range []string{e.Error(), fmt.Sprintf("%+v", e), string(asJSON), fmt.Sprint(errors.Unwrap(e))} {
		if strings.Contains(s, testKey) {
			t.Errorf("the key is in %s", s)
		}
	}
}

func TestKeyIsNeverShown(t *testing.T) {
	cfg := Config{BaseURL: "https://user:" + testKey + "@h/", APIKey: testKey, AuthToken: testKey, Headers: map[string]string{"X-Gateway-Token": testKey}}
	c := mustNew(t, cfg)
	for _, s := range []string{
		fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg),
		fmt.Sprintf("%v %+v %#v", &cfg, &cfg, &cfg),
	} {
		if strings.Contains(s, testKey) {
			t.Errorf("the key is in %s", s)
		}
	}
	// A server that repeats the key in every way there is.
	for _, body := range []string{
		sse(`{"type":"error","error":{"type":"` + testKey + `","message":"` + testKey + `"},"request_id":"` + testKey + `"}`),
		"<html>" + testKey, testKey, "", `{"a":"` + testKey + `"}`, sse(start) + "data: {" + testKey + "\n\n",
		sse(start, start), sse(start, `{"type":"content_block_delta","index":0,"delta":{"type":"`+testKey+`"}}`),
	} {
		cfg := Config{APIKey: testKey, Transport: answering(text1(body))}
		_, err := collect(t.Context(), mustNew(t, cfg), hello)
		if e := failureIn(err); e == nil {
			t.Errorf("%q: %v", body, err)
		} else {
			hidesKey(t, e)
		}
	}
	cfg = Config{APIKey: testKey, Transport: transport(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("proxy refused " + testKey)
	})}
	_, err := collect(t.Context(), mustNew(t, cfg), hello)
	if strings.Contains(err.Error(), testKey) {
		t.Error(err)
	}
}

func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = collect(t.Context(), mustNew(t, Config{BaseURL: "http://" + address}), hello)
	if failure.KindOf(err) != failure.Network {
		t.Errorf("%v", err)
	}
}

// TestReset: the connection is reset in the middle of an answer.
func TestReset(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, sse(start, textOpen, textHi))
		w.(http.Flusher).Flush()
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	})
	_, err := collect(t.Context(), c, hello)
	if e := failure.As(err); e == nil || e.Kind != failure.Network || e.Rule != RuleCut {
		t.Errorf("%v", err)
	}
}

// TestConnectionIsReused: what follows a complete answer is read, so that the
// next request finds the connection open; DropIdle closes it.
func TestConnectionIsReused(t *testing.T) {
	var peers []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		peers = append(peers, r.RemoteAddr)
		_, _ = io.Copy(io.Discard, r.Body)
		for line := range strings.SplitAfterSeq(rich, "\n\n") {
			_, _ = io.WriteString(w, line)
			w.(http.Flusher).Flush()
		}
	})
	for i := range 4 {
		if i == 3 {
			c.DropIdle()
		}
		// Leaving at the last event is as good as reading on.
		for e, err := range c.Stream(t.Context(), hello) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == model.EventStop && i == 1 {
				break
			}
		}
	}
	if peers[0] != peers[1] || peers[1] != peers[2] || peers[2] == peers[3] {
		t.Errorf("connections %v: want the first three the same and the fourth new", peers)
	}
}

// TestLeaving: the consumer leaves at each event, and nothing is left behind.
func TestLeaving(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.TrimSuffix(rich, sse(stop)))
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the answer never ends by itself
	})
	_, all, err := answerTo(t, text1(rich))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(all); n++ {
		before := goleak.IgnoreCurrent()
		seen := 0
		for _, err := range c.Stream(t.Context(), hello) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen == n {
				break
			}
		}
		c.DropIdle()
		if err := goleak.Find(before, goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead")); err != nil {
			t.Fatalf("left after %d events: %v", n, err)
		}
	}
}

func TestCancel(t *testing.T) {
	why := errors.New("the user pressed Escape")
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, sse(start, textOpen, textHi))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	seen := 0
	for _, err := range c.Stream(ctx, hello) {
		if seen++; err == nil {
			if seen == 3 {
				time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
			}
			continue
		}
		e := failureIn(err)
		if e == nil || e.Kind != failure.Aborted || !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	if _, err := collect(ctx, c, hello); failure.KindOf(err) != failure.Aborted || !errors.Is(err, why) {
		t.Errorf("before the request: %v", err)
	}
}

func TestCountTokens(t *testing.T) {
	answer := `{"input_tokens":42}`
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/messages/count_tokens" || strings.Contains(string(body), "max_tokens") || strings.Contains(string(body), "stream") {
			t.Errorf("%s: %s", r.URL, body)
		}
		_, _ = io.WriteString(w, answer)
	})
	n, err := c.CountTokens(t.Context(), &model.Request{Model: "m", MaxTokens: 5, Messages: []*message.Message{user("1", text("hi"))}})
	if n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	answer = `<html>`
	if _, err := c.CountTokens(t.Context(), hello); failureIn(err) == nil {
		t.Errorf("a page: %v", err)
	}
}
