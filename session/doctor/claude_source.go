package doctor

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// sourceTypes are where a medium can come from, with the member that then
// holds it.
var sourceTypes = []struct{ kind, member string }{
	{"base64", "data"}, {"url", "url"}, {"file", "file_id"}, {"text", "data"}, {"content", "content"},
}

// sources finds media whose source has a type that the API does not know, or
// none: what the source holds tells which it is. Where nothing tells, the
// medium is broken.
func (c *claude) sources() []Finding {
	var out []Finding
	for n := range c.recs {
		line := c.tree.nodes[n].line
		text := c.doc.lines[line].text()
		if !c.sent(n) || !bytes.Contains(text, []byte(`"source"`)) {
			continue
		}
		for _, path := range slices.Concat(spread(text, "/message/content/*/source"), spread(text, "/message/content/*/content/*/source")) {
			source := jsontext.Value(rawAt(c.doc, place{line: line, path: path}))
			was := rawAt(c.doc, place{line: line, path: path + "/type"})
			kind := ""
			for _, s := range sourceTypes {
				if strings.Trim(string(was), `"`) == s.kind {
					kind = ""
					break
				}
				if _, ok := locate(source, "/"+s.member); ok && kind == "" {
					kind = s.kind
				}
			}
			if kind == "" || source.Kind() != jsontext.KindBeginObject {
				continue
			}
			f := c.doc.finding(Claude, WrongMediaType, line, fmt.Sprintf("the source of a medium has the type %s", or(string(was), "null")),
				func(p *plan) { p.set(line, path+"/type", quote(kind)) })
			f.Effect, f.Repair = "the API answers 400: input tag does not match any of the expected tags", "the type becomes what the source holds"
			out = append(out, f)
		}
	}
	return out
}

// blockMembers are what the API takes of blocks of each type.
var blockMembers = map[string][]string{
	"text":        {"type", "text", "citations", "cache_control"},
	"image":       {"type", "source", "cache_control"},
	"document":    {"type", "source", "title", "context", "citations", "cache_control"},
	"tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
	"tool_use":    {"type", "id", "name", "input", "caller", "cache_control"},
	"thinking":    {"type", "thinking", "signature"},
}

// extra finds members of blocks that the API does not know. What the model
// wrote may be of a later API, so that it stays.
func (c *claude) extra() []Finding {
	var out []Finding
	for n, r := range c.recs {
		line := c.tree.nodes[n].line
		if !c.sent(n) || !r.talks() || !r.list || r.plain {
			continue
		}
		before := len(out)
		for _, path := range spread(c.doc.lines[line].text(), "/message/content/*") {
			var members map[string]jsontext.Value
			if json.Unmarshal(rawAt(c.doc, place{line: line, path: path}), &members, lax) != nil {
				continue
			}
			kind := unquote(members["type"])
			for _, name := range slices.Sorted(maps.Keys(members)) {
				if name == "cache_control" || blockMembers[kind] == nil || slices.Contains(blockMembers[kind], name) {
					continue
				}
				f := c.doc.finding(Claude, ExtraMember, line, fmt.Sprintf("a %s with a member %q", kind, name), func(p *plan) { p.cut(line, path+"/"+name) })
				if r.Type == "assistant" || strings.ContainsAny(name, "/*") {
					f.mend, f.Repair, f.Severity = nil, "", Risky
				}
				out = append(out, f)
			}
		}
		r.plain = len(out) == before
	}
	return out
}
