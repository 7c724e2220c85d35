package daruma_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/compact"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// TestGaps holds that nothing is missing here of what a loop with three error
// cases and fifty lines leaves out: one test for each of its gaps.
func TestGaps(t *testing.T) {
	for i, gap := range gaps {
		t.Run(fmt.Sprintf("%02d_%s", i+1, gap.name), gap.test)
	}
	if len(gaps) != 26 {
		t.Errorf("%d gaps, there are 26", len(gaps))
	}
}

var gaps = []struct {
	name string
	test func(*testing.T)
}{
	{"model_is_read_at_call_time", gapModelAtCallTime},
	{"server_hint_is_heeded", gapServerHint},
	{"status_and_typed_body_not_substrings", gapSubstrings},
	{"every_passing_failure_is_retried", gapEveryPassingFailure},
	{"one_layer_retries", gapOneLayer},
	{"much_output_is_streamed", gapStreamed},
	{"cut_call_never_stays_in_the_history", gapCutCall},
	{"cuts_fall_between_rounds", gapRounds},
	{"one_result_can_be_too_large", gapOneLargeResult},
	{"counts_begin_anew_at_each_step", gapCountsPerStep},
	{"continuations_begin_anew_after_a_good_answer", gapContinuations},
	{"overloads_in_a_row_are_in_a_row", gapInARow},
	{"the_end_names_its_cause_and_nothing_is_waited_for", gapTypedEnd},
	{"a_tool_that_fails_is_a_result", gapToolPanics},
	{"a_wait_can_be_interrupted", gapInterruptedWait},
	{"an_error_is_never_the_models_word", gapErrorText},
	{"content_decides_not_the_stop_reason", gapStopReason},
	{"background_fails_fast", gapBackground},
	{"a_silent_stream_is_taken_back_unseen", gapStream},
	{"breaker_record_and_witness", gapBreaker},
	{"credentials_are_renewed", gapCredentials},
	{"the_next_run_is_the_primarys_again", gapPrimaryAgain},
	{"each_model_gets_its_turn_once", gapChainOnce},
	{"arguments_are_checked", gapArguments},
	{"an_unknown_tool_is_an_error_result", gapUnknownTool},
	{"the_caller_is_told", gapTold},
}

func gapModelAtCallTime(t *testing.T) {
	p := lab{
		script: "step busy times 3\n  when model claude-a\n  status 529\nstep long\n  truncate 20 tokens\nmodel\n  rule all\n    say \"Done.\" fill=100\n",
		config: chain("claude-a", "claude-b"),
	}.play(t)
	p.must(t, loop.Completed)
	same(t, "models", asked(p, model.Main, modelOf), "claude-a", "claude-a", "claude-a", "claude-b", "claude-b")
	same(t, "rooms", asked(p, model.Main, roomOf), 8000, 8000, 8000, 8000, 32000)
}

func gapServerHint(t *testing.T) {
	for _, status := range []int{429, 503, 529} {
		p := lab{script: fmt.Sprintf("step busy\n  status %d\n  header retry-after \"7\"\n", status)}.play(t)
		p.must(t, loop.Completed)
		if waited := p.report.Requests[1].AtMS - p.report.Requests[0].EndMS; waited < 7000 || waited > 7100 {
			t.Errorf("status %d asked for 7 s, we waited %d ms", status, waited)
		}
	}
}

func gapSubstrings(t *testing.T) {
	// Every number and word of a cheap match, and none of their meanings.
	const innocent = `step odd
  status 400 invalid_request_error "tools.529.name: prompt_429 is a long name for a tool (req_429529)"
`
	end := lab{script: innocent}.play(t).must(t, loop.APIError)
	if end.Failure.Kind != failure.InvalidRequest || end.Recovered != 0 {
		t.Errorf("an invalid request was taken for %s", end.Failure.Kind)
	}
	for body, want := range map[string]failure.Kind{
		`{"message":"Input is too long for requested model."}`:                                                                             failure.ContextOverflow,
		`{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."}}`:      failure.ContextOverflow,
		"{\"error\":{\"message\":\"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length\"}}": failure.MaxTokensOverflow,
		`{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`:                               failure.RequestTooLarge,
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:                                                      failure.Overloaded,
	} {
		if got := failure.Classify(failure.Report{Status: 400, Body: []byte(body)}); got.Kind != want {
			t.Errorf("%s: %s, want %s", body, got.Kind, want)
		}
	}
}

