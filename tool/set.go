package tool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json/jsontext"
)

// Set is the tools that a model may call. Its Run is the one place where a call
// becomes a result: nothing that a tool does, or fails to do, gets past it. It is
// safe for concurrent use; change the fields before the first call only.
type Set struct {
	// Spill is the folder for results that are too large for the model. If it
	// is empty they are cut all the same, and what was cut is lost.
	Spill string
	// Hide takes secrets out of what is kept there. May be nil.
	Hide func(text string) string
	// Patience is how long a tool may go on after its context has ended before
	// its call is given up; zero means [DefaultPatience]. Longer is the patience
	// with single tools, by name.
	Patience time.Duration
	Longer   map[string]time.Duration

	specs   []model.Tool
	names   []string
	entries map[string]entry
}

// DefaultPatience is that of a set which names none.
const DefaultPatience = 10 * time.Second

type entry struct {
	tool   Tool
	schema *schema
}

// NewSet makes a set of tools. Each needs a name of its own and a schema that is
// a JSON object of type object; the error names the tool that is wrong.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{entries: make(map[string]entry, len(tools))}
	for _, t := range tools {
		if err := s.add(t); err != nil {
			return nil, fmt.Errorf("make tool set: %w", err)
		}
	}
	return s, nil
}

func (s *Set) add(t Tool) error {
	spec := t.Spec()
	if spec.Name == "" {
		return fmt.Errorf("tool %d (%T) has no name", len(s.names), t)
	}
	if _, ok := s.entries[spec.Name]; ok {
		return fmt.Errorf("two tools are called %s: rename one or leave it out", spec.Name)
	}
	schema, err := shapeOf(t, spec.Schema)
	if err != nil {
		return fmt.Errorf("schema of %s: %w", spec.Name, err)
	}
	s.entries[spec.Name] = entry{t, schema}
	s.specs = append(s.specs, spec)
	s.names = append(s.names, spec.Name)
	return nil
}

// Specs describes the tools to a model, always in the order in which they were
// given, so that the prompt cache holds.
func (s *Set) Specs() []model.Tool { return slices.Clone(s.specs) }

// Names lists the names of the tools in order.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Lookup finds a tool by its name.
func (s *Set) Lookup(name string) (Tool, bool) {
	e, ok := s.entries[name]
	return e.tool, ok
}

// Effect judges one call. Whatever goes wrong in judging makes it [Unsafe] (R75).
func (s *Set) Effect(name string, input jsontext.Value) (effect Effect) {
	t, ok := s.Lookup(name)
	if !ok {
		return Unsafe
	}
	defer func() {
		if recover() != nil {
			effect = Unsafe
		}
	}()
	return t.Effect(input)
}

// Concurrent reports whether a call may run beside others (R75). Whatever goes
// wrong in judging makes it one that runs alone.
func (s *Set) Concurrent(name string, input jsontext.Value) (beside bool) {
	t, ok := s.Lookup(name)
	if !ok {
		return false
	}
	defer func() {
		if recover() != nil {
			beside = false
		}
	}()
	if c, ok := t.(Concurrent); ok {
		return c.Concurrent(input)
	}
	return t.Effect(input) == Pure
}

// With returns a set that has t, too.
func (s *Set) With(t Tool) (*Set, error) {
	more := *s
	more.specs, more.names, more.entries = slices.Clone(s.specs), slices.Clone(s.names), maps.Clone(s.entries)
	if err := more.add(t); err != nil {
		return nil, fmt.Errorf("make tool set: %w", err)
	}
	return &more, nil
}

// Access says what one call would touch; [AccessOther] if that cannot be told.
func (s *Set) Access(name string, input jsontext.Value) (access Access) {
	t, ok := s.Lookup(name)
	if !ok {
		return Access{Kind: AccessOther}
	}
	defer func() {
		if recover() != nil {
			access = Access{Kind: AccessOther}
		}
	}()
	return t.Access(input)
}

// Run runs a call. It always comes back with a result that the model can be
// sent: valid text, never empty, never too large (R69, R70). What fails before
// the tool starts is marked so that the model knows that nothing happened.
func (s *Set) Run(ctx context.Context, call Call) Result {
	checked, refusal := s.check(call)
	switch {
	case refusal != nil:
		return *refusal
	case ctx.Err() != nil:
		return s.finish(call, Refuse(ClassAborted, call.Name+" was not started: the run was cancelled before."))
	}
	return s.finish(call, s.run(ctx, s.entries[call.Name].tool, checked))
}

// Check returns the result of a call that cannot run, since there is no such tool
// or its input does not fit; nil for every other call.
func (s *Set) Check(call Call) *Result {
	_, refusal := s.check(call)
	return refusal
}

func (s *Set) check(call Call) (Call, *Result) {
	e, ok := s.entries[call.Name]
	if !ok {
		r := s.finish(call, s.unknown(call.Name))
		return call, &r
	}
	input, wrong := e.schema.check(call.Input)
	if len(wrong) > 0 {
		r := s.finish(call, Refuse(ClassBadInput, complain(call.Name, wrong)))
		return call, &r
	}
	call.Input = input
	return call, nil
}

// Refuse returns the result of a call that was not started: class for logs, text
// for the model (R69).
func Refuse(class, text string) Result {
	return Fail(class, "<tool_use_error>"+text+"</tool_use_error>")
}

func (s *Set) unknown(name string) Result {
	text := "Error: No such tool available: " + name + "."
	if near := Nearest(name, s.names); near != "" {
		text += " Did you mean " + near + "?"
	}
	if len(s.names) > 0 {
		text += " Available tools: " + strings.Join(s.names, ", ") + "."
	}
	return Refuse(ClassUnknownTool, text)
}

// Panic is the Output of a call whose tool panicked: what a developer needs,
// kept from the model.
type Panic struct {
	Value string `json:"value"`
	Stack string `json:"stack"`
}

// run gives the tool a goroutine of its own. So a panic, a runtime.Goexit and a
// tool that does not listen to its context all end as a result.
func (s *Set) run(ctx context.Context, t Tool, call Call) Result {
	var telling sync.RWMutex
	over := false
	defer func() {
		telling.Lock()
		defer telling.Unlock()
		over = true
	}()
	if report := call.Progress; report != nil {
		// A tool that was given up must not speak into a later turn, and nobody
		// listens any more when its result is there.
		call.Progress = func(text string) {
			telling.RLock()
			defer telling.RUnlock()
			if !over {
				report(text)
			}
		}
	}
	done := make(chan Result, 1)
	go func() {
		r := Fail(ClassPanic, call.Name+" ended without a result. This is a fault of the tool, not of your input: try another way.")
		defer func() {
			if v := recover(); v != nil {
				r = Fail(ClassPanic, fmt.Sprintf("%s failed by an internal fault: %v. "+
					"It may have done part of its work: check before you go on, and try another way.", call.Name, v))
				r.Output = Panic{Value: fmt.Sprint(v), Stack: string(debug.Stack())}
			}
			done <- r
		}()
		r = t.Run(ctx, call)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
	}
	patience := cmp.Or(s.Longer[call.Name], s.Patience, DefaultPatience)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r
	case <-timer.C:
		return Fail(ClassAborted, fmt.Sprintf("%s was cancelled, did not stop within %v and was given up. "+
			"It may still be running: check what it did before you repeat it.", call.Name, patience))
	}
}
