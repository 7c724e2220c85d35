package telemetry

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// run is the span of a run and what is open in it.
type run struct {
	cfg     *Config
	session string
	number  int
	tools   []string // that there are; nil: not known
	ctx     context.Context
	span    trace.Span
	last    time.Time // of the newest event
	attempt *attempt
	before  map[string]trial // the last attempt of each source
	calls   map[string]*call // asked for, without a result
	waits   map[int]int64    // recovery to the end of its wait that was told
	model   string           // that answered last
	said    []said           // by people
}

// attempt is an open attempt.
type attempt struct {
	number int
	source string
	model  string
	began  time.Time
	span   trace.Span
}

// trial is an attempt that ended.
type trial struct {
	span    trace.SpanContext
	outcome string
}

// call is a tool call. It has a span from its intent on; calls without effects
// have no intent, and get theirs with the result.
type call struct {
	input jsontext.Value
	span  trace.Span
}

// How an attempt can end, and how one is linked to the one before it.
const (
	committed = "committed"
	kept      = "kept"      // in part
	retracted = "retracted" // nothing of it counts

	linkRetry        = "retry"        // the same request again
	linkReplacement  = "replacement"  // another one in the place of a retracted one
	linkContinuation = "continuation" // more of what was kept
)

// unfinished is the error type of what has no end of its own.
const unfinished = "unfinished"

// child opens a span below the run's.
func (r *run) child(name string, kind trace.SpanKind, at time.Time, a attrs, links ...trace.Link) trace.Span {
	_, span := r.cfg.Tracer.Start(r.ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at),
		trace.WithAttributes(a...), trace.WithLinks(links...))
	return span
}

// finish ends a span, as failed if there is an error type.
func finish(span trace.Span, at time.Time, errorType string, a attrs) {
	if errorType != "" {
		a.text(keyErrorType, errorType)
		span.SetStatus(codes.Error, errorType)
	}
	span.SetAttributes(a...)
	span.End(trace.WithTimestamp(at))
}

func (r *run) beginAttempt(e session.Event, b *session.Begin) {
	r.loseAttempt(e.Time)
	a := r.common("chat")
	a.text(keyRequestModel, b.Model)
	a.count(keyMaxTokens, b.MaxTokens)
	a.count(keyResend, b.Try)
	a.count(keyAttempt, b.Attempt)
	a.count(keyTurn, e.Turn)
	a.text(keySource, b.Source)
	a.count(keyMessages, b.Messages)
	a.count(keyEstimate, b.Estimate)
	kind := trace.SpanKindClient
	if b.Held {
		a.flag(keyHeld, true)
		kind = trace.SpanKindInternal // nobody was asked
	}
	r.attempt = &attempt{
		number: b.Attempt, source: b.Source, model: b.Model, began: e.Time,
		span: r.child("chat "+b.Model, kind, e.Time, a, r.links(b)...),
	}
}

// links lead to the attempt that this one repeats, replaces or continues.
func (r *run) links(b *session.Begin) []trace.Link {
	before, ok := r.before[b.Source]
	if !ok || before.outcome == committed {
		return nil
	}
	why := linkReplacement
	switch {
	case b.Try > 0:
		why = linkRetry
	case before.outcome == kept:
		why = linkContinuation
	}
	return []trace.Link{{SpanContext: before.span, Attributes: []attribute.KeyValue{attribute.String(keyLink, why)}}}
}

func (r *run) commit(e session.Event, b *session.Commit) {
	var a attrs
	a.list(keyFinish, r.word(b.Stop))
	a.text(keyRequest, r.word(b.RequestID))
	r.answered(&a, b.Message, b.Stop)
	r.endAttempt(e, b.Attempt, committed, "", b.Spent, a)
}

func (r *run) keep(e session.Event, b *session.Continue) {
	var a attrs
	a.text(keyCause, b.Cause)
	a.count(keyLostChars, b.Lost)
	outcome := retracted // for what nothing could be kept of
	if b.Message != nil {
		outcome = kept
		a.list(keyFinish, r.word(b.Message.Stop))
		r.answered(&a, b.Message, b.Message.Stop)
	}
	// An answer that the model cut or paused is no failure of the request.
	errorType := ""
	switch kind := firstWord(b.Cause); kind {
	case loop.Outcome{Kind: loop.Broken}.Name(), loop.Outcome{Kind: loop.Aborted}.Name():
		errorType = kind
	}
	r.endAttempt(e, b.Attempt, outcome, errorType, b.Spent, a)
}

func (r *run) retract(e session.Event, b *session.Retract) {
	if r.attempt == nil || r.attempt.number != b.Attempt {
		var a attrs
		a.count(keyAttempt, b.Attempt)
		r.event(e, eventLeftover, a)
		return
	}
	var a attrs
	a.count(keyLostChars, b.Lost)
	errorType := ""
	if b.Failure != nil {
		errorType = string(b.Failure.Kind)
		r.failed(&a, b.Failure)
	} else {
		errorType = firstWord(b.Cause)
		a.text(keyCause, b.Cause)
	}
	r.endAttempt(e, b.Attempt, retracted, errorType, b.Spent, a)
}

// answered notes what is known of an answer, and the calls in it.
func (r *run) answered(a *attrs, m *message.Message, stop string) {
	if m == nil {
		return
	}
	if r.attempt != nil && m.Model != r.attempt.model {
		a.text(keyResponseModel, r.word(m.Model))
	}
	if m.Model != "" {
		r.model = m.Model
	}
	for _, c := range m.Calls() {
		r.calls[c.ID] = &call{input: c.Input}
	}
	if r.cfg.Content {
		*a = append(*a, r.messages(keyOutput, []said{{
			Role: string(message.Assistant), Parts: r.parts(m.Blocks), Finish: finishReason(stop),
		}}))
	}
}

