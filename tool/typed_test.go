package tool

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// A schema that is written in short is what it would have been otherwise.
func TestSchemaIsWrittenAsMarshalled(t *testing.T) {
	type part struct {
		Name  string   `json:"name" jsonschema:"a \"name\" with <b>, & and ü"`
		State string   `json:"state" enum:"open,done" jsonschema:"how far it is"`
		Tags  []string `json:"tags,omitzero"`
	}
	for _, c := range []struct {
		in    reflect.Type
		short bool
	}{
		{reflect.TypeFor[part](), true},
		{reflect.TypeFor[struct {
			Parts []part `json:"parts" jsonschema:"all of them"`
			Deep  *part  `json:"deep,omitzero"`
			N     int    `json:"n"`
			X     float64
			OK    bool `json:"-ok"`
		}](), true},
		{reflect.TypeFor[struct{}](), true},
		{reflect.TypeFor[struct{ At time.Time }](), true},
		{reflect.TypeFor[struct{ Small uint8 }](), false},
		{reflect.TypeFor[struct{ Any any }](), false},
		{reflect.TypeFor[struct{ Map map[string]int }](), false},
	} {
		form, text := infer(c.in)
		want, err := json.Marshal(form, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != string(want) {
			t.Errorf("%v:\n%s, want\n%s", c.in, text, want)
		}
		if _, ok := write(form); ok != c.short {
			t.Errorf("%v is written in short: %v, want %v", c.in, ok, c.short)
		}
	}
}
