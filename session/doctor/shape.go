package doctor

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// shape is what the members of a record have to be, those that readers look
// at: a path, and the kind of JSON that it wants (" text, t true or false,
// 0 number, { object, [ list). A star stands for each element.
type shape []struct {
	path string
	kind jsontext.Kind
}

// Kinds that JSON does not have.
const (
	words     jsontext.Kind = 'w' // a text or a list of blocks
	block     jsontext.Kind = 'k' // an object with a type
	blockList jsontext.Kind = 'b' // a list of blocks
	moment    jsontext.Kind = 'm' // a text that is a time
)

var shapes = map[Format]shape{
	Claude: {
		{"/type", '"'}, {"/subtype", '"'}, {"/uuid", '"'}, {"/parentUuid", '"'}, {"/logicalParentUuid", '"'}, {"/leafUuid", '"'},
		{"/isSidechain", 't'}, {"/isApiErrorMessage", 't'}, {"/isCompactSummary", 't'}, {"/isVisibleInTranscriptOnly", 't'},
		{"/apiErrorStatus", '0'}, {"/message", '{'}, {"/message/id", '"'}, {"/message/role", '"'}, {"/message/model", '"'},
		{"/compactMetadata", '{'}, {"/compactMetadata/preservedMessages", '{'},
		{"/compactMetadata/preservedMessages/anchorUuid", '"'}, {"/compactMetadata/preservedMessages/uuids", '['},
		{"/compactMetadata/preservedMessages/uuids/*", '"'},
		{"/message/content", words}, {"/message/content/*/content", words},
		{"/message/content/*", block}, {"/message/content/*/type", '"'}, {"/message/content/*/text", '"'}, {"/message/content/*/thinking", '"'},
		{"/message/content/*/signature", '"'}, {"/message/content/*/data", '"'}, {"/message/content/*/id", '"'}, {"/message/content/*/name", '"'},
		{"/message/content/*/tool_use_id", '"'}, {"/message/content/*/is_error", 't'}, {"/message/content/*/title", '"'}, {"/message/content/*/source", '{'},
	},
	Pi: {
		{"/type", '"'}, {"/id", '"'}, {"/parentId", '"'}, {"/timestamp", '"'}, {"/summary", '"'}, {"/firstKeptEntryId", '"'}, {"/targetId", '"'},
		{"/message", '{'}, {"/message/role", '"'}, {"/message/api", '"'}, {"/message/model", '"'}, {"/message/stopReason", '"'},
		{"/message/errorMessage", '"'}, {"/message/toolCallId", '"'}, {"/message/isError", 't'}, {"/message/output", '"'},
		{"/message/sections", '{'}, {"/message/sections/cwd", '"'},
		{"/message/content/*", block}, {"/message/content/*/type", '"'}, {"/message/content/*/text", '"'}, {"/message/content/*/thinking", '"'},
		{"/message/content/*/thinkingSignature", '"'}, {"/message/content/*/redacted", 't'}, {"/message/content/*/id", '"'},
		{"/message/content/*/name", '"'}, {"/message/content/*/data", '"'}, {"/message/content/*/mimeType", '"'},
	},
	Codex: {
		{"/timestamp", '"'}, {"/type", '"'}, {"/metadata", '{'}, {"/metadata/compaction_output", 't'},
		{"/payload/type", '"'}, {"/payload/id", '"'}, {"/payload/role", '"'}, {"/payload/summary", '['}, {"/payload/encrypted_content", '"'},
		{"/payload/name", '"'}, {"/payload/call_id", '"'},
		{"/payload/content/*", block}, {"/payload/content/*/type", '"'}, {"/payload/content/*/text", '"'},
	},
	Daruma: slices.Concat(shape{
		{"/v", '0'}, {"/seq", '0'}, {"/time", moment}, {"/session", '"'}, {"/run", '0'}, {"/turn", '0'}, {"/type", '"'}, {"/body", '{'},
		{"/body/call", '"'}, {"/body/id", '"'}, {"/body/caller", '"'}, {"/body/calls", '['}, {"/body/calls/*", '"'}, {"/body/order/*", '"'},
	}, darumaMessage("/body/message"), darumaMessage("/body/new/*"), darumaBlock("/body/block"), darumaBlock("/body/block/content/*")),
}

// darumaMessage is the shape of a message in a journal, darumaBlock that of one
// of its blocks.
func darumaMessage(at string) shape {
	return slices.Concat(shape{
		{at, '{'}, {at + "/id", '"'}, {at + "/role", '"'}, {at + "/model", '"'}, {at + "/caller", '"'}, {at + "/synthetic", 't'},
		{at + "/failure", '{'}, {at + "/blocks", blockList},
	}, darumaBlock(at+"/blocks/*"), darumaBlock(at+"/blocks/*/content/*"))
}

