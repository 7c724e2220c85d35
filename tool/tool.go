// Package tool (layer 4) answers one question: how is a tool run so that
// whatever happens is a result? A tool never breaks the loop: unknown names,
// bad input, panics, timeouts and refusals all become one tool_result.
package tool

import (
	"context"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/go-json-experiment/json/jsontext"
)

// Effect says what a call may change in the world. After a crash it decides
// whether the call may be repeated.
type Effect string

// The effect classes.
const (
	Pure       Effect = "pure"       // reads only: may run beside others, early, and again
	Idempotent Effect = "idempotent" // changes, but twice is the same as once
	Unsafe     Effect = "unsafe"     // everything else: never repeated silently
)

// Tool is one ability that the model can call.
type Tool interface {
	// Spec describes the tool to the model. It is constant.
	Spec() model.Tool
	// Effect judges one call by its input. Input that cannot be read is Unsafe.
	Effect(input jsontext.Value) Effect
	// Access says what one call would touch, for permission rules.
	Access(input jsontext.Value) Access
	// Run does the work. It returns promptly when ctx ends and never panics on
	// purpose; what it returns is what the model reads.
	Run(ctx context.Context, call Call) Result
}

// Concurrent is a tool that says itself which calls may run beside others (R75).
// Of all other tools the pure calls may.
type Concurrent interface {
	Concurrent(input jsontext.Value) bool
}

// AccessKind groups what permission rules speak about.
type AccessKind string

// The kinds of access. AccessOther is asked about like an unknown tool.
const (
	AccessNone  AccessKind = "none"  // touches nothing outside the conversation
	AccessRead  AccessKind = "read"  // reads Paths
	AccessEdit  AccessKind = "edit"  // writes Paths
	AccessShell AccessKind = "shell" // runs Command
	AccessWeb   AccessKind = "web"   // fetches from Domain
	AccessOther AccessKind = "other"
)

// Access is what one call would touch.
type Access struct {
	Kind    AccessKind
	Paths   []string // as the model wrote them
	Command string
	Domain  string
}

// Call is one call of a tool.
type Call struct {
	ID    string
	Name  string
	Input jsontext.Value
	// Progress reports output while the tool runs; may be nil.
	Progress func(text string)
	// Started reports a process group before it does any work, so that the
	// ledger can name it; an error means: do not run. The start is unique: with
	// it, to the nanosecond, a later life finds what is left. May be nil.
	Started func(pgid int, start time.Time) error
	// Saved reports, before a file is changed, what it holds (nil: it is not
	// there) and what it is about to hold, so that it can be taken back; an
	// error means: do not change it. May be nil.
	Saved func(path string, before, after []byte) error
	// OnCommit takes what must not count before the answer that makes the call
	// is part of the conversation; nil: it is. Use [Call.Committed].
	OnCommit func(func())
}

// Committed calls f once the answer that makes the call is part of the
// conversation, which an early call cannot know.
func (c Call) Committed(f func()) {
	if c.OnCommit == nil {
		f()
		return
	}
	c.OnCommit(f)
}

// Result is what came of a call. The zero Result is an empty success.
type Result struct {
	Content []message.Block
	IsError bool
	// Class names the failure for logs, never its text (R74): a file-system
	// code, a fixed word of this package, or a class name.
	Class string
	// Output is the structured output for screens and streams; it is never
	// sent to the model.
	Output any
	// Denied marks a call that permission refused; Stop ends the run after it.
	Denied bool
	Stop   bool
	// Task is what the call began and goes on behind it, or whose end the result
	// tells; nil: neither.
	Task *Task
}

// Task is work in the background.
type Task struct {
	ID    string
	Path  string // of the file with its output
	Ended bool
	Text  string // of one that ended unasked: what the model is told
}

// Text returns a successful result of one text.
func Text(text string) Result {
	return Result{Content: []message.Block{{Type: message.Text, Text: text}}}
}

// Fail returns a failed result: class for logs, text for the model.
func Fail(class, text string) Result {
	r := Text(text)
	r.IsError, r.Class = true, class
	return r
}

// The failure classes that this package gives (R70).
const (
	ClassUnknownTool = "UnknownTool"
	ClassBadInput    = "InputValidationError"
	ClassPanic       = "Panic"
	ClassDenied      = "PermissionDenied"
	ClassTimeout     = "Timeout"
	ClassExit        = "ShellExit"
	ClassAborted     = "Aborted"
	ClassRepeated    = "Repeated"   // it leads nowhere, as often before
	ClassHook        = "HookDenied" // a hook said no, or could not say yes
	ClassUnknown     = "unknown"
)