func gapEveryPassingFailure(t *testing.T) {
	for _, fault := range []string{
		"status 408", "status 409", "status 429", "status 500", "status 502", "status 503", "status 504", "status 529",
		"reset headers", "close headers", "cut start reset", "cut text close", "error text overloaded_error \"Overloaded\"",
	} {
		p := lab{script: "step s\n  " + fault + "\n"}.play(t)
		if end := p.end(); end.Reason != loop.Completed || len(p.sent) != 2 || end.Text != "Done." {
			t.Errorf("%s: %s after %d requests, text %q", fault, end.Reason, len(p.sent), end.Text)
		}
	}
}

func gapOneLayer(t *testing.T) {
	p := lab{script: "step down always\n  status 500\n"}.play(t)
	p.must(t, loop.APIError)
	if n := len(p.report.Requests); n != 11 || len(p.sent) != n {
		t.Errorf("10 retries made %d requests on the wire, %d by us", n, len(p.sent))
	}
}

func gapStreamed(t *testing.T) {
	p := lab{script: "model\n  rule long\n    say \"A book.\" fill=31000\n"}.play(t)
	if end := p.must(t, loop.Completed); len(end.Text) < 100_000 {
		t.Errorf("%d characters of a book", len(end.Text))
	}
	for _, r := range p.report.Requests {
		if !r.Stream {
			t.Errorf("request %d with %d tokens of room is not streamed", r.N, r.MaxTokens)
		}
	}
}

const cutCallScript = `step cut %s
  when offers Write
  truncate 12 tokens
model
  rule write
    when not called Write
    say "I write."
    call Write file_path="c" content="some text that is long enough to be cut in its middle, twice over if need be"
  rule done
    say "Written."
`

func gapCutCall(t *testing.T) {
	for times, reason := range map[string]loop.Reason{"times 3": loop.Completed, "always": loop.OutputLimit} {
		p := lab{script: fmt.Sprintf(cutCallScript, times), prompts: []string{"Write it.", "And now?"}}.play(t)
		if p.ends[0].Reason != reason {
			t.Errorf("cut %s: %s", times, p.ends[0].Reason)
		}
		for _, problem := range message.Check(p.held[:len(p.held)-1], message.Rules{AssistantLast: true}) {
			t.Errorf("cut %s: the history holds %s", times, problem)
		}
	}
}

func gapRounds(t *testing.T) {
	history := longHistory(40).Messages
	for keep := 0; keep < 40_000; keep += 500 {
		plan := compact.Split(history, keep)
		if len(plan.Old) == len(plan.Words) {
			break // nothing is old
		}
		for name, got := range map[string][]*message.Message{
			"summary": compact.WithSummary(plan, "s", "what happened", nil), "skeleton": compact.Skeleton(plan, "s", nil),
		} {
			if got[0].PlainText() != "Do the task." {
				t.Fatalf("%s with %d tokens lost the task: it begins with %q", name, keep, got[0].PlainText())
			}
			for _, problem := range message.Check(got, message.Rules{}) {
				t.Errorf("%s with %d tokens: %s", name, keep, problem)
			}
		}
	}
}

func gapOneLargeResult(t *testing.T) {
	const words = "window 1500\nmodel\n  rule big\n    when first\n    call Read file_path=\"big\"\n  rule done\n    say \"I have seen enough.\"\n"
	p := lab{script: words}.play(t)
	p.must(t, loop.Completed)
	for _, r := range p.report.Requests {
		if r.Purpose == "compact" && r.Status == 200 && r.Tokens > 1500 {
			t.Errorf("a summary was asked for with %d tokens of 1500", r.Tokens)
		}
	}
}

