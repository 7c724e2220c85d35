package hook

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Permission is what hooks say about a call.
type Permission string

// The permissions, the strongest first. Empty: no hook decided.
const (
	Deny  Permission = "deny"
	Defer Permission = "defer" // end the run, and ask again when it is resumed
	Ask   Permission = "ask"   // ask a person, whatever the rules say
	Allow Permission = "allow"
)

// strength orders permissions.
var strength = map[Permission]int{Allow: 1, Ask: 2, Defer: 3, Deny: 4}

// Answer is what a PermissionRequest hook says in place of the person.
type Answer struct {
	Allow     bool
	Input     jsontext.Value // of an allow: the call as it may run; nil: as it is
	Updates   jsontext.Value // of an allow: updates of the permissions, a JSON list; nil: none
	Message   string         // of a deny
	Interrupt bool           // of a deny: end the run
}

// Action is what a RecoveryStart hook wants.
type Action string

// The actions, the weakest first. Empty: no hook said anything.
const (
	Proceed  Action = "proceed"
	Fallback Action = "fallback" // use another model
	Wait     Action = "wait"     // until a time
	GiveUp   Action = "give_up"
)

var actions = map[Action]int{Proceed: 1, Fallback: 2, Wait: 3, GiveUp: 4}

// RecoveryAction is what to do about a failure, as hooks want it.
type RecoveryAction struct {
	Do    Action
	Until time.Time // of Wait
	Model string    // of Fallback; empty: the next of the chain
}

// reply is the JSON of one hook, as far as its event reads it.
type reply struct {
	stop          bool // "continue": false
	stopReason    string
	system        string // for the person
	terminal      string // sequences for the terminal, of the harmless kinds
	block         bool
	why           string
	permission    Permission
	permissionWhy string
	input         jsontext.Value
	output        jsontext.Value
	context       string
	title         string
	firstMessage  string
	suppress      bool
	answer        *Answer
	recovery      *RecoveryAction
}

// reason is how a reply words a block.
func (r *reply) reason() string {
	switch {
	case r.permissionWhy != "":
		return r.permissionWhy
	case r.answer != nil && r.answer.Message != "":
		return r.answer.Message
	case r.why != "":
		return r.why
	}
	return r.stopReason
}

// replyJSON is the top level of the output.
type replyJSON struct {
	Continue   *bool          `json:"continue"`
	StopReason string         `json:"stopReason"`
	System     string         `json:"systemMessage"`
	Terminal   string         `json:"terminalSequence"`
	Decision   string         `json:"decision"`
	Reason     string         `json:"reason"`
	Specific   jsontext.Value `json:"hookSpecificOutput"`
}

// specificJSON are the fields of hookSpecificOutput. Those that the event does
// not read are taken out before.
type specificJSON struct {
	Permission    Permission      `json:"permissionDecision"`
	PermissionWhy string          `json:"permissionDecisionReason"`
	Input         jsontext.Value  `json:"updatedInput"`
	Output        *jsontext.Value `json:"updatedToolOutput"`
	Context       string          `json:"additionalContext"`
	Title         string          `json:"sessionTitle"`
	FirstMessage  string          `json:"initialUserMessage"`
	Suppress      bool            `json:"suppressOriginalPrompt"`
	Decision      *answerJSON     `json:"decision"`
	Action        Action          `json:"action"`
	Until         string          `json:"until"`
	Model         string          `json:"model"`
}

type answerJSON struct {
	Behavior  string         `json:"behavior"`
	Input     jsontext.Value `json:"updatedInput"`
	Updates   jsontext.Value `json:"updatedPermissions"`
	Message   string         `json:"message"`
	Interrupt bool           `json:"interrupt"`
}

// parseReply reads the JSON of a hook. What its event does not read is ignored;
// what it reads and cannot be understood is an error, for a decision that is
// misread is worse than none.
func parseReply(t trait, data []byte) (reply, error) {
	var j replyJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return reply{}, plainError(err)
	}
	if t.deaf {
		return reply{terminal: harmless(j.Terminal)}, nil
	}
	r := reply{
		stop: j.Continue != nil && !*j.Continue, stopReason: j.StopReason, system: j.System, terminal: harmless(j.Terminal), why: j.Reason,
	}
	if err := r.decide(t, j.Decision); err != nil {
		return reply{}, err
	}
	if k := j.Specific.Kind(); len(j.Specific) == 0 || k == 'n' {
		return r, nil
	}
	if err := r.specific(t, j.Specific); err != nil {
		return reply{}, err
	}
	return r, nil
}

// decide reads the decision of the top level.
func (r *reply) decide(t trait, decision string) error {
	switch {
	case t.event == PreToolUse: // an older form
		old := map[string]Permission{"": "", "approve": Allow, "block": Deny}
		p, ok := old[decision]
		if !ok {
			return fmt.Errorf(`"decision" is %q: use "hookSpecificOutput" with a "permissionDecision"`, clip(decision, 40))
		}
		if r.permission = p; p != "" {
			r.permissionWhy = r.why
		}
	case t.block && decision != "" && decision != "block" && decision != "approve":
		return fmt.Errorf(`"decision" is %q: only "block" is known`, clip(decision, 40))
	case t.block:
		r.block = decision == "block"
	}
	return nil
}

