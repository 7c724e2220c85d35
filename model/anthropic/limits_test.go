package anthropic

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
	"github.com/google/go-cmp/cmp"
)

func TestLimits(t *testing.T) {
	at := func(sec int64) time.Time { return time.Unix(sec, 0).UTC() }
	minute := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name   string
		header map[string]string
		want   *model.RateLimits
	}{
		{"none", map[string]string{"request-id": "req_1", "retry-after": "3"}, nil},
		{"a plan", map[string]string{
			"anthropic-ratelimit-unified-status":               "allowed_warning",
			"anthropic-ratelimit-unified-representative-claim": "five_hour",
			"anthropic-ratelimit-unified-reset":                "1796040000",
			"anthropic-ratelimit-unified-5h-status":            "allowed_warning",
			"anthropic-ratelimit-unified-5h-utilization":       "0.91",
			"anthropic-ratelimit-unified-5h-reset":             "1796040000",
			"anthropic-ratelimit-unified-7d-status":            "allowed",
			"anthropic-ratelimit-unified-7d-utilization":       "0.95",
			"anthropic-ratelimit-unified-7d-reset":             "1796400000",
			"anthropic-ratelimit-unified-overage-status":       "allowed",
			"anthropic-ratelimit-unified-fallback-percentage":  "0.5",
		}, &model.RateLimits{
			RateWindow: model.RateWindow{Type: "five_hour", Status: "allowed_warning", Utilization: .91, Resets: at(1796040000)},
			Windows: []model.RateWindow{
				{Type: "five_hour", Status: "allowed_warning", Utilization: .91, Resets: at(1796040000)},
				{Type: "overage", Status: "allowed"},
				{Type: "seven_day", Status: "allowed", Utilization: .95, Resets: at(1796400000)},
			},
		}},
		{"a plan whose window has no line of its own", map[string]string{
			"anthropic-ratelimit-unified-status":                  "rejected",
			"anthropic-ratelimit-unified-representative-claim":    "seven_day_opus",
			"anthropic-ratelimit-unified-reset":                   "1796040000",
			"anthropic-ratelimit-unified-overage-disabled-reason": "out_of_credits",
		}, &model.RateLimits{
			RateWindow: model.RateWindow{Type: "seven_day_opus", Status: "rejected", Resets: at(1796040000)},
			NoOverage:  "out_of_credits",
		}},
		{"no claim: the fullest", map[string]string{
			"anthropic-ratelimit-unified-5h-utilization":        "0.2",
			"anthropic-ratelimit-unified-7d_sonnet-utilization": "0.4",
			"anthropic-ratelimit-unified-overage-utilization":   "0.9",
		}, &model.RateLimits{
			RateWindow: model.RateWindow{Type: "seven_day_sonnet", Utilization: .4},
			Windows: []model.RateWindow{
				{Type: "five_hour", Utilization: .2}, {Type: "overage", Utilization: .9}, {Type: "seven_day_sonnet", Utilization: .4},
			},
		}},
		{"counts, those of fast mode too", map[string]string{
			"anthropic-ratelimit-requests-limit":         "50",
			"anthropic-ratelimit-requests-remaining":     "49",
			"anthropic-ratelimit-requests-reset":         "2026-11-30T12:00:00Z",
			"anthropic-ratelimit-input-tokens-limit":     "40000",
			"anthropic-ratelimit-input-tokens-remaining": "10000",
			"anthropic-fast-output-tokens-limit":         "1000",
			"anthropic-fast-output-tokens-remaining":     "0",
			"anthropic-fast-output-tokens-reset":         "2026-11-30T12:00:00Z",
		}, &model.RateLimits{
			RateWindow: model.RateWindow{Type: "fast_output_tokens", Utilization: 1, Resets: minute, Limit: 1000},
			Windows: []model.RateWindow{
				{Type: "fast_output_tokens", Utilization: 1, Resets: minute, Limit: 1000},
				{Type: "input_tokens", Utilization: .75, Limit: 40000, Remaining: 10000},
				{Type: "requests", Utilization: 1 / 50., Resets: minute, Limit: 50, Remaining: 49},
			},
		}},
		{"nonsense", map[string]string{
			"anthropic-ratelimit-unified-5h-utilization": "much",
			"anthropic-ratelimit-unified-5h-reset":       "soon",
			"anthropic-ratelimit-unified-":               "",
			"anthropic-ratelimit-":                       "1",
			"anthropic-ratelimit-unified-7d-later-news":  "yes",
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{}
			for name, value := range tc.header {
				h.Set(name, value)
			}
			if diff := cmp.Diff(tc.want, limitsOf(h)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLimitsOfAnyAnswer: a good answer has them in its first event, a failure in
// its chain.
func TestLimitsOfAnyAnswer(t *testing.T) {
	status, body := 200, rich
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("anthropic-ratelimit-unified-status", "rejected")
		w.Header().Set("anthropic-ratelimit-unified-overage-disabled-reason", "out_of_credits")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	events, err := collect(t.Context(), c, hello)
	if err != nil || events[0].Limits == nil || events[0].Limits.Status != "rejected" {
		t.Errorf("%v: %+v", err, events[0].Limits)
	}
	overloaded := `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	for _, tc := range []struct {
		status int
		body   string
	}{{429, ""}, {200, sse(start, overloaded)}, {200, overloaded}} {
		status, body = tc.status, tc.body
		_, err = collect(t.Context(), c, hello)
		limits, ok := errors.AsType[*model.LimitsError](error(failure.As(err)))
		if !ok || limits.Limits.NoOverage != "out_of_credits" || !strings.Contains(limits.Error(), "rejected") {
			t.Errorf("%d %q: %v carries %v", tc.status, tc.body, err, limits)
		}
	}
}
