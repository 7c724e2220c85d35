package permission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
)

// Mode is how much a run may do without being asked.
type Mode string

// The modes. The zero Mode is Default.
const (
	Default     Mode = "default"           // what changes or leaves the workspace is asked about
	AcceptEdits Mode = "acceptEdits"       // edits inside the workspace are not asked about
	Plan        Mode = "plan"              // only reading
	DontAsk     Mode = "dontAsk"           // what would be asked about is denied
	Bypass      Mode = "bypassPermissions" // everything but deny and ask rules
)

// ParseMode reads the name of a mode; "manual" is another name for "default".
func ParseMode(name string) (Mode, error) {
	switch m := Mode(name); m {
	case Default, AcceptEdits, Plan, DontAsk, Bypass:
		return m, nil
	case "", "manual":
		return Default, nil
	}
	return "", fmt.Errorf("parse permission mode %q: unknown; use default (or manual), acceptEdits, plan, dontAsk or bypassPermissions", name)
}

// Rule speaks about the calls of a tool: all of them, or those that the
// specifier describes.
type Rule struct {
	Tool      string
	Specifier string // empty: every call
	// Source names where the rule was written, for people: a file or a flag.
	Source string
	// Root is the directory that a path beginning with one "/" is relative
	// to: the one of the settings file. Empty: the workspace.
	Root string
}

// String writes the rule as people write it.
func (r Rule) String() string {
	if r.Specifier == "" {
		return r.Tool
	}
	return r.Tool + "(" + r.Specifier + ")"
}

var (
	toolName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.:*?-]+$`) })
	parameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*):(.+)$`) })
)

// The tools whose specifier is a path pattern, and those whose specifier is
// one word of the input, with the input's key.
var (
	pathTools = []string{"Read", "Edit", "Write", "NotebookEdit", "NotebookRead", "MultiEdit", "Glob", "Grep", "LS"}
	nameTools = map[string]string{"Agent": "subagent_type", "Task": "subagent_type", "Skill": "skill"}
)

// ParseRule reads one rule: Tool or Tool(specifier).
func ParseRule(text string) (Rule, error) {
	text = strings.TrimSpace(text)
	fail := func(cause string) (Rule, error) {
		return Rule{}, fmt.Errorf("parse permission rule %q: %s", text, cause)
	}
	name, rest, found := strings.Cut(text, "(")
	r := Rule{Tool: name}
	switch {
	case text == "":
		return fail("it is empty; write Tool or Tool(specifier)")
	case !toolName().MatchString(name):
		return fail("it must begin with the name of a tool, as in Bash(git diff:*)")
	case !found:
		return r, nil
	case !strings.HasSuffix(rest, ")"):
		return fail("the closing parenthesis is missing at the end")
	}
	r.Specifier = strings.TrimSpace(strings.TrimSuffix(rest, ")"))
	if cause := r.check(); cause != "" {
		return fail(cause)
	}
	return r, nil
}

// check says what is wrong with the specifier of a rule that was written with
// one; empty means nothing. A rule that can never match is refused: a deny
// rule that is silently dead would be worse than an error.
func (r Rule) check() string {
	_, named := nameTools[r.Tool]
	switch {
	case r.Specifier == "":
		return "the specifier is empty; leave out the parentheses to mean every call"
	case slices.Contains(pathTools, r.Tool):
		if strings.HasPrefix(r.Specifier, "!") {
			return "a pattern cannot be negated; write a deny rule instead"
		}
		if !doublestar.ValidatePattern(r.Specifier) {
			return "the path pattern is malformed; close every [ and {, or put a backslash before it"
		}
	case r.Tool == "WebFetch":
		if domain, ok := strings.CutPrefix(r.Specifier, "domain:"); !ok || domain == "" || strings.ContainsAny(domain, "/ ") {
			return "write the host alone, as in WebFetch(domain:example.com)"
		}
	case r.Tool == "Bash" || named:
	case !parameter().MatchString(r.Specifier):
		return "this tool takes no such specifier; write " + r.Tool + " or " + r.Tool + "(parameter:value)"
	}
	return ""
}

// ParseRules reads rules as flags give them: separated by commas or blanks,
// which count as text inside parentheses.
func ParseRules(list string) ([]Rule, error) {
	var rules []Rule
	depth, start := 0, 0
	cut := func(end int) error {
		if text := strings.TrimSpace(list[start:end]); text != "" {
			r, err := ParseRule(text)
			if err != nil {
				return err
			}
			rules = append(rules, r)
		}
		start = end + 1
		return nil
	}
	for i, c := range []byte(list) {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth = max(depth-1, 0)
		case depth == 0 && strings.IndexByte(", \t\r\n", c) >= 0:
			if err := cut(i); err != nil {
				return nil, err
			}
		}
	}
	if err := cut(len(list)); err != nil {
		return nil, err
	}
	return rules, nil
}

// strict says that the rule is one that only asks or denies: what it covers is
// not clear enough to allow it.
func (r Rule) strict() bool {
	if strings.ContainsAny(r.Tool, "*?") && !mcpServer().MatchString(r.Tool) {
		return true
	}
	_, named := nameTools[r.Tool]
	return r.Specifier != "" && !named && r.Tool != "Bash" && r.Tool != "WebFetch" && !slices.Contains(pathTools, r.Tool)
}

// Validate says which rules of the policy can never do what they say. Such
// rules are ignored, so a program should show the error where it reads them.
func (p *Policy) Validate() error {
	var errs []error
	if _, err := ParseMode(string(p.Mode)); err != nil {
		errs = append(errs, err)
	}
	for _, r := range p.Allow {
		if r.strict() {
			errs = append(errs, fmt.Errorf("read permission rule %q: a pattern for tool names or a parameter may only ask or deny; name the tool to allow it", r))
		}
	}
	for _, r := range slices.Concat(p.Deny, p.Ask, p.Allow) {
		if r.Specifier == "" {
			continue
		}
		if cause := r.check(); cause != "" {
			errs = append(errs, fmt.Errorf("read permission rule %q: %s", r, cause))
		}
	}
	return errors.Join(errs...)
}
