package hook

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// group is the JSON of the hooks of one matcher.
type group struct {
	Matcher string        `json:"matcher"`
	Hooks   []handlerJSON `json:"hooks"`
}

// handlerJSON is the JSON of one hook.
type handlerJSON struct {
	Type           Type              `json:"type"`
	If             string            `json:"if"`
	Timeout        *float64          `json:"timeout"` // seconds
	StatusMessage  string            `json:"statusMessage"`
	Command        string            `json:"command"`
	Args           *[]string         `json:"args"`
	Async          bool              `json:"async"`
	AsyncRewake    bool              `json:"asyncRewake"`
	Shell          string            `json:"shell"`
	URL            string            `json:"url"`
	Headers        map[string]string `json:"headers"`
	AllowedEnvVars []string          `json:"allowedEnvVars"`
}

// parser reads one file.
type parser struct {
	data   []byte
	source string
	config Config
	errs   []error
}

// Parse reads "hooks" and "disableAllHooks" of a settings file; its other keys
// are ignored. source names the file in errors, warnings and listings. An error
// says where it is and what to do, and nothing of the file counts then: of a list
// of guards, a part is no guard. What is understood but never runs is a warning.
func Parse(data []byte, source string) (Config, error) {
	p := &parser{data: data, source: source}
	if len(bytes.TrimSpace(data)) == 0 {
		return Config{}, nil
	}
	var file struct {
		Hooks      map[string]jsontext.Value `json:"hooks"`
		DisableAll *bool                     `json:"disableAllHooks"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return Config{}, p.bad("", err)
	}
	p.config.DisableAll = file.DisableAll
	for _, name := range slices.Sorted(maps.Keys(file.Hooks)) {
		if _, ok := traitOf(Event(name)); !ok {
			p.warn(pointer("hooks", name), "%s", unknownEvent(name))
		}
	}
	for _, e := range Events() {
		if raw, ok := file.Hooks[string(e)]; ok {
			p.event(e, raw)
		}
	}
	if len(p.errs) > 0 {
		return Config{}, errors.Join(p.errs...)
	}
	return p.config, nil
}

// event reads the groups of one event.
func (p *parser) event(e Event, raw jsontext.Value) {
	at := pointer("hooks", string(e))
	var groups []group
	if err := json.Unmarshal(raw, &groups); err != nil {
		p.errs = append(p.errs, p.bad(at, err))
		return
	}
	t, _ := traitOf(e)
	for i, g := range groups {
		here := fmt.Sprintf("%s/%d", at, i)
		if _, err := compile(e, g.Matcher); err != nil {
			p.errs = append(p.errs, p.bad(here+"/matcher", err))
		}
		if t.matched == "" && g.Matcher != "" && g.Matcher != "*" {
			p.warn(here+"/matcher", "%s has nothing that a matcher could look at: its hooks always run", e)
		}
		if len(g.Hooks) == 0 {
			p.warn(here, `there are no "hooks" in it`)
		}
		for j, h := range g.Hooks {
			p.handler(t, g.Matcher, h, fmt.Sprintf("%s/hooks/%d", here, j))
		}
	}
}

// handler checks one hook and keeps it.
func (p *parser) handler(t trait, match string, j handlerJSON, at string) {
	h := Handler{
		Event: t.event, Matcher: match, If: j.If, Type: j.Type, Command: j.Command, Shell: j.Shell, Async: j.Async, URL: j.URL, Headers: j.Headers,
		AllowedEnvVars: j.AllowedEnvVars, StatusMessage: j.StatusMessage, Source: p.source, Pointer: at,
	}
	if j.Args != nil {
		h.Direct, h.Args = true, *j.Args
	}
	if err := j.check(); err != nil {
		p.errs = append(p.errs, p.bad(at, err))
		return
	}
	if j.Timeout != nil {
		h.Timeout = time.Duration(*j.Timeout * float64(time.Second))
	}
	p.config.Handlers = append(p.config.Handlers, h)
	switch {
	case !h.supported():
		p.warn(at, "hooks of type %q are not supported by this version: it never runs, and so it never decides; use a command or an http hook", h.Type)
	case h.If != "" && !t.tool:
		p.warn(at, `"if" works for events about tools only: on %s this hook never runs`, t.event)
	case h.Async && t.policy:
		p.warn(at, `nobody waits for a hook with "async": it cannot deny or allow anything`)
	case h.Async && h.Type != Command, j.AsyncRewake:
		p.warn(at, `"asyncRewake", and "async" for anything but commands, are not supported by this version and have no effect`)
	}
}

// check reports what is wrong with j in itself.
func (j *handlerJSON) check() error {
	switch j.Type {
	case Command:
		if strings.TrimSpace(j.Command) == "" {
			return errors.New(`a command hook needs "command": add it, or remove the hook`)
		}
		if j.Shell != "" && j.Shell != "bash" {
			return fmt.Errorf(`"shell": %q is not supported: use bash, or name the program with "args"`, j.Shell)
		}
	case HTTP:
		u, err := url.Parse(j.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New(`an http hook needs "url", beginning with http:// or https://`)
		}
	case MCPTool, Prompt, Agent:
	case "":
		return errors.New(`a hook needs "type": command or http`)
	default:
		return fmt.Errorf(`the type %q is not known: use command or http`, j.Type)
	}
	if s := j.Timeout; s != nil && (*s <= 0 || *s > longestTimeout.Seconds()) {
		return fmt.Errorf(`"timeout" is %g: give seconds, more than 0 and at most %g`, *s, longestTimeout.Seconds())
	}
	return nil
}

