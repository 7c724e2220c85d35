package failure

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestHints(t *testing.T) {
	const none = -1 * time.Second
	header := func(pairs ...string) map[string][]string {
		h := map[string][]string{}
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = []string{pairs[i+1]}
		}
		return h
	}
	for _, c := range []struct {
		name   string
		header map[string][]string
		body   string
		now    time.Time
		want   time.Duration
	}{
		{"seconds", header("Retry-After", "7"), "", noon, 7 * time.Second},
		{"fraction", header("retry-after", "0.5"), "", noon, 500 * time.Millisecond},
		{"zero is a hint", header("retry-after", "0"), "", noon, 0},
		{"milliseconds first", header("Retry-After-Ms", "1500", "Retry-After", "9"), "", noon, 1500 * time.Millisecond},
		{"date", header("retry-after", "Sun, 01 Mar 2026 12:00:30 GMT"), "", noon, 30 * time.Second},
		{"date against the server's clock", header("retry-after", "Sun, 01 Mar 2026 12:00:30 GMT", "Date", "Sun, 01 Mar 2026 12:00:20 GMT"), "", time.Time{}, 10 * time.Second},
		{"date without a clock", header("retry-after", "Sun, 01 Mar 2026 12:00:30 GMT"), "", time.Time{}, none},
		{"date in the past", header("retry-after", "Sun, 01 Mar 2026 11:00:00 GMT"), "", noon, none},
		{"negative", header("retry-after", "-5"), "", noon, none},
		{"absurd", header("retry-after", "99999999999"), "", noon, none},
		{"not a number", header("retry-after", "soon"), "", noon, none},
		{"not a number at all", header("retry-after", "NaN"), "", noon, none},
		{"unit in the header", header("retry-after", "20s"), "", noon, 20 * time.Second},
		{"bucket date", header("anthropic-ratelimit-tokens-reset", "2026-03-01T12:00:12Z", "anthropic-ratelimit-tokens-remaining", "0"), "", noon, 12 * time.Second},
		{"full bucket", header("anthropic-ratelimit-tokens-reset", "2026-03-01T12:00:12Z", "anthropic-ratelimit-tokens-remaining", "100"), "", noon, none},
		{"bucket duration", header("x-ratelimit-reset-requests", "6m0s", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-tokens", "20ms", "x-ratelimit-remaining-tokens", "9"), "", noon, 6 * time.Minute},
		{"bucket epoch in milliseconds", header("X-RateLimit-Reset", "1772366420000"), "", noon, 20 * time.Second},
		{"bucket epoch", header("anthropic-ratelimit-unified-reset", "1772366460"), "", noon, time.Minute},
		{"member", nil, `{"error":{"type":"usage_limit_reached","message":"x","resets_in_seconds":7600}}`, noon, 7600 * time.Second},
		{"member epoch", nil, `{"error":{"type":"usage_limit_reached","message":"x","resets_at":1772366430}}`, noon, 30 * time.Second},
		{"retry info", nil, `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}`, noon, 36 * time.Second},
		{"retry info with a fraction", nil, `{"error":{"code":429,"details":[{"retryDelay":"3.684s"}]}}`, noon, 3684 * time.Millisecond},
		{"milliseconds in text", nil, "Please try again in 644ms.", noon, 644 * time.Millisecond},
		{"mixed", nil, "Please try again in 9m38.016s. Need more?", noon, 578016 * time.Millisecond},
		{"spaced", nil, "(reset after 1m 36s).", noon, 96 * time.Second},
		{"words", nil, "Rate limited, try again in 1 hour and 5 minutes", noon, 65 * time.Minute},
		{"days", nil, "usage limit, try again in 3 days 4 hours", noon, 76 * time.Hour},
		{"chinese", nil, "请求过于频繁，请在 20 秒后重试", noon, 20 * time.Second},
		{"a client's own wait", nil, "Rate limited. Retrying in 19 seconds (attempt 6/10)", noon, none},
		{"a sum of waits", nil, "429 too many requests (total retry wait time: 5.8 seconds)", noon, none},
		{"no unit", nil, "rate limit, retry after 20", noon, none},
		{"instant in text", nil, "usage limit reached, resets at 2026-03-01T15:00:00Z", noon, 3 * time.Hour},
		{"epoch in text", nil, "Claude AI usage limit reached|1772370000", noon, time.Hour},
		{"calendar day", nil, "usage limit reached. You will regain access on 2026-09-01", noon, none},
	} {
		got := Classify(Report{Status: 429, Header: c.header, Body: []byte(c.body), Now: c.now}).Hint
		if want := c.want; got.Given != (want != none) || got.Given && got.After != want {
			t.Errorf("%s: %+v, want %v", c.name, got, want)
		}
	}
}

func TestWaitIsDroppedWhereSomethingMustChange(t *testing.T) {
	e := Classify(Report{Status: 401, Header: map[string][]string{"Retry-After": {"5"}}, Body: []byte("invalid x-api-key")})
	if e.Kind != Auth || e.Hint.Given || e.Retry != RetryNo {
		t.Errorf("a bad key is to be waited for: %+v", e)
	}
}

func TestShouldRetryHeader(t *testing.T) {
	for value, want := range map[string]string{"true": "true", "FALSE": "false", "perhaps": ""} {
		got := Classify(Report{Status: 500, Header: map[string][]string{"X-Should-Retry": {value}}}).Hint.ShouldRetry
		if got != want {
			t.Errorf("%q reads %q, want %q", value, got, want)
		}
	}
}

func TestLongWaitMakesAQuota(t *testing.T) {
	e := Classify(Report{Status: 429, Header: map[string][]string{"Retry-After": {"86400"}}, Body: []byte(`{"error":{"type":"rate_limit_error","message":"Error"}}`)})
	if e.Kind != QuotaExhausted || e.Retry != RetryAfter || e.Hint.After != 24*time.Hour {
		t.Errorf("a wait of a day is %s, %s, %v", e.Kind, e.Retry, e.Hint)
	}
}
