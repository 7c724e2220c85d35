package failure

import (
	"strings"
)

// shapes matches what is a credential by its form alone, wherever it stands.
var shapes = pattern(`(?i)` +
	`\b(?:sk|csk|pplx|nvapi|xai|rk|pk)-[a-z0-9_*\-]{8,}` +
	`|\b(?:gsk|hf|r8|fw|tgp_v1|gh[pousr]|github_pat|xox[abp]|glpat)[_-][a-z0-9_\-]{10,}` +
	`|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b` +
	`|\bAIza[0-9a-z_\-]{20,}` +
	`|\bya29\.[0-9a-z_\-]{10,}` +
	`|\b[0-9a-f]{32}\.[0-9a-z]{16}\b` +
	`|\beyJ[a-z0-9_\-]{8,}\.[a-z0-9_\-]{8,}\.[a-z0-9_\-]*` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`)

// places matches credentials by where they stand: in the query or the user part
// of a URL, and behind the word "bearer". The place itself is kept.
var places = pattern(`(?i)` +
	`([?&](?:key|api[_-]?key|token|access[_-]?token|sig|signature|secret|x-amz-(?:signature|security-token|credential))=)[^&\s"'<>\\]+` +
	`|(://[^/\s:@"']{0,100}:)[^@\s/"']+@` +
	`|(://)[^/\s:@"']{16,}@`)

// named matches the values of headers and fields that are named after
// credentials, in JSON, Python, Go and header notation, escaped or not: the name
// with what separates it, an opening quote, and the value.
var named = pattern(`(?i)((?:\b[\w-]*(?:api[ _-]?key|auth[_-]?token|access[_-]?(?:token|key)|(?:refresh|session|security)[_-]?token|` +
	`client[_-]?secret|secret[_-]?(?:access[_-]?)?key|private[_-]?key|password|passwd|authorization|cookie)(?: provided)?\\*["']?\s*[:=]\s*[\[(]*|\bbearer\s+))` +
	`(b?\\*["'])?((?:(?:bearer|basic|token)\s+)?[^\s"'\\,;}\])&]{6,})`)

const redacted = "[redacted]"

// Redact returns text without anything that looks like a credential. It is
// applied to every failure detail and log line; secrets that the caller knows
// by value are removed by a [Redactor].
func Redact(text string) string {
	text = places().ReplaceAllStringFunc(text, func(m string) string {
		g := places().FindStringSubmatch(m)
		if g[1] != "" {
			return g[1] + redacted
		}
		return g[2] + g[3] + redacted + "@"
	})
	text = named().ReplaceAllStringFunc(text, func(m string) string {
		g := named().FindStringSubmatch(m)
		if g[2] == "" && wordlike(g[3]) {
			return m // "api key: invalid" and "bearer authentication" hide nothing
		}
		return g[1] + g[2] + redacted
	})
	return shapes().ReplaceAllString(text, redacted)
}

// wordlike holds for what is a plain word of a sentence, not a value: letters
// only, in one case, and no longer than words are.
func wordlike(value string) bool {
	value = strings.TrimRight(value, ".:!?")
	if len(value) > 20 {
		return false
	}
	for i, r := range value {
		lower, upper := r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z'
		if !lower && !(upper && i == 0) && r != '-' && r != '_' && r != '*' && r != '(' {
			return false
		}
	}
	return true
}

// Redactor removes known secret values, whatever they look like, and all that
// [Redact] removes. The zero Redactor only does the latter.
type Redactor struct {
	known *strings.Replacer
}

// NewRedactor knows the given secret values. Values shorter than eight bytes
// are ignored: replacing them would tear ordinary text apart.
func NewRedactor(values ...string) Redactor {
	var pairs []string
	for _, v := range values {
		if len(v) >= 8 {
			pairs = append(pairs, v, redacted)
		}
	}
	if len(pairs) == 0 {
		return Redactor{}
	}
	return Redactor{known: strings.NewReplacer(pairs...)}
}

// Known removes only the known values: for tool output and other text in which
// a pattern match would be a false alarm.
func (r Redactor) Known(text string) string {
	if r.known == nil {
		return text
	}
	return r.known.Replace(text)
}

// Redact removes known values and everything that looks like a credential.
func (r Redactor) Redact(text string) string {
	return Redact(r.Known(text))
}
