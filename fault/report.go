package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Report is what a server has seen so far.
type Report struct {
	Requests   []Request   `json:"requests"`
	Violations []Violation `json:"violations"`
	Landing    []Landing   `json:"landing"`
	Problems   []string    `json:"problems"` // wishes of the script that the client made impossible
}

// A Request is one request and what became of it. Times count from the start of the server.
type Request struct {
	N          int         `json:"n"`
	AtMS       int64       `json:"at_ms"`
	EndMS      int64       `json:"end_ms"`
	Method     string      `json:"method"`
	Path       string      `json:"path"`
	Model      string      `json:"model,omitempty"`
	Purpose    string      `json:"purpose,omitempty"`
	Bytes      int         `json:"bytes"`
	Tokens     int         `json:"tokens"`     // estimated
	CacheRead  int         `json:"cache_read"` // of these, found in the prompt cache
	MaxTokens  int         `json:"max_tokens"`
	Stream     bool        `json:"stream"`
	Steps      []string    `json:"steps,omitempty"`  // steps and layers that fired
	Answer     string      `json:"answer,omitempty"` // the rule that answered, or in brackets what else did
	Status     int         `json:"status"`           // 0: none was sent
	End        string      `json:"end"`              // complete, cut, client left; empty while it runs
	Violations []Violation `json:"violations,omitempty"`
}

// A Violation is one rule of the protocol that a request broke.
type Violation struct {
	Request int    `json:"request"`
	Rule    string `json:"rule"`
	Detail  string `json:"detail"`
}

func (v Violation) String() string {
	return fmt.Sprintf("request %d broke %s: %s", v.Request, v.Rule, v.Detail)
}

// A Landing says how often a planned fault or a limit struck.
type Landing struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`            // step, layer or limit
	Times int    `json:"times,omitempty"` // planned; 0: any number
	Fired int    `json:"fired"`
}

func (q *request) seen() *Request {
	r := &Request{
		N: q.n, AtMS: q.at.Milliseconds(), Method: q.method, Path: q.path, Model: q.model, Bytes: len(q.raw),
		Tokens: q.tokens, MaxTokens: q.maxTokens, Stream: q.stream,
	}
	if q.path == messagesPath {
		r.Purpose = q.purpose
	}
	return r
}

// Report copies what the server has seen so far. Requests that still run have an empty End.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r Report
	for _, q := range s.seen {
		c := *q
		c.Steps, c.Violations = slices.Clone(q.Steps), slices.Clone(q.Violations)
		r.Requests = append(r.Requests, c)
		r.Violations = append(r.Violations, c.Violations...)
	}
	for _, group := range [][]*stepState{s.steps, s.layers} {
		for _, st := range group {
			l := Landing{ID: st.id, Kind: "step", Times: st.times, Fired: st.fired}
			if st.layer {
				l.Kind = "layer"
			}
			r.Landing = append(r.Landing, l)
		}
	}
	for _, name := range []string{"window", "body"} {
		if s.script.limited(name) {
			r.Landing = append(r.Landing, Landing{ID: name, Kind: "limit", Fired: s.limits[name]})
		}
	}
	r.Problems = slices.Clone(s.problems)
	return r
}

func (s *Script) limited(name string) bool {
	return slices.ContainsFunc(s.limits, func(l modelLimits) bool {
		return name == "window" && l.window > 0 || name == "body" && l.body > 0
	})
}

// Missed names the steps and layers that never fired, or less often than planned. A limit that was
// never reached is no miss: it may be there to be kept.
func (r Report) Missed() []string {
	var out []string
	for _, l := range r.Landing {
		if l.Kind != "limit" && l.Fired < max(1, l.Times) {
			out = append(out, l.ID)
		}
	}
	return out
}

// JSON is the report for machines.
func (r Report) JSON() []byte {
	b, err := json.Marshal(r, jsontext.WithIndent("  "), json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return encode(map[string]string{"error": "encode report: " + err.Error()})
	}
	return b
}

// String is the report for people: requests, violations, landing.
func (r Report) String() string {
	var b strings.Builder
	for _, q := range r.Requests {
		b.WriteString(q.String() + "\n")
	}
	for _, v := range r.Violations {
		b.WriteString("violation: " + v.String() + "\n")
	}
	for _, l := range r.Landing {
		fmt.Fprintf(&b, "%s %s: %s\n", l.Kind, l.ID, l.fate())
	}
	for _, p := range r.Problems {
		b.WriteString("problem: " + p + "\n")
	}
	return b.String()
}

func (l Landing) fate() string {
	switch {
	case l.Fired == 0:
		return "not reached"
	case l.Times > 0:
		return fmt.Sprintf("fired %d of %d", l.Fired, l.Times)
	}
	return fmt.Sprintf("fired %d", l.Fired)
}

// String is one line about the request.
func (q Request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %dms %s %s", q.N, q.AtMS, q.Method, q.Path)
	if q.Model != "" {
		fmt.Fprintf(&b, " %s %s, %d tokens in %d bytes, max_tokens %d", q.Model, q.Purpose, q.Tokens, q.Bytes, q.MaxTokens)
	}
	status := fmt.Sprint(q.Status)
	if q.Status == 0 {
		status = "nothing"
	}
	fmt.Fprintf(&b, " → %s %s", status, q.Answer)
	if len(q.Steps) > 0 {
		fmt.Fprintf(&b, " by %s", strings.Join(q.Steps, ", "))
	}
	if q.End != "complete" {
		fmt.Fprintf(&b, ", %s", cmp.Or(q.End, "running"))
	}
	for _, v := range q.Violations {
		fmt.Fprintf(&b, ", broke %s", v.Rule)
	}
	return b.String()
}
