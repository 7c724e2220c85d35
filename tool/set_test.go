package tool_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type probeInput struct {
	Path  string   `json:"file_path" jsonschema:"the file"`
	Limit int      `json:"limit,omitzero"`
	Mode  string   `json:"mode,omitzero" enum:"fast,slow"`
	Tags  []string `json:"tags,omitzero"`
	Items []struct {
		Name string `json:"name"`
		Kind string `json:"kind" enum:"a,b"`
	} `json:"items,omitzero"`
}

func probe(do func(context.Context, tool.Call, probeInput) tool.Result) *tool.Typed[probeInput] {
	return &tool.Typed[probeInput]{Name: "Probe", Description: "probes", Do: do}
}

func newSet(t *testing.T, tools ...tool.Tool) *tool.Set {
	t.Helper()
	s, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a probe that does do, and checks what holds for every result.
func run(t *testing.T, do func(context.Context, tool.Call, probeInput) tool.Result) tool.Result {
	t.Helper()
	s := newSet(t, probe(do))
	s.Spill = t.TempDir()
	r := s.Run(t.Context(), tool.Call{ID: "1", Name: "Probe", Input: jsontext.Value(`{"file_path":"x"}`)})
	lawful(t, r)
	return r
}

func lawful(t *testing.T, r tool.Result) {
	t.Helper()
	if len(r.Content) == 0 {
		t.Error("empty result")
	}
	for _, b := range r.Content {
		if b.Type == message.Text && (b.Text == "" || !utf8.ValidString(b.Text) || strings.ContainsAny(b.Text, "\x00\x1b\r")) {
			t.Errorf("unfit text %q", b.Text)
		}
		if r.IsError && b.Type != message.Text {
			t.Errorf("block of type %s in an error", b.Type)
		}
	}
	if r.IsError && (strings.TrimSpace(text(r)) == "" || r.Class == "") {
		t.Errorf("error without text or class: %+v", r)
	}
}

func text(r tool.Result) string {
	b := message.Block{Type: message.ToolResult, Content: r.Content}
	return b.PlainText()
}

func TestSchema(t *testing.T) {
	got := string(probe(nil).Spec().Schema)
	want := `{"type":"object","properties":{"file_path":{"type":"string","description":"the file"},"limit":{"type":"integer"},` +
		`"mode":{"type":"string","enum":["fast","slow"]},"tags":{"type":"array","items":{"type":"string"}},` +
		`"items":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},` +
		`"kind":{"type":"string","enum":["a","b"]}},"required":["name","kind"],"additionalProperties":false}}},` +
		`"required":["file_path"],"additionalProperties":false}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewSetRefuses(t *testing.T) {
	p := probe(nil)
	for name, tools := range map[string][]tool.Tool{
		"two tools are called Probe": {p, probe(nil)},
		"has no name":                {&tool.Typed[probeInput]{}},
		`its type must be "object"`:  {raw{name: "Bad", schema: `{"type":"string"}`}},
		"not a JSON Schema":          {raw{name: "Bad", schema: `{"type":`}},
	} {
		if _, err := tool.NewSet(tools...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("NewSet: %v, want an error with %q", err, name)
		}
	}
}

// raw is a tool as a server would describe it.
type raw struct{ name, schema string }

func (r raw) Spec() model.Tool {
	return model.Tool{Name: r.name, Schema: jsontext.Value(r.schema)}
}
func (raw) Effect(jsontext.Value) tool.Effect { panic("cannot judge") }
func (raw) Access(jsontext.Value) tool.Access { panic("cannot judge") }
func (raw) Run(_ context.Context, c tool.Call) tool.Result {
	return tool.Text("got " + string(c.Input))
}

func TestForeignSchemas(t *testing.T) {
	for _, c := range []struct{ schema, input, want string }{
		{`{"type":"object"}`, ``, `got `},
		{`{"type":"object","properties":{"n":{"type":"integer","minimum":3}}}`, `{"n":1}`, "minimum"},
		{`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`, `{"n":"1"}`, "InputValidationError"},
		{`{"type":"object","properties":{"n":{"$ref":"https://example.com/x.json"}}}`, `{"n":"1"}`, `got {"n":"1"}`},
		{`{"type":"object","properties":{"n":{"type":["integer","null"]}}}`, `{"n":null}`, `got {"n":null}`},
		{`{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":null,"free":12345678901234567890}`, `got {"free":12345678901234567890}`},
		{`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, "anyOf"},
		{`{"type":"object","properties":{"n":{"$ref":"#/$defs/l"}},"$defs":{"l":{"items":{"$ref":"#/$defs/l"},"maxItems":1}}}`, `{"n":[[[1,2]]]}`, "maxItems"},
		// What leads in circles or doubles with each step is the tool's to judge.
		{`{"type":"object","$ref":"#"}`, `{}`, `got {}`},
		{`{"type":"object","if":{"not":{"$ref":"#"}}}`, `{}`, `got {}`},
		{`{"type":"object","$dynamicAnchor":"n","allOf":[{"$dynamicRef":"#n"}]}`, `{}`, `got {}`},
		{`{"type":"object","properties":{"n":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`, `{"n":1}`, `got {"n":1}`},
		{`{"type":"object","properties":{"n":{"$ref":"#/$defs/l"}},"$defs":{"l":{"anyOf":[{"items":{"$ref":"#/$defs/l"}},{"items":{"$ref":"#/$defs/l"}}]}}}`,
			`{"n":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, `got {"n":[[`},
		{`{"type":"object","properties":{"n":{"$ref":"#/$defs/l"}},"$defs":{"l":{"items":{"$ref":"#/$defs/l"}}}}`,
			`{"n":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, `got {"n":[[`},
	} {
		s := newSet(t, raw{"Far", c.schema})
		r := s.Run(t.Context(), tool.Call{Name: "Far", Input: jsontext.Value(c.input)})
		lawful(t, r)
		if !strings.Contains(text(r), c.want) {
			t.Errorf("schema %s, input %s: %q, want %q", c.schema, c.input, text(r), c.want)
		}
		if s.Effect("Far", nil) != tool.Unsafe || s.Access("Far", nil).Kind != tool.AccessOther {
			t.Error("a panic in judging must count as the worst")
		}
	}
}

func TestUnknownTool(t *testing.T) {
	s := newSet(t, raw{"Read", `{"type":"object"}`}, raw{"TodoWrite", `{"type":"object"}`}, raw{"Bash", `{"type":"object"}`})
	for name, near := range map[string]string{
		"read": "Read", "read_file": "Read", "Raed": "Read", "todo_write": "TodoWrite", "todowrte": "TodoWrite", "generic_command": "", "": "",
	} {
		r := s.Run(t.Context(), tool.Call{Name: name})
		lawful(t, r)
		hint := "Did you mean " + near + "?"
		if !r.IsError || r.Class != tool.ClassUnknownTool || strings.Contains(text(r), "Did you mean") != (near != "") ||
			near != "" && !strings.Contains(text(r), hint) || !strings.Contains(text(r), "Read, TodoWrite, Bash") ||
			!strings.HasPrefix(text(r), "<tool_use_error>Error: No such tool available: "+name) {
			t.Errorf("%q: %s", name, text(r))
		}
	}
}

func TestBadInput(t *testing.T) {
	s := newSet(t, probe(func(context.Context, tool.Call, probeInput) tool.Result { return tool.Text("ran") }))
	for _, c := range []struct {
		input string
		want  []string
	}{
		{`{"path":"x","limit":"ten","mode":"quick","tags":[1],"items":[{"name":1},{"kind":"c","name":"n"}],"extra":null}`, []string{
			"`file_path` is missing (string)", "`path` is unexpected: did you mean `file_path`?", "`limit` must be integer but is the string \"ten\"",
			"`mode` must be one of [fast slow] but is the string \"quick\"", "`tags[0]` must be string but is the number 1",
			"`items[0].kind` is missing (string)", "`items[0].name` must be string", "`items[1].kind` must be one of [a b]", "`extra` is unexpected",
		}},
		{``, []string{"`file_path` is missing"}},
		{`{"file_path":`, []string{"not valid JSON"}},
		{`{"file_path":"a","file_path":"b"}`, []string{"not valid JSON"}},
		{`["a"]`, []string{"must be a JSON object but is an array"}},
		{`{"file_path":null}`, []string{"`file_path` must be string but is null"}},
		{`{"file_path":"a","limit":1.5}`, []string{"`limit` must be integer but is the number 1.5"}},
	} {
		r := s.Run(t.Context(), tool.Call{Name: "Probe", Input: jsontext.Value(c.input)})
		lawful(t, r)
		if r.Class != tool.ClassBadInput || !strings.HasPrefix(text(r), "<tool_use_error>InputValidationError: Probe") {
			t.Errorf("%s: %s", c.input, text(r))
		}
		for _, w := range c.want {
			if !strings.Contains(text(r), w) {
				t.Errorf("%s: %s\nlacks %q", c.input, text(r), w)
			}
		}
	}
	r := s.Run(t.Context(), tool.Call{Name: "Probe", Input: jsontext.Value(`{"file_path":"a","limit":null,"mode":null}`)})
	if text(r) != "ran" {
		t.Errorf("null in optional fields: %s", text(r))
	}
	whole := newSet(t, probe(func(_ context.Context, _ tool.Call, in probeInput) tool.Result {
		return tool.Text(fmt.Sprint("limit ", in.Limit))
	}))
	for number, want := range map[string]string{
		"5": "limit 5", "-5": "limit -5", "5.0": "limit 5", "5e3": "limit 5000", "1e30": "size that makes sense", "99999999999999999999": "size that makes sense",
	} {
		r := whole.Run(t.Context(), tool.Call{Name: "Probe", Input: jsontext.Value(`{"file_path":"a","limit":` + number + `}`)})
		if lawful(t, r); !strings.Contains(text(r), want) {
			t.Errorf("%s: %s, want %s", number, text(r), want)
		}
	}
}

func TestWhateverHappensIsAResult(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(context.Context, tool.Call, probeInput) tool.Result
		class string
		want  string
	}{
		"panic":       {func(context.Context, tool.Call, probeInput) tool.Result { panic("boom") }, tool.ClassPanic, "boom"},
		"panic error": {func(context.Context, tool.Call, probeInput) tool.Result { return *(*tool.Result)(nil) }, tool.ClassPanic, "nil pointer"},
		"goexit":      {func(context.Context, tool.Call, probeInput) tool.Result { runtime.Goexit(); panic(1) }, tool.ClassPanic, "without a result"},
		"nothing":     {func(context.Context, tool.Call, probeInput) tool.Result { return tool.Result{} }, "", "(Probe completed with no output)"},
		"blank":       {func(context.Context, tool.Call, probeInput) tool.Result { return tool.Text("\n \n") }, "", "(Probe completed with no output)"},
		"mute error":  {func(context.Context, tool.Call, probeInput) tool.Result { return tool.Result{IsError: true} }, tool.ClassUnknown, "said nothing"},
		"dirt": {func(context.Context, tool.Call, probeInput) tool.Result {
			return tool.Text("a\x00b\xff\x1b[31mred\x1b[0m\x07\r\nend\tx\rover\u0085")
		}, "", "a␀b\uFFFDred\nend\tx\nover"},
		"picture in an error": {func(context.Context, tool.Call, probeInput) tool.Result {
			return tool.Result{IsError: true, Class: "X", Content: []message.Block{{Type: message.Image}}}
		}, "X", "said nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, c.do)
			if !strings.Contains(text(r), c.want) || r.Class != c.class {
				t.Errorf("class %q, text %q; want %q, %q", r.Class, text(r), c.class, c.want)
			}
			if strings.Contains(text(r), "goroutine") {
				t.Error("the model was shown a stack")
			}
			if p, ok := r.Output.(tool.Panic); strings.HasPrefix(name, "panic") && (!ok || !strings.Contains(p.Stack, "set_test.go")) {
				t.Errorf("stack lost: %v", r.Output)
			}
		})
	}
}

func TestPictureAloneIsEnough(t *testing.T) {
	r := run(t, func(context.Context, tool.Call, probeInput) tool.Result {
		return tool.Result{Content: []message.Block{{Type: message.Image, Media: &message.Media{Type: "image/png"}}}}
	})
	if len(r.Content) != 1 || r.Content[0].Type != message.Image {
		t.Errorf("%+v", r.Content)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	free := make(chan struct{})
	s := newSet(t, probe(func(_ context.Context, c tool.Call, _ probeInput) tool.Result {
		cancel()
		<-free // deaf to its context
		c.Progress("late")
		return tool.Text("late")
	}))
	s.Patience = 20 * time.Millisecond
	call := tool.Call{Name: "Probe", Input: jsontext.Value(`{"file_path":"x"}`), Progress: func(string) { t.Error("a tool that was given up spoke") }}
	r := s.Run(ctx, call)
	close(free)
	if lawful(t, r); r.Class != tool.ClassAborted || !strings.Contains(text(r), "may still be running") {
		t.Errorf("deaf tool: %+v", r)
	}
	r = s.Run(ctx, call)
	if lawful(t, r); r.Class != tool.ClassAborted || !strings.Contains(text(r), "was not started") {
		t.Errorf("cancelled before: %+v", r)
	}
}

func TestTooLarge(t *testing.T) {
	whole := "HEAD" + strings.Repeat("ü", 60_000) + "TAIL"
	for _, fail := range []bool{false, true} {
		s := newSet(t, probe(func(context.Context, tool.Call, probeInput) tool.Result {
			r := tool.Text(whole)
			r.IsError = fail
			return r
		}))
		for _, spill := range []string{t.TempDir() + "/new/folder", "", "/dev/null/impossible"} {
			s.Spill = spill
			r := s.Run(t.Context(), tool.Call{Name: "Probe", Input: jsontext.Value(`{"file_path":"x"}`)})
			lawful(t, r)
			got := text(r)
			if n := utf8.RuneCountInString(got); n > 10_000 || !strings.HasPrefix(got, "HEAD") || !strings.HasSuffix(got, "TAIL") {
				t.Fatalf("%d characters: %.50s", n, got)
			}
			if spill == "" || strings.HasPrefix(spill, "/dev") {
				if !strings.Contains(got, "kept") {
					t.Errorf("the loss is not told: %s", got)
				}
				continue
			}
			_, path, _ := strings.Cut(got, "the whole text is in ")
			path, _, _ = strings.Cut(path, "]")
			if b, err := os.ReadFile(path); err != nil || string(b) != whole {
				t.Errorf("spilled file: %v", err)
			}
		}
	}
}

type quotaError struct{}

func (quotaError) Error() string { return "secret of the user" }

func TestClassify(t *testing.T) {
	_, missing := os.Open("/no/such/secret")
	for want, err := range map[string]error{
		"":              nil,
		"ENOENT":        fmt.Errorf("read: %w", missing),
		"EEXIST":        fs.ErrExist,
		"quotaError":    fmt.Errorf("a: %w", quotaError{}),
		"OpError":       &net.OpError{Op: "dial", Err: errors.New("x")},
		"unknown":       errors.Join(errors.New("secret")),
		"Aborted":       context.Canceled,
		"Timeout":       context.DeadlineExceeded,
		"disk is small": fmt.Errorf("b: %w", &tool.SafeError{Safe: "disk is small", Err: missing}),
	} {
		if got := tool.Classify(err); got != want {
			t.Errorf("Classify(%v) = %q, want %q", err, got, want)
		}
	}
	long := &tool.SafeError{Safe: strings.Repeat("x", 300)}
	if got := tool.Classify(long); len(got) != 200 {
		t.Errorf("%d characters of safe text", len(got))
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"plain", "\x1b]0;title\x07x", "\x1b[", "\xff\xfe\x00", "a\r\r\n", "\u0085\u009b31m", "\x1b\x1b[0m[0m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := tool.Clean(s)
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0 {
				t.Fatalf("Clean(%q) = %q", s, got)
			}
		}
		if !utf8.ValidString(got) || tool.Clean(got) != got {
			t.Fatalf("Clean(%q) = %q, which is not clean", s, got)
		}
	})
}
