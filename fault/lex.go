package fault

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A ScriptError says where a script is wrong and what was expected there.
type ScriptError struct {
	File string
	Line int // from 1
	Col  int // from 1, in bytes
	Msg  string
}

func (e *ScriptError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

type place struct{ line, col int }

type tokenKind int

const (
	word tokenKind = iota
	quoted
	comma
)

// token is one word, string or comma; key is set for key=value, and at then points to the key.
type token struct {
	at      place
	kind    tokenKind
	key     string
	text    string
	heredoc bool
}

// node is one line of the script with the lines indented below it.
type node struct {
	at   place
	name string
	args []token
	end  place // just behind the last argument: where a missing one is reported
	kids []*node
}

type lexer struct {
	file  string
	lines []string
	next  int
}

func (l *lexer) errorf(at place, format string, args ...any) error {
	return &ScriptError{l.file, at.line, at.col, fmt.Sprintf(format, args...)}
}

// lex turns text into a tree of lines. It knows indentation, words and strings, and no meaning.
func lex(file, text string) (*node, error) {
	l := &lexer{file: file, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	root := &node{at: place{1, 1}}
	open := []*node{root}
	for l.next < len(l.lines) {
		line := l.lines[l.next]
		l.next++
		body := strings.TrimLeft(line, " ")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		indent := len(line) - len(body)
		at := place{l.next, indent + 1}
		if body[0] == '\t' {
			return nil, l.errorf(at, "found a tab: indent by two spaces")
		}
		depth := indent / 2
		if indent%2 != 0 {
			return nil, l.errorf(at, "indented by %d spaces: expected a multiple of two", indent)
		}
		if depth >= len(open) {
			return nil, l.errorf(at, "indented too deep: expected at most %d spaces", 2*(len(open)-1))
		}
		n, err := l.line(line, at)
		if err != nil {
			return nil, err
		}
		open = append(open[:depth+1], n)
		open[depth].kids = append(open[depth].kids, n)
	}
	return root, nil
}

// line reads one line into a node, and the heredocs that it opened from the lines below it.
func (l *lexer) line(line string, at place) (*node, error) {
	tokens, err := l.tokens(line, at)
	if err != nil {
		return nil, err
	}
	if tokens[0].kind != word || tokens[0].key != "" {
		return nil, l.errorf(at, "expected a statement: a word such as step, when, say")
	}
	for i := range tokens {
		if !tokens[i].heredoc {
			continue
		}
		if tokens[i].text, err = l.heredoc(tokens[i]); err != nil {
			return nil, err
		}
	}
	end := place{at.line, len(strings.TrimRight(line, " \t")) + 1}
	return &node{at: at, name: tokens[0].text, args: tokens[1:], end: end}, nil
}

// heredoc takes the lines up to the closing word. The indentation of the closing word is taken off
// every line, so that long text can stand inside a block.
func (l *lexer) heredoc(open token) (string, error) {
	first := l.next
	for ; l.next < len(l.lines); l.next++ {
		if strings.TrimSpace(l.lines[l.next]) != open.text {
			continue
		}
		margin := len(l.lines[l.next]) - len(strings.TrimLeft(l.lines[l.next], " "))
		var out []string
		for _, line := range l.lines[first:l.next] {
			spaces := len(line) - len(strings.TrimLeft(line, " "))
			out = append(out, line[min(spaces, margin):])
		}
		l.next++
		return strings.Join(out, "\n"), nil
	}
	return "", l.errorf(open.at, "text opened by <<%s never ends: expected a line with %s alone", open.text, open.text)
}

func (l *lexer) tokens(line string, at place) ([]token, error) {
	var out []token
	for i := at.col - 1; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case unicode.IsSpace(r):
			i += size
			continue
		case r == '#':
			return out, nil
		case r == ',':
			out = append(out, token{at: place{at.line, i + 1}, kind: comma, text: ","})
			i++
			continue
		}
		t, end, err := l.token(line, i, at.line)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
		i = end
	}
	return out, nil
}

// token reads the token that starts at byte i and returns the byte behind it.
func (l *lexer) token(line string, i, lineNo int) (token, int, error) {
	at := place{lineNo, i + 1}
	rest := line[i:]
	if rest[0] == '"' || rest[0] == '`' {
		lit, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return token{}, 0, l.errorf(at, "string is not closed on its line or has a bad escape: expected a Go string, or <<END for long text")
		}
		text, err := strconv.Unquote(lit)
		if err != nil {
			return token{}, 0, l.errorf(at, "string %s is not a Go string", lit)
		}
		return token{at: at, kind: quoted, text: text}, i + len(lit), nil
	}
	end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"`,#=", r)
	})
	if end < 0 {
		end = len(rest)
	}
	text := rest[:end]
	if name, ok := strings.CutPrefix(text, "<<"); ok {
		if name == "" {
			return token{}, 0, l.errorf(at, "expected a word after <<, such as <<END")
		}
		return token{at: at, kind: quoted, text: name, heredoc: true}, i + end, nil
	}
	isKey := end > 0 && end < len(rest) && rest[end] == '=' && !strings.ContainsAny(text, "<>")
	if !isKey {
		if end < len(rest) && rest[end] == '=' { // an operator: >= or <=
			end++
		}
		return token{at: at, kind: word, text: rest[:end]}, i + end, nil
	}
	if end+1 >= len(rest) || strings.ContainsRune(" \t,#=", rune(rest[end+1])) {
		return token{}, 0, l.errorf(place{lineNo, i + end + 2}, "expected a value after %s=", text)
	}
	value, next, err := l.token(line, i+end+1, lineNo)
	if err != nil {
		return token{}, 0, err
	}
	if value.key != "" {
		return token{}, 0, l.errorf(value.at, "expected one value after %s=: quote text that holds an equals sign", text)
	}
	value.key, value.at = text, at
	return value, next, nil
}
