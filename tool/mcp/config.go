package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind is how a server is reached.
type Kind string

// The kinds of servers.
const (
	Stdio Kind = "stdio" // a program of ours, over its stdin and stdout
	HTTP  Kind = "http"  // streamable HTTP
	SSE   Kind = "sse"   // the HTTP transport before it
)

// Server is one entry of a .mcp.json, with its variables filled in.
type Server struct {
	Name    string
	Kind    Kind
	Command string            // Stdio
	Args    []string          // Stdio
	Env     map[string]string // Stdio: on top of the environment that all get
	URL     string            // HTTP and SSE
	Headers map[string]string // HTTP and SSE
	// HeadersHelper is a shell command that prints further headers as a JSON
	// object. It is run before the first request and again after a 401.
	HeadersHelper string
	Timeout       time.Duration // of a call; zero: that of the Config
	Disabled      bool
	Source        string // where it was read, as file:line
}

// entry is a server as the file has it.
type entry struct {
	Type          string            `json:"type"`
	Command       string            `json:"command"`
	Args          []string          `json:"args"`
	Env           map[string]string `json:"env"`
	URL           string            `json:"url"`
	Headers       map[string]string `json:"headers"`
	HeadersHelper string            `json:"headersHelper"`
	Timeout       float64           `json:"timeout"` // milliseconds
	Disabled      bool              `json:"disabled"`
}

// maxTimeout bounds what a file can ask for: the longest that other clients wait.
const maxTimeout = 28 * time.Hour

// Parse reads the text of a .mcp.json; source names it in messages, lookup
// gives the variables that it may use as ${NAME} and ${NAME:-default}. An entry
// that cannot be used becomes a warning and never stands in the way of the
// others; only a text that is no such file at all is an error, which names the
// line. Servers come in the order of the file.
func Parse(data []byte, source string, lookup func(string) (string, bool)) (servers []Server, warnings []string, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	place := func(offset int64) string {
		before := data[:min(int(offset), len(data))]
		return fmt.Sprintf("%s:%d", source, bytes.Count(before, []byte("\n"))+1)
	}
	found := false
	seen := map[string]int{}
	each := func(name string, at int64, raw jsontext.Value) {
		s, notes := parseEntry(name, raw, lookup)
		for _, n := range notes {
			warnings = append(warnings, fmt.Sprintf("%s: server %q: %s", place(at), name, n))
		}
		if s == nil {
			return
		}
		s.Source = place(at)
		if i, ok := seen[name]; ok {
			warnings = append(warnings, fmt.Sprintf("%s: server %q is there twice: this entry counts", place(at), name))
			servers[i] = *s
			return
		}
		seen[name] = len(servers)
		servers = append(servers, *s)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err = fields(dec, func(name string) error {
		if name != "mcpServers" {
			return dec.SkipValue()
		}
		found = true
		return fields(dec, func(name string) error {
			raw, err := dec.ReadValue()
			at := dec.InputOffset() - int64(len(raw))
			if err == nil {
				each(name, at, raw)
			}
			return err
		})
	})
	if err == nil {
		if _, end := dec.ReadToken(); !errors.Is(end, io.EOF) {
			err = errors.New("there is more behind the end of the object")
		}
	}
	if err != nil {
		at := dec.InputOffset()
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			at, err = syntax.ByteOffset, syntax.Err
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends in the middle")
		}
		return nil, nil, fmt.Errorf("%s: not a list of MCP servers: %w", place(at), err)
	}
	if !found {
		return nil, nil, fmt.Errorf(`%s: not a list of MCP servers: it has no "mcpServers"`, place(0))
	}
	return servers, warnings, nil
}

// fields reads an object and calls each at the value of every field.
func fields(dec *jsontext.Decoder, each func(name string) error) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("an object is needed, not %s", tok.Kind())
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := each(name.String()); err != nil {
			return err
		}
	}
	_, err = dec.ReadToken()
	return err
}

// parseEntry reads one server; nil if it cannot be used. The notes say why, and
// what else is wrong with it.
func parseEntry(name string, raw jsontext.Value, lookup func(string) (string, bool)) (*Server, []string) {
	skip := func(format string, args ...any) (*Server, []string) {
		return nil, []string{fmt.Sprintf(format, args...) + ": it is not used"}
	}
	var e entry
	if err := json.Unmarshal(raw, &e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return skip("%s", wrongType(err))
	}
	s := &Server{Name: name, HeadersHelper: e.HeadersHelper, Disabled: e.Disabled}
	switch e.Type {
	case "", "stdio":
		s.Kind = Stdio
	case "http", "streamable-http", "streamableHttp":
		s.Kind = HTTP
	case "sse":
		s.Kind = SSE
	case "ws", "websocket":
		return skip("type %q is not supported", e.Type)
	default:
		return skip("there is no type %q: stdio, http and sse are possible", e.Type)
	}
	f := filler{lookup: lookup}
	s.Command, s.URL = f.fill(e.Command), f.fill(e.URL)
	for _, a := range e.Args {
		s.Args = append(s.Args, f.fill(a))
	}
	s.Env, s.Headers = f.fillMap(e.Env), f.fillMap(e.Headers)
	switch {
	case name == "":
		return skip("it has no name")
	case s.Kind == Stdio && s.Command == "" && s.URL != "":
		return skip(`it has a url but no type: add "type": "http"`)
	case s.Kind == Stdio && s.Command == "":
		return skip("it has no command")
	case s.Kind != Stdio && s.URL == "":
		return skip("it has no url")
	}
	var notes []string
	if s.Kind != Stdio {
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return skip("its url is no address like https://example.com/mcp")
		}
	}
	switch limit := time.Duration(e.Timeout * float64(time.Millisecond)); {
	case e.Timeout < 0:
		notes = append(notes, "its timeout is negative and does not count")
	case e.Timeout > float64(maxTimeout/time.Millisecond):
		s.Timeout = maxTimeout
	default:
		s.Timeout = limit
	}
	for _, v := range f.missing {
		notes = append(notes, fmt.Sprintf("the variable %s is not set, so ${%s} stays as it is", v, v))
	}
	return s, notes
}

// wrongType says in words what json says about a field of the wrong type.
func wrongType(err error) string {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		if p := strings.TrimPrefix(string(e.JSONPointer), "/"); p != "" {
			return fmt.Sprintf("its %s has the wrong type", strings.ReplaceAll(p, "/", "."))
		}
	}
	return "it is no object of settings"
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`) })

// filler fills in variables and collects those that are not set.
type filler struct {
	lookup  func(string) (string, bool)
	missing []string
}

func (f *filler) fill(text string) string {
	return variable().ReplaceAllStringFunc(text, func(m string) string {
		g := variable().FindStringSubmatch(m)
		if v, ok := f.lookup(g[1]); ok {
			return v
		}
		if g[2] != "" {
			return g[3]
		}
		if !slices.Contains(f.missing, g[1]) {
			f.missing = append(f.missing, g[1])
		}
		return m
	})
}

func (f *filler) fillMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) { // so that warnings come in one order
		out[k] = f.fill(m[k])
	}
	return out
}
