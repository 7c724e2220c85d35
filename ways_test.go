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
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// stopHook is a Config with one stop hook.
func stopHook(f daruma.StopHook) func(*daruma.Config) {
	return func(c *daruma.Config) { c.StopHooks = []daruma.StopHook{f} }
}

func TestStopHooks(t *testing.T) {
	calls, active := 0, 0
	block := func(_ context.Context, answer *message.Message, again bool) (daruma.StopVerdict, error) {
		calls++
		if again {
			active++
		}
		if answer.PlainText() != "Done." {
			t.Errorf("the hook was shown %q", answer.PlainText())
		}
		return daruma.StopVerdict{Block: "Not yet: write the tests."}, nil
	}
	p := lab{config: stopHook(block)}.play(t)
	p.must(t, loop.StopHookPrevented)
	if calls != 9 || active != 8 {
		t.Errorf("the hook was asked %d times, %d of them after a block", calls, active)
	}
	if p.report.Requests[8].Tokens <= p.report.Requests[0].Tokens {
		t.Error("the model was not told what the hook said")
	}

	once := 0
	p = lab{config: stopHook(func(context.Context, *message.Message, bool) (daruma.StopVerdict, error) {
		if once++; once == 1 {
			return daruma.StopVerdict{Block: "Look again."}, nil
		}
		return daruma.StopVerdict{}, nil
	})}.play(t)
	if end := p.must(t, loop.Completed); end.Text != "Done." {
		t.Errorf("the answer that was not accepted is part of the result: %q", end.Text)
	}

	for name, broken := range map[string]daruma.StopHook{
		"panics": func(context.Context, *message.Message, bool) (daruma.StopVerdict, error) { panic("oh") },
		"fails": func(context.Context, *message.Message, bool) (daruma.StopVerdict, error) {
			return daruma.StopVerdict{Stop: true}, errors.New("oh")
		},
	} {
		p = lab{config: stopHook(broken)}.play(t)
		p.must(t, loop.Completed)
		if n := of[*session.Notice](p); len(n) != 1 || !strings.Contains(n[0].Text, "oh") {
			t.Errorf("a hook that %s: %+v", name, n)
		}
	}
	// An error never reaches a hook.
	p = lab{script: "step no\n  status 400\n", config: stopHook(func(context.Context, *message.Message, bool) (daruma.StopVerdict, error) {
		t.Error("a hook was asked about an error")
		return daruma.StopVerdict{}, nil
	})}.play(t)
	p.must(t, loop.APIError)
}

// TestHookAndCompaction holds that a stop hook cannot make the ladder begin
// anew: what it says overflows the window each time, and the run ends (R56).
func TestHookAndCompaction(t *testing.T) {
	p := lab{
		script: "window 3000\n",
		config: stopHook(func(context.Context, *message.Message, bool) (daruma.StopVerdict, error) {
			return daruma.StopVerdict{Block: strings.Repeat("Not yet. ", 3000)}, nil
		}),
	}.play(t)
	if p.end().Reason == loop.Completed || len(p.report.Requests) > 20 {
		t.Errorf("%s after %d requests", p.end().Reason, len(p.report.Requests))
	}
}

func TestInterruptInside(t *testing.T) {
	compacting := summarised("step slow\n  when purpose compact\n  delay first 30s\n", goodSummary)
	compacting.prompts = []string{"Do the task.", "Go on."}
	compacting.at = func(a *daruma.Agent, e session.Event) {
		if b, ok := e.Body.(*session.Begin); ok && b.Source == string(model.Compact) {
			time.AfterFunc(time.Second, func() { a.Interrupt() })
		}
	}
	judging := lab{prompts: []string{"Do the task.", "Go on."}}
	judging.config = stopHook(func(ctx context.Context, m *message.Message, _ bool) (daruma.StopVerdict, error) {
		if len(m.Blocks) > 0 && judging.at == nil {
			return daruma.StopVerdict{}, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return daruma.StopVerdict{}, nil
	})
	first := true
	judging.at = func(a *daruma.Agent, e session.Event) {
		if d, ok := e.Body.(*session.Decision); ok && strings.Contains(d.Step, "hooks") && first {
			first = false
			time.AfterFunc(time.Second, func() { a.Interrupt() })
		}
	}
	for name, l := range map[string]lab{"a compaction": compacting, "a hook": judging} {
		p := l.play(t)
		if end := p.ends[0]; end.Reason != loop.AbortedStreaming || end.Took != time.Second {
			t.Errorf("interrupted in %s: %s after %s", name, end.Reason, end.Took)
		}
		p.must(t, loop.Completed)
	}
}

// thinks is a run with a call, and thinking before each answer.
const thinks = `model
  rule look once
    think "I have to look at the file."
    say "I look."
    call Read file_path="a"
  rule done
    think "Now I know."
    say "I know enough."
`

// thinking counts the thinking blocks that a request sends.
func thinking(r *model.Request) int {
	n := 0
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			if b.Type == message.Thinking {
				n++
			}
		}
	}
	return n
}

