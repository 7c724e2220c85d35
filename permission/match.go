package permission

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/tool"
)

var mcpServer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^mcp__[A-Za-z0-9.-]+(_[A-Za-z0-9.-]+)*(__\*)?$`) })

// intent is what a rule is read for. It decides the doubtful cases: what may
// be meant is denied and asked about, but only what is surely meant is allowed.
type intent bool

const (
	forAllow   intent = false
	forCaution intent = true // deny or ask
)

// covers says whether the rule speaks about the named tool. kind is what the
// call does: Edit covers all that write, Read all that read.
func (r Rule) covers(name string, kind tool.AccessKind, in intent) bool {
	if r.Tool == name && name != "" {
		return true
	}
	switch r.Tool {
	case "Edit":
		return kind == tool.AccessEdit
	case "Read":
		return kind == tool.AccessRead
	case "Bash":
		return kind == tool.AccessShell
	case "Agent":
		return name == "Task"
	case "Task":
		return name == "Agent"
	}
	if mcpServer().MatchString(r.Tool) {
		server := strings.TrimSuffix(r.Tool, "__*")
		// Two underscores separate the server from its tool, so a rule with a
		// tool in it covers no further tools.
		if strings.Count(server, "__") == 1 && strings.HasPrefix(name, server+"__") {
			return true
		}
	}
	return in == forCaution && name != "" && strings.ContainsAny(r.Tool, "*?") && wildcard(r.Tool, name, "*?")
}

// whole says that the rule is about every call of its tool.
func (r Rule) whole() bool {
	if r.Tool == "Bash" && (r.Specifier == "*" || r.Specifier == ":*") {
		return true
	}
	return r.Specifier == ""
}

// matchesCall says whether the rule matches a call by its tool or its input,
// that is by everything but commands and paths.
func (r Rule) matchesCall(c tool.Call, a tool.Access, in intent) bool {
	if !r.covers(c.Name, a.Kind, in) {
		return false
	}
	if r.whole() {
		return true
	}
	if key, ok := nameTools[r.Tool]; ok && r.matchesName(c, key) {
		return true
	}
	if domain, ok := strings.CutPrefix(r.Specifier, "domain:"); ok && a.Kind == tool.AccessWeb {
		return matchDomain(domain, a.Domain)
	}
	return in == forCaution && r.matchesParameter(c, a)
}

// matchesName compares the specifier with the name that the input gives. A
// subagent without a type is the general one.
func (r Rule) matchesName(c tool.Call, key string) bool {
	name, ok := field(c, key)
	if !ok && key == "subagent_type" {
		name = "general-purpose"
	}
	return name != "" && name == r.Specifier
}

// matchesParameter reads the specifier as parameter:value. The parameters that
// have a syntax of their own are left out: Bash(command:*) is about a program
// called command.
func (r Rule) matchesParameter(c tool.Call, a tool.Access) bool {
	m := parameter().FindStringSubmatch(r.Specifier)
	if m == nil || (a.Kind == tool.AccessShell && m[1] == "command") {
		return false
	}
	value, ok := field(c, m[1])
	return ok && wildcard(m[2], value, "*")
}

// field returns one field of the input as text; false if there is none.
func field(c tool.Call, key string) (string, bool) {
	// The standard library is lenient about bad UTF-8 and repeated names; what
	// it can read of a strange input is still worth matching.
	var input map[string]json.RawMessage
	if json.Unmarshal(c.Input, &input) != nil {
		return "", false
	}
	raw, ok := input[key]
	if !ok {
		return "", false
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	return string(raw), true
}

// matchDomain compares hosts without regard to case; *.example.com means the
// sub-domains and not the domain itself.
func matchDomain(pattern, host string) bool {
	clean := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), ".") }
	pattern, host = clean(pattern), clean(host)
	return host != "" && wildcard(pattern, host, "*")
}

// matchesText says whether a Bash specifier matches one spelling of a command.
func (r Rule) matchesText(text string) bool {
	spec := r.Specifier
	if prefix, ok := strings.CutSuffix(spec, ":*"); ok {
		spec = prefix + " *"
	}
	// A trailing " *" stands for further words or none, so that "git *" is
	// about git alone too, but not about gitk.
	if prefix, ok := strings.CutSuffix(spec, " *"); ok && wildcard(prefix, text, "*") {
		return true
	}
	return wildcard(spec, text, "*")
}

// matchesCommand says whether the rule matches a simple command.
func (r Rule) matchesCommand(c *command, in intent) bool {
	if r.Tool != "Bash" {
		return false
	}
	if in == forCaution {
		return slices.ContainsFunc(c.spellings, r.matchesText)
	}
	if c.opaque != "" {
		return false
	}
	if r.exact() {
		return r.Specifier == c.text || r.Specifier == c.written
	}
	if len(c.inner) > 0 && !r.names(c) {
		return false
	}
	return r.matchesText(c.text)
}

// exact says that the specifier is a command and not a pattern.
func (r Rule) exact() bool { return !strings.Contains(r.Specifier, "*") }

// names says that the rule spells out the command's own name. A command that
// runs others is only covered by such a rule: "* --version" was not written to
// allow bash -c '…' --version. For find even that is not enough, since a rule
// for find means looking and not doing.
func (r Rule) names(c *command) bool {
	fixed, _, _ := strings.Cut(strings.TrimSuffix(r.Specifier, ":*"), "*")
	first, _, _ := strings.Cut(fixed, " ")
	return len(c.words) > 0 && first == c.words[0].text && first != "find"
}

// wildcard matches text against a pattern whose "*" stands for any text and,
// if stars has one, whose "?" stands for one byte; a backslash makes a star
// literal. It takes time in proportion to both lengths.
func wildcard(pattern, text, stars string) bool {
	p, t, back, mark := 0, 0, -1, 0
	for t < len(text) {
		literal, width := byte(0), 0
		if p < len(pattern) {
			literal, width = pattern[p], 1
			if literal == '\\' && p+1 < len(pattern) && pattern[p+1] == '*' {
				literal, width = '*', 2
			} else if literal == '*' {
				back, mark, p = p, t, p+1
				continue
			}
		}
		switch {
		case width > 0 && (literal == text[t] || literal == '?' && strings.Contains(stars, "?")):
			p, t = p+width, t+1
		case back >= 0:
			mark++
			p, t = back+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// base is the last element of a command's name: /bin/rm is rm.
func base(name string) string {
	if name == "" {
		return ""
	}
	return path.Base(name)
}
