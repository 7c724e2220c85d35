package daruma_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/model/anthropic"
)

// TestManualCompaction summarises on demand, with the person's instruction, and
// the session goes on.
func TestManualCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []*model.Request
		agent, finish := simulated(t, task, func(cfg *daruma.Config) {
			cfg.Wire = &witness{Client: cfg.Wire.(*anthropic.Client), sent: &sent}
		})
		goesOn(t, agent)
		before := len(agent.History().Messages)
		result, err := daruma.Collect(agent.Compact(t.Context(), "Keep the name of the file."))
		if err != nil || result.Reason != loop.Completed {
			t.Fatalf("the compaction ended with %v, %+v", err, result)
		}
		last := sent[len(sent)-1]
		if text := last.Messages[len(last.Messages)-1].PlainText(); last.Source != model.Compact || !strings.Contains(text, "Keep the name of the file.") {
			t.Errorf("the summary was asked for with %q", text)
		}
		if after := len(agent.History().Messages); after >= before {
			t.Errorf("%d messages before, %d after", before, after)
		}
		goesOn(t, agent)
		checkViolations(t, finish())
	})
}