func enabled(c *daruma.Config) {
	c.Thinking = model.Thinking{Mode: model.ThinkingEnabled, Budget: 2000}
}

func TestChainOfThree(t *testing.T) {
	for name, more := range map[string]func(*daruma.Config){"plain": func(*daruma.Config) {}, "strict": enabled} {
		t.Run(name, func(t *testing.T) { chainOfThree(t, more) })
	}
}

func chainOfThree(t *testing.T, more func(*daruma.Config)) {
	p := lab{
		script: "step a times 3\n  when results, model claude-a\n  status 529\nstep b times 3\n  when model claude-b\n  status 529\n" + thinks,
		config: both(chain("claude-a", "claude-b", "claude-c"), more),
	}.play(t)
	p.must(t, loop.Completed)
	same(t, "models", slices.Compact(asked(p, "", modelOf)), "claude-a", "claude-b", "claude-c")
	for _, r := range p.sent[1:] {
		if n := thinking(r); (n > 0) != (r.Model == "claude-a") {
			t.Errorf("%s was sent %d thinking blocks of claude-a", r.Model, n)
		}
	}
}

func TestWhatAnotherModelCures(t *testing.T) {
	for fault, models := range map[string][]string{
		"status 404 not_found_error \"model: claude-a\"": {"claude-a", "claude-b"},
		"status 500": {"claude-a", "claude-a", "claude-a", "claude-b"},
	} {
		p := lab{script: "step s always\n  when model claude-a\n  " + fault + "\n", config: both(tries(2), chain("claude-a", "claude-b"))}.play(t)
		p.must(t, loop.Completed)
		same(t, fault, asked(p, "", modelOf), models...)
	}
	// A model that stands in for a broken one is asked once.
	p := lab{script: "step s always\n  status 500\n", config: both(tries(2), chain("claude-a", "claude-b"))}.play(t)
	p.must(t, loop.APIError)
	same(t, "500 for all", asked(p, "", modelOf), "claude-a", "claude-a", "claude-a", "claude-b")
	for _, fault := range []string{"429", "401", "403", "400", "402"} {
		p := lab{script: "step s always\n  status " + fault + "\n", config: both(tries(2), chain("claude-a", "claude-b"))}.play(t)
		p.must(t, loop.APIError)
		if slices.Contains(asked(p, "", modelOf), "claude-b") {
			t.Errorf("another model was asked after a %s", fault)
		}
	}
}

func TestMoney(t *testing.T) {
	p := lab{
		script: fmt.Sprintf(reading, "a"),
		config: func(c *daruma.Config) { c.Models, c.MaxUSD = []string{"claude-haiku-4-5"}, 0.001 },
	}.play(t)
	end := p.must(t, loop.BudgetExhausted)
	if end.Total.USD < 0.001 || end.Total.USD > 0.002 || len(p.sent) < 2 {
		t.Errorf("%d requests for %v USD", len(p.sent), end.Total.USD)
	}
}

// TestMoneyWithoutPrices says once that a budget of money does not hold.
func TestMoneyWithoutPrices(t *testing.T) {
	p := lab{
		prompts: []string{"One.", "Two."},
		config:  func(c *daruma.Config) { c.Models, c.MaxUSD = []string{"somebody's-model", "claude-haiku-4-5"}, 1 },
	}.play(t)
	p.must(t, loop.Completed)
	if n := of[*session.Notice](p); len(n) != 1 || !strings.Contains(n[0].Text, "somebody's-model") {
		t.Errorf("notices: %+v", n)
	}
}

