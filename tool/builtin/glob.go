package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/daruma-agent/daruma/tool"
)

const globText = `Finds files by their names, the latest changed first.

- pattern knows *, ?, [a-z], {a,b} and ** for folders of any depth: "**/*.go", "src/**/*.{ts,tsx}".
- path is the folder to start in; without it the root of the workspace.
- Files that git ignores are left out, unless you name a folder that is ignored.
- At most 100 files are returned.`

const maxGlob = 100

type globInput struct {
	Pattern string `json:"pattern" jsonschema:"the pattern of the names"`
	Path    string `json:"path,omitzero" jsonschema:"the folder to start in"`
}

// GlobOutput is the structured output of Glob.
type GlobOutput struct {
	Duration  int64    `json:"durationMs"`
	NumFiles  int      `json:"numFiles"`
	Names     []string `json:"filenames"`
	Truncated bool     `json:"truncated"`
}

func (w *Workspace) glob() tool.Tool {
	return &tool.Typed[globInput]{
		Name: "Glob", Description: globText, Do: w.runGlob,
		Judge: func(globInput) tool.Effect { return tool.Pure },
		Touch: func(in globInput) tool.Access {
			dir, _ := splitGlob(in)
			return tool.Access{Kind: tool.AccessRead, Paths: []string{dir}}
		},
	}
}

// splitGlob parts what is asked for into the folder to start in and a pattern
// below it.
func splitGlob(in globInput) (dir, pattern string) {
	dir, pattern = doublestar.SplitPattern(filepath.ToSlash(in.Pattern))
	if !path.IsAbs(dir) {
		dir = path.Join(filepath.ToSlash(in.Path), dir)
	}
	return dir, pattern
}

func (w *Workspace) runGlob(ctx context.Context, _ tool.Call, in globInput) tool.Result {
	start := time.Now()
	err := checkGlob(in.Pattern)
	if in.Pattern == "" {
		err = refuse(ClassPattern, "the pattern is empty")
	}
	if err != nil {
		return failure("glob", in.Pattern, err)
	}
	dir, pattern := splitGlob(in)
	p, info, err := w.begin(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && in.Path == "":
		return tool.Text("No files found: there is no folder " + dir)
	case err != nil:
		return p.failure("glob", dir, err)
	case !info.IsDir():
		return failure("glob", dir, refuse(ClassKind, "this is a file, not a folder"))
	}
	found, deeper, err := w.match(ctx, p, pattern)
	if err != nil {
		return failure("glob", dir, err)
	}
	if at := p.below(pattern); len(found) == 0 && at != "" {
		return tool.Text(fmt.Sprintf("No files found: %s is a folder. For all files in it use %s", at, path.Join(at, "**")))
	}
	return globResult(p, found, deeper, time.Since(start))
}

// match lists the files that fit the pattern, the latest first. A pattern of a
// bare name that fits nothing is looked for in folders below too.
func (w *Workspace) match(ctx context.Context, p place, pattern string) (found []entry, deeper bool, err error) {
	if !strings.ContainsAny(pattern, `*?[{\`) { // a plain name is meant, ignored or not
		info, err := p.area.root.Lstat(filepath.Join(p.rel, filepath.FromSlash(pattern)))
		if err == nil && !info.IsDir() {
			return w.visible(p, []entry{{pattern, info}}), false, nil
		}
	}
	fits := func(name string) bool { return doublestar.MatchUnvalidated(pattern, name) }
	if found, err = w.list(ctx, p, fits); err == nil && len(found) == 0 && !strings.Contains(pattern, "/") {
		pattern, deeper = "**/"+pattern, true
		found, err = w.list(ctx, p, fits)
	}
	newestFirst(found)
	return found, deeper, err
}

// below is the folder that a pattern names, if it is the name of one.
func (p place) below(pattern string) string {
	if strings.ContainsAny(pattern, `*?[{\`) {
		return ""
	}
	if info, err := p.area.root.Stat(filepath.Join(p.rel, filepath.FromSlash(pattern))); err != nil || !info.IsDir() {
		return ""
	}
	return p.show(pattern)
}

// maxChoices bounds what a pattern with braces stands for: one in {a,b}{a,b}…
// doubles with each pair of them, and all are tried on each name.
const maxChoices = 1000

// checkGlob returns what is wrong with a pattern of names.
func checkGlob(pattern string) error {
	if !doublestar.ValidatePattern(pattern) {
		return refuse(ClassPattern, "the pattern %q is not valid: check its brackets and braces", pattern)
	}
	choices, open := 1, []int{} // the choices of each brace that is open
	for i := 0; i < len(pattern) && choices <= maxChoices; i++ {
		switch n := len(open) - 1; {
		case pattern[i] == '\\':
			i++
		case pattern[i] == '{':
			open = append(open, 1)
		case pattern[i] == ',' && n >= 0:
			open[n]++
		case pattern[i] == '}' && n >= 0:
			choices *= open[n]
			open = open[:n]
		}
	}
	if choices > maxChoices {
		return refuse(ClassPattern, "the braces of the pattern stand for more than %d patterns: use fewer of them", maxChoices)
	}
	return nil
}

func newestFirst(found []entry) {
	slices.SortStableFunc(found, func(a, b entry) int { return b.info.ModTime().Compare(a.info.ModTime()) })
}

func globResult(p place, found []entry, deeper bool, took time.Duration) tool.Result {
	o := GlobOutput{Duration: took.Milliseconds(), Names: []string{}, Truncated: len(found) > maxGlob}
	var b strings.Builder
	for _, e := range found[:min(len(found), maxGlob)] {
		name := p.show(e.name)
		o.Names = append(o.Names, valid(name))
		b.WriteString(quote(name) + "\n")
	}
	o.NumFiles = len(o.Names)
	switch {
	case len(found) == 0:
		b.WriteString("No files found")
	case o.Truncated:
		fmt.Fprintf(&b, "(the latest %d of %d files; use a narrower pattern or path for others)\n", maxGlob, len(found))
	case deeper:
		b.WriteString("(none directly in the folder; these are below it)\n")
	}
	r := tool.Text(b.String())
	r.Output = o
	return r
}
