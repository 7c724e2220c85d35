package permission

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// reader describes a program that only reads, as far as its arguments leave it
// at that.
type reader struct {
	letters string   // one-letter options that make it write or run something
	long    []string // long options that do
	// loose: no argument can do harm, not even one that is unknown, and none
	// is a file that is read.
	loose bool
	// pattern: the first operand is no path.
	pattern bool
	// most is how many operands it may have if a further one would be written;
	// 0: any number.
	most int
	// sure is how many arguments must be one word each: not an expansion or a
	// pattern that may become several.
	sure int
	// check judges the arguments further; may be nil.
	check func(args []string, known bool) bool
}

var readers = map[string]reader{
	"ls": {}, "cat": {}, "head": {}, "tail": {}, "stat": {}, "df": {}, "nl": {}, "tac": {}, "cut": {}, "paste": {},
	"column": {}, "tr": {loose: true}, "cksum": {}, "md5sum": {}, "sha1sum": {}, "sha256sum": {}, "sha512sum": {}, "b2sum": {},
	"hexdump": {}, "od": {}, "cmp": {}, "comm": {}, "realpath": {}, "readlink": {}, "fold": {}, "fmt": {},
	"expand": {}, "join": {}, "rev": {}, "cd": {check: isCD}, "pwd": {loose: true},
	"uniq": {most: 1},
	"file": {letters: "CzZ", long: []string{"--compile", "--uncompress", "--uncompress-noreport"}},
	"sort": {letters: "oT", long: []string{"--output", "--compress-program", "--temporary-directory", "--files0-from"}},
	// A list of files may name any.
	"wc": {long: []string{"--files0-from"}},
	"du": {long: []string{"--files0-from"}},
	"strings": {check: func(args []string, _ bool) bool {
		return !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "@") })
	}},
	"base64": {letters: "o", long: []string{"--output"}},
	"jq":     {letters: "fL", long: []string{"--from-file", "--library-path"}, check: jqReads},
	// Following links while they search would lead them out of the workspace.
	"tree":  {letters: "oRl"},
	"diff":  {check: diffReads},
	"grep":  {pattern: true, letters: "R", long: []string{"--dereference-recursive"}},
	"egrep": {pattern: true, letters: "R", long: []string{"--dereference-recursive"}},
	"fgrep": {pattern: true, letters: "R", long: []string{"--dereference-recursive"}},
	"rg":    {pattern: true, letters: "zL", long: []string{"--pre", "--hostname-bin", "--search-zip", "--follow"}},
	"find":  {check: findReads},
	"git":   {check: gitReads},
	"go":    {check: goReads},
	"date": {letters: "s", long: []string{"--set"}, check: func(args []string, known bool) bool {
		return known && !slices.ContainsFunc(args, func(a string) bool { return a != "" && a[0] >= '0' && a[0] <= '9' })
	}},
	"echo": {loose: true}, "true": {loose: true}, "false": {loose: true}, ":": {loose: true}, "exit": {loose: true}, "return": {loose: true},
	"basename": {loose: true}, "dirname": {loose: true}, "seq": {loose: true}, "sleep": {loose: true}, "which": {loose: true},
	"type": {loose: true}, "whoami": {loose: true}, "id": {loose: true}, "uname": {loose: true}, "nproc": {loose: true}, "arch": {loose: true},
	"uptime": {loose: true}, "break": {check: noArgs}, "continue": {check: noArgs}, "wait": {check: noArgs},
	"command": {loose: true, check: func(args []string, _ bool) bool { return len(args) > 0 && strings.EqualFold(args[0], "-v") }},
	"printf":  {loose: true, check: prints, sure: 1},
	"set":     {check: setsOptions},
	"test":    {loose: true, check: tests, sure: maxOperands}, "[": {loose: true, check: tests, sure: maxOperands},
}

// versioned are programs that do nothing but answer when asked for their
// version.
var versioned = []string{"go", "git", "node", "npm", "npx", "yarn", "pnpm", "bun", "deno", "python", "python3", "pip", "pip3", "uv", "ruby", "gem",
	"cargo", "rustc", "java", "javac", "gcc", "clang", "make", "cmake", "docker", "kubectl", "gh", "rg", "bash", "curl"}

