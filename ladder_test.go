package daruma_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
)

// overflows is a run that reads a large file and is refused for its length
// once; the rules before it say what a summary gets.
const overflows = `step long
  when results, purpose main
  status 400 invalid_request_error "prompt is too long: 203000 tokens > 200000 maximum"
SUMMARY
model
  RULE
  rule look
    when first
    call Read file_path="big"
  rule done
    say "I know enough."
`

// summarised is overflows with a fault and a rule of its own for the summary.
func summarised(fault, rule string) lab {
	return lab{script: strings.NewReplacer("SUMMARY\n", fault, "  RULE\n", rule).Replace(overflows)}
}

const goodSummary = "  rule summary\n    when purpose compact\n    say \"Goal: the task. Done: the large file was read; it holds words.\"\n"

// TestSummaries holds what counts as a summary, and what follows when there is
// none: the essentials are kept without a model, and the run completes.
func TestSummaries(t *testing.T) {
	long := strings.Repeat("word ", 2500)
	for name, c := range map[string]struct {
		fault, rule string
		good        bool
	}{
		"good":               {"", goodSummary, true},
		"empty":              {"step s\n  when purpose compact\n  reply\n    stop end_turn\n", "", false},
		"too short":          {"", "  rule s\n    when purpose compact\n    say \"Yes.\"\n", false},
		"cut":                {"step s\n  when purpose compact\n  truncate 15 tokens\n", goodSummary, false},
		"inflated":           {"", "  rule s\n    when purpose compact\n    say \"" + long + "\"\n", false},
		"a refusal":          {"step s\n  when purpose compact\n  stop refusal\n", goodSummary, false},
		"a window run full":  {"step s\n  when purpose compact\n  stop model_context_window_exceeded\n", goodSummary, false},
		"a call":             {"", "  rule s\n    when purpose compact\n    say \"I look at the large file again, to be quite sure of it.\"\n    call Read file_path=\"big\"\n", false},
		"overloaded once":    {"step s\n  when purpose compact\n  status 529\n", goodSummary, true},
		"refused for good":   {"step s always\n  when purpose compact\n  status 400 invalid_request_error \"no\"\n", goodSummary, false},
		"broken in its text": {"step s\n  when purpose compact\n  cut text 2500 reset\n", "  rule s\n    when purpose compact\n    say \"" + long[:4000] + "\"\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := summarised(c.fault, c.rule).play(t)
			p.must(t, loop.Completed)
			rung := "skeleton"
			if c.good {
				rung = "summary"
			}
			if got := of[*session.Compaction](p); len(got) != 1 || got[0].Rung != rung {
				t.Errorf("the rung that helped: %+v, want %s", got, rung)
			}
			if last := p.sent[len(p.sent)-1].Messages; last[0].PlainText() != "Do the task." {
				t.Errorf("the task is not sent any more: %q", last[0].PlainText())
			}
		})
	}
}

// TestSummaryThatIsTooLong refuses the request for a summary for its length: the
// oldest rounds go, by the numbers of the error, until it fits (R45).
func TestSummaryThatIsTooLong(t *testing.T) {
	const refused = "  status 400 invalid_request_error \"prompt is too long: 210000 tokens > 200000 maximum\"\n"
	var script strings.Builder
	script.WriteString("step long\n  when purpose main, n 11..\n" + refused + "step longer times 2\n  when purpose compact\n" + refused + "model\n" + goodSummary)
	for i := range 10 {
		fmt.Fprintf(&script, "  rule r%d once\n    say \"I read on.\" fill=500\n    call Read file_path=\"x%d\"\n", i, i)
	}
	p := lab{script: script.String() + "  rule done\n    say \"I know enough.\"\n"}.play(t)
	p.must(t, loop.Completed)
	var sizes []int
	for _, r := range p.report.Requests {
		if r.Purpose == "compact" {
			sizes = append(sizes, r.Tokens)
		}
	}
	if len(sizes) != 3 || sizes[0] <= sizes[1] || sizes[1] <= sizes[2] || sizes[2] < sizes[0]/2 {
		t.Errorf("the requests for a summary had %v tokens: each should be smaller, by what the numbers say", sizes)
	}
	if got := of[*session.Compaction](p); len(got) != 1 || got[0].Rung != "summary" {
		t.Errorf("the rung that helped: %+v", got)
	}
	// One round cannot be made smaller: what was refused is not sent again.
	l := summarised("step longer always\n  when purpose compact\n"+refused, goodSummary)
	p = l.play(t)
	p.must(t, loop.Completed)
	size := func(r *model.Request) int { return message.Estimate(r.Messages) }
	sizes = asked(p, model.Compact, size)
	for i := 1; i < len(sizes); i++ {
		if sizes[i] >= sizes[i-1] {
			t.Errorf("the requests for a summary had %v tokens", sizes)
		}
	}
}

