package anthropic

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// TestProfiles: the headers of both wire versions, and of each with the key in
// the other's style, word for word.
func TestProfiles(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"nothing set", Config{}, `
Accept: application/json
Anthropic-Version: 2023-06-01
Content-Type: application/json
User-Agent: daruma/devel
X-Client-Request-Id: (random)
X-Daruma-Source: main
X-Stainless-Retry-Count: 0
`},
		{"2023-06-01", Config{APIKey: "key"}, `
Accept: application/json
Anthropic-Version: 2023-06-01
Content-Type: application/json
User-Agent: daruma/devel
X-Api-Key: key
X-Client-Request-Id: (random)
X-Daruma-Source: main
X-Stainless-Retry-Count: 0
`},
		{"2026-10-21", Config{APIKey: "key", Profile: Profile{Version: Version2026}}, `
Accept: application/json
Anthropic-Version: 2026-10-21
Authorization: Bearer key
Content-Type: application/json
User-Agent: daruma/devel
X-Client-Request-Id: (random)
X-Daruma-Source: main
X-Stainless-Retry-Count: 0
`},
		{"the new version before a gateway that reads x-api-key", Config{APIKey: "key", Profile: Profile{Version: Version2026, Keys: KeyAsHeader}}, `
Accept: application/json
Anthropic-Version: 2026-10-21
Content-Type: application/json
User-Agent: daruma/devel
X-Api-Key: key
X-Client-Request-Id: (random)
X-Daruma-Source: main
X-Stainless-Retry-Count: 0
`},
		{"the old version before one that reads bearers", Config{APIKey: "key", Profile: Profile{Keys: KeyAsBearer}, Beta: []string{"a", "b"}}, `
Accept: application/json
Anthropic-Beta: a,b
Anthropic-Version: 2023-06-01
Authorization: Bearer key
Content-Type: application/json
User-Agent: daruma/devel
X-Client-Request-Id: (random)
X-Daruma-Source: main
X-Stainless-Retry-Count: 0
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got, body strings.Builder
			tc.cfg.Transport = transport(func(r *http.Request) (*http.Response, error) {
				r.Header.Set("X-Client-Request-Id", "(random)")
				r.Header.Set("User-Agent", "daruma/devel")
				_ = r.Header.Write(&got)
				_, _ = io.Copy(&body, r.Body)
				return nil, errors.New("enough")
			})
			_, _ = collect(t.Context(), mustNew(t, tc.cfg), hello)
			if diff := cmp.Diff(tc.want, "\n"+strings.ReplaceAll(got.String(), "\r\n", "\n")); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(body.String()), &fields); err != nil {
				t.Fatal(err)
			}
			for _, sampling := range []string{"temperature", "top_p", "top_k"} {
				if _, ok := fields[sampling]; ok {
					t.Errorf("the body has %s", sampling)
				}
			}
		})
	}
	if _, err := New(Config{APIKey: "key", AuthToken: "token", Profile: Profile{Version: Version2026}}); err == nil {
		t.Error("two keys for one header")
	}
}

// TestProfilesAreServed: the judge finds nothing wrong with either version.
func TestProfilesAreServed(t *testing.T) {
	script, err := fault.Parse("profiles.fault", "")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := fault.New(script, fault.Options{}).Serve(listener)
	defer server.Close()
	for _, p := range []Profile{{}, {Version: Version2026}, {Version: Version2026, Keys: KeyAsHeader}, {Keys: KeyAsBearer}} {
		c := mustNew(t, Config{BaseURL: server.URL, APIKey: testKey, Profile: p})
		events, err := collect(t.Context(), c, &model.Request{Model: "m", MaxTokens: 100, Messages: hello.Messages})
		if err != nil || events[len(events)-1].Stop != model.StopEndTurn {
			t.Errorf("%+v: %v", p, err)
		}
		c.DropIdle()
	}
	if report := server.Report(); len(report.Violations) > 0 {
		t.Errorf("violations: %v", report)
	}
}

// TestFastIsLatched: once a client has asked for a faster variant, the header
// set stays, and only the field of the body tells fast from slow.
func TestFastIsLatched(t *testing.T) {
	var beta, body string
	c := mustNew(t, Config{Beta: []string{"a"}, Transport: transport(func(r *http.Request) (*http.Response, error) {
		text, _ := io.ReadAll(r.Body)
		beta, body = r.Header.Get("Anthropic-Beta"), string(text)
		return nil, errors.New("enough")
	})})
	for i, tc := range []struct {
		fast, unstreamed bool
		beta             string
	}{
		{false, false, "a"}, {true, false, "a," + fastBeta}, {false, false, "a," + fastBeta},
		{false, true, "a," + fastBeta}, {true, true, "a," + fastBeta},
	} {
		r := *hello
		r.Fast, r.Unstreamed = tc.fast, tc.unstreamed
		_, _ = collect(t.Context(), c, &r)
		if beta != tc.beta || strings.Contains(body, `"speed":"fast"`) != tc.fast || strings.Contains(body, "speed") != tc.fast {
			t.Errorf("request %d: beta %q, body %s", i, beta, body)
		}
	}
}