func gapCountsPerStep(t *testing.T) {
	// Two steps of one run, both cut, and both find no room for their input.
	p := lab{script: `step cut-look
  when not called Read
  truncate 12 tokens
step cut-report
  when called Read
  truncate 12 tokens
model
  rule look
    when first
    say "I look at the file now, and then I go on with it."
    call Read file_path="a"
  rule report
    say "The report." fill=60
`}.play(t)
	p.must(t, loop.Completed)
	same(t, "ways", p.ways(), "max_output_tokens_escalate", "max_output_tokens_escalate")
	same(t, "rooms", asked(p, model.Main, roomOf), 8000, 32000, 8000, 32000)
}

func gapContinuations(t *testing.T) {
	// Each step is cut four times: once it gets more room, three times it goes on.
	p := lab{script: `step cut-look times 4
  when not called Read
  truncate 12 tokens
step cut-report times 4
  when called Read
  truncate 12 tokens
model
  rule look
    when first
    say "I look." fill=40
    call Read file_path="a"
  rule report
    when called Read, not continuation
    say "The report." fill=60
  rule rest
    when continuation
    go-on
`}.play(t)
	p.must(t, loop.Completed)
	count := 0
	for _, way := range p.ways() {
		if way == string(loop.ContinueOutput) {
			count++
		}
	}
	if count != 6 {
		t.Errorf("%d continuations, want 3 in each step: %v", count, p.ways())
	}
}

func gapInARow(t *testing.T) {
	p := lab{
		script: "step a times 2\n  status 529\nstep b\n  status 429\nstep c times 2\n  status 529\n",
		config: chain("claude-a", "claude-b"),
	}.play(t)
	p.must(t, loop.Completed)
	for _, m := range asked(p, "", modelOf) {
		if m != "claude-a" {
			t.Error("four overloads with a rate limit in between are not three in a row")
		}
	}
}

func gapTypedEnd(t *testing.T) {
	end := lab{script: "step down always\n  status 503 api_error \"no capacity left today\"\n", config: tries(2)}.play(t).must(t, loop.APIError)
	result := daruma.Result{End: *end}
	e, ok := errors.AsType[*failure.Error](result.Err())
	if !ok || e.Status != 503 || !strings.Contains(result.Err().Error(), "no capacity left today") {
		t.Errorf("the cause is hidden: %v", result.Err())
	}
	if end.Took != 1500*time.Millisecond {
		t.Errorf("two waits are 0.5 and 1 s, the run took %s", end.Took)
	}
	p := lab{script: "step down always\n  when model claude-a\n  status 500\n", config: both(tries(2), chain("claude-a", "claude-b"))}.play(t)
	p.must(t, loop.Completed)
	same(t, "models", asked(p, "", modelOf), "claude-a", "claude-a", "claude-a", "claude-b")
}

// badTool fails in the worst way there is.
type badTool struct{ simTool }

func (badTool) Run(context.Context, tool.Call) tool.Result { panic("a fault of the tool") }

// withTools is a Config with these tools alone.
func withTools(t *testing.T, tools ...tool.Tool) func(*daruma.Config) {
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *daruma.Config) { c.Tools = set }
}

const oneCall = "model\n  rule call\n    when first\n    %s\n  rule done\n    say \"I saw it.\"\n"

// theResult is the one result of a run that went on after it.
func theResult(t *testing.T, p *played) *session.Result {
	t.Helper()
	p.must(t, loop.Completed)
	results := of[*session.Result](p)
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	return results[0]
}

func gapToolPanics(t *testing.T) {
	r := theResult(t, lab{
		script: fmt.Sprintf(oneCall, `call Read file_path="a"`), config: withTools(t, &badTool{simTool{name: "Read"}}),
	}.play(t))
	if !r.Block.IsError || !strings.Contains(r.Block.PlainText(), "a fault of the tool") {
		t.Errorf("a panic came out as %+v", r.Block)
	}
}

