package fault

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options change how a server plays its script. The zero value follows the script.
type Options struct {
	Scale float64      // factor for all waits; 0: as the script says
	Seed  uint64       // for chance and random positions; 0: as the script says
	Log   func(string) // gets one line for each request when it ends; may be called by several goroutines
}

// A Server is an http.Handler that plays a script. It may be used by any number of clients at once.
type Server struct {
	script   *Script
	scale    float64
	seed     uint64
	log      func(string)
	estimate estimator
	memory   *memory
	start    time.Time
	running  sync.WaitGroup

	mu       sync.Mutex
	n        int
	inFlight int
	layers   []*stepState
	steps    []*stepState
	cache    promptCache
	fired    map[string]int
	limits   map[string]int
	seen     []*Request
	problems []string
}

// New makes a server for one play of the script.
func New(script *Script, o Options) *Server {
	s := &Server{
		script: script, scale: script.scale, seed: script.seed, log: o.Log,
		estimate: estimator{script.charsPerToken}, memory: newMemory(), start: time.Now(),
		cache: promptCache{}, fired: map[string]int{}, limits: map[string]int{},
	}
	if o.Scale != 0 {
		s.scale = o.Scale
	}
	if o.Seed != 0 {
		s.seed = o.Seed
	}
	for i, st := range script.layers {
		s.layers = append(s.layers, &stepState{step: st, index: i})
	}
	for i, st := range script.steps {
		s.steps = append(s.steps, &stepState{step: st, index: len(script.layers) + i})
	}
	return s
}

// maxBody bounds what is read at all, whatever the script allows.
const maxBody = 256 << 20

// ServeHTTP answers one request as the script wants it. It returns as soon as the client has left.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Done()
	defer func() {
		// A panic of ours would look like one more planned fault: the report has to tell.
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler {
				s.mu.Lock()
				s.problem(fmt.Sprintf("the fault server itself failed: %v", v))
				s.mu.Unlock()
			}
			panic(v)
		}
	}()
	at := time.Since(s.start)
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client left while it was sending
	}
	q := readRequest(r, raw)
	q.at = at
	q.tokens = s.estimate.request(q.body)

	p, seen := s.plan(q)
	// A dropped connection without hijacking panics out of play: the record is closed all the same.
	pl := newPlayer(r.Context(), w, s.scale, p.chunk)
	playErr := errEnded
	defer func() { s.finish(p, pl, seen, playErr) }()
	playErr = pl.run(p)
}

// plan judges the request, lets the model think, and chooses the faults.
func (s *Server) plan(q *request) (*plan, *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.inFlight++
	q.n = s.n
	seen := q.seen()
	s.seen = append(s.seen, seen)
	sc := &scene{req: q, now: time.Now(), elapsed: s.scriptTime(q.at), inFlight: s.inFlight, fired: s.fired}
	sc = sc.with(nil, "")
	b := s.base(sc, seen)
	p := s.choose(sc, b)
	if p.answer != nil {
		p.answer.cutShort = p.cut
		s.memory.remember(p.answer)
	}
	if b.hit != "" && (p.name == "(refused)" || p.answer != nil) {
		s.limits[b.hit]++
	}
	seen.Steps, seen.Answer = p.ids, p.name
	return p, seen
}

// scriptTime undoes the scale: a script that says ten minutes means its own minutes.
func (s *Server) scriptTime(d time.Duration) time.Duration {
	if s.scale <= 0 {
		return d
	}
	return time.Duration(float64(d) / s.scale)
}

