package tool

import (
	"context"
	"reflect"
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
}

// Spec implements [Tool]. It panics if In has no JSON Schema, which is a fault
// of the program and not of a call.
func (t *Typed[In]) Spec() model.Tool {
	t.once.Do(func() {
		t.spec = model.Tool{Name: t.Name, Description: t.Description, Schema: infer(reflect.TypeFor[In]())}
	})
	return t.spec
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
	err = json.Unmarshal(input, &in)
	return in, err
}

// infer makes the schema of a struct type, as strict and as plain as every
// provider accepts it.
func infer(t reflect.Type) jsontext.Value {
	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		panic("tool: " + err.Error())
	}
	refine(s, t)
	b, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		panic("tool: " + err.Error())
	}
	return b
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
