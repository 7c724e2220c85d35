package hook

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Type says how a hook is asked.
type Type string

// The types of handlers. All but the first two are read and never run.
const (
	Command Type = "command"
	HTTP    Type = "http"
	MCPTool Type = "mcp_tool"
	Prompt  Type = "prompt"
	Agent   Type = "agent"
)

// Handler is one hook as it was configured.
type Handler struct {
	Event   Event
	Matcher string // empty or "*": all
	If      string // a permission rule that the call must match
	Type    Type

	Command string   // of a command: a program if Direct, else text for sh -c
	Direct  bool     // it was configured with args
	Args    []string // of the program
	Shell   string   // the shell of a command without args: "bash"; empty: sh
	Async   bool     // nobody waits for it, and it decides nothing

	URL            string            // of an http hook
	Headers        map[string]string // may name variables of AllowedEnvVars as $NAME or ${NAME}
	AllowedEnvVars []string

	Timeout       time.Duration // 0: the default of the event
	StatusMessage string        // for the person, while it runs
	Source        string        // the file that it comes from
	Pointer       string        // where in that file, as a JSON pointer
	Managed       bool          // of the administrator: only that file switches it off
}

// Config is what hooks run with. [Parse] fills the first group of fields from a
// file and [Merge] joins several; the rest is the caller's.
type Config struct {
	Handlers []Handler // in the order in which their answers are merged
	// DisableAll is disableAllHooks; nil if the file does not say.
	DisableAll *bool
	// Warnings are lines for the person about what was read and will not run.
	Warnings []string

	// Match reports whether a call matches a permission rule, for "if". A hook
	// whose rule cannot be judged runs, since it may be there to deny.
	Match func(rule string, call ToolCall) (bool, error)
	// FailOpen makes a failing hook on a policy event decide nothing, instead of
	// denying. It never allows.
	FailOpen bool
	// Env is the environment of commands and of variables in headers, without
	// what hooks must not know.
	Env []string
	// ProjectDir is told to commands as CLAUDE_PROJECT_DIR and
	// DARUMA_PROJECT_DIR; empty: the directory of the session.
	ProjectDir string
	// Transport carries HTTP hooks; without one they fail.
	Transport http.RoundTripper
	// OutputDir gets the whole of texts that are cut; empty: they are not kept.
	OutputDir string
	// Hide takes secrets out of what hooks say and print, before anybody reads it
	// and before it is kept in a file. May be nil.
	Hide func(text string) string
	// Observe is told of each hook that begins (with a nil result) and of what came
	// of it, when all of the event have ended; one call at a time. May be nil.
	Observe func(e Entry, r *Result)
	// Parallel is how many hooks of one event run at once (0: 16), MaxAsync how
	// many that nobody waits for run in all (0: 16; more are not started).
	Parallel, MaxAsync int
	// Grace is the time between asking a command to end and ending it (0: 500 ms).
	Grace time.Duration
}

const (
	defaultParallel = 16
	defaultAsync    = 16
	defaultGrace    = 500 * time.Millisecond
)

// Merge joins the configurations of several files, the strongest first: managed,
// command line, local, project, user. The handlers keep that order. The strongest
// that says whether hooks are disabled decides, and a handler that is Managed
// listens to its own file alone. What is not read from files is left empty.
func Merge(strongestFirst ...Config) Config {
	var all Config
	for _, c := range strongestFirst {
		if all.DisableAll == nil {
			all.DisableAll = c.DisableAll
		}
		all.Warnings = append(all.Warnings, c.Warnings...)
		for _, h := range c.Handlers {
			if !h.Managed || c.DisableAll == nil || !*c.DisableAll {
				all.Handlers = append(all.Handlers, h)
			}
		}
	}
	return all
}

// disabled reports whether h is switched off.
func (c *Config) disabled(h *Handler) bool { return c.DisableAll != nil && *c.DisableAll && !h.Managed }

// supported reports whether this version can run h.
func (h *Handler) supported() bool { return h.Type == Command || h.Type == HTTP }

// same is equal for handlers that would do the same thing: such a one runs once.
func (h *Handler) same() string {
	var headers []string
	for k, v := range h.Headers {
		headers = append(headers, k+"\x00"+v)
	}
	slices.Sort(headers)
	return fmt.Sprintf("%q %q %v %q %q %v %q %q", h.Type, h.Command, h.Direct, h.Args, h.Shell, h.Async, h.URL, headers)
}

// Name is what people call the hook: its command or address, short and without
// what may be secret in an address.
func (h *Handler) Name() string {
	const most = 60
	name := h.Command
	switch {
	case h.Type == HTTP:
		name = "address"
		if u, err := url.Parse(h.URL); err == nil {
			name = u.Scheme + "://" + u.Host + u.Path
		}
	case h.Direct:
		name = strings.Join(append([]string{h.Command}, h.Args...), " ")
	case h.Type != Command:
		name = string(h.Type)
	}
	name, _, _ = strings.Cut(strings.TrimSpace(name), "\n")
	if short := []rune(name); len(short) > most {
		name = string(short[:most-1]) + "…"
	}
	return name
}

// label is how messages name the hook.
func (h *Handler) label() string { return fmt.Sprintf("%s hook %q", h.Event, h.Name()) }

// Entry is one line of a listing of hooks.
type Entry struct {
	Handler
	Name     string
	Limit    time.Duration // how long it may take
	Disabled bool          // by disableAllHooks
	Runs     bool          // false: disabled, or a type or a condition that never runs
	Asked    uint64        // which asking of all hooks this is; 0 in a listing
}

// entry is h for a listing.
func (c *Config) entry(h *Handler) Entry {
	t, _ := traitOf(h.Event)
	e := Entry{Handler: *h, Name: h.Name(), Limit: h.Timeout, Disabled: c.disabled(h)}
	if e.Limit == 0 {
		e.Limit = t.limit()
	}
	e.Runs = !e.Disabled && h.supported() && (h.If == "" || t.tool)
	return e
}