func (r *run) failed(a *attrs, f *failure.Error) {
	a.count(keyStatus, f.Status)
	a.text(keyRequest, r.word(f.RequestID))
	a.text(keyFailureRule, f.Rule)
	a.flag(keyStalled, f.Stalled)
	if r.cfg.Content {
		a.text(keyFailureText, r.clean(f.Message))
	}
}

func (r *run) endAttempt(e session.Event, number int, outcome, errorType string, s session.Spent, a attrs) {
	t := r.attempt
	if t == nil || t.number != number {
		return
	}
	r.attempt = nil
	a.text(keyOutcome, outcome)
	a.usage(s.Usage)
	a.money(keyUSD, s.USD)
	a.flag(keyUSDUnknown, s.Unknown)
	a.seconds(keyFirst, s.First)
	// What became of an answer can be decided long after it came.
	at := e.Time
	if done := t.began.Add(s.Total); s.Total > 0 && done.Before(at) {
		at = done
	}
	r.before[t.source] = trial{t.span.SpanContext(), outcome}
	finish(t.span, at, errorType, a)
}

func (r *run) intent(e session.Event, b *session.Intent) {
	c := r.calls[b.Call]
	if c == nil {
		c = &call{}
		r.calls[b.Call] = c
	}
	if len(b.Input) > 0 {
		c.input = b.Input // a person may have changed it
	}
	if c.span == nil { // else the tool has only told its process group
		c.span = r.tool(b.Name, b.Call, b.Effect, e.Time)
	}
}

// tool opens the span of a call.
func (r *run) tool(name, id, effect string, at time.Time) trace.Span {
	name = r.toolName(name)
	a := r.common("execute_tool")
	a.text(keyTool, name)
	a.text(keyToolType, "function")
	a.text(keyCall, r.word(id))
	a.text(keyEffect, effect)
	return r.child("execute_tool "+name, trace.SpanKindInternal, at, a)
}

func (r *run) result(e session.Event, b *session.Result) {
	c := r.calls[b.Call]
	if c == nil { // of an earlier life of the session, or a second result
		var a attrs
		a.text(keyTool, r.toolName(b.Name))
		a.text(keyCall, r.word(b.Call))
		a.text(keyErrorType, class(b))
		r.event(e, eventLeftover, a)
		return
	}
	delete(r.calls, b.Call)
	if c.span == nil {
		c.span = r.tool(b.Name, b.Call, "", e.Time.Add(-b.Took))
	}
	var a attrs
	a.flag(keyDenied, b.Denied)
	if r.cfg.Content {
		a.text(keyArguments, r.clean(string(c.input)))
		a.text(keyResult, r.clean(b.Block.PlainText()))
	}
	finish(c.span, e.Time, class(b), a)
}

// class is the error type of a result. Classes are words; a tool that puts a
// sentence there does not get it out.
func class(b *session.Result) string {
	switch {
	case b.Class == "" && !b.Block.IsError:
		return ""
	case b.Class == "", len(b.Class) > maxClass, strings.ContainsFunc(b.Class, notInClass):
		return other
	}
	return b.Class
}

// toolName is the name of a tool; one that no tool has is the model's word.
func (r *run) toolName(name string) string {
	if r.cfg.Content || r.tools == nil || slices.Contains(r.tools, name) {
		return r.word(name)
	}
	return other
}

func (r *run) end(e session.Event, b *session.End) {
	var a attrs
	a.text(keyReason, string(b.Reason))
	a.flag(keyInterrupted, b.Reason == loop.AbortedStreaming || b.Reason == loop.AbortedTools)
	a.text(keyResponseModel, r.word(r.model))
	a.list(keyFinish, r.word(b.Stop))
	a.usage(b.Total.Usage)
	a.money(keyUSD, b.Total.USD)
	a.count(keyUSDUnknowns, b.Total.Unknown)
	a.count(keyWastedInput, input(b.Wasted.Usage))
	a.count(keyWastedOutput, b.Wasted.Usage.Output)
	a.money(keyWastedUSD, b.Wasted.USD)
	a.count(keyTurns, b.Turns)
	a.count(keyRecovered, b.Recovered)
	a.count(keyDenials, len(b.Denials))
	a.seconds(keyAPITime, b.API)
	if b.Failure != nil {
		a.text(keyFailureKind, string(b.Failure.Kind))
		r.failed(&a, b.Failure)
	}
	if r.cfg.Content && b.Text != "" {
		a = append(a, r.messages(keyOutput, []said{{
			Role: string(message.Assistant), Parts: r.parts([]message.Block{{Type: message.Text, Text: b.Text}}), Finish: finishReason(b.Stop),
		}}))
	}
	r.loseChildren(e.Time)
	if b.Reason == loop.Completed {
		r.span.SetStatus(codes.Ok, "")
		finish(r.span, e.Time, "", a)
		return
	}
	finish(r.span, e.Time, string(b.Reason), a)
}

// lose ends a run of which nothing more will come, at its last event.
func (r *run) lose() {
	r.loseChildren(r.last)
	finish(r.span, r.last, unfinished, nil)
}

func (r *run) loseChildren(at time.Time) {
	r.loseAttempt(at)
	for id, c := range r.calls {
		if c.span != nil {
			finish(c.span, at, unfinished, nil)
		}
		delete(r.calls, id)
	}
}

func (r *run) loseAttempt(at time.Time) {
	if r.attempt != nil {
		finish(r.attempt.span, at, unfinished, nil)
		r.attempt = nil
	}
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}
