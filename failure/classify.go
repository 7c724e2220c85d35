package failure

import (
	"strings"
	"time"
	"unicode/utf8"
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

// longWait is from where a wait shows that an allowance, not a rate, is used
// up: windows of rates are a minute, and their waits at most a few.
const longWait = time.Hour

const (
	maxDetail  = 4 << 10
	maxMessage = 400
)

// Classify says what kind of failure a report is. It never fails: what it does
// not know stays [Unknown], and is not to be repeated.
func Classify(r Report) *Error { return classify(r, rules) }

func classify(r Report, table []rule) *Error {
	e := examine(r)
	ruled := decide(e, table)
	out := &Error{
		Kind: ruled.kind, Retry: ruled.retry, Rule: ruled.name,
		Status:    r.Status,
		Type:      shorten(Redact(e.label), 80),
		Message:   shorten(Redact(e.sentence()), maxMessage),
		RequestID: shorten(Redact(e.request), 100),
		Hint:      e.hint,
		Numbers:   e.numbers,
		FastOff:   shorten(Redact(e.header["anthropic-ratelimit-unified-overage-disabled-reason"]), 80),
		Detail:    shorten(Redact(e.raw), maxDetail),
	}
	e.settle(out)
	if r.Err != nil {
		out.Wrap(r.Err)
	}
	return out
}

// settle makes kind, verdict and wait agree with each other.
func (e *evidence) settle(out *Error) {
	if out.Kind == RateLimit && out.Hint.After >= longWait {
		out.Kind, out.Retry, out.Rule = QuotaExhausted, RetryNo, out.Rule+"+long-wait"
	}
	switch out.Kind {
	case RateLimit, Overloaded, ServerError, Timeout, Network:
		if out.Retry == RetryYes && (out.Hint.After > 0 || out.Hint.Reset != "") {
			out.Retry = RetryAfter
		}
	case QuotaExhausted:
		// A cloud's delay beside a day's quota is that of its per-minute metric.
		// The wait of an allowance that names its level, or a date, is honest.
		told := out.Hint.After > 0 || out.Hint.Reset != "" || e.header["x-ratelimit-remaining"] != ""
		if told && !e.numbers.NoAllowance && !perDayQuotaID().MatchString(e.text) || out.Hint.Reset != "" {
			out.Retry = RetryAfter
		}
	case ContextOverflow, Billing, Unknown:
		// The wait is kept as a fact; the verdict stands.
	default:
		// Nothing is waited for where something must be changed.
		out.Hint.After, out.Hint.Given, out.Hint.Reset = 0, false, ""
	}
}

// sentence is what the failure says to a person: the innermost message, else
// the text itself without its markup.
func (e *evidence) sentence() string {
	if strings.TrimSpace(e.message) != "" {
		return strings.Join(strings.Fields(e.message), " ")
	}
	s := e.raw
	if e.html {
		s = tag().ReplaceAllString(hidden().ReplaceAllString(s, " "), " ")
	}
	s = strings.Join(strings.Fields(s), " ")
	if bare := clientPrefix().ReplaceAllString(s, ""); bare != "" {
		return bare
	}
	return s
}

// clientPrefix is what clients print in front of a sentence: their classes, the
// status, and that it is an error.
var clientPrefix = pattern(`^(?:(?:[\w.]+(?:Error|Exception)|Error|API Error|HTTP|Error code|message)\b(?: \[\w+\])?(?: [45]\d\d)?(?:: | - )|[45]\d\d:? )+`)

// shorten cuts s to at most n bytes at a rune boundary.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