func gapInterruptedWait(t *testing.T) {
	p := lab{
		script:  "step busy\n  status 529\n  header retry-after \"50\"\nmodel\n  rule all\n    say \"Here.\"\n",
		prompts: []string{"Do it.", "Go on."},
		at: func(a *daruma.Agent, e session.Event) {
			if w, ok := e.Body.(*session.Waiting); ok && w.Left < 45*time.Second {
				a.Interrupt()
			}
		},
	}.play(t)
	p.must(t, loop.Completed)
	if first := p.ends[0]; first.Reason != loop.AbortedStreaming || first.Took > 7*time.Second {
		t.Errorf("interrupted in the sixth second: %s after %s", first.Reason, first.Took)
	}
}

func gapErrorText(t *testing.T) {
	p := lab{
		script:  "step no\n  status 400 invalid_request_error \"a very particular complaint\"\nmodel\n  rule all\n    say \"Here.\"\n",
		prompts: []string{"Do it.", "Again."},
	}.play(t)
	p.must(t, loop.Completed)
	if !slices.ContainsFunc(p.held, func(m *message.Message) bool { return m.Failure != nil }) {
		t.Error("the transcript does not hold the error")
	}
	for _, m := range p.sent[len(p.sent)-1].Messages {
		if m.Role != message.User || strings.Contains(m.PlainText(), "complaint") {
			t.Errorf("the model was sent %s %q", m.Role, m.PlainText())
		}
	}
}

func gapStopReason(t *testing.T) {
	p := lab{script: "step wrong\n  stop end_turn\n" + fmt.Sprintf(oneCall, `call Read file_path="a"`)}.play(t)
	if r := theResult(t, p); r.Block.IsError {
		t.Errorf("a call under end_turn: %s", r.Block.PlainText())
	}
	for stop, way := range map[string]string{
		"refusal": "", "pause_turn": "max_output_tokens_recovery", "model_context_window_exceeded": "window_full_compact",
	} {
		p := lab{script: "step s\n  when not continuation\n  stop " + stop + "\nmodel\n  rule all\n    say \"A part\"\n"}.play(t)
		switch {
		case way == "":
			p.must(t, loop.Refusal)
		case !slices.Contains(p.ways(), way):
			t.Errorf("%s counts as done: %v", stop, p.ways())
		}
	}
}

func gapBackground(t *testing.T) {
	busy := retry.Facts{Failure: &failure.Error{Kind: failure.Overloaded, Retry: failure.RetryYes}, Source: model.Title, Fallback: true}
	if _, v := retry.Next(retry.Default(), retry.State{}, busy); v.Do != retry.GiveUp {
		t.Errorf("a title in an overload: %s", v.Do)
	}
	busy.Source = "" // who does not say counts as somebody who waits
	if _, v := retry.Next(retry.Default(), retry.State{}, busy); v.Do != retry.Wait {
		t.Errorf("a person in an overload: %s", v.Do)
	}
}

func gapStream(t *testing.T) {
	p := lab{script: "step hang\n  stall text\nmodel\n  rule all\n    say \"The whole answer.\"\n"}.play(t)
	p.must(t, loop.Completed)
	if taken := of[*session.Retract](p); len(taken) != 1 || taken[0].Failure.Kind != failure.Timeout || taken[0].Lost == 0 {
		t.Errorf("what was streamed before the silence: %+v", taken)
	}
	if slices.ContainsFunc(p.held, func(m *message.Message) bool { return m.Failure != nil }) {
		t.Error("an error was shown, although it was healed")
	}
}

func gapBreaker(t *testing.T) {
	// The window is nearly full, and no summary is any good.
	var seen []session.Type
	p := lab{
		script: `model
  rule summary
    when purpose compact
    say "No."
  rule story
    when first
    say "Once upon a time." fill=3350
  rule more
    say "More." fill=50
`,
		prompts: append([]string{"Tell me a story."}, slices.Repeat([]string{"Go on."}, 6)...),
		config: func(c *daruma.Config) {
			c.Window = 4000
			c.Observe = func(e session.Event) { seen = append(seen, e.Type()) }
		},
	}.play(t)
	p.must(t, loop.Completed)
	if n := len(asked(p, model.Compact, modelOf)); n != 3 {
		t.Errorf("%d summaries were asked for before they were given up, want 3", n)
	}
	for i, e := range p.events {
		if seen[i] != e.Type() {
			t.Fatalf("the observer saw %s where the consumer saw %s", seen[i], e.Type())
		}
	}
}

