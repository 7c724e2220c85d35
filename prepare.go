package daruma

import (
	"slices"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
)

// source says on whose behalf the conversation is asked about (R19).
func (r *run) source() model.Source {
	if r.cfg.depth > 0 {
		return model.SubAgent
	}
	return model.Main
}

// build makes the next request from the state of this moment: the model, the
// output room and the view can change between two tries.
func (r *run) build(source model.Source) *model.Request { return r.buildFor(r.modelName(), source) }

// buildFor is build for a model that may be another one than the run's.
func (r *run) buildFor(name string, source model.Source) *model.Request {
	draft := r.core.Draft(r.state)
	info := model.Lookup(name)
	req := &model.Request{
		Model: name, System: r.cfg.System, Tools: r.specs(),
		MaxTokens: r.room(info, draft), Thinking: r.cfg.Thinking, Source: source,
		Fast: r.cfg.Fast && !r.slow && r.speed.At(time.Now()) == "on",
	}
	rules := r.rules(info)
	if draft.NoThinking {
		rules.Model = "none" // every signature is foreign to it
	}
	req.Messages = r.view(rules)
	if draft.Flat {
		req.Messages, _ = message.View(message.Flatten(req.Messages), rules)
	}
	if req.Thinking.Mode == model.ThinkingEnabled && loopWithoutThinking(req.Messages) {
		req.Thinking = model.Thinking{Mode: model.ThinkingDisabled}
	}
	return req
}

// loopWithoutThinking reports whether msgs end in an open tool loop that does
// not begin with thinking, as after its signatures were refused or the model was
// changed. A provider that demands thinking there refuses the request: thinking
// is off until the loop closes.
func loopWithoutThinking(msgs []*message.Message) bool {
	begin := -1
	for i := len(msgs) - 1; i >= 0; {
		results := false
		for ; i >= 0 && msgs[i].Role == message.User; i-- {
			results = results || msgs[i].HasResults()
		}
		if !results {
			break
		}
		for ; i >= 0 && msgs[i].Role == message.Assistant; i-- {
			begin = i
		}
	}
	if begin < 0 {
		return false
	}
	first := msgs[begin].Blocks[0].Type
	return first != message.Thinking && first != message.RedactedThinking
}

// specs describes the tools to the model, without those that the provider refused.
func (r *run) specs() []model.Tool {
	return slices.DeleteFunc(r.cfg.Tools.Specs(), func(t model.Tool) bool { return r.dropped[t.Name] })
}

// room is the output room to ask for: the user's choice, else little at first
// and more after a cut; never more than the provider said would fit.
func (r *run) room(info model.Info, draft loop.Draft) int {
	room := info.Default
	if draft.Raise && info.Raise {
		room = info.Escalated()
	}
	if r.cfg.MaxTokens > 0 {
		room = r.cfg.MaxTokens
	}
	if r.clamp > 0 {
		room = min(room, r.clamp)
	}
	return room
}

// imageBytes is the API's limit for one image, in base64 characters; above
// manyImages in one request each side may have manyPixels (recovery.md 9.2).
const (
	imageBytes  = 10 << 20
	imagePixels = 8000
	manyImages  = 20
	manyPixels  = 2000
)

// full reports whether a raise would bring no more room than t had.
func (r *run) full(t *attempt) bool {
	draft := r.core.Draft(r.state)
	draft.Raise = true
	return r.room(model.Lookup(t.request.Model), draft) <= t.request.MaxTokens
}

func (r *run) rules(info model.Info) message.Rules {
	return message.Rules{
		Model:         info.ID,
		AssistantLast: r.state.Transition == loop.ResumePause,
		Media: message.MediaLimits{
			Count: info.ImagesPerCall, Bytes: imageBytes, Pixels: imagePixels,
			ManyCount: manyImages, ManyPx: manyPixels,
		},
	}
}

// view is what is sent of the conversation. Repairs are journaled once.
func (r *run) view(rules message.Rules) []*message.Message {
	msgs, fixes := message.View(r.history.Messages, rules)
	var fresh []message.Fix
	for _, f := range fixes {
		if !r.fixed[f] {
			fresh = append(fresh, f)
			r.fixed[f] = true
		}
	}
	if len(fresh) > 0 {
		r.emit(&session.Repair{Fixes: fresh})
	}
	return msgs
}

// measure prepares the next request and says how it stands to the window.
func (r *run) measure(step loop.Step) loop.Outcome {
	switch step.Transition {
	case loop.NextTurn, loop.QueuedPrompt, loop.SpendBudget, loop.BreakLoop:
		r.joinQueued()
		r.parts = nil
		if r.turn >= r.cfg.MaxTurns && step.Transition != loop.QueuedPrompt {
			return loop.Outcome{Kind: loop.BudgetReached, Budget: loop.Turns}
		}
		r.turn++
		r.tellEnded()
	case loop.None:
		r.tellEnded()
	}
	if b := r.spentUp(); b != loop.NoBudget {
		return loop.Outcome{Kind: loop.BudgetReached, Budget: b}
	}
	req := r.build(r.source())
	window := r.scale.window(req.Model, r.cfg.Window)
	size := fit(r.scale, req, window)
	if size == loop.Over && (r.failedSummaries >= failuresToStop || r.unwanted()) {
		size = loop.Fits // what failed so often, or was cancelled, is not tried before it must be
	}
	return loop.Outcome{Kind: loop.Measured, Fit: size}
}

