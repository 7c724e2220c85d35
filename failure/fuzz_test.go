package failure

import (
	"errors"
	"slices"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzClassify holds what every caller relies on, whatever the wire brings:
// a known kind and verdict, text that is valid and bounded, and no panic.
func FuzzClassify(f *testing.F) {
	for _, r := range corpus(f) {
		f.Add(r.Status, r.Body, r.Headers["retry-after"], r.Transport == "stream")
	}
	f.Add(200, "\xff\xfe{\"message\":\"\\ud800", "Inf", false)
	f.Add(429, `{"a":"{\"a\":\"{\\\"a\\\":\\\"`, "1e300", true)
	f.Fuzz(func(t *testing.T, status int, body, retryAfter string, inStream bool) {
		r := Report{Status: status, Body: []byte(body), Header: map[string][]string{"Retry-After": {retryAfter}}, InStream: inStream, Now: noon}
		if status == 0 && inStream {
			r.Body, r.Err = nil, errors.New(body)
		}
		e := Classify(r)
		if !slices.Contains(Kinds, e.Kind) {
			t.Errorf("kind %q is none", e.Kind)
		}
		if e.Retry != RetryYes && e.Retry != RetryAfter && e.Retry != RetryNo {
			t.Errorf("verdict %q is none", e.Retry)
		}
		if e.Hint.After < 0 || e.Hint.After > 30*24*time.Hour || e.Retry == RetryAfter && e.Hint == (Hint{}) && e.Kind != QuotaExhausted {
			t.Errorf("hint %+v with verdict %s", e.Hint, e.Retry)
		}
		if len(e.Detail) > maxDetail || len(e.Message) > maxMessage {
			t.Errorf("detail of %d and message of %d bytes", len(e.Detail), len(e.Message))
		}
		for _, s := range []string{e.Detail, e.Message, e.Type, e.RequestID, e.Hint.Reset, e.Text(true), e.Error()} {
			if !utf8.ValidString(s) {
				t.Errorf("%q is not UTF-8", s)
			}
		}
	})
}
