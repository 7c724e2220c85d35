package fault

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// plan is everything that will happen to one request, decided before the first byte is sent.
type plan struct {
	ids    []string
	landed []chosen

	ends    []ending
	waits   waits
	status  int
	headers [][2]string // an empty value takes the header away
	actions []action
	stream  bool

	name   string  // who answers, for the report
	answer *answer // remembered and, if delivered, counted for its rule
	cut    bool    // the answer was truncated: its rule is not used up by the text alone
	keepAt int     // byte after which a client can keep a whole tool call; -1: never
	total  int
	chunk  int
}

// action is one thing to do while the body is sent.
type action struct {
	do    string // write, wait, stall, pings, end, close or reset
	data  string
	wait  time.Duration
	every time.Duration
	step  string // whose fault it is; empty for what belongs to the answer
}

// mark is a fault at a position.
type mark struct {
	at    position
	do    string // cut, error, stall, pings or send
	how   string // cut: end, close or reset; error: its type
	text  template
	wait  time.Duration
	every time.Duration
	goOn  bool
}

const pingEvery = time.Second

// build lays the effects over the base. ok is false if the step among them has no place to land; a
// layer that has none is left out.
func (s *Server) build(sc *scene, b *base, over []chosen) (p *plan, ok bool) {
	p = &plan{status: b.status, keepAt: -1}
	var e effects
	var used []chosen
	for _, c := range over {
		if b.refused && c.state.needsAnswer() {
			if !c.state.layer {
				return nil, false
			}
			continue
		}
		e.merge(&c.state.effects)
		used = append(used, c)
	}
	p.landed = used
	p.ends, p.waits, p.chunk = e.ends, e.waits, e.chunk
	scene := sc
	if len(used) > 0 {
		scene = used[len(used)-1].scene
	}
	var frames []frame
	contentType := "application/json"
	switch {
	case e.status != nil:
		p.status, contentType = e.status.code, e.status.contentType
		p.name = "(status)"
		frames = rawFrames(e.status.text(scene, requestID(sc.req.n)))
	case e.sse != nil && !b.refused:
		p.status, contentType, p.stream = 200, "text/event-stream; charset=utf-8", true
		p.name = "(sse)"
		frames = plainFrames(e.sse.expand(scene))
	case b.whole == nil:
		p.name = "(refused)"
		if !b.refused {
			p.name = "(info)"
		}
		frames = rawFrames(string(b.body))
	default:
		frames = s.answerFrames(p, scene, b, &e)
		if p.stream {
			contentType = "text/event-stream; charset=utf-8"
		}
	}
	p.head(scene, contentType, e.headers)
	return p, s.arrange(p, frames, e.lineEnd, used)
}

// needsAnswer reports whether the step changes an answer, so that it cannot land on a refused request.
func (st *step) needsAnswer() bool {
	return st.status == nil && len(st.ends) == 0 &&
		(st.reply != nil || st.sse != nil || len(st.edits) > 0 || len(st.marks) > 0 || st.stop != nil || st.truncate != nil || st.usage != nil || st.model != "")
}

func rawFrames(body string) []frame {
	if body == "" {
		return nil
	}
	return []frame{{raw: body}}
}

func (c *canned) text(s *scene, requestID string) string {
	if c.errType != "" {
		return string(apiErrorBody(c.errType, c.body.expand(s), requestID))
	}
	return c.body.expand(s)
}

// answerFrames makes the answer concrete: limits, forced ends, claimed usage, and its events.
func (s *Server) answerFrames(p *plan, sc *scene, b *base, e *effects) []frame {
	whole := b.whole
	if e.reply != nil {
		whole = e.reply.answer(sc, s.memory, s.problem)
		whole.name = "(reply)"
	}
	a := *whole
	e.shorten(&a, b, s.estimate)
	p.cut = a.stop.reason == "max_tokens" || a.stop.reason == "model_context_window_exceeded"
	if e.stop != nil {
		a.stop = *e.stop
		whole.paused = a.stop.reason == "pause_turn"
	}
	u := b.usage
	u.Output = s.estimate.tokens(a.outputChars())
	for name, field := range map[string]*int{
		"input_tokens": &u.Input, "output_tokens": &u.Output, "cache_read_input_tokens": &u.CacheRead, "cache_creation_input_tokens": &u.CacheWrite,
	} {
		if v, ok := e.usage[name]; ok {
			*field = v
		}
	}
	model := sc.req.model
	if e.model != "" {
		model = e.model
	}
	p.status, p.answer, p.name = 200, whole, whole.name
	id := fmt.Sprintf("msg_%024d", sc.req.n)
	if sc.req.stream {
		p.stream = true
		return a.frames(id, model, u, e.pieces)
	}
	return rawFrames(string(a.body(id, model, u)))
}

// shorten cuts the answer where the request, the window or the script wants it to end.
func (e *effects) shorten(a *answer, b *base, est estimator) {
	if b.limit >= 0 && a.limit(b.limit) {
		a.stop = stopSpec{reason: "max_tokens"}
		if b.full {
			a.stop.reason = "model_context_window_exceeded"
		}
	}
	if e.truncate == nil {
		return
	}
	n := e.truncate.n
	if !e.truncate.chars {
		n = est.chars(n)
	}
	if a.limit(n) {
		a.stop = stopSpec{reason: "max_tokens"}
	}
}