// spentUp names the budget that is used up: of the run, or of what failures may
// cost it. Agents that work for it share both.
func (r *run) spentUp() loop.Budget { return r.cfg.exceeded(r.bill.purse.used()) }

// exceeded names the budget that usd, and lost of it to failures, use up.
func (c *Config) exceeded(usd float64, lost RecoveryBudget) loop.Budget {
	over := func(used, limit float64) bool { return limit > 0 && used >= limit }
	most := c.Recovery
	switch {
	case over(usd, c.MaxUSD), over(lost.USD, most.USD):
		return loop.Money
	case over(float64(lost.Tokens), float64(most.Tokens)):
		return loop.Tokens
	case over(float64(lost.Time), float64(most.Time)):
		return loop.Time
	}
	return loop.NoBudget
}

// Room that must stay free in the window (R41, R43), for windows of 200,000
// tokens and more; in smaller ones the same share of it.
const (
	reserveOutput   = 20_000
	reserveCompact  = 13_000
	reserveBlocking = 3_000
	fullWindow      = 200_000
)

// fit compares a request with the window. Blocked needs a measured scale: an
// estimate alone must not keep a request from being sent.
func fit(s scale, req *model.Request, window int) loop.Fit {
	share := func(n int) int { return n * min(window, fullWindow) / fullWindow }
	effective := window - min(model.Lookup(req.Model).MaxOutput, share(reserveOutput))
	size := s.estimate(req)
	measured := s.measured[req.Model]
	switch {
	case measured && s.overhead(req) > effective-share(reserveBlocking):
		return loop.Overhead
	case measured && size > window:
		return loop.Blocked
	case size > effective-share(reserveCompact):
		return loop.Over
	}
	return loop.Fits
}

// scale turns our estimates into the provider's tokens, as far as its answers
// have shown how, and remembers windows that are smaller than they should be.
type scale struct {
	factor   map[string]float64
	measured map[string]bool
	windows  map[string]int
}

func newScale() scale {
	return scale{factor: map[string]float64{}, measured: map[string]bool{}, windows: map[string]int{}}
}

// estimate is the number of tokens of req. It costs what the number of
// messages costs: each message keeps its own.
func (s scale) estimate(req *model.Request) int {
	return s.overhead(req) + s.scaled(req.Model, message.Estimate(req.Messages))
}

func (s scale) overhead(req *model.Request) int {
	n := 0
	for _, part := range req.System {
		n += message.EstimateText(part)
	}
	for _, t := range req.Tools {
		n += message.EstimateText(t.Description) + message.EstimateText(string(t.Schema)) + message.EstimateText(t.Name)
	}
	return s.scaled(req.Model, n)
}

func (s scale) scaled(name string, n int) int {
	if f, ok := s.factor[name]; ok {
		return int(float64(n) * f)
	}
	return n
}

// window is the context window of the model: the smallest of what the
// catalogue, the user and the provider's errors say.
func (s scale) window(name string, chosen int) int {
	w := model.Lookup(name).Window
	if chosen > 0 {
		w = min(w, chosen)
	}
	if seen := s.windows[name]; seen > 0 {
		w = min(w, seen)
	}
	return w
}

// silentlyCut reports whether the provider answered less than it was sent: it
// counted far fewer tokens than we estimate, and so round a number that it
// looks like a window. Some servers cut an overlong prompt and answer 200.
func (s scale) silentlyCut(t *attempt) bool {
	counted := t.answer.Usage.Prompt()
	share := 0.4
	if s.measured[t.request.Model] {
		share = 0.6
	}
	round := counted%128 == 0 || counted%500 == 0
	return t.failure == nil && counted >= 256 && round && float64(counted) < share*float64(t.estimate)
}

// leastSample is the estimate below which a comparison teaches nothing.
const leastSample = 500

// learn compares what an attempt was estimated at with what the provider
// counted, in its usage or in the numbers of its refusal.
func (s scale) learn(t *attempt) {
	name, counted := t.request.Model, t.answer.Usage.Prompt()
	if e := t.failure; e != nil {
		counted = e.Numbers.InputTokens
		if e.Kind == failure.ContextOverflow && e.Numbers.Limit > 0 {
			s.windows[name] = e.Numbers.Limit
		}
	}
	plain := t.estimate
	if f, ok := s.factor[name]; ok {
		plain = int(float64(t.estimate) / f)
	}
	if counted < leastSample || plain < leastSample {
		return
	}
	// Out of these bounds the provider counts something else than we do.
	s.factor[name] = min(max(float64(counted)/float64(plain), 0.25), 4)
	s.measured[name] = true
}
