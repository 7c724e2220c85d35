package hook

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Output is what all hooks of an event say together. The zero value lets
// everything go its way.
type Output struct {
	// Permission of a PreToolUse call: deny before defer before ask before allow.
	// Empty: rules and people decide. Reason says why, and by which hook.
	Permission Permission
	// Block: the event's own way to object (see docs/hooks.md): the result, the
	// prompt, the answer or the compaction is not accepted.
	Block  bool
	Reason string // of Permission or Block; more than one are joined by line breaks

	// Stop: a hook wants the run to end ("continue": false), with this reason.
	Stop       bool
	StopReason string

	Input          jsontext.Value // PreToolUse: the call as it shall run; rules must judge it anew; nil: as it is
	ToolOutput     jsontext.Value // PostToolUse: what the model gets as the result; nil: as it is
	Context        []Text         // for the model
	System         []Text         // for the person
	Terminal       string         // for the terminal, as it is
	Title          string         // of the session
	FirstMessage   string         // SessionStart: the prompt to begin with
	SuppressPrompt bool           // UserPromptSubmit: the model gets the context only
	Answer         *Answer        // PermissionRequest; nil: a person decides
	Recovery       *RecoveryAction
	Notices        []Text   // one line each for the person: what failed and decides nothing
	Results        []Result // of all hooks that ran, in the order of the configuration
}

// Text is what one hook says.
type Text struct {
	Hook string // its label, such as: Stop hook "./check.sh"
	Text string
}

// Result is what came of one hook.
type Result struct {
	Entry    Entry
	Outcome  string // success, error, cancelled
	ExitCode int    // of a command; of a service the status; -1: it came to none
	Stdout   string // the first 10,000 characters …
	Stderr   string // … each
	Took     time.Duration
	// Chars is how many characters of this hook go to the model.
	Chars int
}

// merger builds an Output out of verdicts in the order of the configuration.
type merger struct {
	trait    trait
	failOpen bool
	keep     func(hook, text string) string // bounds a text, and takes secrets out
	hide     func(text string) string       // takes secrets out
	out      Output

	reasons    []string // of the strongest permission, or of blocks
	writer     int      // the hook that changed the input, from 1 …
	writerSays Permission
	n          int
	chars      int // for the model, of all hooks so far
}

// add takes the verdict of the next hook and tells how many characters of it go
// to the model.
func (m *merger) add(e *Entry, v verdict) (chars int) {
	m.n++
	label := m.hide(e.label())
	before := m.chars
	switch {
	case v.failed != "" && m.trait.policy && (!m.failOpen || v.refusal):
		m.refuse(label, v.failed)
		return m.chars - before
	case v.failed != "":
		m.notice(label, v.failed+"; it decides nothing")
		return 0
	case v.notice != "":
		m.notice(label, v.notice+"; it decides nothing")
		return 0
	}
	if v.blocked {
		m.exit2(label, v.message)
	}
	m.reply(label, v)
	if v.plain != "" && m.trait.plain {
		m.context(label, v.plain)
	}
	return m.chars - before
}

// refuse is the failure of a hook that was there to decide.
func (m *merger) refuse(label, why string) {
	text := m.hide(fmt.Sprintf("The %s %s. A hook that fails never means yes, so this call was not run and nothing was changed. "+
		"Do not try to get around it: go on without this call, and tell the user that the hook has to be mended.", label, why))
	if m.trait.event == PermissionRequest {
		m.answer(&Answer{Message: text})
		return
	}
	m.permission(Deny, text)
}

// permission keeps the strongest.
func (m *merger) permission(p Permission, why string) {
	switch old := strength[m.out.Permission]; {
	case strength[p] > old:
		m.out.Permission, m.reasons = p, nil
	case strength[p] < old:
		return
	}
	if why != "" {
		m.reasons = append(m.reasons, why)
	}
	if p == Deny {
		m.count(why)
	}
}

func (m *merger) count(text string) { m.chars += utf8.RuneCountInString(text) }

