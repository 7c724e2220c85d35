package builtin

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file in a listing.
type entry struct {
	name string // below the folder that was listed, with slashes
	info fs.FileInfo
}

// begin locates the folder or file in which a search begins.
func (w *Workspace) begin(path string) (place, fs.FileInfo, error) {
	p, err := w.locate(path)
	if err != nil {
		return p, nil, err
	}
	info, err := p.area.root.Stat(p.rel)
	return p, info, err
}

// folder keeps the folder of the last file open. A listing names the files of
// one folder after the other, and going to each from the root would cost more
// than to read it.
type folder struct {
	name string
	root *os.Root
}

// place returns the place of a file of the listing of p, for opening and
// looking at only.
func (f *folder) place(p place, file string) (place, error) {
	dir, base := path.Split(file)
	if f.root == nil || dir != f.name {
		f.close()
		root, err := p.area.root.OpenRoot(filepath.Join(p.rel, filepath.FromSlash(dir)))
		if err != nil {
			return p, err
		}
		f.name, f.root = dir, root
	}
	return place{area: &area{root: f.root}, rel: base}, nil
}

func (f *folder) lstat(p place, file string) (fs.FileInfo, error) {
	at, err := f.place(p, file)
	if err != nil {
		return nil, err
	}
	return at.area.root.Lstat(at.rel)
}

func (f *folder) close() {
	if f.root != nil {
		f.root.Close()
		f.root = nil
	}
}

// maxNested bounds how deep repositories inside of repositories are followed.
const maxNested = 5

// list finds the files below a folder that keep wants, in the order of their
// names. What git ignores is left out. Where there is no git, only .git and
// node_modules are. A folder that is itself ignored was meant if it was named.
func (w *Workspace) list(ctx context.Context, p place, keep func(name string) bool) ([]entry, error) {
	found, err := w.listBelow(ctx, p, "", keep, maxNested)
	found = w.visible(p, found)
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return found, err
}

// visible leaves out what must not be read.
func (w *Workspace) visible(p place, found []entry) []entry {
	if w.cfg.Hidden == nil {
		return found
	}
	return slices.DeleteFunc(found, func(e entry) bool { return w.cfg.Hidden(filepath.Join(p.abs, filepath.FromSlash(e.name))) })
}

func (w *Workspace) listBelow(ctx context.Context, p place, prefix string, keep func(string) bool, depth int) ([]entry, error) {
	names, ok := w.gitNames(ctx, p)
	if !ok || len(names) == 0 && w.gitIgnores(ctx, p) {
		return walk(ctx, p, prefix, keep)
	}
	// Only then the list can have folders in it, whose files it does not name.
	modules := slices.Contains(names, ".gitmodules")
	var found []entry
	var last folder
	defer last.close()
	for i, name := range names {
		if i%256 == 0 && ctx.Err() != nil {
			return found, ctx.Err()
		}
		nested := strings.HasSuffix(name, "/")
		name = strings.TrimSuffix(name, "/")
		wanted := keep(prefix + name)
		if !wanted && !nested && !modules {
			continue
		}
		info, err := last.lstat(p, name)
		switch {
		case err != nil: // deleted and still in the index
		case info.IsDir() && depth > 0:
			inner := w.placeIn(p.area, filepath.Join(p.abs, filepath.FromSlash(name)))
			more, err := w.listBelow(ctx, inner, prefix+name+"/", keep, depth-1)
			if err != nil {
				return found, err
			}
			found = append(found, more...)
		case wanted && !info.IsDir():
			found = append(found, entry{prefix + name, info})
		}
	}
	return found, nil
}

// walk lists without git.
func walk(ctx context.Context, p place, prefix string, keep func(string) bool) ([]entry, error) {
	var found []entry
	base := filepath.ToSlash(p.rel)
	err := fs.WalkDir(p.area.root.FS(), base, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && name == base {
			return err
		}
		if err != nil {
			return nil // a folder that may not be read hides its files, no more
		}
		if d.IsDir() {
			if n := d.Name(); name != base && (n == ".git" || n == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		rel := name
		if base != "." {
			rel = strings.TrimPrefix(name, base+"/")
		}
		if rel = prefix + rel; keep(rel) {
			if info, err := d.Info(); err == nil {
				found = append(found, entry{rel, info})
			}
		}
		return nil
	})
	return found, err
}

// gitNames asks git for the files below a folder, those that it tracks and those
// that it would. It is false if there is no git or no work tree.
func (w *Workspace) gitNames(ctx context.Context, p place) ([]string, bool) {
	out, err := w.runGit(ctx, p, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, false
	}
	names := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	slices.Sort(names)
	names = slices.Compact(names) // a file in a conflict is named three times
	return slices.DeleteFunc(names, func(n string) bool { return n == "" }), true
}

func (w *Workspace) gitIgnores(ctx context.Context, p place) bool {
	_, err := w.runGit(ctx, p, "check-ignore", "-q", "--", p.abs)
	return err == nil
}

// runGit runs a git command that reads. The repository may be a stranger's: its
// settings must not start programs, and nothing in it is written.
func (w *Workspace) runGit(ctx context.Context, p place, args ...string) (string, error) {
	if w.git == "" {
		return "", exec.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.git, append([]string{"-c", "core.fsmonitor=false"}, args...)...)
	cmd.Dir = p.abs
	cmd.Env = []string{"GIT_OPTIONAL_LOCKS=0", "LC_ALL=C"}
	for _, kv := range w.env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT", "USERPROFILE":
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return string(out), err
}

// show names an entry of the listing of p for the model.
func (p place) show(name string) string {
	if p.shown == "." {
		return name
	}
	return path.Join(filepath.ToSlash(p.shown), name)
}