// base is the answer without faults: a refusal, information about models, or the model's word.
func (s *Server) base(sc *scene, seen *Request) *base {
	q := sc.req
	b := &base{status: 200}
	id := requestID(q.n)
	switch model, one := modelOfPath(q.path); {
	case q.method == "GET" && q.path == "/v1/models":
		b.body = s.script.modelList()
		return b
	case q.method == "GET" && one:
		if !s.script.knowsModel(model) {
			b.fixed(apiError{404, "not_found_error", "model: " + model}, id)
			return b
		}
		b.body = modelInfo(model)
		return b
	case q.path != messagesPath && !q.counts():
		b.fixed(apiError{404, "not_found_error", "Not Found"}, id)
		return b
	case q.method != "POST":
		b.fixed(apiError{405, "invalid_request_error", "Method Not Allowed"}, id)
		return b
	}
	limits := s.script.limitsFor(q.model)
	if limits.body > 0 && len(q.raw) > limits.body {
		b.hit = "body"
		b.fixed(apiError{413, "request_too_large", "Request exceeds the maximum size"}, id)
		return b
	}
	if e := s.verdict(q, seen); e != nil {
		b.fixed(*e, id)
		return b
	}
	if q.counts() {
		b.body = fmt.Appendf(nil, `{"input_tokens":%d}`, q.tokens)
		return b
	}
	if e := b.overflow(q, limits, s.estimate); e != nil {
		b.fixed(*e, id)
		return b
	}
	if b.hit == "" {
		b.usage = s.cache.charge(q, s.estimate)
		seen.CacheRead = b.usage.CacheRead
	}
	b.whole = s.script.think(sc, s.memory, s.problem)
	return b
}

// verdict notes what the judge found and gives the first finding that the script wants refused.
func (s *Server) verdict(q *request, seen *Request) *apiError {
	var refusal *apiError
	for _, f := range s.script.judged(q, s.memory) {
		v := s.script.judge[f.rule]
		if v == ignore {
			continue
		}
		seen.Violations = append(seen.Violations, Violation{Request: q.n, Rule: f.rule, Detail: f.message})
		if v == refuse && refusal == nil {
			refusal = &f.apiError
		}
	}
	return refusal
}

// problem notes a wish of the script that could not be fulfilled. The caller holds the lock.
func (s *Server) problem(text string) {
	for _, p := range s.problems {
		if p == text {
			return
		}
	}
	s.problems = append(s.problems, text)
}

// finish closes the record of a request and counts its rule if the client can have kept the answer.
func (s *Server) finish(p *plan, pl *player, seen *Request, err error) {
	s.mu.Lock()
	s.inFlight--
	sent := pl.sent
	seen.EndMS = time.Since(s.start).Milliseconds()
	seen.Status = p.status
	switch {
	case err == nil:
		seen.End = "complete"
	case errors.Is(err, errEnded):
		seen.End = "cut"
		if len(p.ends) > 0 {
			seen.Status = 0 // no answer at all
		}
	default:
		seen.End = "client left"
		s.unland(p, pl.struck)
	}
	kept := p.keepAt >= 0 && sent >= p.keepAt || err == nil && sent >= p.total && !p.cut
	if p.answer != nil && kept {
		s.memory.spend(p.answer)
	}
	line := seen.String()
	s.mu.Unlock()
	if s.log != nil {
		s.log(line)
	}
}

// unland takes back a fault that was still to come when the client left: it has not landed, and its
// step may strike again.
func (s *Server) unland(p *plan, struck map[string]bool) {
	for _, c := range p.landed {
		if len(c.state.marks) > 0 && !struck[c.state.id] {
			c.state.fired--
			s.fired[c.state.id]--
		}
	}
}

func (s *Script) modelList() []byte {
	type entry struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Name    string `json:"display_name"`
		Created string `json:"created_at"`
	}
	data := []entry{}
	for _, m := range s.models {
		if !strings.ContainsAny(m, "*?[") {
			data = append(data, entry{"model", m, m, "2026-01-01T00:00:00Z"})
		}
	}
	return encode(struct {
		Data    []entry `json:"data"`
		HasMore bool    `json:"has_more"`
	}{data, false})
}

func modelInfo(id string) []byte {
	return encode(struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Name    string `json:"display_name"`
		Created string `json:"created_at"`
	}{"model", id, id, "2026-01-01T00:00:00Z"})
}