// answer keeps the strictest: a no before a yes, the first of each.
func (m *merger) answer(a *Answer) {
	if old := m.out.Answer; old == nil || old.Allow && !a.Allow {
		m.out.Answer = a
		m.count(a.Message)
	}
}

func (m *merger) block(why string) {
	m.out.Block = true
	m.count(why)
	m.reasons = append(m.reasons, why)
}

// exit2 is exit code 2 as the event takes it.
func (m *merger) exit2(label, message string) {
	text := m.keep(label, message)
	if text == "" {
		text = fmt.Sprintf("The %s objected and did not say why.", label)
	}
	switch m.trait.exit2 {
	case denies:
		m.permission(Deny, text)
	case toUser:
		m.notice(label, quotedText(message, "it ended with exit code 2"))
	case ignored:
	default:
		m.block(text)
	}
}

func quotedText(s, otherwise string) string {
	if line := strings.TrimPrefix(quoted([]byte(s)), ": "); line != "" {
		return line
	}
	return otherwise
}

// reply takes what the JSON of a hook says.
func (m *merger) reply(label string, v verdict) {
	r := &v.reply
	if r.stop && !m.out.Stop {
		m.out.Stop, m.out.StopReason = true, m.keep(label, r.stopReason)
	}
	if r.system != "" {
		m.out.System = append(m.out.System, Text{label, m.keep(label, r.system)})
	}
	m.out.Terminal += r.terminal
	if r.permission != "" {
		why := m.keep(label, r.permissionWhy)
		if why == "" && r.permission != Allow {
			why = fmt.Sprintf("The %s says %s and did not say why.", label, r.permission)
		}
		m.permission(r.permission, why)
	}
	if r.block && !v.blocked {
		why := m.keep(label, r.why)
		if why == "" {
			why = fmt.Sprintf("The %s objected and did not say why.", label)
		}
		m.block(why)
	}
	if r.context != "" {
		m.context(label, r.context)
	}
	m.values(label, r)
}

// values takes what there can be only one of. Where hooks differ, the last one
// counts for values, the strictest for decisions.
func (m *merger) values(label string, r *reply) {
	if r.input != nil {
		if m.out.Input != nil {
			m.notice(label, "another hook changed the input as well: the change of this one counts")
		}
		m.out.Input, m.writer, m.writerSays = r.input, m.n, r.permission
	}
	if r.output != nil {
		if m.out.ToolOutput != nil {
			m.notice(label, "another hook changed the output as well: the change of this one counts")
		}
		m.out.ToolOutput = r.output
	}
	if r.title != "" {
		m.out.Title = clip(m.keep(label, r.title), 200)
	}
	if r.firstMessage != "" {
		m.out.FirstMessage = m.keep(label, r.firstMessage)
	}
	m.out.SuppressPrompt = m.out.SuppressPrompt || r.suppress
	if a := r.answer; a != nil {
		if !a.Allow {
			if a.Message = m.keep(label, a.Message); a.Message == "" {
				a.Message = fmt.Sprintf("The %s refused this call and did not say why. It was not run.", label)
			}
		}
		m.answer(a)
	}
	if a := r.recovery; a != nil && (m.out.Recovery == nil || actions[a.Do] > actions[m.out.Recovery.Do]) {
		m.out.Recovery = a
	}
}

func (m *merger) context(label, text string) {
	text = m.keep(label, text)
	m.count(text)
	m.out.Context = append(m.out.Context, Text{label, text})
}

func (m *merger) notice(label, text string) {
	m.out.Notices = append(m.out.Notices, Text{label, m.hide(label + ": " + text)})
}

// finish is the merged output.
func (m *merger) finish() Output {
	out := &m.out
	if out.Input != nil && out.Permission == Allow && m.writerSays != Allow {
		// The yes was to another input: it does not hold for this one.
		out.Permission, m.reasons = "", nil
	}
	if out.Permission == Deny {
		out.Input = nil
	}
	out.Reason = strings.Join(m.reasons, "\n")
	return *out
}
