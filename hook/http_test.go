package hook

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHTTP(t *testing.T) {
	allow := says(PreToolUse, "json")
	var got *http.Request
	var body []byte
	release := make(chan struct{})
	mux := http.NewServeMux()
	answer := func(path string, status int, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			body, _ = io.ReadAll(r.Body)
			got = r
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		})
	}
	answer("/empty", 200, "")
	answer("/allow", 201, allow)
	answer("/two", 202, `{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}`)
	answer("/broken", 200, allow[:20])
	answer("/page", 200, "<html>please log in</html>")
	answer("/error", 500, allow)
	answer("/none", 404, allow)
	answer("/long", 200, `{"a":"`+strings.Repeat("a", mostOutput)+`"}`)
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/allow", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { <-release })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(release)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()

	ask := func(t *testing.T, url string, cfg Config, headers map[string]string) Output {
		one := Handler{Event: PreToolUse, Type: HTTP, URL: url, Headers: headers, AllowedEnvVars: []string{"PROBE", "ABSENT"}}
		if strings.HasSuffix(url, "/slow") {
			one.Timeout = 200 * time.Millisecond
		}
		cfg.Handlers = []Handler{one}
		return hooks(t, cfg).Run(context.Background(), example(PreToolUse, common(t)))
	}
	for _, c := range []struct {
		path string
		want Permission
		why  string
	}{
		{"/empty", "", ""}, {"/allow", Allow, "fine"}, {"/two", Deny, "no"},
		{"/broken", Deny, "printed JSON that cannot be read"}, {"/page", Deny, `begins with "<html>please log in…`},
		{"/error", Deny, "answered with the status 500"}, {"/none", Deny, "answered with the status 404"},
		{"/long", Deny, "longer than"}, {"/away", Deny, "answered with the status 307"},
		{"/slow", Deny, "did not end within 200ms"}, {"/cut", Deny, "could not be asked: "},
	} {
		t.Run("C276 "+c.path, func(t *testing.T) {
			out := ask(t, s.URL+c.path, Config{Transport: transport}, nil)
			if out.Permission != c.want || !strings.Contains(out.Reason, c.why) {
				t.Errorf("%q: %s", out.Permission, out.Reason)
			}
			if open := ask(t, s.URL+c.path, Config{Transport: transport, FailOpen: true}, nil); strings.Contains(out.Reason, "never means yes") && (open.Permission != "" || len(open.Notices) != 1) {
				t.Errorf("failing open: %q %v", open.Permission, open.Notices)
			}
		})
	}
	ask(t, s.URL+"/empty?key=secret", Config{Transport: transport}, map[string]string{"X-A": "v ${PROBE} $PATH $ABSENT.", "X-B": "b"})
	if got.Method != "POST" || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("X-A") != "v yes  ." || got.Header.Get("X-B") != "b" ||
		!strings.HasPrefix(string(body), `{"session_id":"s1"`) {
		t.Errorf("%s %v %s", got.Method, got.Header, body)
	}
	s2 := httptest.NewServer(mux)
	s2.Close()
	for _, out := range []Output{
		ask(t, s2.URL+"/allow?key=secret", Config{Transport: transport}, nil), ask(t, s.URL+"/allow?key=secret", Config{}, nil),
		ask(t, s.URL+"/allow?key=secret", Config{Transport: transport}, map[string]string{"X-A": "a\r\nb"}),
	} {
		if out.Permission != Deny || !strings.Contains(out.Reason, "could not be asked: ") || strings.Contains(out.Reason, "secret") {
			t.Errorf("%q: %s", out.Permission, out.Reason)
		}
	}
}
