package permission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/tool"
	"mvdan.cc/sh/v3/syntax"
)

// part is one thing of a call that rules are asked about.
type part struct {
	kind    tool.AccessKind
	command *command // of a shell part
	place   place    // of a read or edit part
}

// command is one simple command of a script, as far as it can be read.
type command struct {
	words   []word   // without the wrappers around it
	assigns []assign // in front of it, or alone
	text    string   // what allow rules see: as written, without wrappers and harmless assignments
	written string   // with them
	// spellings are what deny and ask rules see: all that it may mean.
	spellings []string
	opaque    string // why it cannot be judged; empty if it can
	inner     []part // the commands that it runs in turn
	clear     bool   // running them is all that it does
	dirs      []string
	// What it reads and changes, if it is known to do so: see touches.
	from, onto []place
}

// assign is one assignment to a shell variable.
type assign struct{ name, raw string }

// Limits of what is read. Beyond them a command is asked about.
const (
	maxScript = 256 << 10
	maxDepth  = 8  // scripts within scripts, commands within commands
	maxDirs   = 16 // directories that a script may have changed to
	maxBegin  = 32 // words at which a command may begin, where nobody knows where it does
)

// scan collects the parts of one script.
type scan struct {
	policy  *Policy
	src     string
	dirs    []string // where the script may be by now; none: unknown
	depth   int
	repeats int  // loops and functions around the present node
	defines bool // there are functions
	// quotes say of the open nodes whether they stand between double quotes or
	// in a here-document.
	quotes []bool
	here   []*syntax.Word // bodies of here-documents
	parts  []part
}

// readScript returns the parts of a script that starts in one of dirs. There
// is at least one, and what cannot be read is a part that says so.
func (p *Policy) readScript(src string, dirs []string, depth int) []part {
	s := &scan{policy: p, dirs: dirs, depth: depth}
	s.script(src)
	if len(s.parts) == 0 {
		s.add(&command{text: strings.TrimSpace(src), clear: true})
	}
	return s.parts
}

// script reads src in the present shell.
func (s *scan) script(src string) {
	file, err := parse(src)
	if err != nil || s.depth > maxDepth {
		reason := "it is nested too deeply"
		if err != nil {
			reason = "it cannot be read as a shell command: " + err.Error()
		}
		s.add(&command{text: src, written: src, opaque: reason, spellings: fragments(src)})
		return
	}
	outer := s.src
	s.src = src
	s.defines = s.defines || definesFunctions(file)
	s.walk(file)
	s.src = outer
}

func definesFunctions(file *syntax.File) bool {
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		_, is := n.(*syntax.FuncDecl)
		found = found || is
		return n == nil || !found
	})
	return found
}

func (s *scan) add(c *command) {
	s.parts = append(s.parts, part{kind: tool.AccessShell, command: c})
}

// parse reads a script. Nothing that it holds may bring the run down, so even
// a panic of the parser is only an error.
func parse(src string) (file *syntax.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("parse command: %v", r)
		}
	}()
	if len(src) > maxScript {
		return nil, errors.New("it is too long")
	}
	for _, c := range src {
		if c != '\n' && c != '\t' && (c < ' ' || c == 0x7f) {
			return nil, fmt.Errorf("it holds the control character %U", c)
		}
	}
	if splicedComment.MatchString(src) {
		return nil, errors.New("a comment ends in a backslash")
	}
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
}

// splicedComment is a comment whose line ends in a backslash: the parser takes
// the next line for a part of it, and no shell does.
var splicedComment = regexp.MustCompile("(^|[\\s;&|()<>{}`])#[^\\n]*\\\\\\n")

// fragments cuts a script that cannot be parsed wherever a command may begin,
// so that deny rules still see what is plainly there.
func fragments(src string) []string {
	all := []string{strings.TrimSpace(src)}
	for _, f := range strings.FieldsFunc(src, func(r rune) bool { return strings.ContainsRune(";&|\n\r(){}`", r) }) {
		words := strings.Fields(f)
		for i := range min(len(words), maxBegin) {
			all = append(all, strings.Join(words[i:], " "))
		}
	}
	return all
}

