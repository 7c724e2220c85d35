package fault

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// test asks one thing about a request and keeps what its regexp captured in the scene.
type test func(*scene) bool

// scene is one request as the conditions see it.
type scene struct {
	req        *request
	now        time.Time
	elapsed    time.Duration  // since the server began, in the time of the script
	inFlight   int            // requests that are being answered now, with this one
	fired      map[string]int // by step id
	firstModel string         // the model at the first firing of the step that asks
	rand       *rand.Rand
	captures   map[string]string
	// focus holds the results of the last turn that all conditions about results so far have left over,
	// the newest first: `result-of shell, result "FAIL"` has to mean one and the same result.
	focus []toolResult
}

func (s *scene) with(r *rand.Rand, firstModel string) *scene {
	c := *s
	c.rand, c.firstModel = r, firstModel
	c.captures = map[string]string{}
	maps.Copy(c.captures, s.captures)
	c.focus = s.req.lastResults()
	return &c
}

func (w when) holds(s *scene) bool {
	for _, t := range w.tests {
		if !t(s) {
			return false
		}
	}
	return true
}

// match runs re over texts, the newest first, and keeps the named groups of the first hit.
func (s *scene) match(re *regexp.Regexp, texts []string) bool {
	for _, text := range texts {
		m := re.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		for i, name := range re.SubexpNames() {
			if name != "" {
				s.captures[name] = m[i]
			}
		}
		return true
	}
	return false
}

func (s *scene) narrow(keep func(toolResult) bool) bool {
	s.focus = slices.DeleteFunc(slices.Clone(s.focus), func(r toolResult) bool { return !keep(r) })
	return len(s.focus) > 0
}

var cwdPattern = pattern(`(?i)(?:working|current|project) directory[^\n/]{0,40}(/[^\s<>"'` + "`" + `]*)|<cwd>\s*(/[^\s<]*)|\bcwd[:=]\s*(/[^\s<>"']*)`)

// hole fills one hole of a template.
func (s *scene) hole(p templatePart) string {
	if v, ok := s.captures[p.text]; ok {
		return v
	}
	switch p.text {
	case "cwd":
		for _, text := range append([]string{s.req.system}, s.req.texts("user")...) {
			if m := cwdPattern().FindStringSubmatch(text); m != nil {
				return strings.TrimRight(m[1]+m[2]+m[3], ".,;")
			}
		}
		return "."
	case "model":
		return s.req.model
	case "n":
		return strconv.Itoa(s.req.n)
	case "tokens":
		return strconv.Itoa(s.req.tokens)
	case "max_tokens":
		return strconv.Itoa(s.req.maxTokens)
	case "user":
		return s.req.lastUserText()
	case "result":
		if r := s.req.lastResults(); len(r) > 0 {
			return r[0].text
		}
	case "http-date":
		return s.now.Add(p.skip).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	case "rfc3339":
		return s.now.Add(p.skip).UTC().Format(time.RFC3339)
	case "unix":
		return strconv.FormatInt(s.now.Add(p.skip).Unix(), 10)
	}
	return ""
}
