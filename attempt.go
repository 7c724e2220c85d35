package daruma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/gate"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json/jsontext"
)

// attempt is one model request and what came of it. It is provisional until
// settle commits it, keeps a part of it or takes it back.
type attempt struct {
	number   int
	request  *model.Request
	ticket   *gate.Ticket
	rule     string // of layer 1 that ended the tries
	unsent   bool
	told     bool // the gate knows what became of it
	estimate int
	answer   model.Answer
	failure  *failure.Error // nil when the answer is whole
	handover bool           // another model is due
	later    time.Duration  // when trying again is worth it, if anyone said so
	budget   loop.Budget    // that another try would exceed
	aborted  bool
	early    early
	began    time.Time
	first    time.Duration
	took     time.Duration
}

// checkpointEvery is how often long partial text reaches the journal.
const checkpointEvery = time.Second

// attempt sends req once and yields what streams in. show says whether the
// deltas are for the consumer.
func (r *run) attempt(req *model.Request, ticket *gate.Ticket, show bool) *attempt {
	t := &attempt{
		number: r.history.Attempts + 1, request: req, ticket: ticket,
		estimate: r.scale.estimate(req), began: time.Now(),
	}
	r.emit(&session.Begin{
		Attempt: t.number, Model: req.Model, Source: string(req.Source), Try: req.Try,
		MaxTokens: req.MaxTokens, Messages: len(req.Messages), Estimate: t.estimate,
	})
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	saved := time.Now()
	for e, err := range r.cfg.Wire.Stream(ctx, req) {
		if err != nil {
			t.fail(r, err)
			break
		}
		if t.first == 0 && e.Kind != model.EventAlive {
			t.first = time.Since(t.began)
			t.tell()
		}
		t.answer.Add(e)
		if show {
			r.stream(t, e)
			r.startEarly(t, e)
			saved = r.checkpoint(t, saved)
		}
		if r.ctx.Err() != nil {
			t.fail(r, context.Cause(r.ctx))
			break
		}
	}
	t.took = time.Since(t.began)
	t.tell()
	if t.failure == nil && t.answer.Stop == "" {
		// No wire of ours ends so; one that does is not believed.
		t.failure = &failure.Error{Kind: failure.Network, Retry: failure.RetryYes, Message: "the stream ended before the answer was complete"}
	}
	if r.scale.silentlyCut(t) {
		t.failure = &failure.Error{
			Kind: failure.ContextOverflow, Retry: failure.RetryNo, Rule: "silent-cut",
			Message: fmt.Sprintf("the provider counted %d tokens of about %d: it cut the prompt without a word", t.answer.Usage.Prompt(), t.estimate),
			Numbers: failure.Numbers{Limit: t.answer.Usage.Prompt()},
		}
	}
	r.scale.learn(t)
	return t
}

func (t *attempt) fail(r *run, err error) {
	if r.ctx.Err() != nil {
		t.aborted = true
		t.failure = (&failure.Error{Kind: failure.Aborted, Retry: failure.RetryNo, Message: context.Cause(r.ctx).Error()}).Wrap(err)
		return
	}
	e := *failure.As(err) // redacted again: a wire may not know every secret
	e.Message, e.Detail = r.cfg.Redact.Redact(e.Message), r.cfg.Redact.Redact(e.Detail)
	t.failure = &e
}

// stream shows one event of the answer.
func (r *run) stream(t *attempt, e model.Event) {
	switch e.Kind {
	case model.EventBlockStart:
		r.emit(&session.Block{Attempt: t.number, Index: e.Index, Block: e.Block.Type, Name: e.Block.Name, ID: e.Block.ID})
	case model.EventDelta:
		r.emit(&session.Delta{
			Attempt: t.number, Index: e.Index, Text: e.Text,
			Thinking: e.Delta == model.DeltaThinking, Input: e.Delta == model.DeltaInput,
		})
	}
}

