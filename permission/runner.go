package permission

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// runner is a program that runs the command in its own words.
type runner struct {
	flags    string   // one-letter options without a value
	valued   string   // one-letter options with one
	long     []string // long options; with "=" at the end if a value follows
	operands int      // words before the command
	digits   bool     // -10 is an option
	assigns  bool     // NAME=value may stand before the command
	// wrapper: it changes nothing about the command, so rules look through it.
	// Other runners are allowed when their command is, if they are clear.
	wrapper bool
	clear   bool
	// feeds: it adds words from its input to the command.
	feeds bool
}

var runners = map[string]runner{
	"timeout": {flags: "v", valued: "ks", long: []string{"foreground", "preserve-status", "verbose", "kill-after=", "signal="}, operands: 1, wrapper: true},
	"time":    {flags: "p", wrapper: true},
	"nice":    {valued: "n", long: []string{"adjustment="}, digits: true, wrapper: true},
	"nohup":   {wrapper: true},
	"stdbuf":  {valued: "ioe", long: []string{"input=", "output=", "error="}, wrapper: true},
	"command": {flags: "p", wrapper: true},
	"builtin": {wrapper: true},
	"noglob":  {wrapper: true},
	"xargs": {flags: "0rt", valued: "nPLIdEs", long: []string{"null", "no-run-if-empty", "verbose", "max-args=", "max-procs=", "max-lines=", "replace=", "delimiter=", "max-chars="},
		clear: true, feeds: true},
	"env":    {flags: "i0", valued: "u", long: []string{"ignore-environment", "null", "unset="}, assigns: true, clear: true},
	"exec":   {flags: "cl", valued: "a", clear: true},
	"setsid": {flags: "cfw", long: []string{"ctty", "fork", "wait"}, clear: true},
	"ionice": {flags: "t", valued: "cn", clear: true},
	"sudo":   {flags: "nEHSbkPi", valued: "ugCphrtTDR", long: []string{"non-interactive", "preserve-env", "set-home", "user=", "group="}, assigns: true},
	"doas":   {flags: "nLs", valued: "uC"},
}

// launchers run commands too, but how they take them is not modelled: for
// caution, every word of theirs may begin a command.
var launchers = []string{"watch", "ssh", "parallel", "flock", "strace", "ltrace", "unshare", "nsenter", "chroot", "su",
	"script", "taskset", "chrt", "systemd-run", "busybox", "toybox", "entr", "fd", "fdfind", "trap", "runuser", "pkexec", "setpriv", "capsh", "prlimit",
	"numactl", "unbuffer", "rlwrap", "firejail", "bwrap", "proxychains", "proxychains4", "torsocks", "fakeroot", "faketime", "eatmydata", "catchsegv",
	"valgrind", "gdb", "perf", "hyperfine", "cgexec", "dbus-run-session", "xvfb-run", "start-stop-daemon", "daemonize", "hash", "coproc", "direnv", "mise"}

