package builtin

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// plainCommand is a command line in which the shell finds nothing to do but to
// split it at spaces.
var plainCommand = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9 _./:,@+=-]+$`) })

// readers are programs that only read, whatever their arguments are, with the
// arguments that make an exception of that.
var readers = map[string][]string{
	"ls": nil, "cat": nil, "pwd": nil, "head": nil, "tail": nil, "wc": nil, "grep": nil, "egrep": nil, "fgrep": nil,
	"rg":  {"--pre", "--hostname-bin"},
	"cut": nil, "nl": nil, "stat": nil, "du": nil, "df": nil, "file": {"-C", "--compile"}, "basename": nil, "dirname": nil,
	"realpath": nil, "readlink": nil, "cmp": nil, "md5sum": nil, "sha256sum": nil, "uname": nil, "whoami": nil, "id": nil,
	"which": nil, "true": nil, "false": nil, "echo": nil, "diff": nil,
	"find": {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"},
}

// readerCommands are sub-commands that only read.
var readerCommands = map[string][]string{
	"git": {"status", "log", "diff", "show", "rev-parse", "ls-files", "blame", "describe", "shortlog"},
	"go":  {"version"},
}

// onlyReads reports whether a command surely changes nothing. It knows few and
// says no to everything else.
func onlyReads(line string) bool {
	if !plainCommand().MatchString(line) {
		return false
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return false
	}
	args := words[1:]
	forbidden, ok := readers[words[0]]
	if subs := readerCommands[words[0]]; len(args) > 0 && slices.Contains(subs, args[0]) {
		ok, forbidden = true, []string{"--output", "--ext-diff", "--textconv"}
	}
	return ok && !slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		// Long options may be shortened, and short ones joined.
		return slices.ContainsFunc(forbidden, func(f string) bool {
			return name == f || strings.HasPrefix(name, "--") && len(name) > 3 && strings.HasPrefix(f, name) ||
				len(f) == 2 && strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, f[1:])
		})
	})
}

// meanings are programs for which exit code 1 is an answer and no failure (R70).
var meanings = map[string]string{
	"grep": "no matches found", "egrep": "no matches found", "fgrep": "no matches found", "rg": "no matches found",
	"zgrep": "no matches found", "diff": "the files differ", "test": "the condition is false", "[": "the condition is false",
	"[[": "the condition is false", "find": "some folders could not be read",
}

// interpret returns what a code other than 0 means if it is no failure, or "".
func interpret(line string, code int) string {
	if code != 1 || strings.Contains(line, "pipefail") || strings.Contains(line, "set -e") {
		return ""
	}
	commands := split(line)
	if len(commands) == 0 {
		return ""
	}
	final := commands[len(commands)-1]
	// In a && b the code may be that of a.
	for i := len(commands) - 1; i > 0 && commands[i-1].then == "&&"; i-- {
		if w := commands[i-1].word; w != "cd" && w != "echo" && w != "true" {
			return ""
		}
	}
	return meanings[final.word]
}

// simple is the first word of a simple command and the operator behind it.
type simple struct{ word, then string }

// split finds the simple commands of a line, roughly: enough to know which one
// decides about the exit code of an ordinary line. What it does not understand,
// such as a loop, has a last word that means nothing to the caller.
func split(line string) []simple {
	var all []simple
	var cur strings.Builder
	quote := rune(0)
	end := func(op string) {
		if word := firstWord(cur.String()); word != "" {
			all = append(all, simple{word, op})
		} else if len(all) > 0 && op != "" && op != "\n" { // a line may end behind an operator
			all[len(all)-1].then = op
		}
		cur.Reset()
	}
	runes := []rune(strings.TrimSpace(line))
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		next := rune(0)
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		switch {
		case r == '\\' && quote != '\'' && next != 0:
			cur.WriteRune('_')
			i++
		case quote != 0:
			if r == quote {
				quote = 0
			}
			cur.WriteRune('_')
		case r == '\'' || r == '"' || r == '`':
			quote = r
			cur.WriteRune('_')
		case (r == '&' || r == '|') && next == r:
			end(string(r) + string(r))
			i++
		case r == '|' || r == ';' || r == '\n' || r == '&' && next != '>' && (i == 0 || runes[i-1] != '>'):
			end(string(r))
		default:
			cur.WriteRune(r)
		}
	}
	end("")
	return all
}

var assignment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`) })

func firstWord(command string) string {
	for _, w := range strings.Fields(command) {
		if !assignment().MatchString(w) {
			return w[strings.LastIndexByte(w, '/')+1:]
		}
	}
	return ""
}
