package failure

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// evidence is a report with all of its wrappings taken off: what rules look at.
type evidence struct {
	Report
	raw     string             // the body or the error's text, valid UTF-8, bounded
	text    string             // the words of raw: unescaped, lower case, without links and markup
	html    bool               // raw is a page, or a part of one
	header  map[string]string  // by lower-case name: of the answer, and those printed in the body
	codes   []string           // types, codes and exception names, squashed: "ratelimitexceeded"
	inner   int                // the HTTP status that the innermost layer of the body speaks of; 0 for none
	fields  map[string]float64 // numeric members by lower-case name
	message string             // the innermost sentence
	label   string             // the innermost type or code, as printed
	request string             // the id of the request
	numbers Numbers
	hint    Hint
}

const (
	maxAnalysed = 32 << 10 // no provider explains itself at greater length
	maxLayers   = 6        // the deepest nesting met in the wild is three

	// Of a long text the rules see both ends: providers state the cause first,
	// printed stack traces state it last.
	maxHead, maxTail = 6 << 10, 2 << 10
)

// examine takes the wrappings off r and collects what they hold.
func examine(r Report) *evidence {
	raw := string(r.Body)
	if len(raw) == 0 && r.Err != nil {
		raw = r.Err.Error()
	}
	if len(raw) > maxAnalysed {
		raw = raw[:maxAnalysed/2] + raw[len(raw)-maxAnalysed/2:]
	}
	raw = strings.ToValidUTF8(raw, "\uFFFD")
	e := &evidence{Report: r, raw: raw, header: map[string]string{}, fields: map[string]float64{}}
	if r.Status >= 400 && !errors.Is(r.Err, context.Canceled) {
		e.Err = nil // the answer failed already: that its body broke off as well decides nothing
	}
	for name, values := range r.Header {
		if len(values) > 0 {
			e.header[strings.ToLower(name)] = strings.TrimSpace(values[0])
		}
	}
	e.html = page().MatchString(raw)
	e.text = words(raw, e.html)
	s := scan{evidence: e}
	s.layer(raw, 0)
	s.prose()
	e.numbers = e.findNumbers()
	e.hint = e.findHint()
	return e
}