// TestInterruptedAtTheLastTurn says both: that the run was interrupted, which is
// its reason, and that it had no turn left (R85).
func TestInterruptedAtTheLastTurn(t *testing.T) {
	l := toReason[loop.AbortedTools]
	for turns, told := range map[int]int{1: 1, 2: 0} {
		l.config = func(c *daruma.Config) { c.MaxTurns = turns }
		p := l.play(t)
		p.must(t, loop.AbortedTools)
		if n := len(of[*session.Notice](p)); n != told {
			t.Errorf("%d notices with %d turns", n, turns)
		}
	}
}

// TestTokenBudget goes on until nine tenths of the budget are used, or until
// going on brings little, and never past the last turn (R54).
func TestTokenBudget(t *testing.T) {
	for name, c := range map[string]struct {
		fill, budget, turns, requests int
	}{
		"used":       {fill: 1000, budget: 5000, requests: 5},
		"little":     {fill: 100, budget: 50_000, requests: 4},
		"no turns":   {fill: 1000, budget: 5000, turns: 2, requests: 2},
		"no budget":  {fill: 1000, requests: 1},
		"all at one": {fill: 4600, budget: 5000, requests: 1},
	} {
		p := lab{
			script: fmt.Sprintf("model\n  rule all\n    say \"Work.\" fill=%d\n  rule on\n    when continuation\n    say \"More work.\" fill=%d\n", c.fill, c.fill),
			config: func(cfg *daruma.Config) { cfg.TokenBudget, cfg.MaxTurns = c.budget, c.turns },
		}.play(t)
		p.must(t, loop.Completed)
		if n := len(p.sent); n != c.requests {
			t.Errorf("%s: %d requests, want %d", name, n, c.requests)
		}
	}
}

func TestRefusedTurnLeaves(t *testing.T) {
	p := lab{script: "step no\n  stop refusal\n", prompts: []string{"Something that is refused.", "Something else."}}.play(t)
	p.must(t, loop.Completed)
	for _, m := range p.sent[1].Messages {
		if strings.Contains(m.PlainText(), "refused") {
			t.Errorf("what was refused is sent again: %q", m.PlainText())
		}
	}
}

// TestWindowFullWithCalls fills the window behind a call: the text stays, the
// call is not run twice, and the whole task is done.
func TestWindowFullWithCalls(t *testing.T) {
	p := lab{script: `step full
  when results, not called Write
  stop model_context_window_exceeded
model
  rule look once
    call Read file_path="big"
  rule write
    when not called Write
    say "I write it down."
    call Write file_path="c" content="x"
  rule done
    say "It is written."
  rule rest
    when continuation
    call Write file_path="c" content="x"
`}.play(t)
	if end := p.must(t, loop.Completed); !strings.HasSuffix(end.Text, "It is written.") {
		t.Errorf("the answer is %q", end.Text)
	}
	writes := 0
	for _, r := range of[*session.Result](p) {
		if r.Name == "Write" {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("Write ran %d times", writes)
	}
}

// TestWindowFullWithoutSummary keeps what was written when no summary can be
// made: stubs of old results make room, and the answer goes on.
func TestWindowFullWithoutSummary(t *testing.T) {
	p := lab{script: `step full
  when results
  stop model_context_window_exceeded
step no always
  when purpose compact
  status 400 invalid_request_error "no"
model
  rule look once
    call Read file_path="big"
  rule report
    when not continuation
    say "The report so far, and"
  rule rest
    when continuation
    say " the rest of it."
`}.play(t)
	if end := p.must(t, loop.Completed); end.Text != "The report so far, and the rest of it." {
		t.Errorf("the answer is %q", end.Text)
	}
	same(t, "ways", p.ways(), "window_full_compact", "collapse_drain_retry")
}

func TestUnknownStopReason(t *testing.T) {
	p := lab{script: "step odd times 2\n  stop \"meteor\"\n" + fmt.Sprintf(oneCall, `call Read file_path="a"`)}.play(t)
	if end := p.must(t, loop.Completed); end.Text != "I saw it." || end.Stop != "meteor" {
		t.Errorf("%q, stopped by %q", end.Text, end.Stop)
	}
}

func TestEmptyAfterResults(t *testing.T) {
	for name, fault := range map[string]string{
		"nothing": "reply\n    stop end_turn", "thinking": "reply\n    think \"Hm.\"\n    stop end_turn", "white space": "reply\n    say \"  \"",
	} {
		p := lab{script: "judge record\nstep empty\n  when results\n  " + fault + "\n" + fmt.Sprintf(oneCall, `call Read file_path="a"`)}.play(t)
		if end := p.must(t, loop.Completed); end.Text != "I saw it." {
			t.Errorf("after %s: %q", name, end.Text)
		}
		same(t, name, p.ways(), "empty_answer_retry")
	}
}

// TestSignatures lets the provider refuse the thinking of the past: always, and
// also where it demands that an open tool loop begins with thinking.
func TestSignatures(t *testing.T) {
	const refuse = "step signature always\n  when signatures\n  status 400 invalid_request_error " +
		"\"messages.1.content.0: Invalid `signature` in `thinking` block\"\n"
	for name, config := range map[string]func(*daruma.Config){"plain": nil, "strict": enabled} {
		t.Run(name, func(t *testing.T) {
			p := lab{script: refuse + thinks, config: config, prompts: []string{"Do the task.", "Again."}}.play(t)
			p.must(t, loop.Completed)
			if last := p.sent[len(p.sent)-1]; config != nil && last.Thinking.Mode != model.ThinkingEnabled {
				t.Errorf("the loop is closed, and thinking is still %s", last.Thinking.Mode)
			}
			for i, end := range p.ends {
				if end.Reason != loop.Completed || end.Text != "I know enough." {
					t.Errorf("run %d: %s, %q", i+1, end.Reason, end.Text)
				}
			}
		})
	}
	p := lab{script: strings.Replace(refuse, "when signatures", "when results", 1) + thinks}.play(t)
	if end := p.must(t, loop.APIError); end.Failure.Kind != failure.ThinkingSignature {
		t.Errorf("refused again although nothing is left to strip: %v", end.Failure)
	}
	same(t, "ways", p.ways(), "strip_thinking_retry")
}

// pictures is a tool whose results are images of so many pixels a side.
type pictures struct {
	simTool
	sides []int
}

func (p *pictures) Run(context.Context, tool.Call) tool.Result {
	var r tool.Result
	for _, side := range p.sides {
		r.Content = append(r.Content, message.Block{Type: message.Image, Media: &message.Media{
			Type: "image/png", Width: side, Height: side,
			Data: "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAEElEQVR4nGP4z8AARwzEcQCukw/x0F8jngAAAABJRU5ErkJggg==",
		}})
	}
	return r
}

func media(r *model.Request) (n int) {
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			for _, in := range append(b.Content, b) {
				if in.Media != nil {
					n++
				}
			}
		}
	}
	return n
}

