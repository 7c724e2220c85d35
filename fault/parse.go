package fault

import (
	"path"
	"strconv"
	"strings"
	"time"
)

// Parse reads a script; name is used in errors, which are of type *ScriptError.
func Parse(name, text string) (*Script, error) {
	root, err := lex(name, text)
	if err != nil {
		return nil, err
	}
	p := &parser{file: name, ids: map[string]place{}}
	s := &Script{Name: name, scale: 1, charsPerToken: defaultCharsPerToken, judge: map[string]verdict{}}
	general := modelLimits{glob: "*"}
	for _, n := range root.kids {
		p.top(s, &general, n)
	}
	s.limits = append(s.limits, general)
	p.checkAfter()
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

// parser gives meaning to the tree of lines. The first error stops everything: each method returns
// zero values once err is set.
type parser struct {
	file  string
	err   error
	ids   map[string]place // of steps and layers
	after []token          // steps named by conditions, checked when all are known
	names map[string]bool  // captures known in the block being read
}

func (p *parser) fail(at place, msg ...string) {
	if p.err == nil {
		p.err = &ScriptError{p.file, at.line, at.col, strings.Join(msg, "")}
	}
}

func (p *parser) checkAfter() {
	for _, t := range p.after {
		if _, ok := p.ids[t.text]; !ok {
			p.fail(t.at, "no step is called ", t.text, ": expected the name of a step or layer of this script")
		}
	}
}

const topWords = "scale, seed, chars-per-token, prefill, models, judge, window, output, body, media, image-bytes, pages, for, step, layer or model"

func (p *parser) top(s *Script, general *modelLimits, n *node) {
	if p.err != nil {
		return
	}
	c := p.line(n)
	switch n.name {
	case "scale":
		s.scale = c.float("a factor for all waits, such as 0.01")
	case "seed":
		s.seed = uint64(c.number("a whole number"))
	case "chars-per-token":
		s.charsPerToken = c.float("a number of characters, such as 4")
		if s.charsPerToken <= 0 {
			p.fail(n.at, "chars-per-token has to be above 0")
			s.charsPerToken = 1
		}
	case "prefill":
		s.prefill = c.choice("allow", "refuse") == "allow"
	case "models":
		for s.models = append(s.models, c.glob()); c.more(); {
			s.models = append(s.models, c.glob())
		}
	case "judge":
		p.judge(s, c)
	case "for":
		l := modelLimits{glob: c.glob()}
		for _, kid := range n.kids {
			kc := p.line(kid)
			if !p.limit(&l, kc) {
				p.fail(kid.at, "unknown limit ", kid.name, ": expected window, output, body, media, image-bytes or pages")
			}
			kc.done()
		}
		s.limits = append(s.limits, l)
		c.blockDone()
		return
	case "step", "layer":
		st := p.step(n, c)
		if st.layer {
			s.layers = append(s.layers, st)
		} else {
			s.steps = append(s.steps, st)
		}
		return
	case "model":
		for _, kid := range n.kids {
			s.rules = append(s.rules, p.rule(kid, s))
		}
		c.blockDone()
		return
	default:
		if !p.limit(general, c) {
			p.fail(n.at, "unknown statement ", n.name, ": expected ", topWords)
		}
	}
	c.done()
}

func (p *parser) limit(l *modelLimits, c *cursor) bool {
	switch c.node.name {
	case "window":
		l.window = c.number("a number of tokens, such as 200k")
		l.overflow = "too-long"
		if c.more() {
			l.overflow = c.choice("too-long", "sum", "stop", "cut")
		}
	case "output":
		l.output = c.number("a number of tokens")
	case "body":
		l.body = c.number("a number of bytes, such as 32MB")
	case "media":
		l.media = c.number("a number of images and documents")
	case "image-bytes":
		l.imageBytes = c.number("a number of bytes, such as 5MB")
	case "pages":
		l.pages = c.number("a number of pages")
	default:
		return false
	}
	return true
}

func (p *parser) judge(s *Script, c *cursor) {
	v := map[string]verdict{"refuse": refuse, "record": record, "ignore": ignore}[c.choice("refuse", "record", "ignore")]
	if !c.more() {
		for _, rule := range ruleNames {
			s.judge[rule] = v
		}
	}
	for c.more() {
		s.judge[c.choice(ruleNames...)] = v
	}
}

func (p *parser) id(c *cursor, kind string) string {
	t := c.next("a name for the " + kind)
	if t.kind != word || t.key != "" {
		p.fail(t.at, "expected a name for the ", kind, ": one word")
	}
	return t.text
}

// times reads how often a step or rule applies: once, times N, always.
func (p *parser) times(c *cursor, without int) int {
	if !c.more() {
		return without
	}
	switch c.choice("once", "times", "always") {
	case "once":
		return 1
	case "times":
		n := c.number("how many times")
		if n == 0 {
			p.fail(c.node.at, "times 0 would never happen: expected at least 1")
		}
		return n
	}
	return 0
}

func (p *parser) step(n *node, c *cursor) *step {
	s := &step{id: p.id(c, n.name), layer: n.name == "layer"}
	if first, dup := p.ids[s.id]; dup {
		p.fail(n.at, "the name ", s.id, " is already used on line ", strconv.Itoa(first.line), ": expected another name")
	}
	p.ids[s.id] = n.at
	without := 1
	if s.layer || n.has("until") {
		without = 0
	}
	s.times = p.times(c, without)
	s.byPath = n.asks("path")
	p.names = map[string]bool{}
	s.when = p.when(n, "when")
	captured := p.names
	s.until = p.when(n, "until").tests
	p.names = captured
	for _, kid := range n.kids {
		if kid.name != "when" && kid.name != "until" {
			p.effect(&s.effects, kid)
		}
	}
	c.blockDone()
	return s
}

func (p *parser) rule(n *node, s *Script) *rule {
	c := p.line(n)
	if n.name != "rule" {
		p.fail(n.at, "unknown statement ", n.name, " in model: expected rule NAME")
		return &rule{}
	}
	r := &rule{id: p.id(c, "rule")}
	for _, other := range s.rules {
		if other.id == r.id {
			p.fail(n.at, "the name ", r.id, " is already used by a rule: expected another name")
		}
	}
	r.times = p.times(c, 0)
	p.names = map[string]bool{}
	r.when = p.when(n, "when")
	r.asksPurpose, r.asksContinuation = n.asks("purpose"), n.asks("continuation")
	r.reply = p.reply(n)
	c.blockDone()
	return r
}

// has reports whether a line of the block begins with name.
func (n *node) has(name string) bool {
	for _, kid := range n.kids {
		if kid.name == name {
			return true
		}
	}
	return false
}

// asks reports whether a when line of the block uses the condition.
func (n *node) asks(condition string) bool {
	for _, kid := range n.kids {
		for i, t := range kid.args {
			head := i == 0 || kid.args[i-1].kind == comma || kid.args[i-1].text == "not"
			if kid.name == "when" && head && t.kind == word && t.text == condition {
				return true
			}
		}
	}
	return false
}

// cursor reads the arguments of one line.
type cursor struct {
	p    *parser
	node *node
	i    int
}

func (p *parser) line(n *node) *cursor { return &cursor{p: p, node: n} }

func (c *cursor) more() bool { return c.p.err == nil && c.i < len(c.node.args) }

func (c *cursor) peek() string {
	if !c.more() || c.node.args[c.i].kind == quoted {
		return ""
	}
	return c.node.args[c.i].text
}

// next takes the next argument; want says what it should be.
func (c *cursor) next(want string) token {
	if c.i >= len(c.node.args) {
		c.p.fail(c.node.end, "expected ", want)
		return token{at: c.node.end}
	}
	c.i++
	return c.node.args[c.i-1]
}

func (c *cursor) done() {
	if c.more() {
		t := c.node.args[c.i]
		c.p.fail(t.at, "unexpected ", strconv.Quote(t.text), " after ", c.node.name, ": expected the end of the line")
	}
	if len(c.node.kids) > 0 {
		c.p.fail(c.node.kids[0].at, c.node.name, " takes no indented lines")
	}
}

func (c *cursor) blockDone() {
	if c.more() {
		t := c.node.args[c.i]
		c.p.fail(t.at, "unexpected ", strconv.Quote(t.text), ": expected the end of the line")
	}
	if len(c.node.kids) == 0 {
		c.p.fail(c.node.end, c.node.name, " is empty: expected indented lines below it")
	}
}

func (c *cursor) choice(words ...string) string {
	want := "one of " + strings.Join(words, ", ")
	t := c.next(want)
	for _, w := range words {
		if t.kind == word && t.key == "" && t.text == w {
			return w
		}
	}
	c.p.fail(t.at, "unknown ", strconv.Quote(t.text), ": expected ", want)
	return ""
}

func (c *cursor) string(want string) token {
	t := c.next(want)
	if t.kind != quoted || t.key != "" {
		c.p.fail(t.at, "expected ", want, ": a quoted string or <<END")
	}
	return t
}

func (c *cursor) glob() string {
	t := c.next("a name or glob")
	if _, err := path.Match(t.text, ""); err != nil || t.kind == comma || t.key != "" {
		c.p.fail(t.at, "expected a name or glob, such as \"claude-*\"")
	}
	return t.text
}

func (c *cursor) template(want string) template { return c.p.template(c.string(want)) }

func (p *parser) template(t token) template {
	out, unknown := newTemplate(t.text, p.names)
	if unknown != "" {
		p.fail(t.at, "nothing captures ${", unknown, "}: expected a (?P<", unknown, ">…) in a when line of this block; write $${ for a literal ${")
	}
	return out
}

func (c *cursor) float(want string) float64 {
	t := c.next(want)
	f, err := strconv.ParseFloat(t.text, 64)
	if err != nil || f < 0 || f > 1e12 || f != f {
		c.p.fail(t.at, "expected ", want)
	}
	return f
}

var units = map[string]int{"": 1, "k": 1000, "K": 1000, "M": 1000000, "KB": 1 << 10, "MB": 1 << 20}

// number reads a whole number with an optional unit: k and M count tokens, KB and MB bytes.
func (c *cursor) number(want string) int {
	t := c.next(want)
	digits := strings.TrimRight(t.text, "kKMB")
	n, err := strconv.Atoi(digits)
	unit, ok := units[t.text[len(digits):]]
	if err != nil || !ok || n < 0 || n > 1<<40 || t.key != "" || t.kind != word {
		c.p.fail(t.at, "expected ", want)
		return 0
	}
	return n * unit
}

// optionalNumber reads a number if the next argument is one; a time such as 3s is none.
func (c *cursor) optionalNumber(without int) int {
	w := c.peek()
	digits := strings.TrimRight(w, "kKMB")
	if _, ok := units[w[len(digits):]]; !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return without
	}
	return c.number("a number")
}

func (c *cursor) duration(want string) time.Duration {
	t := c.next(want)
	d, err := time.ParseDuration(t.text)
	if err != nil || d < 0 || t.kind != word {
		c.p.fail(t.at, "expected ", want, ": a time such as 250ms, 3s or 5m")
	}
	return d
}

// span reads N, N..M or N.. .
func (c *cursor) span() span {
	t := c.next("a number or range, such as 3, 2..4 or 5..")
	lo, hi, ranged := strings.Cut(t.text, "..")
	s := span{hi: 1 << 30}
	var err, err2 error
	s.lo, err = strconv.Atoi(lo)
	switch {
	case !ranged:
		s.hi = s.lo
	case hi != "":
		s.hi, err2 = strconv.Atoi(hi)
	}
	if err != nil || err2 != nil || s.lo < 1 || s.hi < s.lo {
		c.p.fail(t.at, "expected a number or range, such as 3, 2..4 or 5..")
	}
	return s
}
