package fault

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// when reads all lines of the block that are called name. Conditions about the text of results come
// last, so that they look at the results which the others have left over, whatever the order in the
// script.
func (p *parser) when(n *node, name string) when {
	var w when
	var last []test
	for _, kid := range n.kids {
		if kid.name != name {
			continue
		}
		c := p.line(kid)
		for {
			head := c.i
			t := p.condition(c, &w)
			switch {
			case t == nil:
			case kid.args[c.head(head)].text == "result":
				last = append(last, t)
			default:
				w.tests = append(w.tests, t)
			}
			if !c.more() {
				break
			}
			if sep := c.next("a comma"); sep.kind != comma {
				p.fail(sep.at, "unexpected ", strconv.Quote(sep.text), ": expected a comma and the next condition, or the end of the line")
			}
		}
		c.done()
	}
	w.tests = append(w.tests, last...)
	return w
}

// head skips the nots before a condition.
func (c *cursor) head(i int) int {
	for i < len(c.node.args)-1 && c.node.args[i].text == "not" {
		i++
	}
	return i
}

// condition reads one condition, perhaps with not before it. nth goes to w and gives no test.
func (p *parser) condition(c *cursor, w *when) test {
	if p.err != nil {
		return nil
	}
	head := c.next("a condition, such as n 2, purpose main, tokens > 5000")
	if head.kind == word && head.text == "not" {
		names := p.names
		p.names = map[string]bool{} // what must not match captures nothing
		t := p.condition(c, nil)
		p.names = names
		return func(s *scene) bool {
			c := *s // what a negated condition narrows or captures is forgotten
			c.captures = maps.Clone(s.captures)
			return t != nil && !t(&c)
		}
	}
	if head.text == "nth" && head.kind == word {
		if w == nil {
			p.fail(head.at, "nth counts what the other conditions let through: it cannot follow not")
			return nil
		}
		span := c.span()
		w.nth = &span
		return nil
	}
	build, ok := conditions[head.text]
	if !ok || head.kind != word || head.key != "" {
		p.fail(head.at, "unknown condition ", strconv.Quote(head.text), ": expected one of ", conditionNames)
		return nil
	}
	return build(p, c)
}

const conditionNames = "n, nth, elapsed, in-flight, chance, path, model, model-changed, purpose, stream, body, tokens, max-tokens, " +
	"messages, media, signatures, thinking, header, contains, offers, after, first, user, results, all-results, " +
	"result-of, result, failed, said, seen, called, continuation (each perhaps after not)"

var conditions map[string]func(*parser, *cursor) test

// The table is filled by init since `condition` reads it and some entries lead back to it.
func init() {
	conditions = map[string]func(*parser, *cursor) test{
		"n": func(_ *parser, c *cursor) test {
			span := c.span()
			return func(s *scene) bool { return span.has(s.req.n) }
		},
		"chance": func(p *parser, c *cursor) test {
			t := c.next("a percentage, such as 30%")
			f, err := strconv.ParseFloat(strings.TrimSuffix(t.text, "%"), 64)
			if err != nil || f < 0 || f > 100 {
				p.fail(t.at, "expected a percentage from 0 to 100, such as 30%")
			}
			return func(s *scene) bool { return s.rand.Float64()*100 < f }
		},
		"elapsed":   elapsedCondition,
		"in-flight": compare(func(s *scene) int { return s.inFlight }),
		"path":      globCondition(func(s *scene) string { return s.req.path }),
		"model":     globCondition(func(s *scene) string { return s.req.model }),
		"model-changed": flag(func(s *scene) bool {
			return s.firstModel != "" && s.firstModel != s.req.model
		}),
		"purpose":     globCondition(func(s *scene) string { return s.req.purpose }),
		"stream":      flag(func(s *scene) bool { return s.req.stream }),
		"body":        compare(func(s *scene) int { return len(s.req.raw) }),
		"tokens":      compare(func(s *scene) int { return s.req.tokens }),
		"max-tokens":  compare(func(s *scene) int { return s.req.maxTokens }),
		"messages":    compare(func(s *scene) int { return len(s.req.messages) }),
		"media":       compare(func(s *scene) int { return s.req.media }),
		"signatures":  compare(func(s *scene) int { return s.req.signatures() }),
		"results":     compare(func(s *scene) int { return len(s.req.lastResults()) }),
		"all-results": compare(func(s *scene) int { return s.req.countBlocks("tool_result") }),
		"thinking": flag(func(s *scene) bool {
			kind := str(object(s.req.body["thinking"]), "type")
			return kind == "enabled" || kind == "adaptive"
		}),
		"header":   headerCondition,
		"contains": containsCondition,
		"offers": func(_ *parser, c *cursor) test {
			name := c.glob()
			return func(s *scene) bool { _, ok := s.req.findTool(name); return ok }
		},
		"after": func(p *parser, c *cursor) test {
			t := c.next("the name of a step")
			p.after = append(p.after, t)
			return func(s *scene) bool { return s.fired[t.text] > 0 }
		},
		"first": flag(func(s *scene) bool {
			return len(s.req.texts("assistant")) == 0 && len(s.req.calls) == 0 && len(s.req.summarisedCalls()) == 0
		}),
		"continuation": flag(func(s *scene) bool { return s.req.looksContinued() }),
		"failed":       flag(func(s *scene) bool { return s.narrow(func(r toolResult) bool { return r.failed }) }),
		"user":         search(func(s *scene) []string { return []string{s.req.lastUserText()} }),
		"said":         search(func(s *scene) []string { return s.req.texts("assistant") }),
		"seen":         search(func(s *scene) []string { return s.req.everything() }),
		"result":       resultCondition,
		"result-of": func(_ *parser, c *cursor) test {
			name := c.glob()
			return func(s *scene) bool {
				return s.narrow(func(r toolResult) bool { return sameTool(name, r.call.name) })
			}
		},
		"called": calledCondition,
	}
}

