package daruma_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// reading calls Read for ever; what it reads is large or small by its name.
const reading = "model\n  rule summary\n    when purpose compact\n    say \"The file was read, and it says nothing of interest.\"\n" +
	"  rule read\n    say \"I read on.\"\n    call Read file_path=\"%s\"\n"

// toReason is a run to each terminal reason that a run can end with.
var toReason = map[loop.Reason]lab{
	loop.Completed:     {script: "model\n  rule all\n    say \"Done.\"\n"},
	loop.MaxTurns:      {script: fmt.Sprintf(reading, "a"), config: func(c *daruma.Config) { c.MaxTurns = 3 }},
	loop.PromptTooLong: {script: "step long always\n  status 400 invalid_request_error \"prompt is too long: 250000 tokens > 200000 maximum\"\n"},
	loop.ImageError:    {script: "step image always\n  status 400 invalid_request_error \"Could not process image\"\n"},
	loop.OutputLimit:   {script: "step short always\n  truncate 5 tokens\nmodel\n  rule all\n    say \"A long answer.\" fill=400\n"},
	loop.APIError:      {script: "step money always\n  status 400 invalid_request_error \"Your credit balance is too low to access the Anthropic API.\"\n"},
	loop.ModelError:    {script: "step empty always\n  reply\n    stop end_turn\n"},
	loop.Refusal:       {script: "step no\n  stop refusal\n"},
	loop.BudgetExhausted: {
		script: "step busy always\n  status 529\n", config: func(c *daruma.Config) { c.MaxTime = 20 * time.Second },
	},
	loop.AbortedStreaming: {
		script: "step slow\n  delay events 1s\n", at: func(a *daruma.Agent, e session.Event) {
			if e.Type() == session.TypeDelta {
				a.Interrupt()
			}
		},
	},
	loop.AbortedTools: {
		script: fmt.Sprintf(reading, "a"), at: func(a *daruma.Agent, e session.Event) {
			if e.Type() == session.TypeResult {
				a.Interrupt()
			}
		},
	},
	loop.StopHookPrevented: {
		script: "model\n  rule all\n    say \"Done.\"\n", config: func(c *daruma.Config) {
			c.StopHooks = []daruma.StopHook{func(context.Context, *message.Message, bool) (daruma.StopVerdict, error) {
				return daruma.StopVerdict{Stop: true}, nil
			}}
		},
	},
	// What is sent with every request fills the window by itself: the first answer tells.
	loop.BlockingLimit: {script: fmt.Sprintf(reading, "a"), config: func(c *daruma.Config) {
		c.System, c.Window = []string{strings.Repeat("Be brief and exact. ", 600)}, 3000
	}},
	loop.RapidRefillBreaker: {script: "window 2600\n" + fmt.Sprintf(reading, "big")},
	loop.ToolLoop:           {script: "model\n  rule again\n    call Read file_path=\"a\"\n"},
	loop.MalformedExhausted: {script: "step broken always\n  reply\n    call-raw Read \"{broken\"\n"},
}

// toCome are the reasons that no run gives yet, each with what it waits for.
var toCome = map[loop.Reason]string{
	loop.HookStopped:              "hooks around tools",
	loop.SetupFailed:              "given by the command, before there is a run",
	loop.StructuredRetryExhausted: "structured output",
	loop.ToolDeferred:             "hooks around tools, too: see TestDefer",
}

// TestEveryReason reaches every terminal reason by a run: with is_error, and
// with one line that says what to do next.
func TestEveryReason(t *testing.T) {
	for _, reason := range loop.Reasons {
		if why, later := toCome[reason]; later {
			if _, both := toReason[reason]; both {
				t.Errorf("%s is reached, it does not wait for %s", reason, why)
			}
			continue
		}
		t.Run(string(reason), func(t *testing.T) {
			l, ok := toReason[reason]
			if !ok {
				t.Fatal("no run reaches it")
			}
			p := l.play(t)
			end := p.must(t, reason)
			if end.IsError == (reason == loop.Completed) {
				t.Errorf("is_error is %v", end.IsError)
			}
			if e := end.Failure; e != nil {
				shown := p.held[len(p.held)-1].PlainText()
				if e.Kind == failure.Unknown && shown != e.Message {
					t.Errorf("our own words are shown as %q", shown)
				}
			}
			if (end.Next == "") != (reason == loop.Completed) || strings.Contains(end.Next, "\n") {
				t.Errorf("what to do next: %q", end.Next)
			}
			err := (&daruma.Result{End: *end}).Err()
			if (err == nil) != (reason == loop.Completed) {
				t.Errorf("as an error of Go: %v", err)
			}
		})
	}
}

// TestTimeIsUpInTheMiddle holds that what was said and paid for stays when a
// budget of time ends the run in an answer.
func TestTimeIsUpInTheMiddle(t *testing.T) {
	end := lab{
		script: "layer slow\n  delay events 1s\nmodel\n  rule all\n    say \"A long answer.\" fill=400\n",
		config: func(c *daruma.Config) { c.MaxTime = 10 * time.Second },
	}.play(t).must(t, loop.BudgetExhausted)
	if !strings.HasPrefix(end.Text, "A long answer.") || end.Took != 10*time.Second {
		t.Errorf("after %s the text is %q", end.Took, end.Text)
	}
}

// TestASessionGoesOnAfterEveryReason ends a run in every way and asks again:
// where the cause has passed, the next run completes.
func TestASessionGoesOnAfterEveryReason(t *testing.T) {
	for reason, l := range toReason {
		switch reason {
		case loop.Completed, loop.BlockingLimit: // the cause of a system prompt that is too long stays
			continue
		}
		t.Run(string(reason), func(t *testing.T) {
			// The faults are about the first prompt alone.
			l.script = strings.ReplaceAll(l.script, " always\n", " always\n  when not user \"second\"\n")
			if !strings.Contains(l.script, "model\n") {
				l.script += "model\n  rule all\n    say \"Done.\"\n"
			}
			l.script = strings.Replace(l.script, "model\n", "model\n  rule second\n    when user \"second\"\n    say \"Done.\"\n", 1)
			l.prompts = []string{"The first task.", "The second task."}
			at, config := l.at, l.config
			runs := 0
			l.at = func(a *daruma.Agent, e session.Event) {
				if e.Type() == session.TypeRunStart {
					runs++
				}
				if at != nil && runs == 1 {
					at(a, e)
				}
			}
			l.config = func(c *daruma.Config) {
				if config != nil {
					config(c)
				}
				for i, hook := range c.StopHooks {
					c.StopHooks[i] = func(ctx context.Context, m *message.Message, active bool) (daruma.StopVerdict, error) {
						if runs > 1 {
							return daruma.StopVerdict{}, nil
						}
						return hook(ctx, m, active)
					}
				}
			}
			p := l.play(t)
			if p.ends[0].Reason != reason {
				t.Fatalf("the first run ended with %s", p.ends[0].Reason)
			}
			if end := p.must(t, loop.Completed); end.Text != "Done." {
				t.Errorf("the second run said %q", end.Text)
			}
		})
	}
}
