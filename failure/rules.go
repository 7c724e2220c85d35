package failure

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rule maps one kind of evidence to a kind of failure. The first rule of the
// table that holds decides, so each may assume that those before it do not.
type rule struct {
	name     string
	reason   string // why it stands, and where
	provider string // "" for all; else the one whose private codes it reads
	kind     Kind
	retry    Retry
	when     func(*evidence) bool
}

// rules is the whole table, from what is certain to what is guessed: words that
// name one fault, then codes, then statuses. Words come first because statuses
// and types lie (a 500 for an empty balance, a rate-limit type for a prompt
// that is too long) while the sentence was written for the case at hand.
var rules = slices.Concat(
	transportRules, // Go errors: typed, nothing to interpret
	contradictionRules,
	requestRules, // faults of the history, which the loop can repair
	mediaRules,
	policyRules,
	limitRules, // money, allowances, load, rates
	sizeRules,  // after rates: both speak of tokens and limits
	accessRules,
	vendorRules,
	wireRules,
	codeRules,
	statusRules,
)

// says holds when every idea occurs in the words.
func says(ideas ...func() *regexp.Regexp) func(*evidence) bool {
	return func(e *evidence) bool {
		for _, idea := range ideas {
			if !idea().MatchString(e.text) {
				return false
			}
		}
		return true
	}
}

// coded holds when the payload carries one of the types or codes, in any spelling.
func coded(names ...string) func(*evidence) bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[squash(n)] = true
	}
	return func(e *evidence) bool {
		return slices.ContainsFunc(e.codes, func(c string) bool { return set[c] })
	}
}

// answered holds when the verdict of the innermost layer is one of the statuses.
func answered(statuses ...int) func(*evidence) bool {
	return func(e *evidence) bool { return slices.Contains(statuses, e.verdict()) }
}

func all(tests ...func(*evidence) bool) func(*evidence) bool {
	return func(e *evidence) bool {
		for _, holds := range tests {
			if !holds(e) {
				return false
			}
		}
		return true
	}
}

func either(tests ...func(*evidence) bool) func(*evidence) bool {
	return func(e *evidence) bool {
		return slices.ContainsFunc(tests, func(holds func(*evidence) bool) bool { return holds(e) })
	}
}

func not(a func(*evidence) bool) func(*evidence) bool {
	return func(e *evidence) bool { return !a(e) }
}

// pattern compiles at the first use. Most runs of a program see no failure, and
// should not pay for the table when they start.
func pattern(source string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })
}

// oneOf is a choice of wordings inside a way of saying something.
func oneOf(wordings ...string) string { return "(?:" + strings.Join(wordings, "|") + ")" }

// idea compiles the ways in which one thing is said, as patterns over words:
// lower case, one space between them.
func idea(ways ...string) func() *regexp.Regexp { return pattern(strings.Join(ways, "|")) }

// verdict is the status to go by: the innermost that the payload speaks of,
// since the layers around it only pass it on, else that of the answer.
func (e *evidence) verdict() int {
	if e.inner != 0 {
		return e.inner
	}
	return e.Status
}

// unanswered holds when no HTTP failure stands behind the words: what a client
// says about its own connection. With a failure status the same words are a
// gateway's, about a connection of its own.
func unanswered(e *evidence) bool {
	s := e.verdict()
	return s == 0 || s == 200
}

// decide finds the rule for e; without one the failure is not known.
func decide(e *evidence, table []rule) rule {
	for _, r := range table {
		if r.provider != "" && r.provider != e.Provider {
			continue
		}
		if r.when(e) {
			return r
		}
	}
	return rule{name: "nothing-known", kind: Unknown, retry: RetryNo}
}
