package daruma_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// The rules of the house, as a test. Where a rule has to change, change it here
// and in docs/architecture.md, in the same commit as the code that needs it.

const module = "github.com/daruma-agent/daruma"

// mayImport says which packages of the module each package may import. A star
// allows everything below it. A package that is not listed fails the test: its
// place in the house is a decision.
var mayImport = map[string][]string{
	"failure":         {},
	"message":         {"failure"},
	"model":           {"failure", "message"},
	"model/anthropic": {"failure", "message", "model"},
	"model/openai":    {"failure", "message", "model"},
	"retry":           {"failure", "message", "model"},
	"gate":            {},
	"tool":            {"failure", "message", "model"}, // never retry, never loop
	"tool/builtin":    {"failure", "message", "model", "sandbox", "sandbox/keeper", "tool"},
	"tool/mcp":        {"failure", "message", "model", "tool"},
	"loop":            {"failure", "message"},
	"compact":         {"message", "model"},
	"session":         {"failure", "message", "loop"},
	"session/doctor":  {"message", "session"},
	"telemetry":       {"failure", "loop", "message", "session"},
	"view":            {"session"},
	"hook":            {"message", "sandbox/keeper", "tool"},
	"permission":      {"message", "tool"},
	"sandbox":         {},
	"sandbox/keeper":  {},
	"fault":           {}, // it judges clients by its own reading of the rules
	".": {
		"compact", "failure", "fault", "gate", "hook", "loop", "message", "model", "model/*", "permission", "retry", "sandbox",
		"session", "tool", "tool/*", "view",
	},
	"internal/helper": {"sandbox/keeper"},
	"internal/cli":    {"*"},
	"internal/tui":    {"*"},
	"cmd/daruma":      {"*"},
}

// core uses the standard library and the JSON v2 module that becomes part of
// it, so that who embeds it pays for nothing.
var core = []string{
	"failure", "message", "model", "model/anthropic", "model/openai", "retry", "loop", "compact", "session",
}

const jsonModule = "github.com/go-json-experiment/json"

// impure is what loop must not import, nor anything below it: what can wait,
// fail or surprise.
var impure = []string{"context", "time", "iter", "sync", "os", "net", "math/rand"}

// outside is what only the command may touch: the environment, the process
// and its streams. A library gets all of it as values.
var outside = map[string][]string{
	"os": {
		"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "UserHomeDir", "UserConfigDir", "UserCacheDir",
		"Exit", "Args", "Stdin", "Stdout", "Stderr",
	},
	"fmt":      {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"log":      {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Default"},
	"log/slog": {"Debug", "Info", "Warn", "Error", "Default"},
	"net/http": {"ProxyFromEnvironment", "DefaultClient", "DefaultTransport", "Get", "Post", "PostForm", "Head"},
	"syscall":  {"Getenv", "Environ", "Exit"},
}

// mayTouchOutside are the only packages for which outside is not forbidden.
var mayTouchOutside = []string{"cmd/daruma", "internal/cli", "internal/helper"}

const (
	mostLinesOfFunc = 70
	mostLinesOfFile = 500
)

// longer lists what is longer than it should be, with the number of lines that
// it may have and the reason. Entries may only shrink and go.
var longer = map[string]int{}

// source is one Go file of the main module.
type source struct {
	path string // slash-separated, from the root
	dir  string
	test bool
	file *ast.File
}

var house = token.NewFileSet()

// parsed are the Go files of the main module, read once for all rules.
var parsed = sync.OnceValues(func() (files []source, err error) {
	err = walk(func(name string) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(house, filepath.FromSlash(name), nil, parser.ParseComments|parser.SkipObjectResolution)
		files = append(files, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), file})
		return err
	})
	return files, err
})

func sources(t *testing.T) []source {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// walk visits the files of the main module. Folders with a go.mod of their own
// are other modules.
func walk(visit func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular():
			return visit(filepath.ToSlash(name))
		case d.IsDir() && (d.Name() == ".git" || name != "." && exists(filepath.Join(name, "go.mod"))):
			return fs.SkipDir
		}
		return nil
	})
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

// imports yields the import paths of a file, with the name that each has in it.
func imports(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		out[p] = name
	}
	return out
}

// within reports whether p is root or lies below it.
func within(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

func TestHouseImports(t *testing.T) {
	files := sources(t)
	for _, f := range files {
		// Tests may use more than what they test, but the judge's tests must
		// not lean on the client either.
		if f.test && f.dir != "fault" {
			continue
		}
		allowed, listed := mayImport[f.dir]
		if !listed {
			t.Errorf("%s: package %s has no place in the table mayImport", f.path, f.dir)
		}
		for p := range imports(f.file) {
			at := house.Position(f.file.Name.Pos())
			switch {
			case within(p, module):
				inner := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
				if !(f.test && inner == f.dir) && !matches(allowed, inner) {
					t.Errorf("%s: %s must not import %s", at, f.dir, p)
				}
			case strings.Contains(strings.Split(p, "/")[0], "."):
				if slices.Contains(core, f.dir) && !within(p, jsonModule) {
					t.Errorf("%s: %s is part of the core, which imports nothing but the standard library and JSON, not %s", at, f.dir, p)
				}
			case f.dir == "loop" && slices.ContainsFunc(impure, func(root string) bool { return within(p, root) }):
				t.Errorf("%s: loop decides and does not act: it must not import %s", at, p)
			}
		}
	}
}

func matches(allowed []string, inner string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		root, below := strings.CutSuffix(a, "*")
		return inner == a || below && strings.HasPrefix(inner, root)
	})
}

