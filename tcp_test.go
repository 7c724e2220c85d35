package daruma_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// longTool answers with as much as a result may hold.
type longTool struct{ simTool }

func (l *longTool) Effect(jsontext.Value) tool.Effect { return tool.Pure }
func (l *longTool) Run(context.Context, tool.Call) tool.Result {
	return tool.Text(strings.Repeat("some words of a large file, again and again\n", 1000))
}

// task is a model that looks, writes, and reports at some length.
const task = `model
  rule look once
    think "First I look."
    say "I look at the file."
    call Read file_path="big"
  rule write once
    say "I write it down."
    call Write file_path="c" content="all that was found in the large file, word for word"
  rule report
    say "The whole report." fill=300
`

// steps is how many requests the task needs.
const steps = 3

// trouble is a failure that a run must get through on a real connection, with
// the end of the answer that must come. least is how many requests a run with
// perfect foresight would need beyond one without the fault.
type trouble struct {
	name   string
	script string
	config func(*daruma.Config)
	reason loop.Reason
	least  int
	more   int // than the least, which we need: each has its reason
}

// troubles are those of the request and those that call for a change of it.
var troubles = slices.Concat(turnTroubles, requestTroubles)

var turnTroubles = []trouble{
	{name: "no fault", script: task},
	{name: "overflow once", least: 1, more: 1, // a summary is worth a request
		script: `step long
  when results, not called Write
  status 400 invalid_request_error "prompt is too long: 203000 tokens > 200000 maximum"
` + task},
	{name: "overflow until a tenth is gone", least: 1, more: 1, script: `step long always
  when tokens > 2150
  status 400 invalid_request_error "prompt is too long: 203000 tokens > 200000 maximum"
` + task},
	{name: "true overflow by parallel reads", least: 1, more: 1, config: withLong, script: `chars-per-token 1
window 200k
model
  rule look once
    call Read file_path="1"
    call Read file_path="2"
    call Read file_path="3"
    call Read file_path="4"
    call Read file_path="5"
    call Read file_path="6"
  rule report
    say "The whole report." fill=300
`},
	{name: "body too large", least: 1, more: 1, script: "body 9KB\n" + task},
	{name: "room beside the input", least: 1, script: "step sum always\n  when max-tokens > 4000\n  status 400 invalid_request_error " +
		"\"input length and `max_tokens` exceed context limit: 195000 + 8000 > 200000, decrease input length or `max_tokens` and try again\"\n" + task},
	{name: "text cut by the limit", least: 3, script: "step short times 3\n  when called Write\n  truncate 60 tokens\n" + task + `  rule rest
    when continuation
    go-on
`},
	{name: "call cut by the limit", least: 2, script: "step short times 2\n  when results, not called Write\n  truncate 12 tokens\n" + task + `  rule rest
    when continuation
    go-on
`},
	{name: "text cut by the connection", least: 1, script: "step gone\n  when called Write\n  cut text 200 reset\n" + task},
	{name: "call cut by the connection", least: 1, script: "step gone\n  when results\n  cut tool reset\n" + task},
	{name: "empty answer", least: 1, script: "step empty\n  when results\n  reply\n    stop end_turn\n" + task},
	{name: "paused", least: 2, script: `step pause
  when results
  reply
    say "I search. "
    block ` + "`" + `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}` + "`" + `
    stop pause_turn
step found
  when after pause
  reply
    block ` + "`" + `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}` + "`" + `
    say "Nothing is known of it."
    call Read file_path="a"
` + task},
	{name: "window full of the answer", least: 1, more: 1, script: "step full\n  when called Write\n  truncate 60 tokens\n  stop model_context_window_exceeded\n" + task + `  rule rest
    when continuation
    go-on
`},
	{name: "signatures refused", least: 1, script: "step signature always\n  when signatures\n  status 400 invalid_request_error " +
		"\"messages.1.content.0: Invalid `signature` in `thinking` block\"\n" + task},
	{name: "signatures refused, thinking demanded", least: 1, config: enabled, script: "step signature always\n  when signatures\n  status 400 invalid_request_error " +
		"\"messages.1.content.0: Invalid `signature` in `thinking` block\"\n" + task},
	{name: "overloaded twice", least: 2, script: "step busy times 2\n  status 529\n" + task},
	{name: "error inside the stream", least: 1, script: "step late\n  when called Write\n  error text overloaded_error \"Overloaded\"\n" + task},
	{name: "connection reset", least: 1, script: "step gone\n  reset headers\n" + task},
	{name: "refusal", least: 0, reason: loop.Refusal, script: "step no\n  stop refusal\n" + task},
}

