package permission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/tool"
)

// verdict is what speaks for a part, or why nothing does.
type verdict struct {
	ok     bool
	by     ReasonType
	rule   Rule
	reason string // a clause; empty if ok
}

func no(by ReasonType, reason string) verdict { return verdict{by: by, reason: reason} }

// stronger is the verdict that says more about why: a rule more than a mode,
// and a mode more than the fact that it only reads. The first of equals stays.
func stronger(a, b verdict) verdict {
	if b.by == ByRule && a.by != ByRule || b.by == ByMode && a.by == ByReading {
		return b
	}
	return a
}

// judge looks for a reason to allow every part of a call. The first part
// without one decides.
func (p *Policy) judge(c tool.Call, a tool.Access, parts []part) Decision {
	if a.Kind == tool.AccessNone {
		return Decision{Behavior: Allow, ReasonType: ByReading, Reason: "It touches nothing outside the conversation."}
	}
	if d, ok := p.outright(c, a, parts); ok {
		return d
	}
	asked := func(v verdict) Decision {
		return Decision{Behavior: Ask, ReasonType: v.by, Reason: upper(v.reason) + "."}
	}
	if len(parts) == 0 {
		return asked(no(ByDefault, "no rule allows "+describe(c, a)))
	}
	best := verdict{ok: true, by: ByReading}
	for _, pt := range parts {
		v := p.permit(c.Name, a.Kind, pt)
		if !v.ok {
			return asked(v)
		}
		best = stronger(best, v)
	}
	d := Decision{Behavior: Allow, ReasonType: best.by, Rule: best.rule}
	switch best.by {
	case ByRule:
		d.Reason = "The rule " + cite(best.rule) + " allows it."
	case ByMode:
		d.Reason = "The mode acceptEdits allows edits inside the workspace."
	default:
		d.Reason = "It only reads, and inside the workspace."
	}
	return d
}

// outright finds a rule that allows the whole call, without a look at its
// parts: by its tool, its host or name, or by the exact command.
func (p *Policy) outright(c tool.Call, a tool.Access, parts []part) (Decision, bool) {
	byPath := a.Kind == tool.AccessRead || a.Kind == tool.AccessEdit
	for _, r := range p.Allow {
		if byPath || r.strict() {
			continue
		}
		exact := a.Kind == tool.AccessShell && r.Tool == "Bash" && r.exact() && r.Specifier == strings.TrimSpace(a.Command) &&
			!slices.ContainsFunc(parts, func(pt part) bool { return pt.command != nil && pt.command.opaque != "" })
		if !exact && !r.matchesCall(c, a, forAllow) {
			continue
		}
		for _, pt := range parts {
			if guard := p.guarded(pt.place); pt.kind == tool.AccessEdit && guard != "" && !exact {
				return Decision{Behavior: Ask, ReasonType: BySafety, Reason: upper(quoted(pt.place.written) + " is protected (" + guard + "), so an edit needs a person's word.")}, true
			}
		}
		return Decision{Behavior: Allow, ReasonType: ByRule, Rule: r, Reason: "The rule " + cite(r) + " allows it."}, true
	}
	return Decision{}, false
}

// permit looks for a reason to allow one part of a call of the named tool.
func (p *Policy) permit(name string, kind tool.AccessKind, pt part) verdict {
	if pt.command != nil {
		return p.permitCommand(pt.command)
	}
	if kind == tool.AccessShell {
		name = "" // a file that a command opens: only Edit and Read speak about it
	}
	if len(pt.place.names) == 0 || pt.place.unsure {
		return no(BySafety, "nobody can tell which file "+quoted(pt.place.written)+" is")
	}
	best := verdict{ok: true, by: ByReading}
	for _, one := range pt.place.single() {
		v := p.permitPlace(name, pt.kind, one)
		if !v.ok {
			return v
		}
		best = stronger(best, v)
	}
	return best
}

