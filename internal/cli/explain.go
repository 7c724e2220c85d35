package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/retry"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// explainCommand reads a failure and says what daruma would make of it. It asks
// the same code that a run asks, so it cannot say anything else.
func explainCommand(w *world) *cobra.Command {
	var asJSON bool
	var id, provider string
	var status int
	var o options
	cmd := &cobra.Command{
		Use:   "explain [ERROR TEXT]",
		Short: "say what a failure is, and what would be done about it, step by step",
		Example: `  daruma explain 'prompt is too long: 209062 tokens > 199999 maximum'
  daruma explain --status 529 < body.json
  daruma explain --session 3f2a            what ended the last run of that session
  daruma explain --json < failures.jsonl   one line in, one line out`,
		RunE: func(_ *cobra.Command, args []string) error {
			x := explainer{w: w, policy: retry.Default(), fallback: o.fallback != ""}
			o.patience.apply(&x.policy, false)
			switch {
			case id != "":
				e, err := lastFailure(w, id)
				if err != nil {
					return err
				}
				return x.print(e, asJSON)
			case asJSON:
				return x.lines(w.Stdin)
			}
			return x.one(strings.Join(args, " "), failure.Report{Provider: provider, Status: status})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "read JSON lines with transport, status, headers, body and provider; write one JSON line for each")
	f.StringVar(&id, "session", "", "explain what ended the last run of this session")
	f.IntVar(&status, "status", 0, "HTTP status of the answer")
	f.StringVar(&provider, "provider", "", "who answered, if that is known")
	f.StringVar(&o.fallback, "fallback-model", "", "as in a run: there is a model to fall back to")
	f.DurationVar(&o.patience.waitForLimit, "wait-for-limit", 0, "as in a run")
	f.BoolVar(&o.patience.unattended, "unattended", false, "as in a run")
	return cmd
}

type explainer struct {
	w        *world
	policy   retry.Policy
	fallback bool
}

// input is one line of --json: the fields of the corpus of failures.
type input struct {
	Provider  string            `json:"provider"`
	Transport string            `json:"transport"`
	Status    *int              `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
}

func (in input) report() failure.Report {
	r := failure.Report{
		Provider: in.Provider, Body: []byte(in.Body), InStream: in.Transport == "stream",
		Header: map[string][]string{}, Now: time.Now(),
	}
	if in.Status != nil {
		r.Status = *in.Status
	}
	for name, value := range in.Headers {
		r.Header[name] = []string{value}
	}
	return r
}

// explained is one line of the answer.
type explained struct {
	Kind     failure.Kind     `json:"kind"`
	Retry    failure.Retry    `json:"retry"`
	AfterS   *float64         `json:"retry_after_s"`
	Facts    map[string]any   `json:"facts"`
	Category failure.Category `json:"category"`
	Rule     string           `json:"rule"`
	Text     string           `json:"text"`
	Plan     []planStep       `json:"plan"`
	Requests int              `json:"worst_requests"`
	WaitS    float64          `json:"worst_wait_s"`
}

// planStep is a part of what would be done.
type planStep struct {
	Do    string  `json:"do"`
	Times int     `json:"times,omitzero"`
	MinS  float64 `json:"min_s,omitzero"`
	MaxS  float64 `json:"max_s,omitzero"`
	Rule  string  `json:"rule,omitzero"`
	Why   string  `json:"why,omitzero"`
}

// lines answers JSON lines.
func (x *explainer) lines(r io.Reader) error {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var row input
			if bad := json.Unmarshal(line, &row, jsontext.AllowInvalidUTF8(true)); bad != nil {
				return fail(exitInput, "each line is an object with body, and perhaps status, headers, provider, transport", "line %d: %v", n, bad)
			}
			if err := x.print(failure.Classify(row.report()), true); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fail(exitInput, "", "stdin cannot be read: %v", err)
		}
	}
}

// one explains a text from the arguments or stdin: a body, or a row as above.
func (x *explainer) one(text string, r failure.Report) error {
	if text == "" {
		if x.w.stdinIsTerminal() {
			return fail(exitInput, `daruma explain "…"`, "give the text of the failure as an argument or on stdin")
		}
		data, err := io.ReadAll(io.LimitReader(x.w.Stdin, maxStdin))
		if err != nil {
			return fail(exitInput, "pipe it again, or give the text as an argument", "stdin cannot be read: %v", err)
		}
		if text = string(data); text == "" && r.Status == 0 {
			return fail(exitInput, `daruma explain "…"`, "stdin is empty: give the text of the failure as an argument or on stdin")
		}
	}
	r.Body, r.Now = []byte(text), time.Now()
	var row input
	if json.Unmarshal([]byte(text), &row) == nil && row.Body != "" {
		r = row.report()
	}
	return x.print(failure.Classify(r), false)
}

func (x *explainer) print(e *failure.Error, asJSON bool) error {
	out := x.explain(e)
	if asJSON {
		line, err := json.Marshal(out, json.Deterministic(true))
		if err != nil {
			return fail(exitFailed, "", "%v", err)
		}
		_, err = fmt.Fprintf(x.w.Stdout, "%s\n", line)
		return err
	}
	show := func(name, format string, args ...any) {
		fmt.Fprintf(x.w.Stdout, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	show("kind", "%s (%s)", out.Kind, out.Category)
	show("why", "rule %s", out.Rule)
	show("means", "%s", out.Text)
	for _, name := range slices.Sorted(maps.Keys(out.Facts)) {
		show("", "%s = %v", name, out.Facts[name])
	}
	if out.AfterS != nil {
		show("asks", "to wait %s", round(time.Duration(*out.AfterS*float64(time.Second))))
	}
	for i, step := range out.Plan {
		show(map[bool]string{true: "then"}[i > 0]+map[bool]string{true: "plan"}[i == 0], "%s", step)
	}
	show("worst", "%s, %s of waiting", count(out.Requests, "request"), round(time.Duration(out.WaitS*float64(time.Second))))
	return nil
}

func (s planStep) String() string {
	text := s.Do
	if s.Times > 1 {
		text += fmt.Sprintf(" ×%d", s.Times)
	}
	if s.MaxS > 0 {
		text += fmt.Sprintf(", %s to %s in all", round(seconds(s.MinS)), round(seconds(s.MaxS)))
	}
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// explain runs the decisions of layer 1 and then of layer 3 on e, as if it
// never passed.
func (x *explainer) explain(e *failure.Error) explained {
	out := explained{
		Kind: e.Kind, Retry: e.Retry, Facts: e.Facts(), Category: e.Kind.Category(), Rule: e.Rule, Text: e.Text(false),
	}
	if e.Hint.Given {
		after := e.Hint.After.Seconds()
		out.AfterS = &after
	}
	stages := retry.Plan(x.policy, retry.Facts{Failure: e, MaxTokens: 8000, Fallback: x.fallback})
	for _, s := range stages {
		out.Plan = append(out.Plan, planStep{
			Do: string(s.Do), Times: s.Times, MinS: s.Min.Seconds(), MaxS: s.Max.Seconds(), Rule: s.Rule, Why: s.Why,
		})
	}
	requests, wait := retry.Worst(stages)
	out.Requests, out.WaitS = requests, wait.Seconds()
	last := stages[len(stages)-1].Last
	kind := e.Kind
	if last.Overflow {
		kind = failure.ContextOverflow
	}
	steps := layer3(kind, last.Do == retry.HandOver)
	out.Plan = append(out.Plan, steps...)
	out.Requests += len(steps) - 1
	return out
}

// layer3 asks the decision core what follows when the failure comes back after
// every recovery.
func layer3(kind failure.Kind, handover bool) []planStep {
	core := loop.New(map[loop.Transition]int{loop.Fallback: 1})
	state := loop.State{Phase: loop.Sample}
	outcome := loop.Outcome{Kind: loop.Failed, Failure: kind}
	if handover {
		outcome.Kind = loop.Overloaded
	}
	var plan []planStep
	for range 50 { // more recoveries than there are
		var step loop.Step
		state, step = core.Next(state, outcome)
		switch step.Do {
		case loop.Finish:
			return append(plan, planStep{Do: "end", Rule: string(step.Reason), Why: "the run ends with " + string(step.Reason)})
		case loop.Measure:
			outcome = loop.Outcome{Kind: loop.Measured}
			if step.Transition == loop.Fallback {
				plan = append(plan, planStep{Do: string(step.Transition), Why: decisions[string(step.Transition)]})
			}
		case loop.Reduce:
			plan = append(plan, planStep{Do: string(step.Transition), Why: decisions[string(step.Transition)]})
			outcome = loop.Outcome{Kind: loop.Reduced}
		case loop.Sample:
			if step.Discard {
				plan = append(plan, planStep{Do: string(step.Transition), Why: decisions[string(step.Transition)]})
			}
			outcome = loop.Outcome{Kind: loop.Failed, Failure: kind}
		}
	}
	return plan
}

// lastFailure is what ended the last run of a session.
func lastFailure(w *world, id string) (*failure.Error, error) {
	store := w.store()
	h, err := store.Load(id)
	if err != nil {
		return nil, fail(exitInput, "daruma session list shows the sessions of this folder", "%v", err)
	}
	if h.End == nil || h.End.Failure == nil {
		return nil, fail(exitInput, "daruma why "+id+" tells how its last run ended", "the last run of this session was not ended by a failure")
	}
	return h.End.Failure, nil
}
