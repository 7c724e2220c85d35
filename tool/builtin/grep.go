package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/daruma-agent/daruma/tool"
)

const grepText = `Searches the contents of files with a regular expression (RE2 syntax: no look-around, no back-references).

- output_mode: files_with_matches (the default; latest changed first), content (the lines), or count (lines for each file).
- path is a file or folder; without it the root of the workspace. glob ("*.go", "src/**/*.ts") and type ("go", "py") choose files.
- For content: -n numbers (on), -A -B -C lines around, -o only what matches. -i ignores case.
- multiline lets a match, and the dot, go over line ends.
- head_limit is 250 if not given, 0 for no limit; offset skips results. Binary files and what git ignores are left out.`

// The output modes of Grep.
const (
	modeFiles   = "files_with_matches"
	modeContent = "content"
	modeCount   = "count"
)

const defaultHead = 250

type grepInput struct {
	Pattern   string `json:"pattern" jsonschema:"the regular expression"`
	Path      string `json:"path,omitzero" jsonschema:"file or folder to search"`
	Glob      string `json:"glob,omitzero" jsonschema:"pattern of file names"`
	Type      string `json:"type,omitzero" jsonschema:"type of files, such as go, py, js, rust, java"`
	Mode      string `json:"output_mode,omitzero" enum:"content,files_with_matches,count"`
	Fold      bool   `json:"-i,omitzero" jsonschema:"ignore case"`
	Numbers   *bool  `json:"-n,omitzero" jsonschema:"show line numbers"`
	Only      bool   `json:"-o,omitzero" jsonschema:"show only what matches"`
	After     int    `json:"-A,omitzero" jsonschema:"lines to show after a match"`
	Before    int    `json:"-B,omitzero" jsonschema:"lines to show before a match"`
	Around    int    `json:"-C,omitzero" jsonschema:"lines to show before and after a match"`
	Head      *int   `json:"head_limit,omitzero" jsonschema:"how many results"`
	Offset    int    `json:"offset,omitzero" jsonschema:"how many results to skip"`
	Multiline bool   `json:"multiline,omitzero" jsonschema:"match over line ends"`
}

// GrepOutput is the structured output of Grep.
type GrepOutput struct {
	Mode       string   `json:"mode"`
	NumFiles   int      `json:"numFiles"`
	Names      []string `json:"filenames"`
	Content    string   `json:"content,omitzero"`
	NumMatches int      `json:"numMatches,omitzero"`
}

func (w *Workspace) grep() tool.Tool {
	return &tool.Typed[grepInput]{
		Name: "Grep", Description: grepText, Do: w.runGrep,
		Judge: func(grepInput) tool.Effect { return tool.Pure },
		Touch: func(in grepInput) tool.Access {
			return tool.Access{Kind: tool.AccessRead, Paths: []string{path.Join(".", filepath.ToSlash(in.Path))}}
		},
	}
}

func (w *Workspace) runGrep(ctx context.Context, _ tool.Call, in grepInput) tool.Result {
	if in.Mode == "" {
		in.Mode = modeFiles
	}
	q, err := newQuery(in)
	if err != nil {
		return failure("grep", in.Pattern, err)
	}
	keep, err := chooser(in)
	if err != nil {
		return failure("grep", in.Pattern, err)
	}
	dir := in.Path
	if dir == "" {
		dir = "."
	}
	p, info, err := w.begin(dir)
	if err != nil {
		return p.failure("grep", dir, err)
	}
	var files []entry
	if info.IsDir() {
		if files, err = w.list(ctx, p, keep); err != nil {
			return failure("grep", dir, err)
		}
	} else { // a file that was named is searched whatever its name, and must be one that can be
		if err := p.searchable(); err != nil {
			return failure("grep", dir, err)
		}
		files = []entry{{filepath.Base(p.rel), info}}
		p = w.placeIn(p.area, filepath.Dir(p.abs))
	}
	found := q.search(ctx, p, files)
	if ctx.Err() != nil {
		return failure("grep", dir, ctx.Err())
	}
	if in.Mode == modeFiles {
		slices.SortStableFunc(found, func(a, b findings) int { return b.changed.Compare(a.changed) })
	}
	return grepResult(in, p, found)
}

// searchable returns why a file cannot be searched, if it cannot.
func (p place) searchable() error {
	f, info, err := p.open()
	if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, 8<<10)
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	return refuseBinary(start[:n], http.DetectContentType(start[:n]), info.Size())
}