// walk visits all that the script may run.
func (s *scan) walk(root syntax.Node) {
	var open []int // per open node, how it counts as repeating
	outer := s.quotes
	s.quotes = nil
	defer func() { s.quotes = outer }()
	syntax.Walk(root, func(n syntax.Node) bool {
		if n == nil {
			s.repeats -= open[len(open)-1]
			open = open[:len(open)-1]
			s.quotes = s.quotes[:len(s.quotes)-1]
			return true
		}
		s.quotes = append(s.quotes, s.quoted(n))
		repeats := 0
		switch n.(type) {
		case *syntax.ForClause, *syntax.WhileClause, *syntax.FuncDecl:
			repeats = 1
		}
		s.repeats += repeats
		open = append(open, repeats)
		s.visit(n)
		return true
	})
}

// quoted says that what is in n stands between double quotes or in a
// here-document. A command in there begins anew.
func (s *scan) quoted(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.DblQuoted:
		return true
	case *syntax.CmdSubst, *syntax.ProcSubst:
		return false
	case *syntax.Word:
		if slices.Contains(s.here, n) {
			return true
		}
	}
	return len(s.quotes) > 0 && s.quotes[len(s.quotes)-1]
}

func (s *scan) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Redirect:
		if n.Hdoc != nil {
			s.here = append(s.here, n.Hdoc)
		}
	case *syntax.SglQuoted:
		if s.quotes[len(s.quotes)-1] {
			// In "${x:-'$(y)'}" and where ' stands alone, shells see no quotes.
			s.hidden(n, "shells differ on single quotes between double ones")
		}
	case *syntax.ExtGlob:
		// Shells that do not know the pattern, as is usual, see a subshell in
		// !(x), and what it computes is not parsed.
		s.hidden(n, "shells differ on the pattern")
	case *syntax.CoprocClause:
		if n.Name != nil {
			s.hidden(n.Name, "it sets a variable to a descriptor")
		}
	case *syntax.ArrayElem:
		if n.Index != nil && !tame(n.Index) {
			s.hidden(n, "a subscript is computed")
		}
	case *syntax.Stmt:
		for _, r := range n.Redirs {
			s.redirect(r)
		}
		if c, ok := n.Cmd.(*syntax.CallExpr); ok {
			s.call(c, n.Redirs)
		}
	case *syntax.DeclClause:
		s.declare(n)
	case *syntax.WordIter:
		if a := (assign{n.Name.Value, n.Name.Value}); !a.local() {
			s.assignments([]assign{a})
		}
	case *syntax.Assign:
		if n.Index != nil && !tame(n.Index) {
			s.hidden(n, "a subscript is computed")
		}
	case *syntax.ParamExp:
		if why := computed(n); why != "" {
			s.hidden(n, why)
		} else if a, ok := assigned(s.src, n); ok && !a.local() {
			s.assignments([]assign{a})
		}
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		if !tameAll(n) {
			// The shell evaluates what variables hold, and that may run commands.
			s.hidden(n, "it computes with variables")
		}
	case *syntax.BinaryTest:
		if n.Op >= syntax.TsEql && n.Op <= syntax.TsGtr {
			s.hidden(n, "it computes in a test")
		}
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			s.hidden(n, "it tests a computed variable")
		}
	}
}

// hidden notes something that may run what nobody can see.
func (s *scan) hidden(n syntax.Node, why string) {
	raw := source(s.src, n)
	s.add(&command{text: raw, written: raw, opaque: why + " (" + raw + "), which may run anything", spellings: append(fragments(raw), raw)})
}

