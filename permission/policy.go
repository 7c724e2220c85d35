// Package permission (layer 4) answers one question: who may stop or change a
// call? A policy decides by its mode and its rules; what it cannot decide is
// asked, and where nobody can be asked the answer is no.
//
// Deny rules beat ask rules, and ask rules beat allow rules. A call is taken
// apart first: a command line into its simple commands and the files that it
// opens. To deny or ask, a rule for one part is enough; to allow, every part
// needs a reason. What cannot be read with certainty is asked about.
//
// Rules look at what a call says, not at what a program does once it runs:
// whoever allows Bash(make:*) allows the makefile, and a deny rule is a guard
// rail and not a sandbox. Command lines are read as bash and sh read them.
package permission

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// Policy is what a run may do. It is read only: any number of goroutines may
// decide by it, and [Policy.Apply] returns a changed copy.
type Policy struct {
	Mode             Mode
	Allow, Ask, Deny []Rule
	Root             string   // the workspace, absolute
	Dir              string   // where calls start; empty: Root
	Dirs             []string // further directories of the workspace
	Home             string   // for "~"; empty: unknown

	view *view // of one decision
}

// Behavior is what becomes of a call.
type Behavior string

// The behaviors.
const (
	Allow Behavior = "allow"
	Ask   Behavior = "ask"
	Deny  Behavior = "deny"
)

// ReasonType says what decided.
type ReasonType string

// The reason types. Readers of event streams know the first three.
const (
	ByRule      ReasonType = "rule"        // a rule of the policy
	ByMode      ReasonType = "mode"        // the mode of the run
	ByNobody    ReasonType = "asyncAgent"  // nobody can be asked
	ByReading   ReasonType = "readOnly"    // it only reads, and inside the workspace
	ByWorkspace ReasonType = "workingDir"  // it leaves the workspace
	BySafety    ReasonType = "safetyCheck" // it is protected, or cannot be read
	ByUser      ReasonType = "user"        // a person answered
	ByFailure   ReasonType = "failure"     // asking failed
	ByHook      ReasonType = "hook"        // a hook of the user
	ByDefault   ReasonType = "other"       // nothing speaks for it
)

// Decision is what a policy says about a call.
type Decision struct {
	Behavior   Behavior
	ReasonType ReasonType
	Reason     string // one sentence for a person
	Rule       Rule   // the rule that decided; zero if none did
	// Message is what the model is told when the call is denied.
	Message string
	// Suggestions are rules that would allow the call from now on.
	Suggestions []Rule

	// The rest is set by Resolve alone.

	// Input replaces the input of the call if it is not nil.
	Input jsontext.Value
	// Remember are rules that the person wants to be kept: see [Policy.Apply].
	Remember []Rule
	// Interrupt ends the turn after the refusal.
	Interrupt bool
}

// Decide judges one call. access is what its tool says that it would touch.
func (p *Policy) Decide(call tool.Call, access tool.Access) Decision {
	p = p.viewing()
	parts := p.parts(access)
	if r, ok := p.find(p.Deny, call, access, parts); ok {
		return p.refuse(call, access, ByRule, "the rule "+cite(r)+" denies it", r)
	}
	if p.Mode == Plan && !p.onlyReads(access, parts) {
		return p.refuse(call, access, ByMode, "in plan mode nothing is changed or run", Rule{})
	}
	var d Decision
	r, ok := p.find(p.Ask, call, access, parts)
	switch {
	case ok:
		d = Decision{Behavior: Ask, ReasonType: ByRule, Rule: r, Reason: "The rule " + cite(r) + " asks before this."}
	case p.Mode == Bypass:
		if hidden := p.revealedBy(parts); hidden != "" && hidden != tooMany {
			return p.refuse(call, access, BySafety, "it would read "+hidden+" too, which a rule denies: leave that out", Rule{})
		}
		return Decision{Behavior: Allow, ReasonType: ByMode, Reason: "The mode bypassPermissions allows it."}
	default:
		d = p.judge(call, access, parts)
		if d.Behavior == Allow {
			return d
		}
		d.Suggestions = p.suggest(call, access, parts)
	}
	if p.Mode == DontAsk {
		why := strings.TrimSuffix(d.Reason, ".") + ", and the mode dontAsk refuses what would be asked about"
		denied := p.refuse(call, access, ByMode, lower(why), d.Rule)
		denied.Suggestions = d.Suggestions
		return denied
	}
	return d
}

// Hides says that a deny rule forbids to read a path, so that a tool that lists
// or searches a directory can leave it out.
func (p *Policy) Hides(path string) bool {
	return slices.ContainsFunc(p.Deny, hides) && p.viewing().hides(path)
}

