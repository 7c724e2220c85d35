package permission

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command line.
type word struct {
	raw   string // as written; empty in all but the first word of a brace expansion
	text  string // what the program gets, as far as it is known
	known bool   // text is exactly what the program gets
	plain bool   // written without quotes or anything that is expanded
	globs bool   // a pattern of file names; otherwise known
	// splits: an expansion outside of quotes, which may become several words
	// or none.
	splits bool
}

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./+@%:,=-]+$|^\[$`) })

// readWord reads a word, which braces may turn into several.
func readWord(src string, w *syntax.Word) []word {
	raw := source(src, w)
	whole := &syntax.Word{Parts: slices.Clone(w.Parts)} // SplitBraces changes it
	if !syntax.SplitBraces(whole) {
		return []word{readParts(raw, whole.Parts)}
	}
	lists, ok := expandBraces(whole.Parts)
	if !ok {
		return []word{{raw: raw, text: raw}}
	}
	words := make([]word, len(lists))
	for i, parts := range lists {
		words[i] = readParts("", parts)
		words[i].plain = false
	}
	words[0].raw = raw
	return words
}

// source is the text of a node.
func source(src string, n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(src)) {
		return src // positions are lost: better too much text than too little
	}
	return src[from:to]
}

const maxBraces = 64 // words of one brace expansion

// expandBraces returns the part lists that the braces stand for; false if they
// are too many or count ({1..9}).
func expandBraces(parts []syntax.WordPart) ([][]syntax.WordPart, bool) {
	lists := [][]syntax.WordPart{nil}
	for _, part := range parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			for i := range lists {
				lists[i] = append(lists[i], part)
			}
			continue
		}
		if brace.Sequence {
			return nil, false
		}
		var grown [][]syntax.WordPart
		for _, elem := range brace.Elems {
			tails, ok := expandBraces(elem.Parts)
			if !ok || len(grown)+len(lists)*len(tails) > maxBraces {
				return nil, false
			}
			for _, head := range lists {
				for _, tail := range tails {
					grown = append(grown, slices.Concat(head, tail))
				}
			}
		}
		lists = grown
	}
	return lists, true
}

// readParts reads a word without braces.
func readParts(raw string, parts []syntax.WordPart) word {
	w := word{raw: raw, known: true}
	var text strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			value, globs := unescape(part.Value)
			text.WriteString(value)
			w.globs = w.globs || globs
		case *syntax.SglQuoted:
			text.WriteString(part.Value)
			// $'…' knows escapes of its own; what they hide is not guessed.
			w.known = w.known && !(part.Dollar && strings.Contains(part.Value, `\`))
		case *syntax.DblQuoted:
			value, ok := unquote(part)
			text.WriteString(value)
			w.known = w.known && ok
			w.splits = w.splits || slices.ContainsFunc(part.Parts, isList)
		default:
			w.known = false
			w.splits = w.splits || !number(part)
		}
	}
	w.text = text.String()
	w.plain = w.known && w.text == raw && plainWord().MatchString(raw)
	w.globs = w.globs && w.known
	w.known = w.known && !w.globs
	if w.known && strings.HasPrefix(raw, "~") && !strings.HasPrefix(raw, "~/") && raw != "~" {
		w.known = false // the home of somebody else
	}
	return w
}

// isList says that an expansion becomes several words also between quotes.
func isList(part syntax.WordPart) bool {
	e, ok := part.(*syntax.ParamExp)
	if !ok {
		return false
	}
	whole, _ := e.Index.(*syntax.Word)
	return e.Param == nil || e.Param.Value == "@" || whole != nil && whole.Lit() == "@" || e.Names != 0
}

// number says that an expansion is a number and so one word.
func number(part syntax.WordPart) bool {
	switch e := part.(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.ParamExp:
		return e.Length || e.Exp == nil && e.Param != nil && slices.Contains([]string{"#", "?", "$", "!"}, e.Param.Value)
	}
	return false
}

// unescape removes the backslashes of unquoted text and says whether it holds
// a pattern of file names.
func unescape(lit string) (text string, globs bool) {
	if !strings.ContainsAny(lit, `\*?[`) {
		return lit, false
	}
	var b strings.Builder
	for i := 0; i < len(lit); i++ {
		switch c := lit[i]; c {
		case '\\':
			i++
			if i < len(lit) && lit[i] != '\n' {
				b.WriteByte(lit[i])
			}
		case '*', '?', '[':
			globs = globs || lit != "["
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), globs
}

// unquote reads what stands between double quotes; false if it is expanded.
func unquote(q *syntax.DblQuoted) (string, bool) {
	var b strings.Builder
	known := !q.Dollar
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			known = false
			continue
		}
		b.WriteString(unescapeQuoted(lit.Value))
	}
	return b.String(), known
}

// unescapeQuoted removes the few backslashes that mean something between
// double quotes and in here-documents.
func unescapeQuoted(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0 {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// hereText returns the body of a here-document or here-string, if it is known.
func hereText(r *syntax.Redirect) (string, bool) {
	if r.Op == syntax.WordHdoc {
		w := readParts("", r.Word.Parts)
		return w.text, w.known || w.globs
	}
	if r.Hdoc == nil {
		return "", false
	}
	quoted := r.Word.Lit() == "" || strings.Contains(r.Word.Lit(), `\`)
	var b strings.Builder
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return b.String(), false
		}
		if quoted {
			b.WriteString(lit.Value)
		} else {
			b.WriteString(unescapeQuoted(lit.Value))
		}
	}
	return b.String(), true
}

// join writes words as one line, each by the given spelling; empty ones are
// left out.
func join(words []word, spell func(word) string) string {
	texts := make([]string, 0, len(words))
	for _, w := range words {
		if s := spell(w); s != "" {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, " ")
}

func asWritten(w word) string { return w.raw }

func asPassed(w word) string {
	if w.known || w.globs {
		return w.text
	}
	return w.raw
}

// texts returns what each word passes, and whether all are known.
func texts(words []word) (all []string, known bool) {
	known = true
	for _, w := range words {
		all = append(all, asPassed(w))
		known = known && w.known
	}
	return all, known
}
