package permission

import (
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/tool"
)

// subcommands are programs whose first operand says what they do, so that a
// rule may stop after it; the value lists those that run anything or undo work
// and are not offered.
var subcommands = map[string][]string{
	"go":        {"run", "generate", "tool"},
	"git":       {"push", "reset", "clean", "config", "checkout", "restore", "rebase", "filter-branch", "gc", "submodule", "bisect"},
	"npm":       {"exec", "x", "publish", "explore", "run", "config"},
	"yarn":      {"exec", "dlx", "publish", "run", "config"},
	"pnpm":      {"exec", "dlx", "publish", "run", "config"},
	"bun":       {"x", "run", "publish"},
	"cargo":     {"run", "publish", "install"},
	"docker":    {"run", "exec", "system", "volume", "rm", "rmi", "compose"},
	"kubectl":   {"exec", "delete", "apply", "run", "drain"},
	"gh":        {"api", "secret", "repo", "auth", "extension", "release"},
	"pip":       {"install", "uninstall"},
	"terraform": {"apply", "destroy"},
	"dotnet":    {"run", "publish"},
	"swift":     {"run"},
}

// unsuggested are programs that run, fetch or destroy anything: allowing them
// for good is a decision that nobody should take with one key.
var unsuggested = []string{"rm", "rmdir", "dd", "mkfs", "shred", "shutdown", "reboot", "halt", "kill", "pkill", "killall", "chmod", "chown",
	"curl", "wget", "nc", "ncat", "ssh", "scp", "sftp", "rsync", "sudo", "su", "doas", "env", "exec", "eval", "source", ".", "export", "alias", "trap",
	"python", "python3", "node", "deno", "perl", "ruby", "php", "lua", "awk", "gawk", "sed", "osascript", "npx", "bunx", "uvx", "xargs", "find",
	"mv", "cp", "ln", "tee", "truncate", "install", "crontab", "systemctl", "launchctl", "cd", "pushd", "popd", "declare", "local", "readonly", "typeset"}

// suggest returns the narrowest rules that would allow the call from now on;
// none if no set of rules that may be offered would.
func (p *Policy) suggest(c tool.Call, a tool.Access, parts []part) []Rule {
	var rules []Rule
	add := func(r Rule) {
		if !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	switch a.Kind {
	case tool.AccessWeb:
		if a.Domain != "" && c.Name == "WebFetch" {
			return []Rule{{Tool: c.Name, Specifier: "domain:" + strings.ToLower(a.Domain)}}
		}
		return []Rule{{Tool: c.Name}}
	case tool.AccessShell, tool.AccessRead, tool.AccessEdit:
	default:
		if key, ok := nameTools[c.Name]; ok {
			if name, ok := field(c, key); ok && name != "" {
				return []Rule{{Tool: c.Name, Specifier: name}}
			}
		}
		return []Rule{{Tool: c.Name}}
	}
	for _, pt := range p.refused(c, a, parts) {
		var found []Rule
		if pt.command != nil {
			found = p.suggestCommand(pt.command)
		} else {
			found = p.suggestPlace(pt)
		}
		if len(found) == 0 {
			return nil
		}
		for _, r := range found {
			add(r)
		}
	}
	// An offer that does not do what it says would be asked about again.
	with := *p
	with.Allow = slices.Concat(p.Allow, rules)
	if with.judge(c, a, parts).Behavior != Allow {
		return nil
	}
	return rules
}

// refused returns the parts that nothing speaks for, looking into those that
// only run others.
func (p *Policy) refused(c tool.Call, a tool.Access, parts []part) []part {
	var all []part
	for _, pt := range parts {
		switch {
		case p.permit(c.Name, a.Kind, pt).ok:
		case pt.command != nil && pt.command.clear && len(pt.command.inner) > 0:
			all = append(all, p.refused(c, a, pt.command.inner)...)
		default:
			all = append(all, pt)
		}
	}
	return all
}

// suggestCommand offers a prefix for programs whose subcommands are known, and
// the exact command for others.
func (p *Policy) suggestCommand(c *command) []Rule {
	if c.opaque != "" || len(c.words) == 0 || len(c.inner) > 0 || slices.ContainsFunc(c.assigns, func(a assign) bool { return !a.harmless() }) {
		return nil
	}
	name := c.words[0].text
	if _, shell := shells[base(name)]; shell || slices.Contains(unsuggested, base(name)) || slices.Contains(launchers, base(name)) {
		return nil
	}
	if c.reads() {
		return p.suggestReading(c)
	}
	if risky, ok := subcommands[name]; ok && len(c.words) > 1 && c.words[1].plain && !strings.HasPrefix(c.words[1].text, "-") {
		if !slices.Contains(risky, c.words[1].text) {
			return []Rule{{Tool: "Bash", Specifier: name + " " + c.words[1].text + ":*"}}
		}
	}
	if strings.ContainsAny(c.text, "*()\\\n$`") {
		return nil // as a rule it would mean something else, or another thing each time
	}
	return []Rule{{Tool: "Bash", Specifier: c.text}}
}

// suggestReading offers to read the places outside that a command names.
func (p *Policy) suggestReading(c *command) []Rule {
	var rules []Rule
	for _, at := range c.from {
		if !p.mayRead(at) {
			rules = append(rules, p.suggestPlace(part{kind: tool.AccessRead, place: at})...)
		}
	}
	return rules
}

// suggestPlace offers the path of a part, in each of its spellings.
func (p *Policy) suggestPlace(pt part) []Rule {
	kind := "Edit"
	if pt.place.unsure {
		return nil
	}
	if pt.kind == tool.AccessRead {
		kind = "Read"
	} else if p.guarded(pt.place) != "" {
		return nil
	}
	var rules []Rule
	for _, one := range pt.place.single() {
		if p.permitPlace(kind, pt.kind, one).ok {
			continue
		}
		name := one.names[0]
		if name == "/" {
			return nil
		}
		spec := "/" + name
		if rest, ok := below(p.Root, name); ok && rest != "." {
			spec = "/" + rest
		}
		if strings.ContainsAny(spec, "()\n") {
			return nil // would not survive being written as a rule
		}
		rules = append(rules, Rule{Tool: kind, Specifier: escape(spec)})
	}
	return rules
}

var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`)

// escape writes a path as a pattern that matches only it.
func escape(path string) string { return escaper.Replace(path) }
