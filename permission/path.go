package permission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/daruma-agent/daruma/tool"
)

// place is a path of a call, in every spelling that the system may know it by.
type place struct {
	written string
	// names are absolute: as written and as its symbolic links lead. None
	// means that the path cannot be told.
	names []string
	// unsure: the names are a guess, which allows nothing.
	unsure bool
}

// single returns the place once for each of its names.
func (at place) single() []place {
	all := make([]place, len(at.names))
	for i := range at.names {
		all[i] = place{written: at.written, names: at.names[i : i+1], unsure: at.unsure}
	}
	return all
}

// locate finds the place of a path as it was written in a call. dirs are the
// directories that it may be relative to; all of their answers count.
func (p *Policy) locate(written string, dirs []string) place {
	at := place{written: written}
	if strings.ContainsRune(written, 0) || len(written) > maxPath {
		return at
	}
	path, ok := p.home(written)
	if !ok {
		return at
	}
	for _, dir := range dirs { // of the process that opens it
		for _, own := range []string{"/proc/self/cwd", "/proc/thread-self/cwd"} {
			if rest, ok := below(own, filepath.Clean(path)); ok {
				at.names = append(at.names, filepath.Join(dir, rest))
			}
		}
	}
	if filepath.IsAbs(path) {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		abs := path
		if dir != "" {
			abs = dir + "/" + path // not Join: link/.. is wherever the link leads
		}
		// A program may clean the path before it opens it, or may leave that
		// to the system, which follows the links first.
		clean := filepath.Clean(abs)
		for _, name := range []string{clean, p.resolve(abs), p.resolve(clean)} {
			if name == "" {
				return place{written: written}
			}
			if !slices.Contains(at.names, name) {
				at.names = append(at.names, name)
			}
		}
	}
	return at
}

// home replaces a leading tilde; another user's home is not known.
func (p *Policy) home(path string) (string, bool) {
	rest, tilde := strings.CutPrefix(path, "~")
	if !tilde {
		return path, true
	}
	if p.Home == "" || (rest != "" && rest[0] != '/') {
		return "", false
	}
	return p.Home + rest, true
}

// Limits of the kernel: beyond them no file can be opened.
const (
	maxPath  = 4096
	maxLinks = 40
)

// view is what one decision has seen of the file system: every path is looked
// at once, so that one decision goes by one state of the links.
type view struct {
	roots    []string
	resolved map[string]string
	looks    int // files that were looked at to find others
}

// maxLooks is how many files one decision looks at to find others. What is
// beyond is not known: a command must not keep the judge busy for ever.
const maxLooks = 20_000

// lookFolder is what it counts to match a pattern, which reads folders.
const lookFolder = 500

// look counts n more files; false if they are too many.
func (p *Policy) look(n int) bool {
	p.view.looks += n
	return p.view.looks <= maxLooks
}

// viewing returns the policy for one decision.
func (p *Policy) viewing() *Policy {
	one := *p
	one.view = &view{resolved: map[string]string{}}
	return &one
}

// resolve follows links as the function of that name does, once per decision.
func (p *Policy) resolve(path string) string {
	target, ok := p.view.resolved[path]
	if !ok {
		target = resolve(path, 0)
		p.view.resolved[path] = target
	}
	return target
}

// resolve follows the symbolic links of an absolute path as far as it exists;
// what does not exist yet is kept. Empty means that the links have no end.
func resolve(path string, links int) string {
	if links > maxLinks || !filepath.IsAbs(path) {
		return ""
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "/"
	}
	if target, err := os.Readlink(path); err == nil { // a link to what is not there yet
		if !filepath.IsAbs(target) {
			target = filepath.Dir(path) + "/" + target
		}
		return resolve(target, links+1)
	}
	cut := strings.LastIndexByte(path, '/')
	parent := resolve(path[:cut+1], links) // shorter, so this ends
	if parent == "" {
		return ""
	}
	return filepath.Join(parent, path[cut+1:])
}

// below returns the part of name under dir; false if it is elsewhere.
func below(dir, name string) (string, bool) {
	if dir == "" {
		return "", false
	}
	if dir == name {
		return ".", true
	}
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	return rest, ok
}

// inside says whether every name of the place is in the workspace.
func (p *Policy) inside(at place) bool {
	if len(at.names) == 0 || at.unsure {
		return false
	}
	roots := p.roots()
	for _, name := range at.names {
		if !slices.ContainsFunc(roots, func(root string) bool { _, ok := below(root, name); return ok }) {
			return false
		}
	}
	return true
}

// roots are the directories of the workspace, as given and as links lead.
func (p *Policy) roots() []string {
	if p.view.roots != nil {
		return p.view.roots
	}
	roots := []string{}
	for _, dir := range append([]string{p.Root}, p.Dirs...) {
		if dir, ok := p.home(dir); ok && filepath.IsAbs(dir) {
			roots = append(roots, filepath.Clean(dir))
			if target := p.resolve(dir); target != "" && target != roots[len(roots)-1] {
				roots = append(roots, target)
			}
		}
	}
	p.view.roots = roots
	return roots
}

