package failure

import (
	"regexp"
	"strings"
)

// secrets matches what looks like a credential: API keys by their well-known
// prefixes, bearer tokens, and values of headers or fields named after keys.
var secrets = regexp.MustCompile(`(?i)` +
	`\bsk-[a-z0-9_\-]{8,}` +
	`|\b(?:gh[pousr]|github_pat|xox[abp]|glpat)[_-][a-z0-9_\-]{10,}` +
	`|\bAKIA[0-9A-Z]{16}\b` +
	`|\bAIza[0-9a-z_\-]{20,}` +
	`|\beyJ[a-z0-9_\-]{8,}\.[a-z0-9_\-]{8,}\.[a-z0-9_\-]*` +
	`|(\bbearer\s+)[a-z0-9._~+/\-]{8,}=*` +
	`|((?:x-api-key|api[_-]?key|authorization|auth[_-]?token|access[_-]?token|refresh[_-]?token|client[_-]?secret|password)["']?\s*[:=]\s*["']?)[^\s"',;}]{6,}`)

const redacted = "[redacted]"

// Redact returns text without anything that looks like a credential. It is
// applied to every failure detail and log line; secrets that the caller knows
// by value are removed by a [Redactor].
func Redact(text string) string {
	return secrets.ReplaceAllString(text, "${1}${2}"+redacted)
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
