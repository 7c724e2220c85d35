package failure

import (
	"context"
	"errors"
	"time"
)

// Report is what a wire saw instead of a good answer.
type Report struct {
	Provider string              // "anthropic", "openai", …; "" when not known
	Status   int                 // HTTP status; 0 when there was no answer
	Header   map[string][]string // response headers, any spelling
	Body     []byte              // body, stream event data, or the text of an error
	InStream bool                // the failure came inside a stream that began with 200
	Err      error               // transport error, if that is what failed
	Now      time.Time           // when it came, to turn reset dates into waits; zero: dates are ignored
}

// Classify says what kind of failure a report is. It never fails: what it does
// not know stays [Unknown], and is not to be repeated.
func Classify(r Report) *Error {
	e := &Error{Kind: Unknown, Retry: RetryNo, Status: r.Status, Message: Redact(string(r.Body))}
	switch {
	case errors.Is(r.Err, context.Canceled):
		e.Kind, e.Retry = Aborted, RetryNo
	case errors.Is(r.Err, context.DeadlineExceeded), r.Status == 408, r.Status == 504:
		e.Kind, e.Retry = Timeout, RetryYes
	case r.Err != nil:
		e.Kind, e.Retry = Network, RetryYes
	case r.Status == 429:
		e.Kind, e.Retry = RateLimit, RetryYes
	case r.Status == 529:
		e.Kind, e.Retry = Overloaded, RetryYes
	case r.Status >= 500:
		e.Kind, e.Retry = ServerError, RetryYes
	case r.Status == 401:
		e.Kind = Auth
	case r.Status >= 400:
		e.Kind = InvalidRequest
	}
	if r.Err != nil {
		e.Wrap(r.Err)
	}
	return e
}