// cwd is the directory that calls are relative to.
func (p *Policy) cwd() string {
	if p.Dir != "" {
		return p.Dir
	}
	return p.Root
}

// Files and directories that later run as commands or steer this program, so
// that an edit there is more than an edit.
var protected = []string{
	".git", ".daruma", ".cursor", ".gemini", ".codex", ".claude", ".vscode", ".idea", ".husky", ".ssh", ".devcontainer",
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".kshrc", "config.fish",
	".gitconfig", ".gitmodules", ".mcp.json", ".claude.json", ".envrc", ".ripgreprc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".vimrc", ".exrc",
	".gdbinit", ".lldbinit", ".inputrc", ".xprofile", ".xinitrc", ".xsession", ".pam_environment", ".tmux.conf",
	// With it, any folder may become a repository, whose settings run programs.
	"HEAD",
}

// isProtected says whether a segment of a path is the protected name g.
func isProtected(seg, g string) bool {
	return seg == g || g != "HEAD" && strings.EqualFold(seg, g)
}

// guarded returns the protected name on the way to the place, if any. Letters
// of either case count, since some file systems do not tell them apart.
func (p *Policy) guarded(at place) string {
	for _, name := range at.names {
		for seg := range strings.SplitSeq(name, "/") {
			for _, g := range protected {
				if isProtected(seg, g) && !p.rooted(g, name) {
					return g
				}
			}
		}
	}
	return ""
}

// rooted says that the protected name only occurs above the workspace, as in a
// work tree that lies in somebody's .claude/worktrees.
func (p *Policy) rooted(guard, name string) bool {
	return slices.ContainsFunc(p.roots(), func(root string) bool {
		rest, ok := below(root, name)
		return ok && !slices.ContainsFunc(strings.Split(rest, "/"), func(seg string) bool { return isProtected(seg, guard) })
	})
}

// matchesPlace says whether a path rule matches: to deny or ask, one name of
// the place is enough; to allow, all must match.
func (p *Policy) matchesPlace(r Rule, at place, kind tool.AccessKind, in intent) bool {
	named := func(name string) bool { return r.whole() || p.matchesName(r, name, in) }
	if in == forCaution {
		return r.whole() || slices.ContainsFunc(at.names, named)
	}
	if len(at.names) == 0 || at.unsure || slices.ContainsFunc(at.names, func(name string) bool { return !named(name) }) {
		return false
	}
	// A broad pattern does not open what is protected: the rule has to say it.
	guard := p.guarded(at)
	return kind == tool.AccessRead || guard == "" || slices.Contains(strings.Split(r.Specifier, "/"), guard)
}

// matchesName matches one absolute name against the rule's pattern, at the
// place where the pattern's beginning anchors it.
func (p *Policy) matchesName(r Rule, name string, in intent) bool {
	spec := r.Specifier
	var dirs []string
	switch {
	case strings.HasPrefix(spec, "//"):
		dirs, spec = []string{"/"}, spec[2:]
	case spec == "~" || strings.HasPrefix(spec, "~/"):
		dirs, spec = p.both(p.Home), strings.TrimPrefix(spec[1:], "/")
	case strings.HasPrefix(spec, "/"):
		root := r.Root
		if root == "" {
			root = p.Root
		}
		dirs, spec = p.both(root), spec[1:]
	default:
		dirs = p.both(p.cwd())
		if in == forCaution && p.Root != p.cwd() {
			// A deny rule keeps its hold when the work moves to another directory.
			dirs = append(dirs, p.both(p.Root)...)
		}
		spec = strings.TrimPrefix(spec, "./")
		if anyDepth(spec, in) {
			spec = "**/" + spec
		}
	}
	spec = strings.TrimSuffix(spec, "/")
	for _, dir := range dirs {
		if rest, ok := below(dir, name); ok && matchTree(spec, rest) {
			return true
		}
	}
	return false
}

// anyDepth says that a pattern of one segment is looked for in every
// directory, as in an ignore file. A plain name to allow is the exception: it
// means the one that the writer sees.
func anyDepth(spec string, in intent) bool {
	if strings.Contains(strings.TrimSuffix(spec, "/"), "/") {
		return false
	}
	return in == forCaution || strings.ContainsAny(spec, "*?[{")
}

// both returns a directory as given and as its links lead.
func (p *Policy) both(dir string) []string {
	if !filepath.IsAbs(dir) {
		return nil
	}
	dirs := []string{filepath.Clean(dir)}
	if target := p.resolve(dir); target != "" && target != dirs[0] {
		dirs = append(dirs, target)
	}
	return dirs
}

// matchTree matches a path, or a directory that it is in: what holds for a
// directory holds for all below.
func matchTree(pattern, path string) bool {
	if pattern == "" {
		return true // the anchor itself, as in ~/ or //
	}
	for {
		if ok, err := doublestar.Match(pattern, path); ok && err == nil {
			return true
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return false
		}
		path = path[:cut]
	}
}