// look reads pictures in two turns, and says what it saw.
const look = "model\n  rule one once\n    call Read file_path=\"a\"\n  rule two once\n    call Read file_path=\"b\"\n  rule done\n    say \"I saw them.\"\n"

func TestPictures(t *testing.T) {
	// The second of two offends: it alone is taken out.
	p := lab{
		script: "step bad\n  when all-results 2\n  status 400 invalid_request_error \"messages.4.content.0.tool_result.content.0.image.source.base64: " +
			"image exceeds 5 MB maximum: 8259148 bytes > 5242880 bytes\"\n" + look,
		config: withTools(t, &pictures{simTool{name: "Read", effect: tool.Pure}, []int{100}}),
	}.play(t)
	p.must(t, loop.Completed)
	same(t, "images of each request", asked(p, model.Main, media), 0, 1, 2, 1)

	// Beside more than twenty others no side may have more than 2,000 pixels.
	sides := append(slices.Repeat([]int{100}, 20), 3000)
	p = lab{script: look, config: withTools(t, &pictures{simTool{name: "Read", effect: tool.Pure}, sides})}.play(t)
	p.must(t, loop.Completed)
	same(t, "images of each request", asked(p, model.Main, media), 0, 20, 40)
}

// TestTooManyBytes ends clearly where a body without any media is too large and
// nothing can be left out, and goes on where something can.
func TestTooManyBytes(t *testing.T) {
	p := lab{script: "body 3KB\n", prompts: []string{strings.Repeat("All of this is needed. ", 200)}}.play(t)
	if end := p.must(t, loop.PromptTooLong); end.Failure.Kind != failure.RequestTooLarge || len(p.sent) > 4 {
		t.Errorf("%v after %d requests", end.Failure, len(p.sent))
	}
	p = lab{script: "body 5KB\nmodel\n  rule look once\n    call Read file_path=\"big\"\n  rule done\n    say \"I know enough.\"\n"}.play(t)
	p.must(t, loop.Completed)
}