func gapCredentials(t *testing.T) {
	renewed := 0
	p := lab{script: "step expired\n  status 401\n", config: func(c *daruma.Config) {
		c.Refresh = func(context.Context) error { renewed++; return nil }
	}}.play(t)
	if p.must(t, loop.Completed); renewed != 1 {
		t.Errorf("renewed %d times", renewed)
	}
}

func gapPrimaryAgain(t *testing.T) {
	p := lab{
		script: "step busy times 3\n  status 529\n", prompts: []string{"One.", "Two."}, config: chain("claude-a", "claude-b"),
	}.play(t)
	p.must(t, loop.Completed)
	same(t, "models", asked(p, "", modelOf)[3:], "claude-b", "claude-a")
}

func gapChainOnce(t *testing.T) {
	p := lab{script: "step busy always\n  status 529\n", config: chain("claude-a", "claude-b")}.play(t)
	p.must(t, loop.APIError)
	models := asked(p, "", modelOf)
	if changes := slices.Compact(slices.Clone(models)); !slices.Equal(changes, []string{"claude-a", "claude-b"}) {
		t.Errorf("the models took turns: %v", models)
	}
	switched := 0
	for _, n := range of[*session.Notice](p) {
		if strings.HasPrefix(n.Text, "switched") {
			switched++
		}
	}
	if switched != 1 {
		t.Errorf("it was said %d times that the model changed", switched)
	}
}

func gapArguments(t *testing.T) {
	for _, raw := range []string{`{}`, `{"file_path":7}`, `{"path":"a"}`} {
		ran := false
		watch := &watchedTool{simTool{name: "Read", effect: tool.Pure}, &ran}
		r := theResult(t, lab{
			script: fmt.Sprintf(oneCall, "call-raw Read `"+raw+"`"), config: withTools(t, watch),
		}.play(t))
		if !r.Block.IsError || ran || !strings.Contains(r.Block.PlainText(), "file_path") {
			t.Errorf("%s: ran %v, result %q", raw, ran, r.Block.PlainText())
		}
	}
}

// watchedTool tells whether it ran.
type watchedTool struct {
	simTool
	ran *bool
}

func (w *watchedTool) Run(context.Context, tool.Call) tool.Result {
	*w.ran = true
	return tool.Text("ok")
}

func gapUnknownTool(t *testing.T) {
	block := jsontext.Value(`{"type":"tool_use","id":"toolu_1","name":"Raed","input":{"file_path":"a"}}`)
	r := theResult(t, lab{script: fmt.Sprintf(oneCall, fmt.Sprintf("block `%s`\n    stop tool_use", block))}.play(t))
	if !r.Block.IsError || !strings.Contains(r.Block.PlainText(), "Did you mean Read?") {
		t.Errorf("an unknown tool: %+v", r.Block)
	}
}

func gapTold(t *testing.T) {
	p := lab{script: "step busy times 2\n  status 529 overloaded_error \"Overloaded\"\n"}.play(t)
	p.must(t, loop.Completed)
	waits := of[*session.Waiting](p)
	if len(waits) == 0 || waits[0].Status != 529 || waits[0].Attempt != 1 || waits[0].Of != 10 || waits[0].Left != 500*time.Millisecond {
		t.Errorf("a wait is told as %+v", waits)
	}
	states := map[session.RecoveryState]int{}
	for _, r := range of[*session.Recovery](p) {
		states[r.State]++
	}
	if states[session.Running] != 2 || states[session.Healed] != 2 || p.end().Recovered != 2 {
		t.Errorf("two retries are told as %v, %d recovered in the end", states, p.end().Recovered)
	}
}
