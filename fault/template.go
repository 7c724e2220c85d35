package fault

import (
	"strings"
	"time"
)

// template is text with holes: ${name} takes what a regexp captured, $${ stands for a literal ${.
type template []templatePart

type templatePart struct {
	text string // literal, or the name of the hole
	hole bool
	skip time.Duration // added to now, for holes that are dates
}

// builtinHoles are known without a capture.
var builtinHoles = map[string]bool{
	"cwd": true, "model": true, "n": true, "user": true, "result": true, "max_tokens": true,
	"tokens": true, "http-date": true, "rfc3339": true, "unix": true,
}

var holePattern = pattern(`\$?\$\{([^}]*)\}`)

// newTemplate splits text into parts. It returns the first hole that known does not name.
func newTemplate(text string, known map[string]bool) (t template, unknown string) {
	last := 0
	for _, m := range holePattern().FindAllStringSubmatchIndex(text, -1) {
		if strings.HasPrefix(text[m[0]:], "$$") {
			t = append(t, templatePart{text: text[last:m[0]] + text[m[0]+1:m[1]]})
			last = m[1]
			continue
		}
		name, add, dated := strings.Cut(text[m[2]:m[3]], "+")
		part := templatePart{text: name, hole: true}
		if dated {
			d, err := time.ParseDuration(add)
			if err != nil {
				return nil, text[m[2]:m[3]]
			}
			part.skip = d
		}
		if !builtinHoles[name] && !known[name] {
			return nil, name
		}
		t = append(t, templatePart{text: text[last:m[0]]}, part)
		last = m[1]
	}
	return append(t, templatePart{text: text[last:]}), ""
}

// expand fills the holes from the captures, then from what is known of the request.
func (t template) expand(s *scene) string {
	var b strings.Builder
	for _, p := range t {
		if !p.hole {
			b.WriteString(p.text)
			continue
		}
		b.WriteString(s.hole(p))
	}
	return b.String()
}
