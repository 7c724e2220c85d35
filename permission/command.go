package permission

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/daruma-agent/daruma/tool"
	"mvdan.cc/sh/v3/syntax"
)

// command reads the words of a simple command: it looks through wrappers and
// into the commands that are given as words.
func (s *scan) command(assigns []assign, words []word, depth int) *command {
	c := &command{assigns: assigns, words: words, dirs: s.dirs}
	c.written = prefixed(assigns, join(words, asWritten))
	for range maxDepth {
		c.spell()
		rest, more := s.unwrap(c)
		if !more {
			break
		}
		c.words = rest
	}
	s.matched(c)
	c.text = prefixed(slices.DeleteFunc(slices.Clone(c.assigns), assign.harmless), join(c.words, asWritten))
	c.spellings = append(c.spellings, c.written)
	if depth > maxDepth {
		c.hide("it is nested too deeply")
		return c
	}
	c.from, c.onto = s.policy.touches(c)
	s.look(c, depth)
	return c
}

func prefixed(assigns []assign, text string) string {
	for _, a := range slices.Backward(assigns) {
		text = a.raw + " " + text
	}
	return text
}

// hide says why the command cannot be judged; the first reason stays.
func (c *command) hide(why string) {
	if c.opaque == "" {
		c.opaque = why
	}
}

// spell adds the spellings of the present words: as written, without quotes,
// and by the program's base name.
func (c *command) spell() {
	if len(c.words) == 0 {
		return
	}
	if !c.words[0].plain {
		c.hide("the name of the command (" + c.words[0].raw + ") is not written plainly, so it may be any")
	}
	passed := join(c.words, asPassed)
	named := base(c.words[0].text) + strings.TrimPrefix(passed, asPassed(c.words[0]))
	for _, text := range []string{join(c.words, asWritten), passed, named, blanks(passed)} {
		if !slices.Contains(c.spellings, text) {
			c.spellings = append(c.spellings, text)
		}
	}
}

// matched adds, for caution, the programs that a pattern such as /bin/r? in the
// place of a name matches at this moment.
func (s *scan) matched(c *command) {
	if len(c.words) == 0 || !c.words[0].globs {
		return
	}
	name := c.words[0].text
	if dir := filepath.Dir(name); !filepath.IsAbs(dir) || strings.ContainsAny(dir, "*?[") || !s.policy.look(lookFolder) {
		return
	}
	found, _ := filepath.Glob(name)
	for _, program := range found[:min(len(found), maxBegin)] {
		c.spellings = append(c.spellings, base(program)+strings.TrimPrefix(join(c.words, asPassed), asPassed(c.words[0])))
	}
}

// blanks makes every kind of blank the usual one, as a person would read it.
func blanks(text string) string {
	return strings.Join(strings.FieldsFunc(text, unicode.IsSpace), " ")
}

// unwrap removes one wrapper and returns the words within; false if there is
// none.
func (s *scan) unwrap(c *command) ([]word, bool) {
	if len(c.words) < 2 {
		return nil, false
	}
	name := c.words[0].text
	r, ok := runners[name]
	if !ok || (name == "command" && strings.HasPrefix(strings.ToLower(c.words[1].text), "-v")) {
		return nil, false
	}
	_, rest, bare, ok := r.command(c.words)
	if !ok {
		c.hide("the options of " + name + " hide which command it runs")
		return nil, false
	}
	if len(rest) == 0 || !(r.wrapper || r.feeds && bare) {
		return nil, false
	}
	if r.feeds { // without options, so nothing is replaced
		rest = fedWords(c, rest)
	}
	return rest, true
}

// fedWords adds the words that come from the input, which nobody knows.
func fedWords(c *command, rest []word) []word {
	c.spellings = append(c.spellings, join(rest, asPassed))
	return append(slices.Clone(rest), word{raw: `"$@"`, text: `"$@"`})
}

// look reads the commands that the command runs in turn.
func (s *scan) look(c *command, depth int) {
	if len(c.words) == 0 {
		return
	}
	name := base(c.words[0].text)
	r, runs := runners[name]
	_, shell := shells[name]
	switch {
	case name == "eval":
		s.eval(c)
	case shell:
		s.shell(c)
	case name == "find":
		commands, _ := findCommands(c.words)
		for _, words := range commands {
			s.inner(c, nil, words, depth)
		}
		c.clear = len(commands) > 0
	case runs && !r.wrapper:
		s.runner(c, r, depth)
	case runs, slices.Contains(launchers, name):
		c.suffixes()
	}
	// /tmp/env is not known to do what env does.
	c.clear = c.clear && c.words[0].text == name
}

// inner adds one command that the command runs.
func (s *scan) inner(c *command, assigns []assign, words []word, depth int) {
	if len(words) == 0 {
		return
	}
	c.inner = append(c.inner, part{kind: tool.AccessShell, command: s.command(assigns, words, depth+1)})
}