// permitPlace looks for a reason to allow a place by one of its names.
func (p *Policy) permitPlace(name string, kind tool.AccessKind, at place) verdict {
	for _, r := range p.Allow {
		if !r.strict() && r.covers(name, kind, forAllow) && p.matchesPlace(r, at, kind, forAllow) {
			return verdict{ok: true, by: ByRule, rule: r}
		}
	}
	guard := p.guarded(at)
	switch {
	case !p.inside(at):
		return no(ByWorkspace, quoted(at.written)+" is outside the workspace")
	case kind == tool.AccessRead:
		return verdict{ok: true, by: ByReading}
	case guard != "":
		return no(BySafety, quoted(at.written)+" is protected ("+guard+"), so an edit needs a person's word")
	case p.Mode == AcceptEdits:
		return verdict{ok: true, by: ByMode}
	}
	return no(ByDefault, "no rule allows to edit "+at.written)
}

// permitCommand looks for a reason to allow a simple command.
func (p *Policy) permitCommand(c *command) verdict {
	for _, r := range p.Allow {
		if r.matchesCommand(c, forAllow) {
			return verdict{ok: true, by: ByRule, rule: r}
		}
	}
	switch {
	case c.opaque != "":
		return no(BySafety, c.opaque)
	case c.clear:
		return p.permitInner(c)
	case len(c.inner) > 0:
		return no(ByDefault, "no rule allows "+quoted(c.written)+", which runs another command")
	case c.reads():
		return p.permitReading(c)
	case p.Mode == AcceptEdits && p.editsInside(c):
		return verdict{ok: true, by: ByMode}
	}
	return no(ByDefault, "no rule allows "+quoted(c.written))
}

// permitInner judges a command that only runs others by what it runs.
func (p *Policy) permitInner(c *command) verdict {
	for _, a := range c.assigns {
		if !a.harmless() {
			return no(BySafety, "it sets "+a.name+", which may change what "+quoted(c.written)+" does")
		}
	}
	best := verdict{ok: true, by: ByReading}
	if len(c.words) > 0 && c.words[0].text == "find" {
		if !c.reads() {
			return no(ByDefault, "no rule allows "+quoted(c.written))
		}
		if best = p.permitReading(c); !best.ok {
			return best
		}
	}
	for _, pt := range c.inner {
		v := p.permit("", tool.AccessShell, pt)
		if !v.ok {
			return v
		}
		best = stronger(best, v)
	}
	return best
}

// permitReading judges where a command reads.
func (p *Policy) permitReading(c *command) verdict {
	for _, at := range c.from {
		if len(at.names) == 0 || at.unsure {
			return no(BySafety, "nobody can tell what "+quoted(c.written)+" reads")
		}
		if !p.mayRead(at) {
			return no(ByWorkspace, quoted(c.written)+" leaves the workspace")
		}
	}
	if len(c.words) > 0 && c.words[0].text == "git" {
		// A repository below may configure git to run anything.
		for _, dir := range c.dirs {
			if dir != p.cwd() && !slices.Contains(p.both(p.Root), dir) || bare(dir) {
				return no(BySafety, quoted(c.written)+" would trust the repository in "+dir)
			}
		}
	}
	if hidden := p.revealed(c); hidden != "" {
		return no(BySafety, quoted(c.written)+" would read "+hidden+" too, which a rule denies, or more files than can be looked at")
	}
	return verdict{ok: true, by: ByReading}
}

// bare says that git would take the folder itself for a repository, whose
// settings are then a part of the workspace.
func bare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err != nil
}

// mayRead says that a command may read a place: it is inside the workspace, or
// Read rules open it, for commands as for tools.
func (p *Policy) mayRead(at place) bool {
	return !slices.ContainsFunc(at.single(), func(one place) bool {
		return !p.permitPlace("Read", tool.AccessRead, one).ok
	})
}

// editsInside says that the command is one of those that acceptEdits covers,
// and that it stays with unprotected files of the workspace.
func (p *Policy) editsInside(c *command) bool {
	if len(c.words) < 2 || slices.ContainsFunc(c.assigns, func(a assign) bool { return !a.harmless() }) {
		return false
	}
	letters, ok := fileWorkers[c.words[0].text]
	if !ok || letters == "-" {
		return false
	}
	for _, w := range c.words[1:] {
		if !w.known || (strings.HasPrefix(w.text, "-") && strings.Trim(w.text[1:], letters) != "") {
			return false
		}
	}
	return len(c.onto) > 0 && !slices.ContainsFunc(c.onto, func(at place) bool { return !p.inside(at) || p.guarded(at) != "" }) && p.carriesPlain(c)
}

// quoted shortens a command for a sentence.
func quoted(text string) string {
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + " …"
	}
	return "“" + text + "”"
}