func (r *run) checkpoint(t *attempt, saved time.Time) time.Time {
	p := t.answer.Partial
	if p == nil || p.Type != message.Text || time.Since(saved) < checkpointEvery {
		return saved
	}
	r.emit(&session.Checkpoint{Attempt: t.number, Text: r.cfg.Redact.Known(t.answer.PartialText())})
	return time.Now()
}

// outcome says what a finished attempt means for the run.
func (t *attempt) outcome(keepText int) loop.Outcome {
	if t.failure != nil {
		return t.broken(keepText)
	}
	text, calls, bad := t.content()
	switch t.answer.Stop {
	case model.StopRefusal:
		return loop.Outcome{Kind: loop.Refused}
	case model.StopPauseTurn:
		if !calls && !t.serverSide() {
			return loop.Outcome{Kind: loop.Paused, Cut: loop.CutText} // nothing that the server could go on with
		}
		if !calls {
			return loop.Outcome{Kind: loop.Paused}
		}
	case model.StopMaxTokens:
		if bad || t.endsInCall() {
			return loop.Outcome{Kind: loop.Truncated, Cut: loop.CutCall}
		}
		return loop.Outcome{Kind: loop.Truncated, Cut: loop.CutText}
	case model.StopWindow:
		return loop.Outcome{Kind: loop.WindowFull}
	}
	// What the answer holds decides, not the reason that is given (R96).
	switch {
	case bad:
		return loop.Outcome{Kind: loop.Malformed}
	case calls:
		return loop.Outcome{Kind: loop.Called}
	case text:
		return loop.Outcome{Kind: loop.Answered}
	}
	return loop.Outcome{Kind: loop.Empty}
}

// broken says what a failed attempt means: how far it got decides (R25).
func (t *attempt) broken(keepText int) loop.Outcome {
	switch {
	case t.handover:
		return loop.Outcome{Kind: loop.Overloaded, Failure: t.failure.Kind}
	case t.keepsCalls():
		return loop.Outcome{Kind: loop.Broken, Cut: loop.CutAfterCalls}
	case t.keepsText(keepText):
		return loop.Outcome{Kind: loop.Broken, Cut: loop.CutText}
	}
	return loop.Outcome{Kind: loop.Failed, Failure: t.failure.Kind, Tool: t.badTool() != ""}
}

// badTool is the tool whose description the provider refused; "" if it is not
// about one, or there is no other.
func (t *attempt) badTool() string {
	i := t.failure.Numbers.Tool - 1
	if t.failure.Kind != failure.InvalidRequest || i < 0 || i >= len(t.request.Tools) || len(t.request.Tools) == 1 {
		return ""
	}
	return t.request.Tools[i].Name
}

// breaks are the failures in the middle of a stream that say nothing against
// what came before.
var breaks = map[failure.Kind]bool{
	failure.Network: true, failure.Timeout: true, failure.ServerError: true, failure.Overloaded: true, failure.RateLimit: true,
}

func (t *attempt) keepsCalls() bool {
	if !breaks[t.failure.Kind] || t.answer.Progress().Calls == 0 {
		return false
	}
	_, _, bad := t.content()
	return !bad
}

func (t *attempt) keepsText(least int) bool {
	return breaks[t.failure.Kind] && t.answer.Progress().Text >= least
}

// keepable reports whether layer 3 has something to decide about: then the
// same request must not be sent again.
func (t *attempt) keepable(keepText int) bool { return t.keepsCalls() || t.keepsText(keepText) }

func (t *attempt) content() (text, calls, bad bool) {
	for i := range t.answer.Blocks {
		switch b := &t.answer.Blocks[i]; b.Type {
		case message.Text:
			text = text || strings.TrimSpace(b.Text) != ""
		case message.ToolUse:
			calls = true
			bad = bad || !message.IsObject(b.Input) || !message.ValidName(b.Name)
		}
	}
	return text, calls, bad
}

// serverSide reports whether the answer holds blocks of the server's own tools.
func (t *attempt) serverSide() bool {
	return slices.ContainsFunc(t.answer.Blocks, func(b message.Block) bool { return strings.HasPrefix(string(b.Type), "server_") })
}