// specific reads hookSpecificOutput.
func (r *reply) specific(t trait, data jsontext.Value) error {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(data, &fields); err != nil {
		return plainError(err)
	}
	if name := fields["hookEventName"]; name != nil && name.Kind() != 'n' {
		var event string
		if json.Unmarshal(name, &event) != nil || event != string(t.event) {
			return fmt.Errorf(`"hookEventName" is %s, and not %q`, clip(string(name), 40), t.event)
		}
	}
	for name := range fields {
		if !t.reads(name) {
			delete(fields, name)
		}
	}
	read, err := json.Marshal(fields)
	if err != nil {
		return plainError(err)
	}
	var s specificJSON
	if err := json.Unmarshal(read, &s); err != nil {
		return plainError(err)
	}
	return r.take(&s)
}

// take checks the fields of the event and keeps them.
func (r *reply) take(s *specificJSON) error {
	if s.Permission != "" {
		if strength[s.Permission] == 0 {
			return fmt.Errorf(`"permissionDecision" is %q: allow, deny, ask and defer are known`, clip(string(s.Permission), 40))
		}
		r.permission, r.permissionWhy = s.Permission, s.PermissionWhy
	}
	if s.Output != nil {
		r.output = *s.Output
	}
	r.context, r.title, r.firstMessage, r.suppress = s.Context, s.Title, s.FirstMessage, s.Suppress
	var err error
	if r.input, err = object("updatedInput", s.Input); err != nil {
		return err
	}
	if s.Decision != nil {
		if r.answer, err = s.Decision.answer(); err != nil {
			return err
		}
	}
	r.recovery, err = recovery(s)
	return err
}

func (j *answerJSON) answer() (*Answer, error) {
	a := &Answer{Allow: j.Behavior == "allow", Message: j.Message, Interrupt: j.Interrupt}
	switch j.Behavior {
	case "deny":
		return a, nil
	case "allow":
		var err error
		if a.Input, err = object("updatedInput", j.Input); err != nil {
			return nil, err
		}
		if k := j.Updates.Kind(); len(j.Updates) > 0 && k != 'n' {
			if k != '[' {
				return nil, errors.New(`"updatedPermissions" is not a list`)
			}
			a.Updates = j.Updates
		}
		return a, nil
	}
	return nil, fmt.Errorf(`"behavior" is %q: allow and deny are known`, clip(j.Behavior, 40))
}

func recovery(s *specificJSON) (*RecoveryAction, error) {
	if s.Action == "" {
		return nil, nil
	}
	a := &RecoveryAction{Do: s.Action, Model: s.Model}
	if actions[s.Action] == 0 {
		return nil, fmt.Errorf(`"action" is %q: proceed, wait, fallback and give_up are known`, clip(string(s.Action), 40))
	}
	if s.Action == Wait {
		until, err := time.Parse(time.RFC3339, s.Until)
		if err != nil {
			return nil, fmt.Errorf(`"until" is %q: to wait, it must be a time such as 2006-01-02T15:04:05Z`, clip(s.Until, 40))
		}
		a.Until = until
	}
	return a, nil
}

// object is a value that must be a JSON object; nil if it is absent or null.
func object(name string, v jsontext.Value) (jsontext.Value, error) {
	switch k := v.Kind(); {
	case len(v) == 0 || k == 'n':
		return nil, nil
	case k != '{':
		return nil, fmt.Errorf("%q is not an object", name)
	}
	return v, nil
}

// plainError says in few words what the decoder found.
func plainError(err error) error {
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntactic) && syntactic.Err != nil:
		return fmt.Errorf("%w, at byte %d", syntactic.Err, syntactic.ByteOffset)
	case errors.As(err, &semantic):
		return fmt.Errorf("%s is %s", clip(string(semantic.JSONPointer), 80), kindWord(semantic.JSONKind))
	}
	return err
}

// longest bounds one sequence, in bytes. Within the pattern the bound would cost
// milliseconds at every start.
const longest = 1024

// sequence finds operating system commands, whatever they hold, and bells;
// allowed are those that a hook may send to the terminal: the title, a
// notification, the bell. Nothing that moves the cursor, asks, or writes the
// clipboard.
var (
	sequence = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x07") })
	allowed  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("^(?:\x1b\\](?:0|1|2|9|99|777);[^\x00-\x1f\u007f-\u009f]*(?:\x07|\x1b\\\\)|\x07)$")
	})
)

// harmless leaves of s the sequences that are allowed.
func harmless(s string) string {
	var out strings.Builder
	for _, one := range sequence().FindAllString(s, 100) {
		if len(one) <= longest && allowed().MatchString(one) {
			out.WriteString(one)
		}
	}
	return out.String()
}
