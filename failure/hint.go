package failure

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait is where a wait stops being a hint: beyond it the server means
// "never", or counts in another unit than we read.
const maxWait = 30 * 24 * time.Hour

// findHint looks for a wait in the order of trust: headers made for it, members
// made for it, sentences, and last the state of rate-limit buckets.
func (e *evidence) findHint() Hint {
	h := Hint{ShouldRetry: strings.ToLower(e.header["x-should-retry"])}
	if h.ShouldRetry != "true" && h.ShouldRetry != "false" {
		h.ShouldRetry = ""
	}
	for _, source := range []func() (time.Duration, bool){
		e.waitHeader, e.waitMember, e.waitSentence, e.waitDate, e.waitBuckets,
	} {
		if d, ok := source(); ok && d >= 0 && d <= maxWait {
			h.After, h.Given = d, true
			break
		}
	}
	if !h.Given {
		h.Reset = e.resetDate()
	}
	return h
}

// waitHeader reads retry-after-ms and retry-after, the latter as seconds with
// or without a fraction, as a date, or with a unit as some gateways send it.
func (e *evidence) waitHeader() (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(e.header["retry-after-ms"], 64); err == nil {
		return seconds(ms / 1000)
	}
	v := e.header["retry-after"]
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return seconds(s)
	}
	if t, err := http.ParseTime(v); err == nil {
		return e.until(t)
	}
	return leadingDuration(strings.ToLower(v))
}

// waitMember reads numbers that are named as waits.
func (e *evidence) waitMember() (time.Duration, bool) {
	for _, m := range []struct {
		name string
		unit float64 // of a second
	}{
		{"retry_after_ms", 1e-3}, {"retryafterms", 1e-3}, {"retry_after", 1}, {"retryafter", 1}, {"retry_after_seconds", 1},
		{"retryafterseconds", 1}, {"resets_in_seconds", 1}, {"reset_seconds", 1}, {"retry-after", 1},
	} {
		if v, ok := e.fields[m.name]; ok {
			return seconds(v * m.unit)
		}
	}
	for _, name := range []string{"resets_at", "reset_at", "resetsat", "x-ratelimit-reset", "anthropic-ratelimit-unified-reset"} {
		if v, ok := e.fields[name]; ok && v > 1e9 {
			return e.until(epoch(v))
		}
	}
	return 0, false
}

var (
	// waitPhrase ends where the duration begins. The word is "retry", never
	// "retrying" or "retried": those tell of a client's own waits.
	waitPhrase = pattern(`(?:\b(?:try again|retry|please wait|wait|resets?|reset again|available(?: again)?|come back)\b(?: (?:your request|the request|again|later))*` +
		`(?: ?(?:after|in|for|within|at least|about|approximately|another|:))* ?~?|retry_?delay["']?: ?["']?)$`)
	number     = pattern(`\d+(?:\.\d+)?`)
	waitSuffix = pattern(`^[\d.]+ ?(?:秒|seconds?)(?:之?后|钟后| (?:before|until) (?:retry|try|the next|send))`)
)

// waitSentence reads "try again in 9m38.016s" and its relatives.
func (e *evidence) waitSentence() (time.Duration, bool) {
	for _, at := range number().FindAllStringIndex(e.text, 100) {
		before := e.text[max(0, at[0]-60):at[0]]
		if waitPhrase().MatchString(before) || waitSuffix().MatchString(e.text[at[0]:]) {
			if d, ok := leadingDuration(e.text[at[0]:]); ok {
				return d, true
			}
		}
	}
	return 0, false
}

var (
	resetPhrase = pattern(`(?:resets?|reset time|regain access|try again|available(?: again)?)["']?(?: again)?(?: (?:at|on|after|until))?[: ]+` +
		`["']?(\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:\d\d)?)?|(?:[a-z]{3,9} \d{1,2},? )?(?:at )?\d{1,2}(?::\d\d)? ?(?:am|pm)\b)`)
	resetEpoch = pattern(`(?:limit reached\||resets?(?:_at| at)?["']?: ?)(\d{10,13})\b`)
)