func TestHouseTouchesNothingOutside(t *testing.T) {
	files := sources(t)
	for _, f := range files {
		if f.test || slices.Contains(mayTouchOutside, f.dir) {
			continue
		}
		forbidden := map[string]string{} // "os.Exit" as the file would write it
		for p, name := range imports(f.file) {
			for _, id := range outside[p] {
				forbidden[name+"."+id] = p + "." + id
			}
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && forbidden[x.Name+"."+n.Sel.Name] != "" {
					t.Errorf("%s: %s is for the command alone", house.Position(n.Pos()), forbidden[x.Name+"."+n.Sel.Name])
				}
			case *ast.CallExpr:
				if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "print" || x.Name == "println") {
					t.Errorf("%s: %s writes to stderr, which is for the command alone", house.Position(n.Pos()), x.Name)
				}
			}
			return true
		})
	}
}

// question is how a package comment begins: the layer, or a dash for a package
// of none, and the one question that the package answers.
var question = regexp.MustCompile(`^Package \w+ \((layer [1-4]|–)\)[^.]*\?`)

func TestHousePackageComments(t *testing.T) {
	files := sources(t)
	comments := map[string]string{}
	for _, f := range files {
		if f.test {
			continue
		}
		if _, ok := comments[f.dir]; !ok {
			comments[f.dir] = ""
		}
		if f.file.Doc != nil {
			if comments[f.dir] != "" {
				t.Errorf("%s: package %s has two package comments", f.path, f.dir)
			}
			comments[f.dir] = strings.Join(strings.Fields(f.file.Doc.Text()), " ")
		}
	}
	for dir, comment := range comments {
		switch {
		case dir == ".": // what a reader sees first says what it is
			if !strings.HasPrefix(comment, "Package daruma ") {
				t.Errorf("the package comment of the root is missing")
			}
		case strings.HasPrefix(dir, "cmd/"):
			if !strings.HasPrefix(comment, "Command "+path.Base(dir)+" ") {
				t.Errorf("%s: the comment must begin with Command %s", dir, path.Base(dir))
			}
		case !question.MatchString(comment):
			t.Errorf("%s: the package comment must begin with the layer and the question of the package, such as\n\t"+
				"Package retry (layer 1) answers one question: can the same request be sent again, and when?\ngot\n\t%.120s", dir, comment)
		}
	}
}

func TestHouseSizes(t *testing.T) {
	files := sources(t)
	used := map[string]bool{}
	check := func(name string, lines, most int) {
		if n, ok := longer[name]; ok {
			used[name], most = lines > most, max(n, most)
		}
		if lines > most {
			t.Errorf("%s has %d lines: at most %d are readable", name, lines, most)
		}
	}
	for _, f := range files {
		if f.test {
			continue
		}
		check(f.path, house.File(f.file.Pos()).LineCount(), mostLinesOfFile)
		for _, d := range f.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				lines := house.Position(fn.End()).Line - house.Position(fn.Pos()).Line + 1
				check(f.path+": "+receiver(fn)+fn.Name.Name, lines, mostLinesOfFunc)
			}
		}
	}
	for name := range longer {
		if !used[name] {
			t.Errorf("%s is short enough now: take it out of the list", name)
		}
	}
}

// receiver is the type name of a method and a dot; empty for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

func TestHouseDocuments(t *testing.T) {
	files := sources(t)
	for _, f := range files {
		if f.test {
			continue
		}
		missing := func(n ast.Node, name string) {
			t.Errorf("%s: %s is exported and has no comment", house.Position(n.Pos()), name)
		}
		for _, d := range f.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				of := receiver(d)
				if d.Doc == nil && d.Name.IsExported() && (of == "" || ast.IsExported(of)) && !wellKnown[d.Name.Name] {
					missing(d, of+d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(d, missing)
			}
		}
	}
}

// wellKnown are methods whose meaning an interface fixes: one of the standard
// library, or session.Body.
var wellKnown = map[string]bool{
	"Error": true, "Unwrap": true, "Is": true, "String": true, "Read": true, "Write": true, "Close": true,
	"MarshalText": true, "UnmarshalText": true, "MarshalJSON": true, "UnmarshalJSON": true,
	"MarshalJSONTo": true, "UnmarshalJSONFrom": true, "ServeHTTP": true, "Type": true,
}

// undocumented reports the exported names of d that have neither a comment of
// their own nor one for their group.
func undocumented(d *ast.GenDecl, missing func(ast.Node, string)) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
				missing(s, s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					missing(s, name.Name)
				}
			}
		}
	}
}

// left marks what was to be done later: it is done now, or it is an issue.
// Written apart, so that this file does not find itself.
var left = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)

// places are paths that exist on one machine only, or outside of the repository.
var places = []string{"/wo" + "rk/", "../sha" + "red", "/Users" + "/"}

func TestHouseIsTidy(t *testing.T) {
	err := walk(func(name string) error {
		data, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil || bytes.IndexByte(data, 0) >= 0 || strings.Contains(name, "testdata/fuzz/") {
			return err // not a text, or what a machine found
		}
		report := func(at int, format string, args ...any) {
			t.Errorf("%s:%d: %s", name, bytes.Count(data[:at], []byte("\n"))+1, fmt.Sprintf(format, args...))
		}
		if at := left.FindIndex(data); at != nil {
			report(at[0], "%s: do it, or file it", data[at[0]:at[1]])
		}
		for _, p := range places {
			if at := bytes.Index(data, []byte(p)); at >= 0 {
				report(at, "the path %s means nothing to others", p)
			}
		}
		if strings.HasSuffix(name, ".go") && !utf8.Valid(data) {
			report(0, "not UTF-8")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