// redirect makes a part of the file that a redirection opens.
func (s *scan) redirect(r *syntax.Redirect) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		s.hidden(r, "it names a descriptor by a variable")
	}
	kind := tool.AccessEdit
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return
	case syntax.RdrIn:
		kind = tool.AccessRead
	}
	if len(r.Word.Parts) == 1 {
		if _, ok := r.Word.Parts[0].(*syntax.ProcSubst); ok {
			return // a pipe to a command, which is a part of its own
		}
	}
	words := readWord(s.src, r.Word)
	if r.Op == syntax.DplIn || r.Op == syntax.DplOut {
		if t := words[0].text; words[0].known && (t == "-" || strings.Trim(strings.TrimSuffix(t, "-"), "0123456789") == "" && t != "") {
			return
		}
	}
	for _, w := range words {
		if w.known && slices.Contains(devices, w.text) {
			continue
		}
		at := s.policy.guess(w, s.dirs)
		if w.known {
			at = s.policy.locate(w.text, s.dirs)
		}
		s.parts = append(s.parts, part{kind: kind, place: at})
	}
}

// devices are the files whose opening changes and reveals nothing.
var devices = []string{"/dev/null", "/dev/zero", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"}

// call makes a part of a simple command.
func (s *scan) call(c *syntax.CallExpr, redirs []*syntax.Redirect) {
	var words []word
	for _, w := range c.Args {
		words = append(words, readWord(s.src, w)...)
	}
	var assigns []assign
	for _, a := range c.Assigns {
		assigns = append(assigns, assign{a.Name.Value, source(s.src, a)})
	}
	if len(words) == 0 {
		s.assignments(assigns)
		return
	}
	cmd := s.command(assigns, words, 0)
	if len(cmd.words) > 0 {
		if _, ok := shells[base(cmd.words[0].text)]; ok {
			s.fed(cmd, redirs)
		}
	}
	s.add(cmd)
	s.move(cmd)
}

// assignments makes a part of assignments without a command, which hold for
// all that follows.
func (s *scan) assignments(assigns []assign) {
	c := &command{assigns: assigns, dirs: s.dirs}
	for _, a := range assigns {
		c.text = strings.TrimSpace(c.text + " " + a.raw)
	}
	c.written, c.spellings = c.text, []string{c.text}
	s.add(c)
}

// declare makes a part of export, declare and the like.
func (s *scan) declare(d *syntax.DeclClause) {
	raw := source(s.src, d)
	words := []word{{raw: d.Variant.Value, text: d.Variant.Value, known: true, plain: true}}
	for _, a := range d.Args {
		words = append(words, word{raw: source(s.src, a), text: source(s.src, a)})
	}
	s.add(&command{words: words, text: raw, written: raw, spellings: []string{raw}, dirs: s.dirs})
}

// fed reads what a shell is given as its input.
func (s *scan) fed(c *command, redirs []*syntax.Redirect) {
	for _, r := range redirs {
		if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc {
			text, _ := hereText(r)
			c.inner = append(c.inner, s.policy.readScript(text, s.dirs, s.depth+1)...)
		}
	}
}

// move follows cd: from here on the script may be there, or still here if that
// fails.
func (s *scan) move(c *command) {
	if c.opaque != "" || len(c.words) == 0 {
		return
	}
	switch c.words[0].text {
	case "pushd", "popd":
		s.dirs = nil
		return
	case "cd":
	default:
		return
	}
	target, ok := cdTarget(c.words)
	if s.repeats > 0 || s.defines {
		// It may happen any number of times, and before what was read already.
		c.hide("it changes the directory in a loop or beside functions")
	}
	if !ok || c.opaque != "" || len(s.dirs)*2 > maxDirs {
		s.dirs = nil
		return
	}
	reached := slices.Clone(s.dirs)
	at := s.policy.locate(target, s.dirs)
	if len(at.names) == 0 {
		reached = nil
	}
	for _, name := range at.names {
		if !slices.Contains(reached, name) {
			reached = append(reached, name)
		}
	}
	s.dirs = reached
}

// cdTarget returns where cd leads, if that is written out.
func cdTarget(words []word) (string, bool) {
	args := words[1:]
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) != 1 || !args[0].known || strings.HasPrefix(args[0].text, "-") || args[0].text == "" {
		return "", false
	}
	return args[0].text, true
}