// resetDate is a date or a clock time of relief, as printed.
func (e *evidence) resetDate() string {
	if m := resetPhrase().FindStringSubmatch(e.text); m != nil {
		return strings.ToUpper(m[1])
	}
	return ""
}

// waitDate turns a date with a zone into a wait. A clock time or a calendar day
// stays a note: whose midnight it is, nobody says.
func (e *evidence) waitDate() (time.Duration, bool) {
	if t, err := time.Parse(time.RFC3339, e.resetDate()); err == nil {
		return e.until(t)
	}
	if m := resetEpoch().FindStringSubmatch(e.text); m != nil {
		v, _ := strconv.ParseFloat(m[1], 64)
		return e.until(epoch(v))
	}
	return 0, false
}

// waitBuckets reads the state of rate-limit buckets. Only an empty bucket, or
// one that does not tell its level, holds a request up; of several the last to
// fill counts. They stand on every answer, so only a 429 makes them a hint.
func (e *evidence) waitBuckets() (time.Duration, bool) {
	if e.Status != 0 && e.Status != http.StatusTooManyRequests {
		return 0, false
	}
	var wait time.Duration
	found := false
	for name, value := range e.header {
		if !strings.Contains(name, "ratelimit") || !strings.Contains(name, "reset") {
			continue
		}
		if left := e.header[strings.Replace(name, "reset", "remaining", 1)]; left != "" && left != "0" {
			continue
		}
		if d, ok := e.bucketReset(value); ok && d >= wait {
			wait, found = d, true
		}
	}
	return wait, found
}

// bucketReset reads one reset: a date, an epoch in seconds or milliseconds, a
// count of seconds, or a duration.
func (e *evidence) bucketReset(value string) (time.Duration, bool) {
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return e.until(t)
	}
	if v, err := strconv.ParseFloat(value, 64); err == nil {
		if v > 1e9 {
			return e.until(epoch(v))
		}
		return seconds(v)
	}
	return leadingDuration(strings.ToLower(value))
}

// until measures from the moment of the answer: the server's own clock if it
// sent one, else the caller's. Without either a date says nothing.
func (e *evidence) until(t time.Time) (time.Duration, bool) {
	now := e.Now
	if date, err := http.ParseTime(e.header["date"]); err == nil {
		now = date
	}
	if now.IsZero() {
		return 0, false
	}
	return t.Sub(now), true
}

func epoch(v float64) time.Time {
	if v > 1e12 {
		return time.UnixMilli(int64(v))
	}
	return time.Unix(int64(v), 0)
}

// seconds converts without overflow: what is out of range is no hint.
func seconds(s float64) (time.Duration, bool) {
	if !(s >= 0 && s <= maxWait.Seconds()) {
		return 0, false
	}
	return time.Duration(s*1e9 + 0.5), true
}

var units = map[string]float64{
	"ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
	"s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "秒": 1, "秒钟": 1, "秒后": 1, "秒钟后": 1, "秒之后": 1,
	"m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60, "分": 60, "分钟": 60, "分钟后": 60,
	"h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600, "小时": 3600, "小时后": 3600,
	"d": 86400, "day": 86400, "days": 86400, "天": 86400, "天后": 86400,
}

var durationPart = pattern(`^(?:,? ?(?:and )?)(\d+(?:\.\d+)?) ?([a-z]+|[秒分钟小时天之后]+)`)

// leadingDuration reads the duration that text begins with: "644ms", "1m 36s",
// "2 hours and 5 minutes". A bare number is none: nobody says of what.
func leadingDuration(text string) (time.Duration, bool) {
	total, found := 0.0, false
	for {
		m := durationPart().FindStringSubmatch(text)
		if m == nil || units[m[2]] == 0 {
			break
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			break
		}
		total, found = total+v*units[m[2]], true
		text = text[len(m[0]):]
	}
	if !found {
		return 0, false
	}
	return seconds(total)
}
