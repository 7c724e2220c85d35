package tool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Typed is a [Tool] whose input is the struct In: its schema is inferred once,
// when it is first asked for. A field is optional if its json tag says omitzero,
// the jsonschema tag describes it, and an enum tag lists the values that it may
// have, separated by commas. Use it by pointer.
type Typed[In any] struct {
	Name        string
	Description string
	Judge       func(In) Effect // nil: [Unsafe]
	Touch       func(In) Access // nil: [AccessOther]
	Beside      func(In) bool   // may run beside others; nil: if it is [Pure]
	Do          func(context.Context, Call, In) Result

	once sync.Once
	spec model.Tool
	form *jsonschema.Schema
}

// Spec implements [Tool]. It panics if In has no JSON Schema, which is a fault
// of the program and not of a call.
func (t *Typed[In]) Spec() model.Tool {
	t.once.Do(func() {
		form, text := infer(reflect.TypeFor[In]())
		t.form, t.spec = form, model.Tool{Name: t.Name, Description: t.Description, Schema: text}
	})
	return t.spec
}

// shape is what raw says if it is the schema of the spec, so that it need not be
// read again; else nil: who embeds a Typed may have changed it.
func (t *Typed[In]) shape(raw jsontext.Value) *jsonschema.Schema {
	if string(raw) != string(t.Spec().Schema) {
		return nil
	}
	return t.form
}

// Effect implements [Tool].
func (t *Typed[In]) Effect(input jsontext.Value) Effect {
	in, err := t.parse(input)
	if t.Judge == nil || err != nil {
		return Unsafe
	}
	return t.Judge(in)
}

// Access implements [Tool].
func (t *Typed[In]) Access(input jsontext.Value) Access {
	in, err := t.parse(input)
	if t.Touch == nil || err != nil {
		return Access{Kind: AccessOther}
	}
	return t.Touch(in)
}

// Concurrent implements [Concurrent].
func (t *Typed[In]) Concurrent(input jsontext.Value) bool {
	in, err := t.parse(input)
	if t.Beside == nil || err != nil {
		return t.Effect(input) == Pure
	}
	return t.Beside(in)
}

// Run implements [Tool].
func (t *Typed[In]) Run(ctx context.Context, call Call) Result {
	in, err := t.parse(call.Input)
	if err != nil {
		return Refuse(ClassBadInput, ClassBadInput+": "+t.Name+" cannot read its input: "+err.Error())
	}
	return t.Do(ctx, call, in)
}

func (t *Typed[In]) parse(input jsontext.Value) (in In, err error) {
	if len(input) == 0 {
		input = jsontext.Value("{}") // a call without arguments
	}
	err = json.Unmarshal(input, &in, wholeNumbers)
	return in, err
}

// wholeNumbers reads 5.0 and 5e3 as the integers that they are by JSON Schema
// (https://json-schema.org/draft/2020-12/json-schema-validation#section-6.1.1):
// models write them.
var wholeNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(in *jsontext.Decoder, n *int) error {
	if in.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := in.ReadValue()
	if err != nil {
		return err
	}
	if *n, err = strconv.Atoi(string(raw)); err == nil {
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return fmt.Errorf("%s is no integer of a size that makes sense", raw)
	}
	*n = int(f)
	return nil
}))

// infer makes the schema of a struct type, as strict and as plain as every
// provider accepts it.
func infer(t reflect.Type) (*jsonschema.Schema, jsontext.Value) {
	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		panic("tool: " + err.Error())
	}
	refine(s, t)
	b, ok := write(s)
	if !ok {
		if b, err = json.Marshal(s, json.Deterministic(true)); err != nil {
			panic("tool: " + err.Error())
		}
	}
	return s, b
}

// plainly is a schema that says only what most inputs need.
type plainly struct {
	Type                 string         `json:"type"`
	Properties           jsontext.Value `json:"properties,omitempty"`
	Items                jsontext.Value `json:"items,omitempty"`
	Description          string         `json:"description,omitempty"`
	Enum                 []any          `json:"enum,omitempty"`
	Required             []string       `json:"required,omitempty"`
	AdditionalProperties jsontext.Value `json:"additionalProperties,omitempty"`
}

// write encodes s to the same bytes as json.Marshal does, if it is plain enough.
// For the dozen tools of a command, json.Marshal is one part in fourteen of all
// that is done from its start to its first request.
func write(s *jsonschema.Schema) (jsontext.Value, bool) {
	rest := *s
	rest.Type, rest.Description, rest.Enum, rest.Required = "", "", nil, nil
	rest.Properties, rest.PropertyOrder, rest.Items, rest.AdditionalProperties = nil, nil, nil, nil
	if s.Type == "" || len(s.PropertyOrder) != len(s.Properties) || !reflect.DeepEqual(&rest, &jsonschema.Schema{}) {
		return nil, false
	}
	out := plainly{Type: s.Type, Description: s.Description, Enum: s.Enum, Required: s.Required}
	for i, name := range s.PropertyOrder {
		out.Properties = append(out.Properties, "{,"[min(i, 1)])
		out.Properties, _ = jsontext.AppendQuote(out.Properties, name)
		p, ok := write(s.Properties[name])
		if !ok {
			return nil, false
		}
		out.Properties = append(append(out.Properties, ':'), p...)
	}
	if len(s.Properties) > 0 {
		out.Properties = append(out.Properties, '}')
	} else if s.Properties != nil {
		return nil, false
	}
	if s.Items != nil {
		var ok bool
		if out.Items, ok = write(s.Items); !ok {
			return nil, false
		}
	}
	if s.AdditionalProperties != nil { // its negation of everything is written so
		if !reflect.DeepEqual(s.AdditionalProperties, &jsonschema.Schema{Not: &jsonschema.Schema{}}) {
			return nil, false
		}
		out.AdditionalProperties = jsontext.Value("false")
	}
	b, err := json.Marshal(out)
	return b, err == nil
}

// refine takes null out of the types, since an absent field says the same and
// some providers refuse lists of types, and puts the enum tags in.
func refine(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	if s.Items != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		refine(s.Items, t.Elem())
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			continue
		}
		refine(p, f.Type)
		if values, ok := f.Tag.Lookup("enum"); ok {
			for v := range strings.SplitSeq(values, ",") {
				p.Enum = append(p.Enum, v)
			}
		}
	}
}
