package retry_test

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/retry"
)

// report is what a request came to.
type report struct {
	last  retry.Verdict
	state retry.State
	sent  int
	took  time.Duration
	beats int
	speed retry.Speed
}

// perform is the whole of what a caller owes to [retry.Next]: it sends, sleeps
// in slices, and counts what it slept. send returns nil when it got an answer.
func perform(p retry.Policy, f retry.Facts, send func(retry.Facts) *failure.Error) report {
	var r report
	began := time.Now()
	chance := 0.0
	for {
		r.sent++
		f.Fast = f.Fast && !r.state.Slow && r.speed.At(time.Now()) == "on"
		if f.Failure = send(f); f.Failure == nil {
			break
		}
		r.state, r.last = retry.Next(p, r.state, f)
		r.speed = r.speed.After(r.last, time.Now())
		if r.last.Do.Ends() || r.last.Do == retry.Ask {
			break
		}
		if r.last.Do == retry.Clamp {
			f.MaxTokens = r.last.MaxTokens
		}
		chance = 1 - chance // the extremes, by turns
		wait := r.last.Min + time.Duration(chance*float64(r.last.Max-r.last.Min))
		r.state.Waited += wait
		for ; wait > 0; wait -= p.Heartbeat {
			r.beats++
			time.Sleep(min(wait, p.Heartbeat))
		}
	}
	r.took = time.Since(began)
	return r
}

// until fails with e until so much time has passed.
func until(d time.Duration, e failure.Error) func(retry.Facts) *failure.Error {
	end := time.Now().Add(d)
	return func(retry.Facts) *failure.Error {
		if !time.Now().Before(end) {
			return nil
		}
		return &e
	}
}

func unattended() retry.Policy {
	p := retry.Default()
	p.Unattended = true
	return p
}

var (
	overloaded = failure.Error{Kind: failure.Overloaded, Status: 529, Retry: failure.RetryYes}
	broken     = failure.Error{Kind: failure.ServerError, Status: 500, Retry: failure.RetryYes}
)

func TestSixHoursUnattended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := perform(unattended(), retry.Facts{}, until(6*time.Hour, overloaded))
		if r.last.Do != retry.Wait || r.took < 6*time.Hour || r.took > 6*time.Hour+7*time.Minute {
			t.Errorf("ended with %q after %v, want an answer after six hours", r.last.Do, r.took)
		}
		if r.sent > 100 || r.beats < 700 {
			t.Errorf("%d requests and %d heartbeats in six hours", r.sent, r.beats)
		}
	})
}

func TestUnattendedIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		failure failure.Error
		most    time.Duration
		sent    int
	}{
		"overloaded":   {overloaded, 24 * time.Hour, 400},
		"server error": {broken, 4 * time.Hour, 301},
		"reset in 7 h": {failure.Error{Kind: failure.QuotaExhausted, Retry: failure.RetryAfter, Hint: failure.Hint{Given: true, After: 7 * time.Hour}}, 24 * time.Hour, 6},
		"reset in 7 days": {failure.Error{Kind: failure.QuotaExhausted, Retry: failure.RetryAfter,
			Hint: failure.Hint{Given: true, After: 7 * 24 * time.Hour}}, 0, 1},
		"spend limit": {failure.Error{Kind: failure.Billing, Retry: failure.RetryNo}, 0, 1},
		"forbidden":   {failure.Error{Kind: failure.RateLimit, Retry: failure.RetryYes, Hint: failure.Hint{ShouldRetry: "false"}}, 0, 1},
		"silence":     {failure.Error{Kind: failure.Timeout, Retry: failure.RetryYes, Stalled: true}, 4 * time.Hour, 302},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := perform(unattended(), retry.Facts{}, until(1000*time.Hour, test.failure))
				if r.last.Do != retry.GiveUp || r.took > test.most || r.sent > test.sent {
					t.Errorf("%q (%s) after %d requests and %v, want the end within %d and %v", r.last.Do, r.last.Rule, r.sent, r.took, test.sent, test.most)
				}
			})
		})
	}
}

func TestUnattendedLooksAgainAtTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := perform(unattended(), retry.Facts{}, func(retry.Facts) *failure.Error {
			left := 8*time.Hour - time.Since(began)
			if left <= 0 {
				return nil
			}
			return &failure.Error{Kind: failure.QuotaExhausted, Retry: failure.RetryAfter, Hint: failure.Hint{Given: true, After: left}}
		})
		if r.sent != 3 || r.took > 8*time.Hour+time.Minute {
			t.Errorf("%d requests in %v, want one after six hours and one after eight", r.sent, r.took)
		}
	})
}

func TestTotalIsOfTheRun(t *testing.T) {
	p := unattended()
	f := retry.Facts{Failure: &failure.Error{Kind: failure.RateLimit, Retry: failure.RetryAfter, Hint: failure.Hint{Given: true, After: time.Hour}}}
	if _, v := retry.Next(p, retry.State{Before: 23 * time.Hour}, f); v.Do != retry.Wait || v.Max != time.Hour {
		t.Errorf("with an hour left: %s up to %v, want a wait of just that", v.Do, v.Max)
	}
	if _, v := retry.Next(p, retry.State{Before: 23*time.Hour + time.Second}, f); v.Do != retry.GiveUp || v.Later != time.Hour {
		t.Errorf("with less than an hour left: %+v", v)
	}
}

func TestTenMinutesOfOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := perform(retry.Default(), retry.Facts{}, until(10*time.Minute, overloaded))
		if r.last.Do != retry.GiveUp || r.sent != 11 || r.took < 159*time.Second || r.took > 200*time.Second {
			t.Errorf("%q after %d requests and %v", r.last.Do, r.sent, r.took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := perform(retry.Default(), retry.Facts{Fallback: true}, until(10*time.Minute, overloaded))
		if r.last.Do != retry.HandOver || r.sent != 3 || r.took > 2*time.Second {
			t.Errorf("with another model: %q after %d requests and %v", r.last.Do, r.sent, r.took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := perform(retry.Default(), retry.Facts{Source: model.Title}, until(10*time.Minute, overloaded))
		if r.last.Do != retry.GiveUp || r.sent != 1 || r.took != 0 {
			t.Errorf("in the background: %q after %d requests and %v", r.last.Do, r.sent, r.took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := perform(unattended(), retry.Facts{}, until(10*time.Minute, overloaded))
		if r.last.Do != retry.Wait || r.took > 16*time.Minute {
			t.Errorf("unattended: %q after %d requests and %v", r.last.Do, r.sent, r.took)
		}
	})
}

// TestHints sends every form in which a server can ask for a wait.
func TestHints(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	for _, test := range []struct {
		name, header, value, body string
		least                     time.Duration // of the first wait
		later                     time.Duration // if the run ends at once
	}{
		{name: "none", least: 500 * time.Millisecond},
		{name: "seconds", header: "retry-after", value: "7", least: 7 * time.Second},
		{name: "a fraction", header: "retry-after", value: "1.5", least: 1500 * time.Millisecond},
		{name: "zero", header: "retry-after", value: "0", least: 500 * time.Millisecond},
		{name: "negative", header: "retry-after", value: "-5", least: 500 * time.Millisecond},
		{name: "absurd", header: "retry-after", value: "99999999999999", least: 500 * time.Millisecond},
		{name: "no number", header: "retry-after", value: "soon", least: 500 * time.Millisecond},
		{name: "milliseconds", header: "retry-after-ms", value: "2500", least: 2500 * time.Millisecond},
		{name: "less than our own", header: "retry-after-ms", value: "20", least: 500 * time.Millisecond},
		{name: "a date", header: "retry-after", value: now.Add(9 * time.Second).Format(http.TimeFormat), least: 9 * time.Second},
		{name: "a date gone by", header: "retry-after", value: now.Add(-time.Hour).Format(http.TimeFormat), least: 500 * time.Millisecond},
		{name: "with a unit", header: "retry-after", value: "12s", least: 12 * time.Second},
		{name: "a reset", header: "anthropic-ratelimit-requests-reset", value: now.Add(4 * time.Second).Format(time.RFC3339), least: 4 * time.Second},
		{name: "in the text", body: `{"error":{"message":"Rate limit reached. Please try again in 8.5s."}}`, least: 8500 * time.Millisecond},
		{name: "the limit", header: "retry-after", value: "60", least: time.Minute},
		{name: "above the limit", header: "retry-after", value: "61", later: 61 * time.Second},
		{name: "minutes in the text", body: `{"error":{"message":"Rate limit reached. Please try again in 9m38.016s."}}`, later: 578016 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{}
			header.Set(test.header, test.value)
			header.Set("date", now.Format(http.TimeFormat))
			body := test.body
			if body == "" {
				body = `{"type":"error","error":{"type":"rate_limit_error","message":"Rate limited"}}`
			}
			e := failure.Classify(failure.Report{Status: 429, Header: header, Body: []byte(body), Now: now})
			_, v := retry.Next(retry.Default(), retry.State{}, retry.Facts{Failure: e})
			if test.later > 0 {
				if v.Do != retry.GiveUp || v.Later != test.later {
					t.Errorf("%s (%s), later %v, want the end and %v", v.Do, v.Rule, v.Later, test.later)
				}
				return
			}
			if v.Do != retry.Wait || v.Min != test.least || v.Max != v.Min+min(v.Min, 32*time.Second)/4 {
				t.Errorf("%s (%s) of %v to %v, want %v and up to a quarter more, eight seconds at most", v.Do, v.Rule, v.Min, v.Max, test.least)
			}
		})
	}
}

func TestFastMode(t *testing.T) {
	hinted := func(h failure.Hint) failure.Error {
		return failure.Error{Kind: failure.RateLimit, Status: 429, Retry: failure.RetryAfter, Hint: h}
	}
	for _, test := range []struct {
		name    string
		failure failure.Error
		off     string
		waits   int // in fast mode
		at      string
		cool    time.Duration
	}{
		{"19 s", hinted(failure.Hint{Given: true, After: 19 * time.Second}), "", 1, "on", 0},
		{"20 s", hinted(failure.Hint{Given: true, After: 20 * time.Second}), "", 0, "cooldown", 10 * time.Minute},
		{"40 min", hinted(failure.Hint{Given: true, After: 40 * time.Minute}), "", 0, "cooldown", 40 * time.Minute},
		{"no hint", hinted(failure.Hint{}), "", 0, "cooldown", 30 * time.Minute},
		{"overage disabled", hinted(failure.Hint{Given: true, After: time.Second}), "org_level_disabled", 0, "off", 0},
		{"no credits", failure.Error{Kind: failure.Billing, Retry: failure.RetryNo}, "", 0, "on", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fast []bool
				r := perform(retry.Default(), retry.Facts{Fast: true, FastOff: test.off}, func(f retry.Facts) *failure.Error {
					fast = append(fast, f.Fast)
					if f.Fast && len(fast) == 1 {
						return &test.failure
					}
					return nil
				})
				if len(fast) != 2 || fast[1] != (test.waits > 0) || r.state.Waits != test.waits {
					t.Errorf("asked at full speed %v with %d waits, want %d", fast, r.state.Waits, test.waits)
				}
				now := time.Now()
				if r.speed.At(now) != test.at || test.cool > 0 && r.speed.Until.Sub(now) != test.cool {
					t.Errorf("fast mode is %s until %v", r.speed.At(now), r.speed.Until)
				}
				if test.at == "cooldown" && r.speed.At(now.Add(test.cool)) != "on" {
					t.Error("fast mode stays off after the cooldown")
				}
			})
		})
	}
}