// merge adds the effects of one more step. Lists grow; of single values the later one counts.
func (e *effects) merge(o *effects) {
	if o.status != nil {
		e.status = o.status
	}
	if o.reply != nil {
		e.reply = o.reply
	}
	if o.sse != nil {
		e.sse = o.sse
	}
	if o.stop != nil {
		e.stop = o.stop
	}
	if o.truncate != nil {
		e.truncate = o.truncate
	}
	if o.usage != nil {
		usage := maps.Clone(o.usage)
		for k, v := range e.usage {
			if _, ok := usage[k]; !ok {
				usage[k] = v
			}
		}
		e.usage = usage
	}
	e.headers = append(e.headers, o.headers...)
	e.ends = append(e.ends, o.ends...)
	e.waits.headers += o.waits.headers
	e.waits.first += o.waits.first
	e.waits.events += o.waits.events
	e.chunk, e.pieces = max(e.chunk, o.chunk), max(e.pieces, o.pieces)
	if o.lineEnd != "" {
		e.lineEnd = o.lineEnd
	}
	if o.model != "" {
		e.model = o.model
	}
}

func (p *plan) head(s *scene, contentType string, headers []header) {
	p.headers = append(p.headers, [2]string{"Content-Type", contentType}, [2]string{"Request-Id", requestID(s.req.n)})
	if p.stream {
		p.headers = append(p.headers, [2]string{"Cache-Control", "no-cache"})
	}
	for _, h := range headers {
		value := ""
		if !h.remove {
			value = h.value.expand(s)
		}
		p.headers = append(p.headers, [2]string{h.name, value})
	}
}

func requestID(n int) string { return fmt.Sprintf("req_%024d", n) }

// insertion is a list of actions at one byte of the body.
type insertion struct {
	at      int
	actions []action
	final   bool
}

// arrange edits the events, finds the positions, and cuts the bytes into actions. It reports whether
// the step could land.
func (s *Server) arrange(p *plan, frames []frame, lineEnd string, used []chosen) bool {
	for _, c := range used {
		for i := range c.state.edits {
			out, ok := c.state.edits[i].apply(frames, c.scene)
			if !ok && !c.state.layer {
				return false
			}
			frames = out
		}
	}
	l := newLayout(frames, lineEnd, p.stream)
	var ins []insertion
	if p.waits.events > 0 {
		for _, end := range l.ends {
			ins = append(ins, insertion{at: end, actions: []action{{do: "wait", wait: p.waits.events}}})
		}
	}
	for _, c := range used {
		for _, m := range c.state.marks {
			at, ok := l.find(m.at, c.scene.rand)
			if !ok && !c.state.layer {
				return false
			}
			if ok {
				ins = append(ins, m.insertion(at, l, c))
			}
		}
	}
	slices.SortStableFunc(ins, func(a, b insertion) int { return a.at - b.at })
	p.total = l.total()
	for i := range l.frames {
		if p.keepAt < 0 && l.frames[i].kind == "tool_use" && l.frames[i].event == "content_block_stop" {
			p.keepAt = l.ends[i]
		}
	}
	p.actions = cutUp(l, ins)
	return true
}

// insertion makes a mark concrete. Only cuts and stalls may stand inside of an event; whatever adds
// events waits for the end of the one that it falls into.
func (m mark) insertion(at int, l *layout, c chosen) insertion {
	in := insertion{at: at}
	sc := c.scene
	switch m.do {
	case "cut":
		in.actions = []action{{do: m.how}}
		in.final = true
	case "stall":
		in.actions = []action{{do: "stall", wait: m.wait}}
	case "pings":
		in.at = l.roundUp(at)
		in.actions = []action{{do: "pings", wait: m.wait, every: m.every}}
	case "send":
		in.at = l.roundUp(at)
		in.actions = []action{{do: "send", data: m.text.expand(sc)}}
	case "error":
		in.at = l.roundUp(at)
		body := apiErrorBody(m.how, m.text.expand(sc), requestID(sc.req.n))
		in.actions = []action{{do: "send", data: "event: error\ndata: " + string(body) + "\n\n"}}
		if !m.goOn {
			in.actions = append(in.actions, action{do: "end"})
			in.final = true
		}
	}
	in.actions[0].step = c.state.id
	return in
}

// cutUp writes the bytes between the insertions.
func cutUp(l *layout, ins []insertion) []action {
	var all string
	for _, b := range l.bytes {
		all += b
	}
	var out []action
	sent := 0
	for _, in := range ins {
		if in.at > sent {
			out = append(out, action{do: "write", data: all[sent:in.at]})
			sent = in.at
		}
		out = append(out, in.actions...)
		if in.final {
			return out
		}
	}
	if sent < len(all) {
		out = append(out, action{do: "write", data: all[sent:]})
	}
	return out
}
