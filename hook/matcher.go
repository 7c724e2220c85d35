package hook

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// matcher is a compiled matcher: all, some exact names, or an expression.
type matcher struct {
	all   bool
	names []string
	expr  *regexp.Regexp
}

// How a matcher that is a list of names looks; the values of StopFailure have no
// dashes and blanks, so there only the strict form is one.
var (
	nameList       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_\-, |]+$`) })
	strictNameList = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_|]+$`) })
)

func compile(e Event, text string) (matcher, error) {
	list, separators := nameList, ",|"
	if e == StopFailure {
		list, separators = strictNameList, "|"
	}
	switch {
	case text == "" || text == "*":
		return matcher{all: true}, nil
	case list().MatchString(text):
		var m matcher
		for _, name := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			if name = strings.TrimSpace(name); name != "" {
				m.names = append(m.names, name)
			}
		}
		return m, nil
	}
	expr, err := regexp.Compile(text)
	if err != nil {
		return matcher{}, fmt.Errorf("the matcher %q is neither a list of names nor a regular expression of Go (RE2, without look-around): %w", text, err)
	}
	return matcher{expr: expr}, nil
}

// matches reports whether one of the values fits. An event without values has
// nothing to be told apart by: every matcher fits.
func (m matcher) matches(values []string) bool {
	if m.all || len(values) == 0 {
		return true
	}
	return slices.ContainsFunc(values, func(v string) bool {
		if m.expr != nil {
			return m.expr.MatchString(v)
		}
		return slices.Contains(m.names, v)
	})
}