func (t *attempt) endsInCall() bool {
	n := len(t.answer.Blocks)
	return n > 0 && t.answer.Blocks[n-1].Type == message.ToolUse
}

// spent is what the attempt used, as far as anyone knows.
func (t *attempt) spent() session.Spent {
	u := t.answer.Usage
	usd, known := model.Lookup(t.request.Model).Cost(u)
	unknown := !known
	switch {
	case t.answer.Started:
	case t.unsent, t.failure != nil && (t.failure.Status >= 400 || undialed(t.failure)):
		usd, unknown = 0, false // refused, or never sent: nobody bills that
	default:
		// It may have been worked on: unknown, with the prompt as upper estimate.
		usd, _ = model.Lookup(t.request.Model).Cost(model.Usage{Input: t.estimate})
		unknown = true
	}
	return session.Spent{
		Usage: session.Tokens{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite},
		USD:   usd, Unknown: unknown, First: t.first, Total: t.took,
	}
}

// undialed reports whether no connection came about, so that nothing was sent.
func undialed(e *failure.Error) bool {
	var op *net.OpError
	return errors.As(e, &op) && op.Op == "dial"
}

// asked is the model that was asked, where another one answered.
func (t *attempt) asked() string {
	if t.answer.Model == t.request.Model {
		return ""
	}
	return t.request.Model
}

// shown is how many characters the consumer saw of it.
func (t *attempt) shown() int { return t.answer.Progress().Text }

// settle ends the provisional life of the last answer as the core decided.
func (r *run) settle(o loop.Outcome, step loop.Step) {
	t := r.pending
	r.pending = nil
	if t == nil {
		r.nudge(step.Nudge, "")
		return
	}
	switch {
	case step.Keep:
		r.keep(t, o, step)
	case o.Kind == loop.Answered || o.Kind == loop.Called:
		r.commit(t)
		r.nudge(step.Nudge, "")
	default:
		r.retract(t, o.String())
		switch {
		case o.Failure == failure.ToolPairing:
			r.mismatch(t)
		case step.Transition == loop.DropTool:
			r.dropTool(t)
		}
		r.nudge(step.Nudge, "")
	}
}

func (r *run) commit(t *attempt) {
	m := &message.Message{
		ID: r.history.NextID(), Role: message.Assistant, Blocks: r.redacted(t.answer.Blocks),
		Model: t.answer.Model, Stop: string(t.answer.Stop),
	}
	distinct(m)
	r.parts = append(r.parts, m.PlainText())
	r.early, r.commanded = &t.early, false
	r.bill.useful(t)
	r.heal()
	r.stopped = string(t.answer.Stop)
	r.emit(&session.Commit{
		Attempt: t.number, Message: m, Stop: r.stopped, Answer: t.answer.ID, Asked: t.asked(),
		RequestID: t.answer.RequestID, Spent: t.spent(),
	})
}

// keep commits what may stay of a cut answer. Calls stay only where they will
// be run; text that repeats the end of the part before is trimmed.
func (r *run) keep(t *attempt, o loop.Outcome, step loop.Step) {
	kept := t.answer.Kept()
	r.early = &t.early
	if step.Do != loop.RunTools {
		r.early.discard(errDiscarded)
		kept = withoutCalls(kept)
	}
	for len(kept) > 0 && (kept[len(kept)-1].Type == message.Thinking || kept[len(kept)-1].Type == message.RedactedThinking) {
		kept = kept[:len(kept)-1]
	}
	c := &session.Continue{Attempt: t.number, Cause: o.String(), Answer: t.answer.ID, Asked: t.asked(), Spent: t.spent()}
	tail := ""
	if hasText(kept) || step.Do == loop.RunTools || o.Kind == loop.Paused {
		c.Message = &message.Message{
			ID: r.history.NextID(), Role: message.Assistant, Blocks: r.redacted(kept),
			Model: t.answer.Model, Stop: string(t.answer.Stop),
		}
		distinct(c.Message)
		text := c.Message.PlainText()
		r.parts = append(r.parts, text)
		tail = last(text, tailShown)
		c.Lost = max(0, t.shown()-len(text))
	}
	r.bill.useful(t)
	if step.Do != loop.Finish {
		r.heal()
	}
	r.stopped = string(t.answer.Stop)
	r.emit(c)
	if c.Message == nil && step.Nudge == loop.NudgeContinue {
		r.nudge(loop.NudgeAnswer, "")
		return
	}
	r.nudge(step.Nudge, tail)
}