func TestDropPool(t *testing.T) {
	for _, test := range []struct {
		cause error
		want  bool
	}{
		{syscall.ECONNRESET, true}, {fmt.Errorf("write: %w", syscall.EPIPE), true},
		{syscall.ECONNREFUSED, false}, {errors.New("no such host"), false}, {nil, false},
	} {
		e := (&failure.Error{Kind: failure.Network, Retry: failure.RetryYes}).Wrap(test.cause)
		if _, v := retry.Next(retry.Default(), retry.State{}, retry.Facts{Failure: e}); v.DropPool != test.want {
			t.Errorf("%v: drop the pool %v, want %v", test.cause, v.DropPool, test.want)
		}
	}
}

func TestClamp(t *testing.T) {
	over := func(n failure.Numbers) *failure.Error {
		return &failure.Error{Kind: failure.MaxTokensOverflow, Retry: failure.RetryNo, Numbers: n}
	}
	for _, test := range []struct {
		name    string
		facts   retry.Facts
		clamped int
		want    int // 0: given up
		over    bool
	}{
		{"exact", retry.Facts{Failure: over(failure.Numbers{InputTokens: 180_000, MaxTokens: 32_000, Limit: 200_000}), MaxTokens: 32_000}, 0, 19_000, false},
		{"least", retry.Facts{Failure: over(failure.Numbers{InputTokens: 196_000, Limit: 200_000}), MaxTokens: 32_000}, 0, 3000, false},
		{"no room", retry.Facts{Failure: over(failure.Numbers{InputTokens: 196_001, Limit: 200_000}), MaxTokens: 32_000}, 0, 0, true},
		{"no room for thinking", retry.Facts{Failure: over(failure.Numbers{InputTokens: 180_000, Limit: 200_000}), MaxTokens: 32_000, Budget: 19_000}, 0, 0, true},
		{"not lower", retry.Facts{Failure: over(failure.Numbers{InputTokens: 10_000, Limit: 200_000}), MaxTokens: 32_000}, 0, 0, true},
		{"the figures did not hold", retry.Facts{Failure: over(failure.Numbers{InputTokens: 180_000, Limit: 200_000}), MaxTokens: 32_000}, 19_000, 9500, false},
		{"a lower bound", retry.Facts{Failure: over(failure.Numbers{InputAtLeast: 134_145, MaxTokens: 128_000, Limit: 262_144}), MaxTokens: 128_000}, 0, 64_000, false},
		{"nothing said", retry.Facts{Failure: over(failure.Numbers{}), MaxTokens: 5000}, 0, 3000, false},
		{"nothing said, spent", retry.Facts{Failure: over(failure.Numbers{}), MaxTokens: 5000}, 3000, 0, true},
		{"the model's cap", retry.Facts{Failure: over(failure.Numbers{Limit: 2048}), MaxTokens: 32_000}, 0, 2048, false},
		{"a cap below thinking", retry.Facts{Failure: over(failure.Numbers{Limit: 2048}), MaxTokens: 32_000, Budget: 4000}, 0, 0, false},
	} {
		_, v := retry.Next(retry.Default(), retry.State{Clamped: test.clamped}, test.facts)
		if v.MaxTokens != test.want || v.Overflow != test.over || (v.Do == retry.Clamp) != (test.want > 0) {
			t.Errorf("%s: %s to %d, overflow %v; want %d, %v", test.name, v.Do, v.MaxTokens, v.Overflow, test.want, test.over)
		}
	}
}

func TestPlan(t *testing.T) {
	plan := retry.Plan(retry.Default(), retry.Facts{Failure: &overloaded})
	requests, wait := retry.Worst(plan)
	if len(plan) != 2 || requests != 11 || wait != 199375*time.Millisecond || plan[1].Rule != "budget" {
		t.Errorf("%d requests and %v: %+v", requests, wait, plan)
	}
}
