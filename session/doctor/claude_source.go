package doctor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

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
