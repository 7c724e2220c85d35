package daruma_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
)

// TestRefusalModel asks the named model what the first one refused, and stays
// with it for the session (R93).
func TestRefusalModel(t *testing.T) {
	p := lab{
		script:  "step no always\n  when model \"claude-a\"\n  stop refusal\nmodel\n  rule all\n    say \"Said by ${model}.\"\n",
		prompts: []string{"Do it.", "And more."},
		config:  func(c *daruma.Config) { c.RefusalModel = "claude-r" },
	}.play(t)
	for _, end := range p.ends {
		if end.Reason != loop.Completed || end.Text != "Said by claude-r." {
			t.Errorf("%s: %q", end.Reason, end.Text)
		}
	}
	if n := len(p.report.Requests); n != 3 {
		t.Errorf("%d requests, want one refused and two answered", n)
	}
}

// TestCleanup runs after an interrupt, before the last event, and what it
// returns is a notice.
func TestCleanup(t *testing.T) {
	for name, cleanup := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("the lock is gone") },
		"panic": func(context.Context) error { panic("oops") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent, finish := simulated(t, task, func(c *daruma.Config) { c.Cleanup = cleanup })
				var events []session.Event
				for e, err := range agent.Run(t.Context(), "Do it.") {
					if err != nil {
						t.Fatal(err)
					}
					if events = append(events, e); len(events) == 6 {
						agent.Interrupt()
					}
				}
				noticed := slices.ContainsFunc(events, func(e session.Event) bool { return e.Type() == session.TypeNotice })
				if end := endOf(t, events); end.Reason != loop.AbortedStreaming || !noticed {
					t.Errorf("the run ended with %s, noticed: %v", end.Reason, noticed)
				}
				goesOn(t, agent)
				checkViolations(t, finish())
			})
		})
	}
}
