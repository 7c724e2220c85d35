package cli

import (
	"fmt"
	"iter"
	"slices"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json"
)

// The values of --output-format that are for programs.
const (
	formatJSON   = "json"
	formatStream = "stream-json"
)

// outputFormats are the values of --output-format.
var outputFormats = []string{"text", formatJSON, formatStream}

// output is what a run with -p writes to stdout.
type output struct {
	w      *world
	o      *options
	s      *setup
	stream *stream // nil unless the format is stream-json
	bill   byModel
	broken error // stdout cannot be written: nobody is there any more
}

func newOutput(w *world, o *options, s *setup) *output {
	t := &output{w: w, o: o, s: s, bill: byModel{}}
	if o.output == formatStream {
		policy := retry.Default()
		if s.config.Retry != nil {
			policy = *s.config.Retry
		}
		t.stream = &stream{id: newID, session: s.session, retries: policy.Retries, partial: o.partial, hooks: o.settings.hookEvents}
	}
	return t
}

// follow writes each event as it comes. It leaves the run when nobody reads
// any more: work that nobody sees must not go on.
func (t *output) follow(events iter.Seq2[session.Event, error]) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		begun := t.stream == nil
		for e, err := range events {
			if !begun && (err != nil || t.o.prompt == "" || !opening[e.Type()]) {
				begun = true
				t.begin()
			}
			if err == nil {
				t.bill.add(e)
				t.event(e)
			}
			if !yield(e, err) || t.broken != nil {
				return
			}
		}
	}
}

// opening are the events of a run before its prompt is kept. Whoever reads that it
// has begun may take the prompt for safe.
var opening = map[session.Type]bool{session.TypeStart: true, session.TypeName: true, session.TypeRunStart: true}

// begin writes what stands before the lines of the run.
func (t *output) begin() {
	t.write(t.first())
	for _, note := range t.s.notes {
		t.write(noticeLine{t.stream.head("system", "informational"), note, string(session.Info)})
	}
	if t.s.left != nil {
		t.write(previewLine{t.stream.head("system", "resume_preview"), t.s.left})
	}
}

func (t *output) event(e session.Event) {
	if t.stream == nil {
		return
	}
	for _, line := range t.stream.lines(e) {
		t.write(line)
	}
}

func (t *output) write(line any) {
	if t.broken != nil {
		return
	}
	data, err := json.Marshal(line, session.JSONOptions())
	if err == nil {
		// What tools give for screens is not cleaned on its way here.
		_, err = fmt.Fprintf(t.w.Stdout, "%s\n", t.s.config.Redact.Known(string(data)))
	}
	t.broken = err
}

// toolNames are tools under the names that readers of the first line know: that for
// sub-agents has its old one there.
func toolNames(tools []string) []string {
	out := slices.Clone(tools)
	if i := slices.Index(out, daruma.AgentTool); i >= 0 {
		out[i] = "Task"
	}
	return out
}

// first is the line with which a run begins.
func (t *output) first() initLine {
	cfg := t.s.config
	line := initLine{
		head: t.stream.head("system", "init"), Dir: cfg.Dir, Model: cfg.Models[0], Fallbacks: cfg.Models[1:],
		Mode: string(permission.Default), Tools: toolNames(t.s.toolNames()), KeySource: "none",
		Version: Version(), Agent: "daruma", Style: "default",
		MCPServers: append([]session.Server{}, cfg.Servers...), Commands: []string{}, Skills: []string{}, Plugins: []string{},
		Resumed: cfg.History != nil && len(cfg.History.Messages) > 0,
		Sandbox: cfg.Sandbox,
	}
	if cfg.Permission != nil {
		line.Mode = string(cfg.Permission.Mode)
	}
	if t.w.env("ANTHROPIC_API_KEY") != "" {
		line.KeySource = "ANTHROPIC_API_KEY"
	}
	return line
}

// finish writes the result.
func (t *output) finish(r *daruma.Result, exit int) error {
	if t.broken != nil {
		return t.broken
	}
	if t.o.output == "text" {
		return printText(t.w.Stdout, r)
	}
	line := toLine(r, t.s.session, exit)
	line.Models = t.bill
	t.write(line)
	return t.broken
}

// elsewhere says where the answer is that could not be written.
func (t *output) elsewhere() string {
	switch {
	case t.s.path == "":
		return "run it again"
	case t.stream != nil:
		return t.s.goOn("go on")
	}
	return "the answer is kept: daruma session show " + t.s.session
}

// stillborn writes the result of a run that could not start: who reads JSON waits
// for it.
func (t *output) stillborn(reason loop.Reason, cause error, e *exitError) {
	if t.stream == nil && t.o.output != formatJSON {
		return
	}
	r := &daruma.Result{Session: t.s.session, End: session.End{Reason: reason, IsError: true, Next: e.hint}}
	line := toLine(r, t.s.session, e.code)
	line.Errors, line.Models = []string{fmt.Sprint(cause)}, t.bill
	t.write(line)
}

// byModel is what each model of a run was asked for, helper requests and failed
// attempts included.
type byModel map[string]*modelUsage

type modelUsage struct {
	Input      int     `json:"inputTokens"`
	Output     int     `json:"outputTokens"`
	CacheRead  int     `json:"cacheReadInputTokens"`
	CacheWrite int     `json:"cacheCreationInputTokens"`
	Searches   int     `json:"webSearchRequests"`
	USD        float64 `json:"costUSD"` // as far as it is known
	Window     int     `json:"contextWindow"`
	MaxOutput  int     `json:"maxOutputTokens"`

	attempts map[int]bool
}

func (m byModel) add(e session.Event) {
	switch b := e.Body.(type) {
	case *session.Begin:
		u := m[b.Model]
		if u == nil {
			info := model.Lookup(b.Model)
			u = &modelUsage{Window: info.Window, MaxOutput: info.MaxOutput, attempts: map[int]bool{}}
			m[b.Model] = u
		}
		u.attempts[b.Attempt] = true
	case *session.Commit:
		m.spend(b.Attempt, b.Spent)
	case *session.Continue:
		m.spend(b.Attempt, b.Spent)
	case *session.Retract:
		m.spend(b.Attempt, b.Spent)
	}
}

func (m byModel) spend(attempt int, s session.Spent) {
	for _, u := range m {
		if u.attempts[attempt] {
			u.Input += s.Usage.Input
			u.Output += s.Usage.Output
			u.CacheRead += s.Usage.CacheRead
			u.CacheWrite += s.Usage.CacheWrite
			u.USD += s.USD
		}
	}
}
