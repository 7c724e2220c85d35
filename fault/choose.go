package fault

import (
	"math/rand/v2"
	"strings"
)

// stepState is how far one step got in one server.
type stepState struct {
	*step
	index      int
	fired      int
	matched    int // requests that fulfilled all conditions but nth
	over       bool
	firstModel string
}

// fits asks whether the step wants this request, and counts for nth.
func (st *stepState) fits(s *scene, seed uint64) (*scene, bool) {
	if st.over || st.times > 0 && st.fired >= st.times {
		return nil, false
	}
	r := rand.New(rand.NewPCG(seed, uint64(s.req.n)<<16|uint64(st.index)))
	c := s.with(r, st.firstModel)
	if !st.when.holds(c) {
		return nil, false
	}
	st.matched++
	if st.when.nth != nil && !st.when.nth.has(st.matched) {
		return nil, false
	}
	if len(st.until) > 0 && (when{tests: st.until}).holds(s.with(r, st.firstModel)) {
		st.over = st.fired > 0
		return nil, false
	}
	return c, true
}

// chosen is a step with the scene in which its conditions held.
type chosen struct {
	state *stepState
	scene *scene
}

// choose finds what happens to a request: all layers that fit, and the first step that fits and whose
// positions exist in the answer. A step that cannot land now waits for an answer in which it can.
func (s *Server) choose(sc *scene, base *base) *plan {
	var layers, steps []chosen
	for _, st := range s.layers {
		if s.heeds(st, sc.req) {
			if c, ok := st.fits(sc, s.seed); ok {
				layers = append(layers, chosen{st, c})
			}
		}
	}
	for _, st := range s.steps { // all of them: each counts its own requests
		if s.heeds(st, sc.req) {
			if c, ok := st.fits(sc, s.seed); ok {
				steps = append(steps, chosen{st, c})
			}
		}
	}
	for _, st := range steps {
		if p, ok := s.build(sc, base, append(layers[:len(layers):len(layers)], st)); ok {
			return s.fire(p, sc)
		}
	}
	p, _ := s.build(sc, base, layers)
	return s.fire(p, sc)
}

// heeds keeps steps that say nothing about the path to the one path that matters.
func (s *Server) heeds(st *stepState, q *request) bool {
	return st.byPath || q.path == messagesPath
}

func (s *Server) fire(p *plan, sc *scene) *plan {
	for _, c := range p.landed {
		c.state.fired++
		s.fired[c.state.id]++
		if c.state.firstModel == "" {
			c.state.firstModel = sc.req.model
		}
		p.ids = append(p.ids, c.state.id)
	}
	return p
}

// base is what the server answers if nothing goes wrong on purpose: a model's answer, or fixed bytes.
type base struct {
	whole *answer // as meant; nil for fixed bytes
	usage usage
	limit int  // output characters that the request and the window allow
	full  bool // the window is the narrower of the two

	status  int
	body    []byte
	refused bool
	hit     string // the limit that refused or cut the request
}

func (b *base) fixed(e apiError, requestID string) {
	b.status, b.refused = e.status, true
	b.body = apiErrorBody(e.typ, e.message, requestID)
}

// overflow applies the window to a request, in the manner that the script wants.
func (b *base) overflow(q *request, l modelLimits, e estimator) *apiError {
	b.usage.Input = q.tokens
	b.limit = e.chars(q.maxTokens)
	if l.window == 0 {
		return nil
	}
	room := l.window - q.tokens
	switch {
	case l.overflow == "cut" && room < 0:
		// The provider drops what does not fit and says nothing; only the count gives it away.
		b.usage.Input = l.window
		b.hit = "window"
		return nil
	case l.overflow == "stop" && room <= 0:
		b.limit, b.full, b.hit = 0, true, "window"
		return nil
	case room < 0:
		b.hit = "window"
		return tooLong(q.tokens, l.window)
	case l.overflow == "sum" && q.maxTokens > room:
		b.hit = "window"
		return sumTooLong(q.tokens, q.maxTokens, l.window)
	case l.overflow != "cut" && q.maxTokens > room:
		b.limit, b.full = e.chars(room), true
	}
	return nil
}

const messagesPath = "/v1/messages"

func modelOfPath(path string) (string, bool) { return strings.CutPrefix(path, "/v1/models/") }