// reads says that the command only reads. Where it reads is not judged here.
func (c *command) reads() bool {
	if c.opaque != "" {
		return false
	}
	if len(c.words) == 0 {
		return !slices.ContainsFunc(c.assigns, func(a assign) bool { return !a.local() })
	}
	if slices.ContainsFunc(c.assigns, func(a assign) bool { return !a.harmless() }) {
		return false
	}
	words := c.words
	if words[0].text == "find" {
		_, words = findCommands(words) // what it runs is judged by itself
	}
	name, args := words[0].text, words[1:]
	if len(args) == 1 && args[0].plain && (args[0].text == "--version" || args[0].text == "-V") && slices.Contains(versioned, name) {
		return true
	}
	r, ok := readers[name]
	if !ok {
		return false
	}
	if slices.ContainsFunc(args[:min(r.sure, len(args))], func(a word) bool { return a.splits || a.globs }) {
		return false
	}
	list, known := texts(args)
	if r.check != nil && !r.check(list, known) {
		return false
	}
	return r.loose || r.reads(args)
}

func (r reader) reads(args []word) bool {
	operands, ended := 0, false
	for _, a := range args {
		if !a.known && !a.globs {
			return false
		}
		if ended || len(a.text) < 2 || a.text[0] != '-' {
			operands++
		} else if a.text == "--" {
			ended = true
		} else if writes(a.text, r.letters, r.long) {
			return false
		}
	}
	return r.most == 0 || operands <= r.most
}

// writes says whether an option is one of those that write. Long options may
// be abbreviated, so every beginning of one counts.
func writes(arg, letters string, long []string) bool {
	if strings.HasPrefix(arg, "--") {
		name, _, _ := strings.Cut(arg, "=")
		return len(name) > 2 && slices.ContainsFunc(long, func(l string) bool { return strings.HasPrefix(l, name) })
	}
	return letters != "" && strings.ContainsAny(arg, letters)
}

func noArgs(args []string, _ bool) bool { return len(args) == 0 }

func isCD(args []string, known bool) bool {
	return known && len(args) > 0 && !strings.HasPrefix(strings.TrimPrefix(args[0], "--"), "-")
}

// setsOptions: only the options by which scripts stop at errors. Others change
// how the rest would be read.
func setsOptions(args []string, known bool) bool {
	return known && len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool {
		return a != "pipefail" && (len(a) < 2 || a[0] != '-' || strings.Trim(a[1:], "euxo") != "")
	})
}