// tailShown is how much of a cut answer is shown to the model, in bytes.
const tailShown = 400

func (r *run) nudge(n loop.Nudge, tail string) {
	if n != loop.NoNudge {
		r.say(loop.NewNudge(r.history.NextID(), n, tail))
	}
}

// retract takes everything back that t streamed.
func (r *run) retract(t *attempt, cause string) {
	t.early.discard(errDiscarded)
	r.bill.wasted(t)
	r.emit(&session.Retract{Attempt: t.number, Cause: cause, Failure: t.failure, Rule: t.rule, Lost: t.shown(), Spent: t.spent()})
}

// dropTool leaves the tool that was refused out of the requests of this agent.
func (r *run) dropTool(t *attempt) {
	name := t.badTool()
	if r.Agent.dropped == nil {
		r.Agent.dropped = map[string]bool{}
	}
	r.Agent.dropped[name] = true
	r.notice(session.Warning, "the provider does not accept the tool %s, which is left out from now on: %s", name, t.failure.Message)
}

// mismatchTail is how many messages of a refused conversation are noted.
const mismatchTail = 12

// mismatch notes the shape of a conversation that was refused for its pairing.
func (r *run) mismatch(t *attempt) {
	r.emit(&session.Mismatch{
		Said: t.failure.Message, Sent: shapes(t.request.Messages), Held: shapes(r.history.Messages),
	})
}

func shapes(msgs []*message.Message) []string {
	var out []string
	for _, m := range msgs[max(0, len(msgs)-mismatchTail):] {
		shape := string(m.Role)
		for i := range m.Blocks {
			b := &m.Blocks[i]
			shape += fmt.Sprintf(" %s:%s", b.Type, b.ID+b.ToolUseID)
		}
		out = append(out, shape)
	}
	return out
}

// redacted removes the secrets that this agent knows from what a model said. A
// call that holds one runs without it: a secret belongs into the environment of
// a command, not into its words. Thinking cannot be changed, so it goes.
func (r *run) redacted(blocks []message.Block) []message.Block {
	kept := blocks[:0]
	for _, b := range blocks {
		text, input := r.cfg.Redact.Known(b.Text), r.cfg.Redact.Known(string(b.Input))
		changed := text != b.Text || input != string(b.Input)
		if changed && b.Type == message.Thinking {
			continue
		}
		if changed {
			b.Text, b.Input, b.Raw = text, jsontext.Value(input), nil
		}
		kept = append(kept, b)
	}
	return kept
}

// distinct gives each call of an answer an id of its own: its result is found by
// it, and some providers give one twice, or none (corpus: tool-dup-id).
func distinct(m *message.Message) {
	taken := map[string]bool{}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type != message.ToolUse {
			continue
		}
		base := cmp.Or(b.ID, "call_"+m.ID)
		id := base
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf("%s_%d", base, n)
		}
		taken[id] = true
		if id != b.ID {
			b.ID, b.Raw = id, nil
		}
	}
}

func withoutCalls(blocks []message.Block) []message.Block {
	var out []message.Block
	for _, b := range blocks {
		if b.Type != message.ToolUse {
			out = append(out, b)
		}
	}
	return out
}

func hasText(blocks []message.Block) bool {
	for i := range blocks {
		if blocks[i].Type == message.Text && strings.TrimSpace(blocks[i].Text) != "" {
			return true
		}
	}
	return false
}

func last(s string, n int) string {
	return strings.ToValidUTF8(s[max(0, len(s)-n):], "")
}