func (p *parser) warn(at, format string, args ...any) {
	p.config.Warnings = append(p.config.Warnings, fmt.Sprintf("%s: %s: %s", p.source, at, fmt.Sprintf(format, args...)))
}

// bad is an error with its place. An error of the decoder knows its own, below at.
func (p *parser) bad(at string, err error) error {
	offset := p.offset(at)
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntactic):
		offset = syntactic.ByteOffset // of the file: what is below it was read before
		err = fmt.Errorf("this is not JSON: %w; mend it there", syntactic.Err)
		if syntactic.Err == nil {
			err = errors.New("this is not JSON; mend it there")
		}
	case errors.As(err, &semantic):
		at += string(semantic.JSONPointer)
		offset = p.offset(at)
		err = fmt.Errorf("this is %s, and something else belongs here (see docs/hooks.md)", kindWord(semantic.JSONKind))
	}
	line := 1 + bytes.Count(p.data[:offset], []byte("\n"))
	column := offset - int64(bytes.LastIndexByte(p.data[:offset], '\n'))
	if at == "" {
		at = "/"
	}
	return fmt.Errorf("read hooks of %s:%d:%d (%s): %w", p.source, line, column, at, err)
}

func kindWord(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return "a value"
}

// offset is where the value at a JSON pointer begins; 0 if it is not there.
func (p *parser) offset(at string) int64 {
	d := jsontext.NewDecoder(bytes.NewReader(p.data))
	for {
		before := d.InputOffset()
		if _, err := d.ReadToken(); err != nil {
			return 0
		}
		if kind, _ := d.StackIndex(d.StackDepth()); string(d.StackPointer()) == at && (kind != '{' || !isName(d) || at == "") {
			// Between two values stand blanks and punctuation.
			rest := p.data[before:]
			return before + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n:,")))
		}
	}
}

// isName reports whether the token just read was the name of a member.
func isName(d *jsontext.Decoder) bool {
	_, n := d.StackIndex(d.StackDepth())
	return n%2 == 1
}

// pointer makes a JSON pointer.
func pointer(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(n))
	}
	return b.String()
}

// unknownEvent says what is wrong with the name of an event.
func unknownEvent(name string) string {
	if slices.Contains(elsewhere, name) {
		return "this version never reports " + name + ": its hooks never run"
	}
	nearest, least := "", len(name)/2+1
	for _, e := range Events() {
		if d := distance(strings.ToLower(name), strings.ToLower(string(e))); d < least {
			nearest, least = string(e), d
		}
	}
	text := fmt.Sprintf("there is no event %q: its hooks never run", name)
	if nearest != "" {
		text += "; did you mean " + nearest + "?"
	}
	return text
}

// distance is how many letters have to be changed, added or left out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