// TestSummaryByAnotherModel asks the next model of the chain for a summary that
// the first one has no room to write; the run stays with the first (R92).
func TestSummaryByAnotherModel(t *testing.T) {
	for fault, tried := range map[string][]string{
		"status 529": {"claude-a", "claude-a", "claude-a", "claude-b"},
		"status 404 not_found_error \"model: claude-a\"": {"claude-a", "claude-b"},
		"status 400 invalid_request_error \"no\"":        {"claude-a"},
	} {
		l := summarised("step s always\n  when purpose compact, model claude-a\n  "+fault+"\n", goodSummary)
		l.config = chain("claude-a", "claude-b")
		p := l.play(t)
		p.must(t, loop.Completed)
		same(t, fault, asked(p, model.Compact, modelOf), tried...)
		same(t, fault, slices.Compact(asked(p, model.Main, modelOf)), "claude-a")
	}
	// The last of the chain is asked with the whole patience.
	l := summarised("step s always\n  when purpose compact\n  status 529\n", goodSummary)
	l.config = both(tries(5), chain("claude-a", "claude-b"))
	p := l.play(t)
	p.must(t, loop.Completed)
	same(t, "overloaded", asked(p, model.Compact, modelOf), append(slices.Repeat([]string{"claude-a"}, 3), slices.Repeat([]string{"claude-b"}, 6)...)...)
}

// TestSummaryRoom lets the provider refuse the room of a summary beside its
// input: the next try asks for less.
func TestSummaryRoom(t *testing.T) {
	p := summarised("step s always\n  when purpose compact, max-tokens > 10000\n  status 400 invalid_request_error "+
		"\"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length\"\n", goodSummary).play(t)
	p.must(t, loop.Completed)
	same(t, "rooms", asked(p, model.Compact, roomOf), 20000, 9000)
}

// TestSkeletonIsTheLastResort leads down the whole ladder, and shows the error
// only when nothing is left.
func TestSkeletonIsTheLastResort(t *testing.T) {
	refused := "step s always\n  when purpose compact\n  status 400 invalid_request_error \"no\"\n"
	p := summarised(refused, "").play(t)
	p.must(t, loop.Completed)
	same(t, "ways", p.ways(), "collapse_drain_retry", "reactive_compact_retry", "skeleton_compact_retry")
	l := lab{script: strings.Replace(summarised(refused, "").script, "step long\n  when results, purpose main\n", "step long always\n  when n 2.., purpose main\n", 1)}
	p = l.play(t)
	end := p.must(t, loop.PromptTooLong)
	if end.Failure.Numbers.InputTokens != 203000 {
		t.Errorf("the error that is shown: %+v", end.Failure)
	}
	same(t, "ways", p.ways(), "collapse_drain_retry", "reactive_compact_retry", "skeleton_compact_retry")
	if shown := of[*session.Message](p); shown[len(shown)-1].Message.Failure == nil {
		t.Error("the error was not shown")
	}
}

// nearlyFull talks until the window is nearly full. The first prompt fills it,
// the others find it so.
func nearlyFull(summary string, more int) lab {
	return lab{
		script: "model\n  rule summary\n    when purpose compact\n    say \"" + summary + "\"\n" +
			"  rule story\n    when first\n    say \"Once upon a time.\" fill=3350\n  rule more\n    say \"More.\" fill=20\n",
		prompts: append([]string{"Tell me a story."}, slices.Repeat([]string{"Go on."}, more)...),
		config:  func(c *daruma.Config) { c.Window = 4000 },
	}
}

// TestProactiveCompaction summarises before the window is full, although there
// is no old result to make a stub of (R43): the threshold of a window of 4,000
// tokens is 4,000 - 400 - 260 = 3,340.
func TestProactiveCompaction(t *testing.T) {
	p := nearlyFull("Goal: a story. Done: it began once upon a time, and went on for long.", 2).play(t)
	p.must(t, loop.Completed)
	same(t, "ways", p.ways(), "collapse_drain_retry", "proactive_compact")
	for _, b := range of[*session.Begin](p) {
		if b.Source == string(model.Main) && b.Estimate > 3340 {
			t.Errorf("attempt %d was sent with %d tokens", b.Attempt, b.Estimate)
		}
	}
}

