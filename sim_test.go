package daruma_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

var (
	simSeeds = flag.Int("sim", 0, "how many seeds TestSimulation runs; 0: 400, or 60 with -short")
	simSeed  = flag.Uint64("seed", 0, "run this seed of TestSimulation alone, and show its script")
)

// TestSimulation runs random fault schedules, one from each seed, against the
// laws. A seed that fails is run again with -seed N.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		simulateSeed(t, *simSeed)
		return
	}
	n := *simSeeds
	if n == 0 {
		n = 400
	}
	if testing.Short() {
		n = min(n, 60)
	}
	// Each share of the seeds runs beside the others.
	shares := uint64(runtime.GOMAXPROCS(0))
	for share := range shares {
		t.Run(fmt.Sprintf("share%d", share), func(t *testing.T) {
			t.Parallel()
			for seed := 1 + share; seed <= uint64(n) && !t.Failed(); seed += shares {
				simulateSeed(t, seed)
			}
		})
	}
}

// simulateSeed runs one seed. When it fails, the shortest script that still
// fails is shown, ready to be kept as a story.
func simulateSeed(t *testing.T, seed uint64) {
	fails := func(s schedule) bool { return !t.Run(fmt.Sprint(seed), func(t *testing.T) { simulate(t, s) }) }
	if s := scheduleOf(seed); fails(s) {
		t.Errorf("run it alone: go test -run TestSimulation -seed %d .\n%s", seed, shrink(s, fails).story())
	}
}

// TestShrink holds that what is left of a schedule that fails is what makes it
// fail.
func TestShrink(t *testing.T) {
	s := schedule{window: 3000, steps: []string{"a", "b", "c", "d", "e"}, interruptAt: 3, submitAt: 4}
	got := shrink(s, func(s schedule) bool {
		return slices.Contains(s.steps, "b") && slices.Contains(s.steps, "e") && s.submitAt > 0
	})
	if !slices.Equal(got.steps, []string{"b", "e"}) || got.window != 0 || got.interruptAt != 0 || got.submitAt != 4 {
		t.Errorf("shrunk to %+v", got)
	}
}

// faults that a schedule is made of. Every one of them passes, so once they
// are through the run must complete.
var simFaults = []string{
	"status 529", "status 500", "status 503", "status 502 html \"<html>bad gateway</html>\"",
	"status 429\n  header retry-after \"3\"", "status 408", "status 504",
	"reset headers", "close headers", "cut start reset", "cut text reset", "cut text 300 close", "cut thinking end",
	"cut tool reset", "cut tool-start end", "cut block 1 reset", "cut before-delta end", "cut before-stop reset",
	"cut json close", "cut utf8 reset", "cut random reset", "cut random end",
	"error start overloaded_error \"Overloaded\"", "error text api_error \"Internal server error\"",
	"error tool overloaded_error \"Overloaded\"", "error block 1 api_error \"oops\"",
	"stall headers", "stall text", "stall tool", "pings event 2 20m every 10s",
	"drop message_stop", "drop content_block_stop", "mangle cut content_block_delta", "mangle control message_delta",
	"truncate 20 tokens", "truncate 3 tokens", "stop pause_turn", "stop model_context_window_exceeded", "stop \"meteor\"",
	"noise pings 3", "noise unknown-events", "noise comments", "line-ends crlf", "chunk 7", "event-lines off",
	"usage input=1 output=1", "status 200 empty", "status 200 html \"<html>sign in</html>\"",
	"reply\n    stop end_turn", "reply\n    call-raw Read \"{broken\"",
	"status 400 invalid_request_error \"prompt is too long: 203000 tokens > 200000 maximum\"", "status 413 request_too_large \"Request exceeds the maximum size\"",
	"status 400 invalid_request_error \"input length and `max_tokens` exceed context limit: 195000 + 8000 > 200000, decrease input length\"",
	"status 400 invalid_request_error \"messages.1.content.0: Invalid `signature` in `thinking` block\"",
	"status 404 not_found_error \"model: it is gone\"", "status 401", "stop refusal", "reply\n    think \"Only a thought.\"\n    stop end_turn",
	"mangle newline content_block_delta", "pieces 1", "delay events 2s", "error end overloaded_error \"Late\"",
}