var (
	page     = pattern(`(?i)<!doctype html|<html[\s>]|<head[\s>]|<body[\s>]|<h[1-6][\s>]|<title>`)
	hidden   = pattern(`(?is)<(?:script|style)\b.*?</(?:script|style)>|<!--.*?-->`)
	tag      = pattern(`<[^<>]{0,500}>`)
	link     = pattern(`https?://[^\s"'<>)\]]+`)
	blank    = pattern(`\s+`)
	typeface = strings.NewReplacer("\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`, "`", "",
		"\uff08", "(", "\uff09", ")", "\uff0c", ", ", "\u2011", "-")

	// trailer is what routers append about themselves. It names policies,
	// fallbacks and limits that have no part in the failure.
	trailer = pattern(`(?:received model group|available model group fallbacks|` +
		`content_policy_fallback|context_window_fallback|fallbacks)=(?:\[[^\]]*\]|[^\s"'}]*)|handle with litellm\.\w+`)
)

// echo is what a server repeats of the request. A conversation may talk of
// anything, rate limits included.
var echo = pattern(`["'](?:input|content|prompt|arguments|failed_generation|partial_json)["']: ?(?:"[^"]*"|'[^']*')`)

// memberName matches names of members that are words of the rules as well:
// "message" names where the sentence stands, not what is too long.
var memberName = pattern(`["'](?:messages?|msg|error|request|response|details?|text|query|document|model|body)["']: ?|\b(?:error_)?message: `)

// words reduces raw to the words that phrases are looked for in. Links go, since
// their paths talk of billing and rate limits whatever the failure is.
func words(raw string, html bool) string {
	s := raw
	for range maxLayers {
		plain := unescape(s)
		if plain == s {
			break
		}
		s = plain
	}
	if html {
		s = tag().ReplaceAllString(hidden().ReplaceAllString(s, " "), " ")
	}
	s = strings.ToLower(typeface.Replace(link().ReplaceAllString(s, " ")))
	s = memberName().ReplaceAllString(echo().ReplaceAllString(s, ""), " ")
	s = strings.TrimSpace(blank().ReplaceAllString(trailer().ReplaceAllString(s, " "), " "))
	if len(s) > maxHead+maxTail {
		s = strings.ToValidUTF8(s[:maxHead], "") + " … " + strings.ToValidUTF8(s[len(s)-maxTail:], "")
	}
	return s
}

// unescape takes one layer of backslashes off. JSON, Python and JavaScript
// agree on the escapes that occur; what is none stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case '"', '\'', '\\', '/', '`':
			b.WriteByte(s[i])
		case 'n', 'r', 't':
			b.WriteByte(' ')
		case 'u':
			r, err := strconv.ParseUint(s[i+1:min(i+5, len(s))], 16, 32)
			if err != nil || !utf8.ValidRune(rune(r)) {
				b.WriteString(`\u`)
				continue
			}
			b.WriteRune(rune(r))
			i = min(i+4, len(s)-1)
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// member finds "name: value" in JSON, in Python and JavaScript prints of it, in
// Go's maps and in prose alike, whole or cut. One tolerant reader serves where
// a strict parser for each would fail on the first broken wrapper.
var member = pattern(`(?:"([^"\\\n]{1,60})"|'([^'\\\n]{1,60})'|\b([A-Za-z_$][\w.$-]{0,40}))\s*[:=]\s*` +
	`(?:"((?:[^"\\]|\\.)*)(?:"|\z)|'((?:[^'\\]|\\.)*)(?:'|\z)|(-?\d{1,15}(?:\.\d{1,12})?)\b|([A-Za-z_][\w.]*))`)

// scan walks the layers of one report into its evidence.
type scan struct {
	*evidence
	messageDepth, labelRank, statusDepth int
}

// layer reads the members of one layer and descends into those that hold another.
func (s *scan) layer(text string, depth int) {
	for _, m := range member().FindAllStringSubmatch(text, 400) {
		name := strings.ToLower(m[1] + m[2] + m[3])
		switch {
		case m[6] != "":
			s.number(name, m[6], depth)
		case m[7] != "":
			s.bare(name, m[7], depth)
		default:
			value := unescape(m[4] + m[5])
			s.member(name, value, depth)
			if depth < maxLayers && strings.ContainsAny(value, ":=") && strings.ContainsAny(value, `{["'`) {
				s.layer(value, depth+1)
			}
		}
	}
}

// number files a numeric member. A member that is named after a status, and is
// one, is the verdict of the layer that printed it.
func (s *scan) number(name, text string, depth int) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return
	}
	if _, known := s.fields[name]; !known {
		s.fields[name] = v
	}
	if statusName().MatchString(name) && v >= 400 && v < 600 && v == float64(int(v)) {
		s.status(int(v), depth)
	} else if labelNames[name] > 0 && v >= 1000 {
		s.code(text, 1+10*depth)
	}
	s.printedHeader(name, text)
}

// status files a status of a layer: those around it only pass it on.
func (s *scan) status(status, depth int) {
	if s.inner == 0 || depth > s.statusDepth {
		s.inner, s.statusDepth = status, depth
	}
}

// bare files an unquoted word, which only counts where a code is expected.
func (s *scan) bare(name, value string, depth int) {
	switch strings.ToLower(value) {
	case "none", "null", "nil", "undefined", "true", "false", "object":
		return
	}
	if rank := labelNames[name]; rank > 0 && strings.ContainsAny(value, "_") {
		s.code(value, rank+10*depth)
	}
}

// member files a quoted member.
func (s *scan) member(name, value string, depth int) {
	if value == "" || value == "None" || value == "null" {
		return
	}
	if requestNames().MatchString(name) && s.request == "" && len(value) <= 100 {
		s.request = value
	}
	s.printedHeader(name, value)
	n, err := strconv.Atoi(value)
	if err == nil {
		if statusName().MatchString(name) && n >= 400 && n < 600 {
			s.status(n, depth)
		} else if labelNames[name] > 0 && n >= 1000 {
			s.code(value, 1+10*depth)
		}
		return
	}
	if rank := labelNames[name]; rank > 0 && !strings.Contains(strings.TrimSpace(value), " ") && len(value) < 90 {
		s.code(value, rank+10*depth)
		return
	}
	if messageNames[name] && !strings.Contains(value, " ") && len(value) < 90 {
		s.codes = append(s.codes, squash(value)) // a code that stands where words should
	}
	if m := spokenStatus().FindStringSubmatch(strings.ToLower(value[:min(len(value), 200)])); m != nil && messageNames[name] {
		n, _ = strconv.Atoi(m[1] + m[2])
		s.status(n, depth+1) // a status printed in front of the next layer
	}
	if messageNames[name] && depth >= s.messageDepth && sentence(value) {
		s.message, s.messageDepth = value, depth
	}
}