// TestFailedSummariesStop holds the breaker (R44): three failed summaries in a
// row, and none is tried any more before the provider demands it; a skeleton
// that helps meanwhile says nothing about summaries.
func TestFailedSummariesStop(t *testing.T) {
	l := nearlyFull("No.", 6)
	l.prompts = append(l.prompts, "Tell me another story.", "Go on.", "Go on.")
	l.script = strings.Replace(l.script, "when first", "when user \"story\"", 1)
	l.script = "step long\n  when purpose main, n 9\n  status 400 invalid_request_error \"prompt is too long: 4100 tokens > 4000 maximum\"\n" + l.script
	p := l.play(t)
	p.must(t, loop.Completed)
	if n := len(asked(p, model.Compact, modelOf)); n != 4 {
		t.Errorf("%d summaries were asked for, want 3 by ourselves and 1 that was demanded", n)
	}
	if got := of[*session.Compaction](p); len(got) != 1 || got[0].Rung != "skeleton" {
		t.Errorf("the rungs that helped: %+v", got)
	}
}

// TestRefillCountsTurns holds that going down the ladder within one turn is no
// window that filled again (R44): here it fills again twice, not three times.
func TestRefillCountsTurns(t *testing.T) {
	const refused = "  status 400 invalid_request_error \"prompt is too long: 203000 tokens > 200000 maximum\"\n"
	var script strings.Builder
	for from, times := range map[int]int{11: 2, 15: 1, 18: 1} {
		fmt.Fprintf(&script, "step s%d times %d\n  when purpose main, n %d..\n%s", from, times, from, refused)
	}
	script.WriteString("model\n")
	for i := range 12 {
		fmt.Fprintf(&script, "  rule r%d once\n    say \"I read on.\" fill=500\n    call Read file_path=\"x%d\"\n", i, i)
	}
	p := lab{script: script.String() + "  rule done\n    say \"I know enough.\"\n"}.play(t)
	p.must(t, loop.Completed)
	var rungs []string
	for _, c := range of[*session.Compaction](p) {
		rungs = append(rungs, c.Rung)
	}
	same(t, "rungs", rungs, "summary", "skeleton", "summary", "summary")
}

// TestClampLasts holds a max_tokens that fitted for the rest of the run, until
// the conversation gets shorter (R14).
func TestClampLasts(t *testing.T) {
	const sum = "input length and `max_tokens` exceed context limit: 195000 + 8000 > 200000, decrease input length or `max_tokens` and try again"
	l := lab{script: "step sum\n  status 400 invalid_request_error \"" + sum + "\"\n" + `model
  rule look once
    say "I look."
    call Read file_path="a"
  rule done
    say "I know enough."
`}
	p := l.play(t)
	p.must(t, loop.Completed)
	same(t, "rooms", asked(p, model.Main, roomOf), 8000, 4000, 4000)

	l.script = "step long\n  when results\n  status 400 invalid_request_error \"prompt is too long: 203000 tokens > 200000 maximum\"\n" +
		strings.ReplaceAll(strings.Replace(l.script, "model\n", "model\n"+goodSummary, 1), `"a"`, `"big"`)
	p = l.play(t)
	p.must(t, loop.Completed)
	same(t, "rooms", asked(p, model.Main, roomOf), 8000, 4000, 4000, 8000)

	// A cut answer is not asked for again with the same room: it goes on.
	l = lab{script: "step short\n  when max-tokens 4000\n  truncate 30 tokens\nstep sum\n  status 400 invalid_request_error \"" + sum + "\"\n" +
		"model\n  rule all\n    say \"A long answer.\" fill=100\n  rule rest\n    when continuation\n    go-on\n"}
	p = l.play(t)
	p.must(t, loop.Completed)
	same(t, "ways", p.ways(), "clamp", "max_output_tokens_recovery")

	// Where no clamp fits, the history is what is too long.
	l = summarised("", goodSummary)
	l.script = strings.Replace(l.script, "prompt is too long: 203000 tokens > 200000 maximum",
		"input length and `max_tokens` exceed context limit: 199500 + 8000 > 200000, decrease input length or `max_tokens` and try again", 1)
	p = l.play(t)
	p.must(t, loop.Completed)
	same(t, "ways", p.ways(), "collapse_drain_retry", "reactive_compact_retry")
}

// TestUsersWordsSurvive compacts one conversation again and again: every word
// of the user is sent to the end, once and in order.
func TestUsersWordsSurvive(t *testing.T) {
	l := nearlyFull("Goal: a story. Done: it began once upon a time, and went on for long.", 0)
	l.script = strings.Replace(l.script, "    when first\n    say \"Once upon a time.\" fill=3350", "    say \"Once upon a time.\" fill=1500", 1)
	for i := range 12 {
		l.prompts = append(l.prompts, "Wish number "+string(rune('A'+i))+".")
	}
	p := l.play(t)
	p.must(t, loop.Completed)
	if n := len(of[*session.Compaction](p)); n < 3 {
		t.Fatalf("only %d compactions", n)
	}
	var said []string
	for _, m := range p.sent[len(p.sent)-1].Messages {
		if m.Role == message.User && !m.Synthetic {
			said = append(said, m.PlainText())
		}
	}
	same(t, "the user's words", said, l.prompts...)
}
