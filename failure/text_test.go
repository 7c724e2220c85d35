package failure

import (
	"strings"
	"testing"
	"time"
)

func TestEveryKindHasTextWithANextStep(t *testing.T) {
	for _, kind := range Kinds {
		a := advices[kind]
		if a.what == "" || a.step == "" {
			t.Errorf("%s has no words", kind)
		}
		for _, interactive := range []bool{false, true} {
			text := (&Error{Kind: kind, Retry: RetryNo}).Text(interactive)
			if what, step, ok := strings.Cut(text, "; "); !ok || what == "" || len(step) < 10 {
				t.Errorf("%s: %q holds no next step", kind, text)
			}
			if strings.Contains(text, "%!") || strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is not well formed", kind, text)
			}
		}
	}
	if got := (&Error{Kind: "new"}).Text(false); !strings.Contains(got, "not clear") {
		t.Errorf("a kind without words reads %q", got)
	}
}

func TestTextNamesFigures(t *testing.T) {
	for _, c := range []struct {
		body string
		want string
	}{
		{"prompt is too long: 209062 tokens > 199999 maximum", "209,062 of 199,999 tokens"},
		{"input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648", "189,136 in and 20,000 out are over 204,648 tokens"},
		{"Rate limit reached. Please try again in 9m38.016s.", "free again in 10 min"},
		{"messages.2.content.0.image.source.base64: image exceeds 5 MB maximum: 8259148 bytes > 5242880 bytes", "8,259,148 of 5,242,880 bytes"},
		{"A maximum of 100 PDF pages may be provided.", "the limit is 100 pages"},
		{"You have reached your specified API usage limits. You will regain access on 2026-09-01", "free again at 2026-09-01"},
	} {
		if got := Classify(Report{Body: []byte(c.body)}).Text(false); !strings.Contains(got, c.want) {
			t.Errorf("%q reads %q, want %q in it", c.body, got, c.want)
		}
	}
}

func TestTextHoldsNoSecret(t *testing.T) {
	const planted = "sk-ant-api03-Zq8vX2kLm9Rt4Wy7"
	for _, status := range []int{400, 401, 402, 403, 404, 429, 500} {
		e := Classify(Report{Status: status, Body: []byte(`{"error":{"message":"odd thing with ` + planted + ` in it","type":"` + planted + `"},"request_id":"` + planted + `"}`)})
		for _, s := range []string{e.Text(true), e.Text(false), e.Error(), e.Detail, e.Message, e.Type, e.RequestID} {
			if strings.Contains(s, planted) {
				t.Errorf("status %d: the key stays in %q", status, s)
			}
		}
	}
}

func TestSpoken(t *testing.T) {
	for d, want := range map[time.Duration]string{
		200 * time.Millisecond: "1 s", 59 * time.Second: "59 s", 61 * time.Second: "2 min",
		90 * time.Minute: "90 min", 3 * time.Hour: "3 h", 72 * time.Hour: "3 days",
	} {
		if got := spoken(d); got != want {
			t.Errorf("%v reads %q, want %q", d, got, want)
		}
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := group(n); got != want {
			t.Errorf("%d reads %q, want %q", n, got, want)
		}
	}
}

func TestEveryKindHasACategory(t *testing.T) {
	for _, kind := range Kinds {
		if c := kind.Category(); c == "" {
			t.Errorf("%s has no category", kind)
		}
	}
	if Permission.Category() != CategoryAuth || Overloaded.Category() != CategoryOverloaded || Kind("new").Category() != CategoryUnknown {
		t.Error("the folding of kinds to categories has changed")
	}
}
