package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLabel       = 60      // characters of a server's part of a name
	maxDescription = 2_048   // characters of a tool's description
	maxSchema      = 100_000 // bytes of a tool's schema
)

// remote is a tool of a server. It implements [tool.Tool].
type remote struct {
	server *server
	name   string // as the server calls it
	spec   model.Tool
	effect tool.Effect
}

// Spec implements [tool.Tool].
func (r *remote) Spec() model.Tool { return r.spec }

// Effect implements [tool.Tool]. It is what the server says of its tool, which
// it is not trusted in: it decides whether a lost call may be repeated, never
// whether one may be made.
func (r *remote) Effect(jsontext.Value) tool.Effect { return r.effect }

// Access implements [tool.Tool]: nobody knows what a server touches.
func (r *remote) Access(jsontext.Value) tool.Access { return tool.Access{Kind: tool.AccessOther} }

// Run implements [tool.Tool].
func (r *remote) Run(ctx context.Context, c tool.Call) tool.Result {
	return r.server.call(ctx, r, c)
}

// offer makes tools of what the server listed, with names that are not taken.
func (s *server) offer(taken map[string]bool) []tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Connected {
		return nil
	}
	var out []tool.Tool
	for _, t := range s.listed {
		schema, note, err := usable(t.InputSchema)
		if err != nil {
			s.warnings = append(s.warnings, fmt.Sprintf("its tool %q is not used: %v", t.Name, err))
			continue
		}
		if note != "" {
			s.warnings = append(s.warnings, fmt.Sprintf("its tool %q: %s", t.Name, note))
		}
		name := unique(taken, "mcp__"+s.label+"__"+cmp.Or(toolLabel(t.Name), "tool"), s.all.cfg.NameLimit)
		description := tool.Middle(strings.TrimSpace(tool.Clean(t.Description)), maxDescription, 0, " … (## more characters)")
		out = append(out, &remote{
			server: s, name: t.Name, effect: effectOf(t.Annotations),
			spec: model.Tool{Name: name, Description: cmp.Or(description, title(t)), Schema: schema},
		})
	}
	s.offered = len(out)
	return out
}

func title(t *sdk.Tool) string {
	text := t.Title
	if text == "" && t.Annotations != nil {
		text = t.Annotations.Title
	}
	return tool.Middle(tool.Clean(cmp.Or(text, t.Name)), 200, 0, "…")
}

func effectOf(a *sdk.ToolAnnotations) tool.Effect {
	switch {
	case a == nil:
	case a.ReadOnlyHint:
		return tool.Pure
	case a.IdempotentHint:
		return tool.Idempotent
	}
	return tool.Unsafe
}

var (
	noName      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-zA-Z0-9_-]+`) })
	underscores = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`__+`) })
)

// serverLabel makes a server's part of the names of its tools. Two underscores
// separate it from the tool's, so there are none in it.
func serverLabel(name string) string {
	return strings.Trim(underscores().ReplaceAllString(noName().ReplaceAllString(name, "_"), "_"), "_")
}

func toolLabel(name string) string { return noName().ReplaceAllString(name, "_") }

// unique shortens a name to so many characters and makes it one that is not
// taken. What is cut off is told apart by a few digits made of the whole.
func unique(taken map[string]bool, name string, most int) string {
	if len(name) > most {
		name = fmt.Sprintf("%s_%x", name[:most-9], sha256.Sum256([]byte(name)))[:most]
	}
	one := name
	for n := 2; taken[one]; n++ {
		end := fmt.Sprintf("_%d", n)
		one = name[:min(len(name), most-len(end))] + end
	}
	taken[one] = true
	return one
}

// combined are what the Messages API refuses at the top of an input schema.
var combined = []string{"oneOf", "anyOf", "allOf"}

// propertyName is what the Messages API allows as the name of a property.
var propertyName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`) })

// usable checks a schema as the API would: one that it refuses makes every
// request fail, even those that have nothing to do with the tool. What can be
// mended without a lie is mended, and noted.
func usable(input any) (schema jsontext.Value, note string, err error) {
	if input == nil {
		input = map[string]any{}
	}
	object, ok := input.(map[string]any)
	if !ok {
		return nil, "", errors.New("its input schema is no JSON object")
	}
	object = maps.Clone(object)
	if _, ok := object["type"]; !ok {
		object["type"] = "object" // no other type can be called
	}
	if object["type"] != "object" {
		return nil, "", fmt.Errorf("its input schema has the type %v and not \"object\"", object["type"])
	}
	for _, key := range combined {
		if _, ok := object[key]; ok {
			delete(object, key)
			note = "the " + key + " at the top of its schema is left out, since no API takes it; the server checks it"
		}
	}
	schema, err = json.Marshal(object, json.Deterministic(true)) // the prompt cache needs the same bytes each time
	if err != nil {
		return nil, "", fmt.Errorf("its input schema cannot be written: %w", err)
	}
	if len(schema) > maxSchema {
		return nil, "", fmt.Errorf("its input schema has %d bytes, at most %d are possible", len(schema), maxSchema)
	}
	parsed := new(jsonschema.Schema)
	if err := json.Unmarshal(schema, parsed); err != nil {
		return nil, "", fmt.Errorf("its input schema is malformed: %w", err)
	}
	for name := range parsed.Properties {
		if !propertyName().MatchString(name) {
			return nil, "", fmt.Errorf("its input schema has a property named %q, which no API takes", tool.Middle(name, 80, 0, "…"))
		}
	}
	return schema, note, wellTyped("", parsed, 0)
}

// schemaTypes are the types of JSON Schema.
var schemaTypes = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// maxDepth bounds how deep a schema is looked into.
const maxDepth = 100

// wellTyped checks what reading a schema does not: that its types exist.
func wellTyped(at string, s *jsonschema.Schema, depth int) error {
	if s == nil || depth > maxDepth {
		return nil
	}
	for _, t := range append([]string{s.Type}, s.Types...) {
		if t != "" && !slices.Contains(schemaTypes, t) {
			return fmt.Errorf("its input schema is malformed: %s has the type %q", cmp.Or(at, "it"), t)
		}
	}
	inner := map[string]*jsonschema.Schema{"items": s.Items, "additionalProperties": s.AdditionalProperties, "not": s.Not}
	for _, group := range []map[string]*jsonschema.Schema{s.Properties, s.PatternProperties, s.Defs, s.Definitions} {
		maps.Copy(inner, group)
	}
	for _, list := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf, s.AllOf, s.PrefixItems, s.ItemsArray} {
		for i, one := range list {
			if err := wellTyped(fmt.Sprintf("%s[%d]", at, i), one, depth+1); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		if err := wellTyped(at+"."+name, inner[name], depth+1); err != nil {
			return err
		}
	}
	return nil
}