func flag(f test) func(*parser, *cursor) test {
	return func(*parser, *cursor) test { return f }
}

func globCondition(value func(*scene) string) func(*parser, *cursor) test {
	return func(_ *parser, c *cursor) test {
		pattern := c.glob()
		return func(s *scene) bool { return globs(pattern, value(s)) }
	}
}

// compare reads `> 5`, `< 5`, `>= 5`, `<= 5`, `= 5` or just `5`; alone it asks for more than none.
func compare(value func(*scene) int) func(*parser, *cursor) test {
	return func(p *parser, c *cursor) test {
		op := c.peek()
		switch op {
		case ">", "<", ">=", "<=", "=":
			c.next("")
		case "", ",":
			return func(s *scene) bool { return value(s) > 0 }
		default:
			op = "="
		}
		limit := c.number("a number, or <, >, <=, >= and a number")
		return func(s *scene) bool {
			switch v := value(s); op {
			case ">":
				return v > limit
			case "<":
				return v < limit
			case ">=":
				return v >= limit
			case "<=":
				return v <= limit
			default:
				return v == limit
			}
		}
	}
}

func elapsedCondition(_ *parser, c *cursor) test {
	before := c.choice("<", ">") == "<"
	d := c.duration("a time since the start")
	return func(s *scene) bool { return (s.elapsed < d) == before }
}

func (c *cursor) regexp() *regexp.Regexp {
	t := c.string("a regular expression")
	re, err := regexp.Compile("(?m)" + t.text)
	if err != nil {
		c.p.fail(t.at, "not a regular expression: ", err.Error())
		return regexp.MustCompile("")
	}
	for _, name := range re.SubexpNames() {
		c.p.names[name] = true
	}
	return re
}

func search(texts func(*scene) []string) func(*parser, *cursor) test {
	return func(_ *parser, c *cursor) test {
		re := c.regexp()
		return func(s *scene) bool { return s.match(re, texts(s)) }
	}
}

func headerCondition(_ *parser, c *cursor) test {
	name := c.glob()
	pattern := "*"
	if w := c.peek(); c.more() && w != "," {
		pattern = c.glob()
	}
	return func(s *scene) bool {
		values := s.req.header.Values(name)
		for _, v := range values {
			if ok, _ := path.Match(pattern, v); ok || pattern == "*" {
				return true
			}
		}
		return false
	}
}

func containsCondition(_ *parser, c *cursor) test {
	t := c.string("the text to find")
	return func(s *scene) bool {
		if bytes.Contains(s.req.raw, []byte(t.text)) {
			return true
		}
		for _, text := range s.req.everything() {
			if strings.Contains(text, t.text) {
				return true
			}
		}
		return false
	}
}

func resultCondition(_ *parser, c *cursor) test {
	re := c.regexp()
	return func(s *scene) bool {
		if !s.narrow(func(r toolResult) bool { return re.MatchString(r.text) }) {
			return false
		}
		return s.match(re, []string{s.focus[0].text})
	}
}

// calledCondition looks for an earlier call: in the calls of the conversation, and in the list of calls
// that a summary of ours has kept of a conversation that was compacted away.
func calledCondition(_ *parser, c *cursor) test {
	name := c.glob()
	re := regexp.MustCompile("")
	if w := c.peek(); c.more() && w != "," {
		re = c.regexp()
	}
	return func(s *scene) bool {
		var inputs []string
		for _, call := range s.req.calls {
			if sameTool(name, call.name) {
				inputs = append(inputs, call.input)
			}
		}
		for _, call := range s.req.summarisedCalls() {
			if sameTool(name, call.name) {
				inputs = append(inputs, call.input)
			}
		}
		return s.match(re, inputs)
	}
}

func (q *request) countBlocks(kind string) int {
	n := 0
	for _, t := range q.turns {
		for _, b := range t.blocks {
			if b.kind == kind {
				n++
			}
		}
	}
	return n
}

func (q *request) signatures() int {
	return q.countBlocks("thinking") + q.countBlocks("redacted_thinking")
}

// everything gives all texts that the model can read, the newest first and the system prompt last.
func (q *request) everything() []string {
	var out []string
	for i := len(q.turns) - 1; i >= 0; i-- {
		for _, r := range q.results(q.turns[i]) {
			out = append(out, r.text)
		}
		if text := q.turns[i].text(); text != "" {
			out = append(out, text)
		}
	}
	return append(out, q.system)
}
