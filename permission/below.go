package permission

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/tool"
)

// errFound ends a walk.
var errFound = errors.New("found")

// descends says that the command reads whatever is below the folders that it
// names. dots: also what begins with a dot.
func (c *command) descends() (yes, dots bool) {
	args, _ := texts(c.words[1:])
	some := func(letters string, long ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			if strings.HasPrefix(a, "--") {
				return writes(a, "", long)
			}
			return strings.HasPrefix(a, "-") && strings.ContainsAny(a, letters)
		})
	}
	switch c.words[0].text {
	case "grep", "egrep", "fgrep", "diff":
		return some("r", "--recursive", "--directories"), true
	case "rg":
		return true, some("u.", "--hidden", "--unrestricted")
	case "git":
		return len(args) > 0 && args[0] == "grep" && some("", "--no-index", "--untracked"), true
	}
	return false, false
}

// revealed is a file below what the command reads that a deny rule hides from
// it; empty if there is none.
func (p *Policy) revealed(c *command) string {
	if len(c.words) == 0 || !slices.ContainsFunc(p.Deny, hides) {
		return ""
	}
	deep, dots := c.descends()
	if !deep {
		return ""
	}
	found := ""
	for _, at := range c.from {
		for _, name := range at.names {
			err := filepath.WalkDir(name, func(path string, d os.DirEntry, err error) error {
				if err != nil {
					return nil // what cannot be read is not shown
				}
				base := d.Name()
				if d.IsDir() && path != name && (base == ".git" || !dots && (base == "node_modules" || base[0] == '.')) {
					return fs.SkipDir
				}
				if !p.look(1) {
					found = tooMany
					return errFound
				}
				if path != name && c.leavesOut(base, d.IsDir()) {
					if d.IsDir() {
						return fs.SkipDir
					}
					return nil
				}
				if (dots || base[0] != '.' || path == name) && p.hides(path) {
					found = path
					return errFound
				}
				return nil
			})
			if err != nil {
				return cmp.Or(found, at.written)
			}
		}
	}
	return found
}

// tooMany stands for files that were not looked at.
const tooMany = "…"

// leavesOut says that the options of grep keep it from a file or folder.
func (c *command) leavesOut(base string, folder bool) bool {
	including, included := false, false
	for _, w := range c.words {
		name, pattern, _ := strings.Cut(w.text, "=")
		fits, _ := filepath.Match(pattern, base)
		switch {
		case !strings.HasSuffix(c.words[0].text, "grep"):
		case name == "--exclude" && !folder && fits, name == "--exclude-dir" && folder && fits:
			return true
		case name == "--include" && !folder:
			including, included = true, included || fits
		}
	}
	return including && !included
}

// revealedBy is what a part, or what it runs, would reveal.
func (p *Policy) revealedBy(parts []part) string {
	for _, pt := range parts {
		if pt.command == nil {
			continue
		}
		if found := cmp.Or(p.revealed(pt.command), p.revealedBy(pt.command.inner)); found != "" {
			return found
		}
	}
	return ""
}

// hides says that the rule may forbid to read a file.
func hides(r Rule) bool { return r.covers("Read", tool.AccessRead, forCaution) }

// hides says that a deny rule forbids to read a path.
func (p *Policy) hides(path string) bool {
	at := p.locate(path, []string{p.cwd()})
	return slices.ContainsFunc(p.Deny, func(r Rule) bool {
		return hides(r) && p.matchesPlace(r, at, tool.AccessRead, forCaution)
	})
}

// carriesPlain says that a command that copies or moves folders takes nothing
// protected along and no link that leads away, and meets none where it goes.
func (p *Policy) carriesPlain(c *command) bool {
	if name := c.words[0].text; name != "cp" && name != "mv" {
		return true
	}
	last := len(c.onto) - 1
	plain := func(path string) bool {
		at := p.locate(path, nil)
		return p.inside(at) && p.guarded(at) == ""
	}
	for _, from := range c.onto[:last] {
		for _, name := range from.names {
			err := filepath.WalkDir(name, func(path string, _ os.DirEntry, err error) error {
				if err != nil || !p.look(1) || !plain(path) {
					return cmp.Or(err, errFound)
				}
				rest, _ := filepath.Rel(name, path)
				if b := filepath.Base(from.written); b != "." && b != ".." { // else the contents of the folder go there
					rest = filepath.Join(filepath.Base(name), rest)
				}
				for _, to := range c.onto[last].names {
					if !plain(filepath.Join(to, rest)) {
						return errFound
					}
				}
				return nil
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
	}
	return true
}
