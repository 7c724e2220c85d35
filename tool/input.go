package tool

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// maxComplaints bounds what one bad call is told; nobody mends more at once.
const maxComplaints = 20

// schema checks the input of one tool.
type schema struct {
	root *jsonschema.Schema
	// resolved is made at the first call, since most tools of a session are never
	// called. nil: a schema beyond our means, which the tool judges itself.
	resolved func() *jsonschema.Resolved
}

// shapeOf compiles the schema of t, which is raw.
func shapeOf(t Tool, raw jsontext.Value) (*schema, error) {
	if typed, ok := t.(interface {
		shape(jsontext.Value) *jsonschema.Schema
	}); ok {
		if root := typed.shape(raw); root != nil {
			return compile(root)
		}
	}
	root := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, root); err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	return compile(root)
}

func compile(root *jsonschema.Schema) (*schema, error) {
	s := &schema{root: root}
	if s.root.Type != "object" {
		return nil, errors.New(`its type must be "object", as every provider demands`)
	}
	s.resolved = sync.OnceValue(func() (resolved *jsonschema.Resolved) {
		defer func() {
			if recover() != nil { // the same as one that refers to what is not there
				resolved = nil
			}
		}()
		// A schema may be right and still refer to what cannot be loaded here.
		resolved, _ = s.root.Resolve(nil)
		return resolved
	})
	return s, nil
}

// check returns the input without the nulls that stand for absent fields, and
// everything that is wrong with it, so that the model can mend it all at once.
func (s *schema) check(input jsontext.Value) (jsontext.Value, []string) {
	if len(input) == 0 {
		input = jsontext.Value("{}")
	}
	var value any
	if err := json.Unmarshal(input, &value); err != nil {
		return input, []string{"the input is not valid JSON: " + err.Error()}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return input, []string{"the input must be a JSON object but is " + kindOf(value)}
	}
	input = dropNulls(s.root, object, input)
	wrong := judge(nil, "", s.root, object)
	if len(wrong) > 0 {
		return input, wrong
	}
	// The rest of JSON Schema: bounds, patterns, alternatives.
	if err := s.validate(object); err != nil {
		_, text, _ := strings.Cut(err.Error(), ": ")
		wrong = append(wrong, strings.TrimPrefix(text, "validating "))
	}
	return input, wrong
}

// validate says what is wrong with object by the whole schema, as far as that
// can be told here: what is beyond it, the tool judges itself.
func (s *schema) validate(object map[string]any) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	resolved := s.resolved()
	if resolved == nil || !bearable(s.root, object) {
		return nil
	}
	return resolved.Validate(object)
}

// dropNulls removes null from optional fields that do not allow it: models that
// were trained to fill in every field say so that there is nothing to say. The
// other fields of the input stay as they were written, to the last digit.
func dropNulls(s *jsonschema.Schema, object map[string]any, input jsontext.Value) jsontext.Value {
	var raw map[string]jsontext.Value
	for name, v := range object {
		p := s.Properties[name]
		if v != nil || p == nil || len(types(p)) == 0 || slices.Contains(types(p), "null") || slices.Contains(s.Required, name) {
			continue
		}
		if raw == nil && json.Unmarshal(input, &raw) != nil {
			return input // cannot be: it was read before
		}
		delete(object, name)
		delete(raw, name)
	}
	if raw == nil {
		return input
	}
	b, err := json.Marshal(raw, json.Deterministic(true))
	if err != nil {
		return input
	}
	return b
}

// judge appends what is wrong with value at path to wrong: fields that are
// missing or unexpected, types, and values outside of a list.
func judge(wrong []string, path string, s *jsonschema.Schema, value any) []string {
	if s == nil || len(wrong) >= maxComplaints {
		return wrong
	}
	if want := types(s); len(want) > 0 && !slices.ContainsFunc(want, func(t string) bool { return isOf(t, value) }) {
		return append(wrong, fmt.Sprintf("`%s` must be %s but is %s", path, strings.Join(want, " or "), kindOf(value)))
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(value) }) {
		return append(wrong, fmt.Sprintf("`%s` must be one of %v but is %s", path, s.Enum, kindOf(value)))
	}
	switch v := value.(type) {
	case map[string]any:
		wrong = judgeFields(wrong, path, s, v)
	case []any:
		for i, item := range v {
			wrong = judge(wrong, fmt.Sprintf("%s[%d]", path, i), s.Items, item)
		}
	}
	return wrong
}

func judgeFields(wrong []string, path string, s *jsonschema.Schema, object map[string]any) []string {
	at := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	var missing []string
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			missing = append(missing, name)
			text := fmt.Sprintf("`%s` is missing", at(name))
			if p := s.Properties[name]; p != nil && len(types(p)) > 0 {
				text += " (" + strings.Join(types(p), " or ") + ")"
			}
			wrong = append(wrong, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if p, ok := s.Properties[name]; ok {
			wrong = judge(wrong, at(name), p, object[name])
			continue
		}
		if !closed(s) {
			continue
		}
		text := fmt.Sprintf("`%s` is unexpected", at(name))
		if near := Nearest(name, append(missing, slices.Sorted(maps.Keys(s.Properties))...)); near != "" {
			text += ": did you mean `" + near + "`?"
		}
		wrong = append(wrong, text)
	}
	return wrong
}

// closed reports whether s forbids every field that it does not name. The
// schema false arrives as "not anything".
func closed(s *jsonschema.Schema) bool {
	return s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil && len(s.PatternProperties) == 0
}

func types(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

func isOf(t string, value any) bool {
	switch v := value.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case float64:
		return t == "number" || t == "integer" && v == math.Trunc(v)
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	}
	return false
}

// kindOf names a value for the model, briefly.
func kindOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprintf("the boolean %t", v)
	case string:
		return fmt.Sprintf("the string %q", Middle(v, 40, 0, "…"))
	case float64:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "an array"
	}
	return "an object"
}

// complain writes one text of everything that is wrong with a call (R70).
func complain(name string, wrong []string) string {
	if len(wrong) == 1 {
		return fmt.Sprintf("%s: %s: %s", ClassBadInput, name, wrong[0])
	}
	if len(wrong) > maxComplaints {
		wrong = append(wrong[:maxComplaints:maxComplaints], "and more")
	}
	return fmt.Sprintf("%s: %s was called with input that does not fit its schema:\n- %s",
		ClassBadInput, name, strings.Join(wrong, "\n- "))
}
