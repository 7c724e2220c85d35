package fault

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ability is what a tool can do, under the names that clients give such tools, in lower case and
// without punctuation.
type ability struct {
	name  string
	tools []string
}

var abilities = []ability{
	{"shell", []string{"bash", "shell", "runcommand", "runshellcommand", "execcommand", "executecommand", "exec", "terminal", "runterminalcmd", "command", "localshell", "containerexec"}},
	{"read", []string{"read", "readfile", "view", "viewfile", "openfile", "cat", "fsread", "textread"}},
	{"write", []string{"write", "writefile", "createfile", "savefile", "filewrite", "fswrite"}},
	{"edit", []string{"edit", "editfile", "replace", "strreplace", "strreplaceeditor", "searchreplace", "replaceinfile", "fileedit", "multiedit"}},
	{"glob", []string{"glob", "find", "findfiles", "listfiles", "filesearch"}},
	{"list", []string{"ls", "list", "listdirectory", "listdir"}},
	{"grep", []string{"grep", "search", "searchfiles", "grepsearch", "searchfilecontent", "ripgrep", "rg"}},
	{"todo", []string{"todowrite", "todo", "updateplan", "plan"}},
	{"agent", []string{"agent", "task", "spawnagent", "subagent"}},
	{"fetch", []string{"webfetch", "fetch", "fetchurl", "browse"}},
}

// synonyms are property names that mean the same; a group applies whatever the tool.
var synonyms = [][]string{
	{"command", "cmd", "script", "commandline", "code"},
	{"filepath", "path", "file", "filename", "absolutepath", "targetfile", "uri"},
	{"oldstring", "oldstr", "oldtext", "old", "search", "find", "original"},
	{"newstring", "newstr", "newtext", "new", "replace", "replacement", "updated"},
	{"content", "contents", "filetext", "text", "body", "data"},
	{"pattern", "query", "regex", "regexp", "glob", "searchterm"},
	{"path", "directory", "dir", "dirpath", "cwd", "workdir", "root"},
	{"offset", "startline", "start", "from", "linestart"},
	{"limit", "maxlines", "count", "numlines", "lines"},
	{"timeout", "timeoutms", "timeoutseconds"},
	{"prompt", "task", "instructions", "message"},
	{"url", "uri", "link"},
}

func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

// abilityOf names the ability that a tool or ability name stands for, or "".
func abilityOf(name string) string {
	plain := plainName(name)
	for _, a := range abilities {
		if a.name == plain || slices.Contains(a.tools, plain) {
			return a.name
		}
	}
	return ""
}

// sameTool reports whether the script's name means the client's tool.
func sameTool(wanted, tool string) bool {
	if globs(wanted, tool) {
		return true
	}
	a := abilityOf(wanted)
	return a != "" && a == abilityOf(tool)
}

// findTool finds the client's tool: by its exact name, else by what it can do.
func (q *request) findTool(wanted string) (tool, bool) {
	for _, t := range q.tools {
		if t.name == wanted {
			return t, true
		}
	}
	for _, t := range q.tools {
		if sameTool(wanted, t.name) {
			return t, true
		}
	}
	return tool{}, false
}

// property maps an argument name of the script to the property that the tool has for it.
func (t tool) property(key string) string {
	if _, ok := t.props[key]; ok || len(t.props) == 0 {
		return key
	}
	names := make([]string, 0, len(t.props))
	for name := range t.props {
		names = append(names, name)
	}
	slices.Sort(names) // a map has no order, an answer must have one
	plain := plainName(key)
	for _, name := range names {
		if plainName(name) == plain {
			return name
		}
	}
	for _, group := range synonyms {
		if !slices.Contains(group, plain) {
			continue
		}
		for _, word := range group {
			for _, name := range names {
				if plainName(name) == word {
					return name
				}
			}
		}
	}
	return key
}

type member struct {
	key   string
	value jsontext.Value
}

// input builds the input of a call: the script's arguments under the tool's own names, then something
// harmless for whatever else the tool requires.
func (t tool) input(args []callArg, s *scene) string {
	var members []member
	for _, a := range args {
		value := jsontext.Value(a.value.expand(s))
		if !a.literal {
			value = encode(string(value))
		}
		members = append(members, member{t.property(a.key), t.shaped(t.property(a.key), value)})
	}
	for _, name := range t.required {
		if !slices.ContainsFunc(members, func(m member) bool { return m.key == name }) {
			members = append(members, member{name, filler(object(t.props[name]))})
		}
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(m.key))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.String()
}

// shaped turns a string into a list where the tool wants one: some shells take argv.
func (t tool) shaped(key string, value jsontext.Value) jsontext.Value {
	if str(object(t.props[key]), "type") != "array" || value.Kind() != '"' {
		return value
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return value
	}
	if abilityOf(t.name) == "shell" {
		return encode([]string{"bash", "-lc", s})
	}
	return encode([]string{s})
}

func filler(schema map[string]any) jsontext.Value {
	if values := list(schema["enum"]); len(values) > 0 {
		return encode(values[0])
	}
	switch str(schema, "type") {
	case "boolean":
		return jsontext.Value("false")
	case "integer", "number":
		return jsontext.Value("1")
	case "array":
		return jsontext.Value("[]")
	case "object":
		return jsontext.Value("{}")
	}
	return jsontext.Value(`"as scripted"`)
}
