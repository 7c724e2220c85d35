package daruma_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/go-json-experiment/json"
)

// speeds is a transport that notes the field speed of each request.
type speeds struct {
	http.RoundTripper
	seen []string
}

func (s *speeds) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var fields struct {
		Speed string `json:"speed"`
	}
	_ = json.Unmarshal(body, &fields)
	s.seen = append(s.seen, fields.Speed)
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return s.RoundTripper.RoundTrip(r)
}

// TestFastMode holds R11 to R13 on the wire: what the next request asks for
// after a refusal, and what the run after it asks for.
func TestFastMode(t *testing.T) {
	tests := []struct {
		name    string
		refusal string
		want    []string // the speed of each request of the first run
		later   string   // of a run eleven minutes after
		waited  time.Duration
	}{
		{"short wait: stays fast", "header retry-after \"19\"", []string{"fast", "fast"}, "fast", 19 * time.Second},
		{"longer wait: cools down for ten minutes at least", "header retry-after \"20\"", []string{"fast", ""}, "fast", 0},
		{"no hint: cools down for half an hour", "header x-none \"1\"", []string{"fast", ""}, "", 0},
		{"closed to the account: off for the session", "header anthropic-ratelimit-unified-overage-disabled-reason \"org_level_disabled\"", []string{"fast", ""}, "", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script, err := fault.Parse("fast", "step limit\n  status 429\n  "+tc.refusal+"\nmodel\n  rule all\n    say \"Hello.\"\n")
				if err != nil {
					t.Fatal(err)
				}
				network := fault.NewMemoryNet()
				server := fault.New(script, fault.Options{}).Serve(network)
				inner := &http.Transport{DialContext: network.DialContext}
				transport := &speeds{RoundTripper: inner}
				wire, err := anthropic.New(anthropic.Config{BaseURL: "http://fault.test", APIKey: "any-key", Transport: transport})
				if err != nil {
					t.Fatal(err)
				}
				agent, err := daruma.New(daruma.Config{Wire: wire, Models: []string{"claude-a"}, Fast: true, Rand: func() float64 { return 0 }})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for range 2 {
					result, err := daruma.Collect(agent.Run(t.Context(), "Hello?"))
					if err != nil || result.Err() != nil {
						t.Fatal(err, result.Err())
					}
					if waited := time.Since(began); len(transport.seen) == 2 && waited != tc.waited {
						t.Errorf("it waited %s, want %s", waited, tc.waited)
					}
					time.Sleep(11 * time.Minute)
				}
				if got := transport.seen[:2]; got[0] != tc.want[0] || got[1] != tc.want[1] {
					t.Errorf("the requests of the first run ask for %q, want %q", got, tc.want)
				}
				if got := transport.seen[2]; got != tc.later {
					t.Errorf("eleven minutes later it asks for %q, want %q", got, tc.later)
				}
				inner.CloseIdleConnections()
				if err := server.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