func (s *scan) runner(c *command, r runner, depth int) {
	vars, rest, _, ok := r.command(c.words)
	if !ok {
		c.hide("the options of " + c.words[0].text + " hide which command it runs")
		c.suffixes()
		return
	}
	var assigns []assign
	for _, w := range vars {
		name, _, _ := strings.Cut(w.text, "=")
		assigns = append(assigns, assign{strings.TrimSuffix(name, "+"), w.raw})
	}
	if r.feeds {
		rest = fedWords(c, r.replaced(c.words, rest))
	}
	s.inner(c, assigns, rest, depth)
	c.clear = r.clear && len(c.inner) > 0
}

// suffixes adds the tails of the words as spellings, as a command may begin at
// any of the first.
func (c *command) suffixes() {
	for i := range min(len(c.words), maxBegin) {
		c.spellings = append(c.spellings, join(c.words[i:], asPassed))
	}
}

// eval reads the words as a script of the present shell.
func (s *scan) eval(c *command) {
	args, known := texts(c.words[1:])
	if !known {
		c.hide("eval runs words that are not written out")
		c.suffixes()
		return
	}
	before := len(s.parts)
	s.depth++
	s.script(strings.Join(args, " "))
	s.depth--
	c.inner = slices.Clone(s.parts[before:])
	s.parts = s.parts[:before]
	c.clear = true
}

// shell reads the script of sh -c.
func (s *scan) shell(c *command) {
	at, plain, ok := shellScript(c.words)
	c.suffixes()
	if at == 0 && ok {
		return // a file or the input: the words are all there is to judge
	}
	if !ok || !c.words[at].known {
		c.hide("the script of " + c.words[0].text + " is not written out")
		return
	}
	script := c.words[at].text
	c.inner = s.policy.readScript(script, s.dirs, s.depth+1)
	c.clear = plain && shells[c.words[0].text]
	if c.words[0].text != "bash" && slices.ContainsFunc(bashOnly, func(t string) bool { return strings.Contains(script, t) }) {
		c.clear = false
		c.spellings = append(c.spellings, fragments(script)...)
	}
}

// bashOnly is what plain shells read in another way: "[[ x || y ]]" runs y.
var bashOnly = []string{"[[", "$'", "((", "&>", "|&", "<<<", "<(", ">(", "function", "coproc", "select", "time"}

// The variables that change no program in a way that matters.
var harmlessNames = []string{"CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "LINES", "LANG", "LANGUAGE", "TZ", "TERM", "DEBUG",
	"GOOS", "GOARCH", "GOAMD64", "CGO_ENABLED", "GOMAXPROCS", "GOTRACEBACK", "GO111MODULE", "RUST_BACKTRACE", "RUST_LOG",
	"NODE_ENV", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "GIT_TERMINAL_PROMPT"}

// harmless says that the variable may be given to any program.
func (a assign) harmless() bool {
	return slices.Contains(harmlessNames, a.name) || strings.HasPrefix(a.name, "LC_")
}

// local says that the variable matters to the script alone. Small letters are
// the habit for such; the exceptions steer programs or the search for them.
func (a assign) local() bool {
	if a.harmless() {
		return true
	}
	small := strings.Trim(a.name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
	return small && !strings.HasSuffix(a.name, "path") && !strings.HasSuffix(a.name, "proxy") && !strings.HasPrefix(a.name, "npm_")
}

// computed says why an expansion may run what nobody can see; empty if it only
// gives a variable's text.
func computed(e *syntax.ParamExp) string {
	switch {
	case e.Excl || e.Names != 0 || e.NestedParam != nil || e.Flags != nil:
		return "a variable is named by another"
	case e.Index != nil && !tame(e.Index):
		return "a subscript is computed"
	case e.Slice != nil && !(tame(e.Slice.Offset) && tame(e.Slice.Length)):
		return "a position is computed"
	case e.Exp != nil && e.Exp.Op == syntax.OtherParamOps:
		return "a variable is evaluated"
	}
	return ""
}

// assigned is the assignment that an expansion such as ${x:=y} makes.
func assigned(src string, e *syntax.ParamExp) (assign, bool) {
	if e.Param == nil || e.Exp == nil || e.Exp.Op != syntax.AssignUnset && e.Exp.Op != syntax.AssignUnsetOrNull {
		return assign{}, false
	}
	return assign{e.Param.Value, source(src, e)}, true
}

// tame says that an arithmetic expression is nothing but a number, or the "@"
// and "*" that stand for a whole array.
func tame(x syntax.ArithmExpr) bool {
	if x == nil {
		return true
	}
	w, ok := x.(*syntax.Word)
	if !ok {
		return false
	}
	lit := w.Lit()
	return lit == "@" || lit == "*" || (lit != "" && strings.Trim(lit, "0123456789") == "")
}

// tameAll says that all words of an arithmetic node are numbers.
func tameAll(n syntax.Node) bool {
	ok := true
	syntax.Walk(n, func(n syntax.Node) bool {
		if w, is := n.(*syntax.Word); is {
			ok = ok && tame(w)
			return false
		}
		return ok || n == nil
	})
	return ok
}
