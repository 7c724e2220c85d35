package tool

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of what is checked against a schema: a library that follows one has
// none, and a schema that leads in circles, or doubles with each step, comes
// from whoever runs an MCP server. A stack that is full ends the program.
const (
	maxSteps = 100_000 // schemas that are looked at for one input
	maxDepth = 400     // of them inside of one another
)

// effort finds out beforehand what it costs to check an input: it goes wherever
// a validator might, and judges nothing.
type effort struct {
	root  *jsonschema.Schema
	steps int
}

// bearable reports whether an input can be checked against root. What cannot be
// told, since it refers in other ways than plain pointers, is not.
func bearable(root *jsonschema.Schema, input any) bool {
	e := effort{root: root, steps: maxSteps}
	return e.walk(root, input, 0)
}

func (e *effort) walk(s *jsonschema.Schema, value any, depth int) bool {
	if e.steps--; s == nil {
		return true
	}
	if e.steps < 0 || depth > maxDepth || s.DynamicRef != "" || s.ID != "" && s != e.root {
		return false
	}
	same := func(s *jsonschema.Schema) bool { return e.walk(s, value, depth+1) }
	if s.Ref != "" {
		target := e.find(s.Ref)
		if target == nil || !same(target) {
			return false
		}
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, {s.Not, s.If, s.Then, s.Else}} {
		for _, sub := range list {
			if !same(sub) {
				return false
			}
		}
	}
	for _, sub := range each(s.DependentSchemas, s.DependencySchemas) {
		if !same(sub) {
			return false
		}
	}
	switch v := value.(type) {
	case []any:
		inner := append(slices.Concat(s.PrefixItems, s.ItemsArray), s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems)
		return e.inside(inner, slices.Values(v), depth)
	case map[string]any:
		for name, sub := range s.Properties {
			if item, ok := v[name]; ok && !e.walk(sub, item, depth+1) {
				return false
			}
		}
		inner := append(each(s.PatternProperties), s.AdditionalProperties, s.UnevaluatedProperties, s.PropertyNames)
		return e.inside(inner, maps.Values(v), depth)
	}
	return true
}

// inside goes with each item to each schema.
func (e *effort) inside(schemas []*jsonschema.Schema, items func(func(any) bool), depth int) bool {
	schemas = slices.DeleteFunc(schemas, func(s *jsonschema.Schema) bool { return s == nil })
	for item := range items {
		for _, s := range schemas {
			if !e.walk(s, item, depth+1) {
				return false
			}
		}
	}
	return true
}

func each(groups ...map[string]*jsonschema.Schema) (all []*jsonschema.Schema) {
	for _, g := range groups {
		all = slices.AppendSeq(all, maps.Values(g))
	}
	return all
}

// find follows a pointer such as #/$defs/name/items; nil if it is of another kind.
func (e *effort) find(ref string) *jsonschema.Schema {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok || strings.ContainsAny(ref, "~%") {
		return nil
	}
	at := e.root
	words := strings.Split(rest, "/")
	if words[0] != "" { // an anchor
		return nil
	}
	for i := 1; i < len(words) && at != nil; i++ {
		groups := map[string]map[string]*jsonschema.Schema{"$defs": at.Defs, "definitions": at.Definitions, "properties": at.Properties}
		if group, ok := groups[words[i]]; ok && i+1 < len(words) {
			i++
			at = group[words[i]]
		} else {
			at = map[string]*jsonschema.Schema{"items": at.Items, "additionalProperties": at.AdditionalProperties, "not": at.Not}[words[i]]
		}
		if at != nil && at.ID != "" {
			return nil
		}
	}
	return at
}