// parts takes a call apart.
func (p *Policy) parts(a tool.Access) []part {
	dirs := []string{p.cwd()}
	switch a.Kind {
	case tool.AccessShell:
		return p.readScript(a.Command, dirs, 0)
	case tool.AccessRead, tool.AccessEdit:
		var parts []part
		for _, path := range a.Paths {
			parts = append(parts, part{kind: a.Kind, place: p.locate(path, dirs)})
		}
		if len(parts) == 0 && a.Kind == tool.AccessRead {
			parts = []part{{kind: a.Kind, place: p.locate(".", dirs)}}
		} else if len(parts) == 0 {
			parts = []part{{kind: a.Kind}}
		}
		return parts
	}
	return nil
}

// find returns the first deny or ask rule that matches the call or one of its
// parts.
func (p *Policy) find(rules []Rule, c tool.Call, a tool.Access, parts []part) (Rule, bool) {
	for _, r := range rules {
		if r.matchesCall(c, a, forCaution) || (a.Kind == tool.AccessShell && r.Tool == "Bash" && r.matchesText(strings.TrimSpace(a.Command))) {
			return r, true
		}
		// A rule for the tool of the call speaks about its own paths; to the
		// files that a command opens only Edit and Read apply.
		name := c.Name
		if a.Kind == tool.AccessShell {
			name = ""
		}
		if slices.ContainsFunc(parts, func(pt part) bool { return p.matchesPart(r, name, pt) }) {
			return r, true
		}
	}
	return Rule{}, false
}

// matchesPart says whether a deny or ask rule matches a part or what it runs.
func (p *Policy) matchesPart(r Rule, name string, pt part) bool {
	at := func(kind tool.AccessKind, places ...place) bool {
		return r.covers(name, kind, forCaution) && slices.ContainsFunc(places, func(at place) bool {
			return p.matchesPlace(r, at, kind, forCaution)
		})
	}
	c := pt.command
	if c == nil {
		return at(pt.kind, pt.place)
	}
	if r.matchesCommand(c, forCaution) {
		return true
	}
	if at(tool.AccessRead, c.from...) || at(tool.AccessEdit, c.onto...) {
		return true
	}
	return slices.ContainsFunc(c.inner, func(pt part) bool { return p.matchesPart(r, name, pt) })
}

// onlyReads says that a call changes nothing, wherever it reads.
func (p *Policy) onlyReads(a tool.Access, parts []part) bool {
	if a.Kind == tool.AccessNone {
		return true
	}
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(pt part) bool { return !pt.reads() })
}

func (pt part) reads() bool {
	c := pt.command
	if c == nil {
		return pt.kind == tool.AccessRead
	}
	if !c.clear && len(c.inner) == 0 {
		return c.reads()
	}
	// What only runs other commands is what they are; find also does its own.
	own := c.clear && c.opaque == "" && (len(c.words) == 0 || c.words[0].text != "find" || c.reads())
	return own && !slices.ContainsFunc(c.assigns, func(a assign) bool { return !a.harmless() }) &&
		!slices.ContainsFunc(c.inner, func(pt part) bool { return !pt.reads() })
}

// refuse is a decision to deny; why is a clause.
func (p *Policy) refuse(c tool.Call, a tool.Access, by ReasonType, why string, r Rule) Decision {
	return Decision{
		Behavior: Deny, ReasonType: by, Rule: r, Reason: upper(why) + ".",
		Message: fmt.Sprintf("Permission to use %s was denied: %s. Do not try to get around the refusal: go on with what is permitted, or say what you could not do.", describe(c, a), why),
	}
}

// cite names a rule and where it was written.
func cite(r Rule) string {
	if r.Source == "" {
		return r.String()
	}
	return r.String() + " (" + r.Source + ")"
}

const maxQuoted = 200 // bytes of a command in a sentence

// describe names a call for people and for the model.
func describe(c tool.Call, a tool.Access) string {
	what := ""
	switch {
	case a.Kind == tool.AccessShell:
		what = strings.TrimSpace(a.Command)
	case a.Kind == tool.AccessWeb:
		what = a.Domain
	case len(a.Paths) > 0:
		what = strings.Join(a.Paths, ", ")
	}
	if len(what) > maxQuoted {
		what = strings.ToValidUTF8(what[:maxQuoted], "") + " …"
	}
	if what == "" {
		return c.Name
	}
	return c.Name + " (" + what + ")"
}

// upper and lower change the first letter of a sentence or clause; a quotation
// mark or a path stays.
func upper(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

func lower(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[size:]
}
