package anthropic

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/failure"
)

// connectProxy is a proxy on loopback. It tunnels where status is 200, and else
// refuses with it.
func connectProxy(t *testing.T, status int, header http.Header) func(*http.Request) (*url.URL, error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status != http.StatusOK || r.Method != http.MethodConnect {
			for name, values := range header {
				w.Header()[name] = values
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>the proxy says no</html>")
			return
		}
		there, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(there, buffered)
			there.Close()
		}()
		_, _ = io.Copy(here, there)
		here.Close()
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("user", testKey)
	return http.ProxyURL(u)
}

func TestProxy(t *testing.T) {
	refuse := false
	api, root := serveTLS(t, func(srv *httptest.Server) {
		srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if refuse {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, rich)
		})
	})
	for _, tc := range []struct {
		status int
		header http.Header
		retry  failure.Retry
		says   string
	}{
		{200, nil, "", ""},
		{407, nil, failure.RetryNo, "407 Proxy Authentication Required. Put user and password"},
		{407, http.Header{"Proxy-Authenticate": {"Basic realm=x"}}, failure.RetryNo, "Put user and password"},
		{407, http.Header{"Proxy-Authenticate": {"Negotiate"}}, failure.RetryNo, "login by Negotiate"},
		{403, nil, failure.RetryNo, "403 Forbidden. Its rules forbid this address"},
		{502, nil, failure.RetryYes, "502 Bad Gateway"},
		{503, nil, failure.RetryYes, "503 Service Unavailable"},
	} {
		c := mustNew(t, Config{BaseURL: api.URL, APIKey: testKey, TLS: TLS{Roots: root}, Proxy: connectProxy(t, tc.status, tc.header)})
		_, err := collect(t.Context(), c, hello)
		c.DropIdle()
		if tc.says == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		e := failure.As(err)
		if e == nil || e.Kind != failure.Network || e.Retry != tc.retry || e.Rule != RuleProxy || e.Status != 0 || !strings.Contains(e.Message, tc.says) {
			t.Errorf("%d: %+v", tc.status, e)
			continue
		}
		hidesKey(t, e)
	}
	// The API's own refusal comes through the proxy as what it is.
	refuse = true
	c := mustNew(t, Config{BaseURL: api.URL, TLS: TLS{Roots: root}, Proxy: connectProxy(t, 200, nil)})
	defer c.DropIdle()
	_, err := collect(t.Context(), c, hello)
	if e := failure.As(err); e.Kind != failure.Permission || e.Status != http.StatusForbidden {
		t.Errorf("%+v", e)
	}
}

// TestPlainProxy: without CONNECT a proxy answers in the server's place. Its
// login is still not that of the API.
func TestPlainProxy(t *testing.T) {
	c := mustNew(t, Config{BaseURL: "http://api.invalid", APIKey: testKey, Proxy: connectProxy(t, 407, nil)})
	defer c.DropIdle()
	_, err := collect(t.Context(), c, hello)
	if e := failure.As(err); e.Kind != failure.Network || e.Rule != RuleProxy || !strings.Contains(e.Message, "api.invalid") {
		t.Errorf("%+v", e)
	}
}

func TestNoProxyThere(t *testing.T) {
	gone := httptest.NewServer(nil)
	u, _ := url.Parse(gone.URL)
	gone.Close()
	c := mustNew(t, Config{BaseURL: "https://api.invalid", Proxy: http.ProxyURL(u)})
	_, err := collect(t.Context(), c, hello)
	if e := failure.As(err); e.Kind != failure.Network || e.Retry != failure.RetryYes || e.Rule != RuleProxy || !strings.Contains(e.Message, u.Host) {
		t.Errorf("%+v", e)
	}
}
