// Package telemetry (–) answers one question: how does a run look to an
// observer? Events go in, OpenTelemetry spans come out.
//
//	invoke_agent daruma          one run, from run_start to run_end
//	├── chat claude-sonnet-5     one attempt; a link leads to the one that it stands in for
//	├── execute_tool Bash        one call, from its intent to its result
//	└── (events)                 daruma.recovery, daruma.wait, daruma.compaction, daruma.repair,
//	                             daruma.permission_refused, daruma.pairing_mismatch,
//	                             daruma.prompt_queued, daruma.leftover
//
// Spans and attributes have the names of the semantic conventions for
// generative AI as they stood in May 2026, when they were still in
// development; what has no name there begins with "daruma.". What is not known
// is left out: an attribute is never zero for want of knowledge.
//
// No words of people, models, tools or providers leave by it, only names,
// numbers and the classes of failures, unless [Config.Content] is set.
//
// Only traces are written. Metrics would need another module, and can be
// counted from the spans by any collector.
package telemetry

import (
	"context"
	"sync"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config says where the spans go and what they hold. The zero Config is an
// observer that writes nothing.
type Config struct {
	// Tracer makes the spans; nil makes none. It belongs to the caller, who
	// also shuts its provider down. It should export in the background, since
	// a run waits for whatever the tracer does at the end of a span.
	Tracer trace.Tracer
	// Provider is whose model it is, as the conventions call it: "anthropic",
	// "openai", "aws.bedrock", "gcp.vertex_ai", …
	Provider string
	// Parent is the span that runs are a part of; zero makes each run a trace
	// of its own.
	Parent trace.SpanContext
	// Content adds what was said: prompts, answers, the input and output of
	// tools, the words of providers. Each attribute is bounded. What Redact
	// knows, and what looks like a credential, is taken out before.
	Content bool
	Redact  failure.Redactor
}

// Observer turns the events of one agent into spans. Its methods never panic
// and never wait, and may be called from any goroutine; the events of a run
// have to come in their order.
type Observer struct {
	cfg Config

	mu    sync.Mutex
	off   bool           // the tracer panicked: it is left alone
	start *session.Start // of the process that works on the session
	run   *run           // in progress; nil between runs
}

// New returns an observer. Its [Observer.Observe] is meant for the field
// Observe of the agent's Config.
func New(cfg Config) *Observer {
	if cfg.Tracer == nil {
		cfg.Tracer = noop.Tracer{}
	}
	return &Observer{cfg: cfg}
}

// Observe takes one event. Events of a journal serve as well as live ones:
// each span has the times of its events.
func (o *Observer) Observe(e session.Event) {
	switch e.Body.(type) {
	case nil, *session.Block, *session.Delta, *session.Checkpoint, *session.Progress, *session.Decision,
		*session.Notice, *session.Name, *session.FileSaved, *session.Results, *session.Unknown:
		return // the most frequent ones cost nothing
	}
	o.guarded(func() { o.take(e) })
}

// Close ends the spans of a run that has no end: because the consumer
// panicked, or the process is about to stop. It may be called at any time and
// more than once; the observer can be used afterwards.
func (o *Observer) Close() { o.guarded(o.lose) }

// guarded does something with the tracer. One that panics must not take the
// run with it, and is not called again.
func (o *Observer) guarded(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.off {
		return
	}
	defer func() {
		if recover() != nil {
			o.off, o.run = true, nil
		}
	}()
	do()
}

// take sorts the events. Those that belong to no run in progress say nothing
// to an observer.
func (o *Observer) take(e session.Event) {
	switch b := e.Body.(type) {
	case *session.Start:
		o.start = b
		return
	case *session.RunStart:
		o.lose() // at most one run at a time
		o.begin(e, b)
		return
	}
	r := o.run
	if r == nil || e.Session != r.session || e.Run != r.number {
		return
	}
	r.last = e.Time
	switch b := e.Body.(type) {
	case *session.Message:
		r.prompt(b.Message)
	case *session.Prompt:
		r.event(e, eventPrompt, nil)
	case *session.Begin:
		r.beginAttempt(e, b)
	case *session.Commit:
		r.commit(e, b)
	case *session.Continue:
		r.keep(e, b)
	case *session.Retract:
		r.retract(e, b)
	case *session.Intent:
		r.intent(e, b)
	case *session.Result:
		r.result(e, b)
	case *session.End:
		r.end(e, b)
		o.run = nil
	default:
		r.happened(e)
	}
}

// lose ends a run without an end.
func (o *Observer) lose() {
	if o.run != nil {
		o.run.lose()
		o.run = nil
	}
}

// begin opens the span of a run.
func (o *Observer) begin(e session.Event, b *session.RunStart) {
	r := &run{
		cfg: &o.cfg, session: e.Session, number: e.Run, last: e.Time,
		before: map[string]trial{}, calls: map[string]*call{}, waits: map[int]int64{},
	}
	a := r.common("invoke_agent")
	a.text(keyAgent, agentName)
	if o.start != nil {
		r.tools = o.start.Tools
		a.text(keyVersion, o.start.Build)
		a.text(keyRequestModel, o.start.Model)
	}
	a.count(keyRun, e.Run)
	a.flag(keyContinue, b.Continue)
	ctx := trace.ContextWithSpanContext(context.Background(), o.cfg.Parent)
	r.ctx, r.span = o.cfg.Tracer.Start(ctx, "invoke_agent "+agentName,
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(e.Time), trace.WithAttributes(a...))
	o.run = r
}

// prompt adds what a person asked to what the run was asked.
func (r *run) prompt(m *message.Message) {
	if !r.cfg.Content || len(r.said) == maxParts || m == nil || m.Role != message.User || m.Synthetic || m.HasResults() {
		return
	}
	r.said = append(r.said, said{Role: string(message.User), Parts: r.parts(m.Blocks)})
	r.span.SetAttributes(r.messages(keyInput, r.said))
}