var assigning = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^-|[$`]|%[-+ #0-9.*']*[hlLjzt]*n") })

// prints: neither -v nor %n, which set a variable.
func prints(args []string, _ bool) bool { return len(args) > 0 && !assigning().MatchString(args[0]) }

// tests: one test with its operator written out. Others may evaluate what a
// variable holds.
func tests(args []string, _ bool) bool {
	if len(args) > 0 && args[len(args)-1] == "]" {
		args = args[:len(args)-1]
	}
	switch len(args) {
	case 2:
		return len(args[0]) == 2 && args[0][0] == '-' && strings.Contains("edfhLrwxsznpSbcgkutOG", args[0][1:])
	case 3:
		return slices.Contains([]string{"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"}, args[1])
	}
	return false
}

// findReads: no action that writes, and no name that a pattern may turn into
// one.
func findReads(args []string, known bool) bool {
	return known && !slices.ContainsFunc(args, func(a string) bool {
		return a == "-delete" || a == "-L" || a == "-follow" || strings.HasPrefix(a, "-fprint") || a == "-fls" || strings.HasPrefix(a, "-files0")
	})
}

// diffReads: no descent into folders, unless links are not followed there.
func diffReads(args []string, _ bool) bool {
	deep, links := false, true
	for _, a := range args {
		long := strings.HasPrefix(a, "--")
		deep = deep || long && writes(a, "", []string{"--recursive"}) || !long && writes(a, "r", nil) && a[0] == '-'
		links = links && a != "--no-dereference"
	}
	return !deep || !links
}

// jqReads: no module, which may be a file anywhere.
func jqReads(args []string, _ bool) bool {
	return !slices.ContainsFunc(args, jqModules.MatchString)
}

var jqModules = regexp.MustCompile(`\b(import|include|modulemeta)\b`)

// goFlags are the flags of go list and go vet that write and run nothing. There
// are many others, not all documented, that do.
var goFlags = map[string][]string{
	"list": {"m", "u", "json", "f", "e", "deps", "test", "find", "versions", "retracted", "tags", "race", "v", "n"},
	"vet":  {"json", "c", "tags", "race", "v", "n"},
}

func goReads(args []string, known bool) bool {
	if !known || len(args) == 0 {
		return false
	}
	flag := func(a string) string {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		return name
	}
	var bad []string
	switch args[0] {
	case "version", "help":
		return true
	case "doc":
		bad = []string{"http", "C"} // a server; another folder
	case "env":
		bad = []string{"w", "u", "C"}
	case "list", "vet":
		good := goFlags[args[0]]
		return !slices.ContainsFunc(args[1:], func(a string) bool { return strings.HasPrefix(a, "-") && !slices.Contains(good, flag(a)) })
	default:
		return false
	}
	return !slices.ContainsFunc(args[1:], func(a string) bool {
		return strings.HasPrefix(a, "-") && slices.Contains(bad, flag(a))
	})
}

// gitReading are the subcommands that only read whatever operands they get.
var gitReading = []string{"status", "diff", "log", "show", "rev-parse", "ls-files", "ls-tree", "blame", "annotate", "describe", "shortlog", "merge-base",
	"rev-list", "cat-file", "name-rev", "for-each-ref", "grep", "whatchanged", "diff-tree", "diff-index", "diff-files", "show-ref", "count-objects", "check-ignore", "version"}

// gitListing are subcommands that only read with these arguments, or with none
// where "" is listed.
var gitListing = map[string][]string{
	"branch":   {"", "--list", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose", "--show-current", "--no-color"},
	"tag":      {"", "--list", "-l"},
	"remote":   {"", "-v", "--verbose"},
	"stash":    {"list", "show"},
	"worktree": {"list", "--porcelain"},
	"reflog":   {"", "show"},
	"config":   {"--list", "-l", "--get", "--get-all", "--show-origin", "--show-scope", "--global", "--local", "--system"},
}

// gitWrites are options that write a file or run a program.
var gitWrites = []string{"--output", "--ext-diff", "--textconv", "--filters", "--open-files-in-pager", "--upload-pack", "--exec", "--contents"}

func gitReads(args []string, known bool) bool {
	for len(args) > 0 && (args[0] == "--no-pager" || args[0] == "-P") {
		args = args[1:]
	}
	// Options before the subcommand may configure any program to be run.
	if !known || len(args) == 0 || slices.ContainsFunc(args, func(a string) bool { return writes(a, "", gitWrites) }) {
		return false
	}
	sub, args := args[0], args[1:]
	if slices.Contains(gitReading, sub) {
		return sub != "grep" || !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && writes(a, "O", nil) })
	}
	allowed, ok := gitListing[sub]
	if !ok {
		return false
	}
	if len(args) == 0 {
		return slices.Contains(allowed, "")
	}
	asked := false // for a list: then what follows are patterns and keys, not new names
	for _, a := range args {
		if !slices.Contains(allowed, a) && (!asked || strings.HasPrefix(a, "-")) {
			return false
		}
		asked = asked || slices.Contains([]string{"--list", "-l", "--get", "--get-all", "list", "show"}, a)
	}
	return sub != "config" || asked
}

// fileWorkers change files and nothing else: the value is the options that do
// not change that, or "-" where acceptEdits does not cover the program.
var fileWorkers = map[string]string{
	"mkdir": "pv", "touch": "acm", "cp": "afnpruvR", "mv": "fnuv",
	"rm": "-", "rmdir": "-", "tee": "-", "ln": "-", "chmod": "-", "chown": "-", "chgrp": "-", "truncate": "-", "install": "-", "shred": "-",
	"unlink": "-", "link": "-", "dd": "-", "sponge": "-", "patch": "-", "rsync": "-", "scp": "-", "ed": "-", "ex": "-", "setfacl": "-", "chattr": "-",
	"split": "-", "csplit": "-", "mkfifo": "-", "mknod": "-",
}

// openers read the files that they name, and may do more: only deny and ask
// rules look at those files.
var openers = []string{"sed", "awk", "gawk", "mawk", "less", "more", "most", "bat", "batcat", "xxd", "vi", "vim", "nvim", "view", "nano", "emacs", "pico", "micro",
	"zcat", "zless", "zmore", "zgrep", "bzcat", "xzcat", "zstdcat", "gzip", "gunzip", "bzip2", "xz", "zstd", "tar", "zip", "7z", "cpio", "ar",
	"open", "xdg-open", "source", ".", "base32", "basenc", "uuencode", "pr", "shuf", "iconv", "look", "pv", "ag", "ack", "openssl", "gpg",
	"curl", "wget", "perl", "ruby", "python", "python3", "node", "php"}

// editing are the subcommands of git that change the files they name.
var editing = []string{"rm", "mv", "checkout", "restore"}

// changes says that a command of the given name changes the files it names.
func (c *command) changes(name string) bool {
	_, worker := fileWorkers[name]
	args, _ := texts(c.words[1:])
	switch name {
	case "sed", "perl", "ruby":
		return slices.ContainsFunc(c.words[1:], inPlace)
	case "git":
		return len(args) > 0 && slices.Contains(editing, args[0])
	case "find":
		return slices.ContainsFunc(args, func(a string) bool { return a == "-delete" || a == "-fls" || strings.HasPrefix(a, "-fprint") })
	case "curl", "wget":
		return slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "-") && writes(a, "oO", []string{"--output", "--output-document"})
		})
	case "sort", "uniq":
		return !readers[name].reads(c.words[1:])
	}
	return worker
}

// inPlace says that a word is the option by which sed changes its files.
func inPlace(w word) bool {
	return strings.HasPrefix(w.text, "--in") || (len(w.text) > 1 && w.text[0] == '-' && w.text[1] != '-' && strings.Contains(w.text, "i"))
}

// touches returns the places that the command names, if it is known to read or
// to change files. Their order is that of the words.
func (p *Policy) touches(c *command) (reads, edits []place) {
	if len(c.words) == 0 {
		return nil, nil
	}
	name := base(c.words[0].text)
	r, isReader := readers[name]
	isWorker := c.changes(name)
	if (!isReader || r.loose) && !isWorker && !slices.Contains(openers, name) {
		return nil, nil
	}
	words := c.words
	if name == "find" {
		_, words = findCommands(words)
	}
	args := words[1:]
	if r.pattern {
		args = withoutPattern(args)
	}
	for i, w := range args {
		if i == maxOperands {
			more := place{written: "…"}
			return append(reads, more), append(edits, more)
		}
		for _, path := range pathsIn(name, w) {
			if w.known && slices.Contains(devices, path) {
				continue
			}
			at := p.placeOf(w, path, c.dirs)
			reads = append(reads, at)
			if isWorker {
				edits = append(edits, at)
			}
		}
	}
	if isReader && len(reads) == 0 {
		reads = []place{p.locate(".", c.dirs)}
	}
	return reads, edits
}

// withoutPattern leaves out the first operand, unless an option may have taken
// its part.
func withoutPattern(args []word) []word {
	for _, a := range args {
		t := a.text
		if strings.HasPrefix(t, "--r") || strings.HasPrefix(t, "--f") || (len(t) > 1 && t[0] == '-' && t[1] != '-' && strings.ContainsAny(t, "ef")) {
			return args
		}
	}
	for i, a := range args {
		if !strings.HasPrefix(a.text, "-") {
			return slices.Delete(slices.Clone(args), i, i+1)
		}
	}
	return args
}

// pathsIn returns what may be a path in a word of a program: the word, the
// value of an option, or what is glued to the letter of one.
func pathsIn(program string, w word) []string {
	if !w.known && !w.globs {
		return []string{w.raw}
	}
	t := w.text
	switch program {
	case "dd": // if=x of=y
		_, value, _ := strings.Cut(t, "=")
		return []string{value}
	case "curl", "wget": // file://x, -d @x, -F a=@x
		if t = strings.TrimPrefix(t[strings.LastIndexByte(t, '@')+1:], "file://"); strings.Contains(t, "://") {
			return nil
		}
	case "git": // revision:path
		if _, path, ok := strings.Cut(t, ":"); ok && path != "" && t[0] != '-' {
			return []string{t, path}
		}
	case "cut":
		if strings.HasPrefix(t, "-d") {
			return nil // a character
		}
	}
	if len(t) < 2 || t[0] != '-' {
		if t == "" || t == "-" {
			return nil
		}
		return []string{t}
	}
	if name, value, ok := strings.Cut(t, "="); ok {
		if name == "--include" || name == "--exclude" || name == "--exclude-dir" {
			return nil // patterns of names
		}
		return []string{value}
	}
	if strings.HasPrefix(t, "--") {
		return nil
	}
	// Behind any of the joined letters a value may begin: -f.env, -vf../x.
	var values []string
	for i := 2; i < min(len(t), maxJoined); i++ {
		values = append(values, t[i:])
		if !letter(t[i]) {
			break
		}
	}
	return values
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' }

// Limits of what is looked up; what is beyond is not known.
const (
	maxOperands = 1000 // words of one command
	maxMatches  = 1000 // file names of one pattern
	maxPatterns = 2    // directories of one pattern that have to be read
	maxJoined   = 10   // letters of joined options behind which a value is looked for
)

// guess locates a word that begins with $HOME or $PWD where these most likely
// lead, for deny and ask rules.
func (p *Policy) guess(w word, dirs []string) place {
	at := place{written: w.raw, unsure: true}
	raw := strings.ReplaceAll(w.raw, `"`, "")
	if name, value, ok := strings.Cut(raw, "="); ok && !strings.Contains(name, "$") { // of=$HOME/x
		raw = value
	}
	for _, v := range []struct{ name, means string }{{"$HOME", "~"}, {"${HOME}", "~"}, {"$PWD", "."}, {"${PWD}", "."}} {
		rest, ok := strings.CutPrefix(raw, v.name)
		if ok && (rest == "" || rest[0] == '/') && !strings.ContainsAny(rest, "$`\\'*?[{") {
			at.names = p.locate(v.means+rest, dirs).names
		}
	}
	return at
}