// schedule is one random run as data, so that it can be made shorter.
type schedule struct {
	seed        uint64
	window      int
	steps       []string
	interruptAt int  // the event at which the run is interrupted; 0: never
	submitAt    int  // the event at which another prompt is submitted; 0: never …
	now         bool // … and whether it wants to wait
}

func scheduleOf(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 7))
	s := schedule{seed: seed}
	if r.IntN(3) == 0 {
		s.window = 2500 + r.IntN(2500)
	}
	for i := range r.IntN(7) {
		step := fmt.Sprintf("step s%d times %d\n", i, 1+r.IntN(2))
		if r.IntN(2) == 0 {
			step += fmt.Sprintf("  when n %d..\n", 1+r.IntN(6))
		}
		s.steps = append(s.steps, step+"  "+simFaults[r.IntN(len(simFaults))]+"\n")
	}
	if r.IntN(4) == 0 {
		s.interruptAt = 1 + r.IntN(40)
	}
	if s.now = r.IntN(2) == 0; r.IntN(4) == 0 {
		s.submitAt = 1 + r.IntN(40)
	}
	return s
}

// script is the schedule in the language of faults.
func (s schedule) script() string {
	text := fmt.Sprintf("seed %d\n", s.seed%1000+1)
	if s.window > 0 {
		text += fmt.Sprintf("window %d\n", s.window)
	}
	return text + strings.Join(s.steps, "") + simModel
}

// story is the schedule as a file for testdata/stories, as far as a story can
// tell it.
func (s schedule) story() string {
	note := fmt.Sprintf("Found by chance, seed %d.", s.seed)
	if s.interruptAt+s.submitAt > 0 {
		note += fmt.Sprintf(" Interrupted at event %d, a prompt at event %d (at once: %v).", s.interruptAt, s.submitAt, s.now)
	}
	return note + "\n-- prompt --\nDo the task.\n-- config --\nfallback claude-b\nfallback claude-c\n" +
		"file a 1\nfile b 1\nfile big 170\n-- script --\n" + s.script()
}

// shorter yields the schedule with one part less, in every way there is.
func (s schedule) shorter(yield func(schedule) bool) {
	for i := range s.steps {
		less := s
		less.steps = slices.Delete(slices.Clone(s.steps), i, i+1)
		if !yield(less) {
			return
		}
	}
	less := s
	less.window = 0
	if s.window > 0 && !yield(less) {
		return
	}
	less = s
	less.interruptAt = 0
	if s.interruptAt > 0 && !yield(less) {
		return
	}
	less = s
	less.submitAt = 0
	if s.submitAt > 0 {
		yield(less)
	}
}

// shrink drops from a schedule that fails whatever it can and still fail.
func shrink(s schedule, fails func(schedule) bool) schedule {
	for less := range s.shorter {
		if fails(less) {
			return shrink(less, fails)
		}
	}
	return s
}

const simModel = `
model
  rule look
    when not called Read
    think "First look."
    say "I look at two files." fill=60
    call Read file_path="a"
    call Read file_path="b"
  rule act
    when called Read, not called Write
    say "Now I write."
    call Write file_path="c" content="x"
  rule big
    when called Write, not called Read "big"
    call Read file_path="big"
  rule report
    when called Write
    say "All done." fill=200
`

// simTool answers at once, and tells when it ran on what is no JSON.
type simTool struct {
	name   string
	effect tool.Effect
	bad    *[]string
}

func (s *simTool) Spec() model.Tool {
	return model.Tool{Name: s.name, Description: "simulated", Schema: jsontext.Value(
		`{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path"]}`)}
}
func (s *simTool) Effect(jsontext.Value) tool.Effect { return s.effect }
func (s *simTool) Access(jsontext.Value) tool.Access { return tool.Access{Kind: tool.AccessNone} }
func (s *simTool) Run(_ context.Context, c tool.Call) tool.Result {
	if !c.Input.IsValid() {
		*s.bad = append(*s.bad, "a call ran on truncated input: "+string(c.Input))
	}
	if strings.Contains(string(c.Input), "big") {
		return tool.Text(strings.Repeat("some words of a large file, again and again\n", 200))
	}
	return tool.Text("ok")
}