// sentence tells text for people from layers, ids and lists.
func sentence(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "[{")
}

func (s *scan) printedHeader(name, value string) {
	if headerName().MatchString(name) && s.header[name] == "" {
		s.header[name] = value
	}
}

// code files a type or code. The label shown is the innermost, and of one layer
// the most specific.
func (s *scan) code(value string, rank int) {
	squashed := squash(value)
	if squashed == "" || squashed == "error" {
		return
	}
	s.codes = append(s.codes, squashed)
	if rank >= s.labelRank {
		s.label, s.labelRank = value, rank
	}
}

var (
	statusName   = pattern(`^(?:code|status|(?:http|error)[_-]?(?:code|status)|(?:http)?_?status_?code)$`)
	headerName   = pattern(`^(?:retry-after|x-should-retry|x-ratelimit-|anthropic-ratelimit-|x-amzn-errortype$|:exception-type$)`)
	requestNames = pattern(`^(?:x-)?(?:amzn-?)?request[-_]?id$`)

	// labelNames are the members that hold a type or a code, by how specific
	// they usually are.
	labelNames = map[string]int{
		"status": 2, "name": 2, "status_name": 2, "errortype": 3, "error": 2, "__type": 4, "type": 3, "error_type": 3,
		"reason": 2, "code": 4, "error_code": 4, "errorcode": 4, "finishreason": 3, "finish_reason": 3, "native_finish_reason": 2,
		"blockreason": 3, ":exception-type": 4, "x-amzn-errortype": 4, "quotaid": 1, "quota_limit": 1, "stop_reason": 3,
	}
	messageNames = map[string]bool{
		"message": true, "msg": true, "detail": true, "error": true, "errormessage": true, "error_message": true,
		"error_description": true, "error_msg": true, "status_message": true, "status_msg": true, "reason": true,
		"text": true, "err": true, "description": true,
	}

	spokenStatus = pattern(`(?:^[\s"'(\[]*|\[|\| |\b(?:http|status|code|error|failed)\b[^0-9a-z\n]{0,4}(?:code|status|error|http)?[^0-9a-z\n]{0,4})([45]\d\d)\b` +
		`|\b([45]\d\d):? (?:bad |unauthorized|payment|forbidden|not found|request|conflict|unprocessable|too many|internal|service|gateway)`)
	exception = pattern(`\b([A-Za-z]{4,40}Exception)\b( - )?`)
	spokenID  = pattern(`(?i)request[ _-]?id:?\s+([\w-]{12,64})`)
)

// prose reads what is not a member of anything: statuses and exception names
// that clients print in front of a body, and headers that hold a type.
func (s *scan) prose() {
	head := s.raw[:min(len(s.raw), 4<<10)]
	members := s.inner != 0
	for _, m := range spokenStatus().FindAllStringSubmatch(strings.ToLower(head), 8) {
		if !members {
			s.inner, _ = strconv.Atoi(m[1] + m[2]) // of several the last is nearest to the cause
		}
	}
	for _, m := range exception().FindAllStringSubmatch(head, 8) {
		s.codes = append(s.codes, squash(m[1]))
		if s.label == "" && m[2] == "" { // with a dash behind it, it is a router's name for the vendor
			s.label = m[1]
		}
	}
	for _, name := range []string{"x-amzn-errortype", ":exception-type"} {
		if v := s.header[name]; v != "" {
			v, _, _ = strings.Cut(v, ":http")
			s.codes = append(s.codes, squash(v))
		}
	}
	for _, name := range []string{"request-id", "x-request-id", "x-amzn-requestid", "apim-request-id", "cf-ray"} {
		if v := s.header[name]; v != "" {
			s.request = v
			break
		}
	}
	if m := spokenID().FindStringSubmatch(head); m != nil && s.request == "" {
		s.request = m[1]
	}
}

// squash makes one spelling of rate_limit_exceeded, RateLimitExceeded and
// RATE-LIMIT-EXCEEDED.
func squash(code string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, code)
}