func darumaBlock(at string) shape {
	return shape{
		{at, block}, {at + "/type", '"'}, {at + "/text", '"'}, {at + "/signature", '"'}, {at + "/data", '"'}, {at + "/id", '"'}, {at + "/name", '"'},
		{at + "/tool_use_id", '"'}, {at + "/is_error", 't'}, {at + "/content", blockList}, {at + "/model", '"'},
		{at + "/media", '{'}, {at + "/media/type", '"'}, {at + "/media/data", '"'}, {at + "/media/url", '"'},
	}
}

// misshapen finds the members of a line that are of another kind than readers
// expect, and makes of each the nearest that they take: one wrong member is no
// reason to lose what the record says.
func (d *doc) misshapen(format Format, i int) []Finding {
	text := d.lines[i].text()
	var out []Finding
	for _, want := range shapes[format] {
		for _, path := range spread(text, want.path) {
			value := rawAt(d, place{line: i, path: path})
			if fits(value, want.kind) {
				continue
			}
			what := fmt.Sprintf("%s is %s, and has to be %s", path[1:], kindName(jsontext.Value(value).Kind()), kindName(want.kind))
			mend := func(p *plan) { p.cut(i, path) }
			f := d.finding(format, WrongShape, i, what, nil)
			// A type that is no text names nothing: it is told by what else is there.
			if to := reshaped(value, want.kind, format); to != nil && !strings.HasSuffix(path, "/type") {
				mend = func(p *plan) { p.set(i, path, to) }
				f.Repair = "it becomes what it has to be; the rest of the record stays"
			} else {
				f.Repair = "it is taken out; the rest of the record stays"
			}
			f.mend = mend
			out = append(out, f)
		}
	}
	return out
}

// spread gives the paths that a path with stars stands for, where they are.
func spread(text []byte, path string) []string {
	list, rest, star := strings.Cut(path, "/*")
	if !star {
		if _, ok := locate(text, path); ok {
			return []string{path}
		}
		return nil
	}
	var items []jsontext.Value
	at, ok := locate(text, list)
	if !ok || text[at.start] != '[' || json.Unmarshal(text[at.start:at.end], &items, lax) != nil {
		return nil
	}
	var out []string
	for k := range items {
		one := list + "/" + strconv.Itoa(k) + rest
		out = append(out, spread(text, one)...)
	}
	return out
}

func fits(value []byte, kind jsontext.Kind) bool {
	got := jsontext.Value(value).Kind()
	switch {
	case kind == block:
		return got == '{'
	case kind == '{' || kind == '[':
		return got == kind
	case kind == words:
		return got == '"' || got == '[' || got == 'n'
	case kind == moment:
		return got == 'n' || got == '"' && isTime(unquote(value))
	case kind == blockList && got == '[':
		return true
	case got == 'f':
		got = 't'
	case got == 'n': // stands for a member that is missing
		return true
	case got == '0' && kind == '0':
		return !bytes.ContainsAny(value, ".eE-")
	}
	return got == kind
}

// reshaped is the nearest value of a kind, or nothing.
func reshaped(value []byte, kind jsontext.Kind, format Format) []byte {
	got := jsontext.Value(value).Kind()
	switch {
	case (kind == words || kind == blockList) && got == '{' && bytes.Contains(value, []byte(`"type"`)):
		return append(append([]byte{'['}, value...), ']')
	case kind == words:
		return quote(string(value))
	case kind == blockList && got == '"':
		return append(append([]byte{'['}, textBlock("text", unquote(value))...), ']')
	case kind == '"' && (got == '0' || got == 't' || got == 'f'):
		return quote(string(value))
	case kind == '"' && (got == '[' || got == '{'):
		return nil
	case kind == 't' && got == '"':
		return []byte(strconv.FormatBool(unquote(value) == "true"))
	case kind == '0' && got == '"':
		if n, err := strconv.ParseUint(unquote(value), 10, 32); err == nil {
			return strconv.AppendUint(nil, n, 10)
		}
	case kind == block && got == '"':
		name := "text"
		if format == Codex {
			name = "input_text"
		}
		return textBlock(name, unquote(value))
	}
	return nil
}

func isTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '"':
		return "a text"
	case words:
		return "a text or a list"
	case '0':
		return "a whole number"
	case 't', 'f':
		return "true or false"
	case '{', block:
		return "an object"
	case '[', blockList:
		return "a list"
	case moment:
		return "a time"
	}
	return "null"
}