// placeOf locates a word of a command; a pattern is every file that it matches.
func (p *Policy) placeOf(w word, path string, dirs []string) place {
	unknown := place{written: w.raw}
	if !w.known && !w.globs {
		return p.guess(w, dirs)
	}
	at := p.locate(path, dirs)
	if !w.globs || len(at.names) == 0 {
		return at
	}
	levels := 0
	for seg := range strings.SplitSeq(path, "/") {
		if strings.ContainsAny(seg, "*?[") {
			levels++
		}
	}
	if levels > maxPatterns {
		return unknown
	}
	var matches []string
	for _, name := range at.names {
		if !p.look(lookFolder) {
			return unknown
		}
		found, err := filepath.Glob(name)
		if err != nil || len(found) > maxMatches || !p.look(len(found)) {
			return unknown
		}
		matches = append(matches, slices.DeleteFunc(found, func(m string) bool { // a pattern passes by what begins with a dot
			return filepath.Base(m)[0] == '.' && filepath.Base(name)[0] != '.'
		})...)
	}
	for _, m := range matches {
		if strings.HasPrefix(filepath.Base(m), "-") && !strings.Contains(path, "/") {
			return unknown // it would be read as an option
		}
		at.names = append(at.names, p.locate(m, []string{""}).names...)
	}
	return at
}