func withLong(c *daruma.Config) {
	c.Tools, _ = tool.NewSet(&longTool{simTool{name: "Read"}})
}

// fast is the default patience, a hundred times as quick.
func fast() *retry.Policy {
	p := retry.Default()
	p.Base, p.Cap, p.HintLimit = p.Base/100, p.Cap/100, p.HintLimit/100
	return &p
}

// overTCP runs a task against a fault server on a loopback port.
func overTCP(t testing.TB, text string, config func(*daruma.Config)) (*session.End, []session.Event, fault.Report) {
	script, err := fault.Parse("tcp", text)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := fault.New(script, fault.Options{Scale: 0.01}).Serve(listener)
	wire, err := anthropic.New(anthropic.Config{
		BaseURL: server.URL, APIKey: "any-key", Timeouts: anthropic.Timeouts{FirstByte: 3 * time.Second, Bytes: 3 * time.Second, Events: 3 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	set, err := tool.NewSet(&simTool{name: "Read", effect: tool.Pure, bad: &bad}, &simTool{name: "Write", effect: tool.Unsafe, bad: &bad})
	if err != nil {
		t.Fatal(err)
	}
	cfg := daruma.Config{Wire: wire, Models: []string{"claude-a"}, Tools: set, Session: "story", Retry: fast()}
	if config != nil {
		config(&cfg)
	}
	agent, err := daruma.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var events []session.Event
	for e, err := range agent.Run(t.Context(), "Do the whole task.") {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	wire.DropIdle()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if t, ok := t.(*testing.T); ok {
		laws(t, events, agent, server.Report())
		for _, b := range bad {
			t.Error(b)
		}
	}
	return events[len(events)-1].Body.(*session.End), events, server.Report()
}

// TestOverTCP goes through every trouble on a real connection: each ends with
// the whole answer, or with a clear end where there cannot be one.
func TestOverTCP(t *testing.T) {
	for _, trouble := range troubles {
		t.Run(strings.ReplaceAll(trouble.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			end, _, report := overTCP(t, trouble.script, trouble.config)
			want := loop.Completed
			if trouble.reason != "" {
				want = trouble.reason
			}
			if end.Reason != want {
				t.Fatalf("%s, not %s: %v\n%s", end.Reason, want, end.Failure, report)
			}
			if want != loop.Completed {
				if end.Failure == nil || end.Next == "" {
					t.Errorf("no clear end: %+v", end)
				}
				return
			}
			if !strings.Contains(end.Text, "The whole report. (1)") || strings.Count(end.Text, "(40)") != 1 && len(end.Text) < 1200 {
				t.Errorf("the answer is not whole: %q", end.Text)
			}
			if n := len(report.Requests); n > steps+trouble.least+trouble.more {
				t.Errorf("%d requests, want %d, and %d for the fault\n%s", n, steps, trouble.least+trouble.more, report)
			}
		})
	}
}

// BenchmarkRecovery reports what each trouble costs beyond the run without it,
// beside the least that is possible: requests, and seconds at the true patience
// (the waits of this benchmark are a hundredth of it).
func BenchmarkRecovery(b *testing.B) {
	plain := 0
	for _, trouble := range troubles {
		b.Run(strings.ReplaceAll(trouble.name, " ", "_"), func(b *testing.B) {
			var requests, waited, tokens float64
			for b.Loop() {
				end, events, report := overTCP(b, trouble.script, trouble.config)
				requests += float64(len(report.Requests))
				tokens += float64(end.Wasted.Usage.Input + end.Wasted.Usage.Output)
				for _, e := range events {
					if r, ok := e.Body.(*session.Recovery); ok && r.State == session.Running {
						waited += 100 * r.Delay.Seconds()
					}
				}
			}
			n := float64(b.N)
			if trouble.name == "no fault" {
				plain = int(requests / n)
			}
			without := plain
			if trouble.config != nil && strings.HasPrefix(trouble.name, "true") {
				without = 2 // a task of two steps
			}
			b.ReportMetric(requests/n-float64(without), "requests-beyond/op")
			b.ReportMetric(float64(trouble.least), "requests-least/op")
			b.ReportMetric(waited/n, "s-waited/op")
			b.ReportMetric(tokens/n, "tokens-lost/op")
		})
	}
}