// chooser makes the test for file names out of glob and type.
func chooser(in grepInput) (func(name string) bool, error) {
	var patterns []string
	if in.Type != "" {
		if patterns = fileTypes[in.Type]; patterns == nil {
			return nil, refuse(ClassPattern, "there is no file type %q. Use glob, or one of %s", in.Type, strings.Join(typeNames(), ", "))
		}
	}
	glob, not := strings.CutPrefix(in.Glob, "!")
	glob = strings.TrimPrefix(filepath.ToSlash(glob), "./")
	if err := checkGlob(glob); err != nil {
		return nil, err
	}
	return func(name string) bool {
		ofType := patterns == nil || slices.ContainsFunc(patterns, func(t string) bool { return fits(t, name) })
		switch {
		case glob == "" || !ofType:
			return ofType
		case not:
			return !leavesOut(glob, name)
		}
		return fits(glob, name)
	}, nil
}

// fits matches a pattern as git and ripgrep have it: without a slash it is one
// of names in any folder, and a slash at its beginning ties it to the first.
func fits(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	return doublestar.MatchUnvalidated(strings.TrimPrefix(pattern, "/"), name)
}

// leavesOut reports whether a pattern is one of the file or of a folder that it
// is in: !vendor leaves out all of vendor, and with a slash at its end it means
// folders only.
func leavesOut(pattern, name string) bool {
	folders := strings.HasSuffix(pattern, "/")
	pattern = strings.TrimSuffix(pattern, "/")
	if folders {
		name = path.Dir(name)
	}
	for ; name != "."; name = path.Dir(name) {
		if fits(pattern, name) {
			return true
		}
	}
	return false
}

// grepResult writes what was found in the way that was asked for.
func grepResult(in grepInput, p place, found []findings) tool.Result {
	o := GrepOutput{Mode: in.Mode, Names: []string{}}
	var lines, large, locked []string
	for _, f := range found {
		name := p.show(f.name)
		switch {
		case f.large:
			large = append(large, quote(name))
			continue
		case f.locked:
			locked = append(locked, quote(name))
			continue
		}
		o.Names = append(o.Names, valid(name))
		o.NumMatches += f.matches
		switch in.Mode {
		case modeFiles:
			lines = append(lines, quote(name))
		case modeCount:
			lines = append(lines, fmt.Sprintf("%s:%d", quote(name), f.matches))
		default:
			lines = append(lines, contentLines(in, quote(name), f, len(lines) > 0)...)
		}
	}
	all := len(lines)
	o.NumFiles = len(o.Names)
	lines = lines[min(max(in.Offset, 0), all):]
	limit := defaultHead
	if in.Head != nil {
		limit = *in.Head
	}
	if limit > 0 && len(lines) > limit {
		lines = lines[:limit]
	}
	text := strings.Join(lines, "\n")
	if in.Mode == modeFiles {
		o.NumMatches = 0 // a file was left at its first match
	}
	if in.Mode == modeContent {
		o.Content = tool.Clean(text)
	}
	switch {
	case o.NumFiles == 0 && !in.Multiline && strings.Contains(in.Pattern, `\n`):
		text = "No matches found: without multiline, lines are searched one by one"
	case o.NumFiles == 0:
		text = "No matches found"
	case len(lines) == 0:
		text = fmt.Sprintf("(there are only %d results: offset %d is behind them)", all, in.Offset)
	case len(lines) < all:
		text += fmt.Sprintf("\n(results %d to %d of %d; use offset and head_limit for others)", in.Offset+1, in.Offset+len(lines), all)
	}
	if len(large) > 0 {
		text += fmt.Sprintf("\n(larger than %s and not searched: %s; use Bash and grep for that)", bytesText(maxWhole), someOf(large))
	}
	if len(locked) > 0 {
		text += fmt.Sprintf("\n(not searched, since they may not be read: %s)", someOf(locked))
	}
	r := tool.Text(text)
	r.Output = o
	return r
}

// someOf names the first five.
func someOf(names []string) string {
	if n := len(names); n > 5 {
		names = append(names[:5:5], fmt.Sprintf("and %d more", n-5))
	}
	return strings.Join(names, ", ")
}

// contentLines writes the lines of a file as grep does: a colon behind the name
// and the number of a match, a dash for the lines around it, and -- between
// pieces that do not touch.
func contentLines(in grepInput, name string, f findings, more bool) []string {
	var lines []string
	around := in.After > 0 || in.Before > 0 || in.Around > 0
	for i, h := range f.hits {
		if around && !in.Only && (i > 0 && h.line > f.hits[i-1].line+1 || i == 0 && more) {
			lines = append(lines, "--")
		}
		sign := "-"
		if h.match {
			sign = ":"
		}
		number := ""
		if in.Numbers == nil || *in.Numbers {
			number = fmt.Sprint(h.line, sign)
		}
		lines = append(lines, name+sign+number+h.text)
	}
	if f.more {
		lines = append(lines, name+": (more matches are not shown)")
	}
	return lines
}