var assignment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`) })

// command splits the words of a runner: the assignments and the command that
// it runs. It fails if an option is not known, since then nobody can tell
// where the command begins. bare: there were no options.
func (r runner) command(words []word) (assigns, rest []word, bare, ok bool) {
	i := 1
	bare = true
	for i < len(words) {
		arg := words[i]
		if !arg.known {
			return nil, nil, false, false
		}
		if arg.text == "--" {
			i++
			break
		}
		if len(arg.text) < 2 || arg.text[0] != '-' {
			break
		}
		skip, ok := r.option(arg.text)
		if !ok {
			return nil, nil, false, false
		}
		bare = false
		i += skip
	}
	for r.assigns && i < len(words) && assignment().MatchString(words[i].text) {
		assigns = append(assigns, words[i])
		i++
	}
	i += r.operands
	if i > len(words) {
		return nil, nil, bare, false
	}
	return assigns, words[i:], bare, true
}

// replaced marks the words that xargs -I fills in: nobody knows what the
// program gets for them.
func (r runner) replaced(words, rest []word) []word {
	var fill []string
	options := words[1 : len(words)-len(rest)]
	for i, w := range options {
		value, long := strings.CutPrefix(w.text, "--replace")
		at := strings.IndexByte(w.text, 'I')
		switch {
		case long && strings.HasPrefix(value, "="):
			fill = append(fill, value[1:])
		case long && i+1 < len(options):
			fill = append(fill, options[i+1].text)
		case strings.HasPrefix(w.text, "-") && at > 0 && at+1 < len(w.text):
			fill = append(fill, w.text[at+1:])
		case strings.HasPrefix(w.text, "-") && at > 0 && i+1 < len(options):
			fill = append(fill, options[i+1].text)
		}
	}
	rest = slices.Clone(rest)
	for i := range rest {
		if slices.ContainsFunc(fill, func(f string) bool { return strings.Contains(rest[i].text, f) }) {
			rest[i].known, rest[i].plain, rest[i].globs = false, false, false
		}
	}
	return rest
}

// option says how many words an option takes.
func (r runner) option(arg string) (int, bool) {
	if long, ok := strings.CutPrefix(arg, "--"); ok {
		name, _, value := strings.Cut(long, "=")
		switch {
		case slices.Contains(r.long, name+"=") && !value:
			return 2, true
		case slices.Contains(r.long, name+"="), slices.Contains(r.long, name) && !value:
			return 1, true
		}
		return 0, false
	}
	if r.digits && strings.Trim(arg[1:], "0123456789") == "" {
		return 1, true
	}
	for i, c := range arg[1:] {
		if strings.ContainsRune(r.valued, c) {
			if i+2 == len(arg) {
				return 2, true // the value is the next word
			}
			return 1, true
		}
		if !strings.ContainsRune(r.flags, c) {
			return 0, false
		}
	}
	return 1, true
}

// shells take a script as a word. The last ones speak dialects that the parser
// would misread, so their scripts are judged for caution only.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": false, "zsh": false, "ksh": false, "mksh": false, "fish": false}

// shellScript finds the script of "sh -c": at is its place in words, 0 if the
// shell runs a file or its input. plain: no option changes how it is read.
func shellScript(words []word) (at int, plain, ok bool) {
	script := false
	plain = true
	for i := 1; i < len(words); i++ {
		arg := words[i]
		if !arg.known {
			return 0, false, false
		}
		if len(arg.text) < 2 || (arg.text[0] != '-' && arg.text[0] != '+') {
			if script {
				return i, plain, true
			}
			return 0, plain, true
		}
		if long, ok := strings.CutPrefix(arg.text, "--"); ok {
			plain = plain && (long == "norc" || long == "noprofile" || long == "posix")
			continue
		}
		letters := arg.text[1:]
		script = script || (arg.text[0] == '-' && strings.Contains(letters, "c"))
		plain = plain && strings.Trim(letters, "ceux") == ""
		if strings.ContainsAny(letters, "oO") {
			i++ // the option's name
			plain = plain && i < len(words) && words[i].text == "pipefail"
		}
	}
	return 0, plain, !script
}

// findCommands returns the commands of find -exec and its like, and the other
// words.
func findCommands(words []word) (commands [][]word, rest []word) {
	for i := 0; i < len(words); i++ {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, words[i].text) {
			rest = append(rest, words[i])
			continue
		}
		end := i + 1
		for end < len(words) && words[end].text != ";" && (words[end].text != "+" || words[end-1].text != "{}") {
			end++
		}
		run := slices.Clone(words[i+1 : end])
		for j := range run {
			if strings.Contains(run[j].text, "{}") {
				run[j].known, run[j].plain, run[j].globs = false, false, false // becomes the names that are found
			}
		}
		commands = append(commands, run)
		i = end
	}
	return commands, rest
}