func simulate(t *testing.T, s schedule) {
	text := s.script()
	synctest.Test(t, func(t *testing.T) {
		agent, finish := simulated(t, text, func(cfg *daruma.Config) {
			cfg.Models, cfg.Rand = []string{"claude-a", "claude-b", "claude-c"}, rand.New(rand.NewPCG(s.seed, 8)).Float64
		})
		began := time.Now()
		events := collect(t, agent, "Do the task.", s.interruptAt, s.submitAt, s.now)
		end := events[len(events)-1].Body.(*session.End)
		if end.Reason == loop.AbortedStreaming || end.Reason == loop.AbortedTools {
			if s.interruptAt == 0 {
				t.Errorf("aborted without an interrupt")
			}
			more := collect(t, agent, "Go on.", 0, 0, false)
			events = append(events, more...)
			end = more[len(more)-1].Body.(*session.End)
		}
		if spent := time.Since(began); spent > 4*time.Hour {
			t.Errorf("it took %s", spent)
		}
		simLaws(t, events, agent, finish(), end, text)
	})
}

func collect(t *testing.T, agent *daruma.Agent, prompt string, interruptAt, submitAt int, now bool) []session.Event {
	var events []session.Event
	for e, err := range agent.Run(t.Context(), prompt) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
		if len(events) == interruptAt {
			agent.Interrupt()
		}
		switch {
		case len(events) != submitAt:
		case now:
			agent.SubmitNow("Also say hello.")
		default:
			agent.Submit("Also say hello.")
		}
	}
	return events
}

// simLaws are the laws of a story, but a schedule may hold faults that never
// land; and a run whose faults all pass completes.
func simLaws(t *testing.T, events []session.Event, agent *daruma.Agent, report fault.Report, end *session.End, text string) {
	t.Helper()
	report.Landing = nil
	laws(t, events, agent, report)
	runs := map[string]int{}
	for _, e := range events {
		if b, ok := e.Body.(*session.Result); ok {
			runs[b.Call]++
			if runs[b.Call] > 1 {
				t.Errorf("call %s has two results", b.Call)
			}
		}
	}
	if len(report.Requests) > 120 {
		t.Errorf("%d requests", len(report.Requests))
	}
	if !endsWell(end, text) {
		t.Errorf("the run ended with %s: %v", end.Reason, end.Failure)
	}
}

// planned is how many faults a script holds.
func planned(text string) int {
	return strings.Count(text, " times 1\n") + 2*strings.Count(text, " times 2\n")
}

// endsWell says whether a run with these faults may end so: one that nothing
// repeated can heal may end in its own reason.
func endsWell(end *session.End, text string) bool {
	has := func(fault string) bool { return strings.Contains(text, fault) }
	switch end.Reason {
	case loop.Completed:
		return true
	case loop.Refusal:
		return has("stop refusal")
	case loop.APIError:
		// What no repetition cures, and each cure of which is used once.
		// A stream that ends before its first event is taken for a foreign answer.
		if has("status 401") || has("cut random") || strings.Count(text, "signature") >= 2 || has("signature") && has("times 2") || has("status 404") {
			return true
		}
		// Sign-in pages and empty bodies are final by design, two stalls are one
		// too many, and so are three breaks behind finished thinking.
		return planned(text) >= 10 || strings.Count(text, "cut ")+strings.Count(text, "drop") >= 2 || strings.Contains(text, "status 200") || strings.Contains(text, "stall") || strings.Contains(text, "pings event")
	case loop.OutputLimit:
		return strings.Count(text, "truncate") >= 2
	case loop.MalformedExhausted:
		return strings.Contains(text, "call-raw")
	case loop.ModelError:
		return has("reply\n    stop end_turn") || has("reply\n    think")
	case loop.PromptTooLong, loop.BlockingLimit, loop.RapidRefillBreaker:
		return has("window") || has("too long") || has("status 413") || has("context limit")
	}
	return false
}
