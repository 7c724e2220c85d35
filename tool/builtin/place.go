package builtin

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/daruma-agent/daruma/tool"
	"golang.org/x/text/unicode/norm"
)

// area is a folder that the file tools may use.
type area struct {
	root     *os.Root
	name     string // absolute, as configured
	real     string // the same without links
	readOnly bool
}

// place is a file or folder in an area. It is named without links: they were
// followed by name, so that two names of one file are one place. The area's
// root judges again when the place is opened, whatever was changed meanwhile.
type place struct {
	area  *area
	rel   string // below the root of the area
	abs   string
	shown string // for the model: relative in the workspace, else absolute
}

// locate turns a path, as a model wrote it, into a place. Relative paths start
// at the root of the workspace.
func (w *Workspace) locate(path string) (place, error) {
	switch {
	case path == "":
		return place{}, refuse(ClassOutside, "the path is empty")
	case strings.ContainsRune(path, 0):
		return place{}, refuse(ClassOutside, "the path contains a NUL character")
	case path == "~" || strings.HasPrefix(path, "~/"):
		return place{}, refuse(ClassOutside, "~ is not expanded: use a path relative to %s", w.root)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.root, path)
	}
	path = filepath.Clean(path)
	real, err := canonical(path)
	if err != nil {
		return place{}, err
	}
	var best *area
	for i := range w.areas {
		if a := &w.areas[i]; below(a.real, real) && (best == nil || len(a.real) > len(best.real)) {
			best = a
		}
	}
	if best == nil {
		return place{}, w.outside(path)
	}
	return w.placeIn(best, real), nil
}

func (w *Workspace) placeIn(a *area, real string) place {
	rel, err := filepath.Rel(a.real, real)
	if err != nil {
		rel = "." // cannot be: real is below a.real
	}
	p := place{area: a, rel: rel, abs: real, shown: rel}
	if a != &w.areas[0] {
		p.shown = filepath.Join(a.name, rel)
	}
	return p
}

// outside says that path is none of ours, and how it could look as if it were.
func (w *Workspace) outside(path string) error {
	var names []string
	for _, a := range w.areas {
		if below(a.name, path) || below(a.real, path) {
			return refuse(ClassOutside, "the path follows a link that leads outside of the workspace, which is not allowed")
		}
		if !a.readOnly {
			names = append(names, a.name)
		}
	}
	return refuse(ClassOutside, "this is outside of the workspace. Only files below %s can be used", strings.Join(names, ", "))
}

// canonical follows all links in an absolute path. What does not exist yet is
// kept as it is.
func canonical(path string) (string, error) {
	rest := ""
	for p := path; ; {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			if _, clear := os.Stat(p); clear != nil {
				err = clear // of links that lead in circles it has the system's word
			}
			return "", err
		}
		if _, err := os.Lstat(p); err == nil {
			return "", refuse("ENOENT", "%s is a link to something that does not exist", p)
		}
		parent := filepath.Dir(p)
		if parent == p {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(p), rest)
		p = parent
	}
}

func below(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// open opens a regular file. Pipes and devices, on which a read may never end,
// are refused; it does not wait for the other end of a pipe to find that out.
func (p place) open() (*os.File, fs.FileInfo, error) {
	f, err := p.area.root.OpenFile(p.rel, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = refuse(ClassKind, "%s", kindText(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// maxWhole is the size of the largest file that is taken into memory whole.
const maxWhole = 32 << 20

// load reads a regular file whole.
func (p place) load() ([]byte, fs.FileInfo, error) { return p.loadInto(nil) }

// loadInto does so in the memory of buf if it is large enough.
func (p place) loadInto(buf []byte) ([]byte, fs.FileInfo, error) {
	f, info, err := p.open()
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info.Size() > maxWhole {
		return nil, nil, refuse(ClassKind, "the file has %s, too much to be changed here: use Bash", bytesText(info.Size()))
	}
	// One byte more than it has finds its end at once, or that it grows.
	buf = slices.Grow(buf[:0], int(info.Size())+1)
	for len(buf) <= maxWhole {
		n, err := f.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, info, nil
		}
		if err != nil {
			return nil, nil, err
		}
		buf = slices.Grow(buf, 512)
	}
	return nil, nil, refuse(ClassKind, "the file grows while it is read: use Bash")
}

// lookalike reports whether two names differ only in how letters are composed
// and in which blanks they have. Some systems write them in ways that nobody
// types.
func lookalike(a, b string) bool {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return ' '
			}
			return r
		}, norm.NFC.String(s))
	}
	return a != b && plain(a) == plain(b)
}

func kindText(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "this is a folder, not a file. List it with Glob, or with Bash and ls"
	case mode&fs.ModeNamedPipe != 0:
		return "this is a named pipe, on which reading may never end"
	case mode&fs.ModeSocket != 0:
		return "this is a socket, not a file"
	}
	return "this is a device, not a file"
}

// neighbours names what in the same folder is most like a name that is missing.
func (p place) neighbours() []string {
	dir, err := p.area.root.Open(filepath.Dir(p.rel))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(10_000) // part of a folder is good enough for a hint
	slices.Sort(names)
	var near []string
	for _, n := range names { // what looks the same can only be told by its characters
		if same := lookalike(filepath.Base(p.rel), n); same && len(near) < 3 {
			near = append(near, n+", whose name looks the same and is written otherwise (as JSON "+inASCII(n)+")")
		}
	}
	if len(near) > 0 {
		return near
	}
	for len(near) < 3 {
		n := tool.Nearest(filepath.Base(p.rel), names)
		if n == "" {
			break
		}
		near = append(near, n)
		names = slices.DeleteFunc(names, func(s string) bool { return s == n })
	}
	return near
}

// quote keeps a list of one path a line readable when names hold line ends.
func quote(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(path)
	}
	return path
}

func bytesText(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 10_000:
		return strconv.FormatInt(n, 10) + " bytes"
	case n < 10_000_000:
		return strconv.FormatInt(n/1000, 10) + " kB"
	}
	return strconv.FormatInt(n/1_000_000, 10) + " MB"
}

// plural counts in words: 1 process, 3 processes.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
