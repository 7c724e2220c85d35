package daruma_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// backgrounder begins a task that ends after a while, and waits for nothing.
type backgrounder struct{ began, told time.Time }

func (*backgrounder) Spec() model.Tool {
	return model.Tool{Name: "Start", Schema: jsontext.Value(`{"type":"object"}`)}
}
func (*backgrounder) Effect(jsontext.Value) tool.Effect { return tool.Unsafe }
func (*backgrounder) Access(jsontext.Value) tool.Access { return tool.Access{Kind: tool.AccessNone} }
func (b *backgrounder) Run(context.Context, tool.Call) tool.Result {
	b.began = time.Now()
	r := tool.Text("Task task-7 runs.")
	r.Task = &tool.Task{ID: "task-7", Path: "/out/task-7.txt"}
	return r
}

// ended is the Config.Ended of the task, which lasts as long.
func (b *backgrounder) ended(lasts time.Duration) func() []tool.Task {
	return func() []tool.Task {
		if b.began.IsZero() || !b.told.IsZero() || time.Since(b.began) < lasts {
			return nil
		}
		b.told = time.Now()
		return []tool.Task{{ID: "task-7", Ended: true, Text: "Task task-7 has ended with exit code 3. Its output is in /out/task-7.txt."}}
	}
}

const background = `step slowly
  when purpose main, called Read
  delay headers 20s
model
  rule start
    when not called Start
    call Start x=1
  rule look
    when not called Read
    call Read file_path="a"
  rule look-again
    when not called Read "/b"
    call Read file_path="/b"
  rule done
    say "All done."
`

// notes are the messages that say that the task is over, in all that was sent.
func notes(m []*message.Message, what string) (n int) {
	for _, m := range m {
		if strings.Contains(m.PlainText(), what) && m.Synthetic {
			n++
		}
	}
	return n
}

// TestBackgroundEnd: the next request after the end of a task says so, once, and
// what the journal amounts to is what is in memory.
func TestBackgroundEnd(t *testing.T) {
	b := &backgrounder{}
	p := lab{script: background, prompts: []string{"Do the task.", "And now?"}, config: func(cfg *daruma.Config) {
		var err error
		if cfg.Tools, err = cfg.Tools.With(b); err != nil {
			t.Fatal(err)
		}
		cfg.Ended = b.ended(10 * time.Second)
	}}.play(t)
	p.must(t, loop.Completed)
	if n := notes(p.held, "has ended with exit code 3"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	if b.told.Sub(b.began) != 20*time.Second {
		t.Errorf("it was told after %s", b.told.Sub(b.began))
	}
	h := session.Fold(p.events)
	if len(h.Tasks) != 0 || len(h.Messages) != len(p.held) {
		t.Errorf("the journal amounts to %d tasks and %d messages", len(h.Tasks), len(h.Messages))
	}
	last := p.sent[len(p.sent)-1].Messages
	if err := message.Check(last, message.Rules{}); err != nil {
		t.Error(err)
	}
}

// TestBackgroundGone: a session that goes on tells once that the tasks of before
// are gone, wherever its last life ended; in the life after that it is known.
func TestBackgroundGone(t *testing.T) {
	b := &backgrounder{}
	p := lab{script: background, config: func(cfg *daruma.Config) {
		var err error
		if cfg.Tools, err = cfg.Tools.With(b); err != nil {
			t.Fatal(err)
		}
		cfg.Ended = b.ended(time.Hour)
	}}.play(t)
	p.must(t, loop.Completed)
	begun := false
	for i := range p.events { // the process dies behind each event
		before := session.Fold(p.events[:i+1])
		if r, ok := p.events[i].Body.(*session.Result); ok && r.Task != nil {
			begun = true
		}
		if begun != (len(before.Tasks) == 1) {
			t.Fatalf("behind %s: %d tasks", p.events[i].Type(), len(before.Tasks))
		}
		if !begun || p.events[i].Seq == 0 {
			continue
		}
		events := slices.Clone(p.events[:i+1])
		for life := range 2 {
			synctest.Test(t, func(t *testing.T) {
				agent, finish := simulated(t, "model\n  rule done\n    say \"Good.\"\n", func(cfg *daruma.Config) {
					cfg.History, cfg.Ended = before, func() []tool.Task { return nil }
				})
				if life == 0 && i%2 == 0 { // a run that asks nobody tells nobody
					interrupted, stop := context.WithCancel(t.Context())
					stop()
					for e, err := range agent.Run(interrupted, "Not yet.") {
						if err != nil {
							t.Fatal(err)
						}
						events = append(events, e)
					}
				}
				for e, err := range agent.Run(t.Context(), "Go on.") {
					if err != nil {
						t.Fatal(err)
					}
					events = append(events, e)
				}
				laws(t, events, agent, finish())
			})
			if n := notes(before.Messages, "Task task-7 is gone"); n != 1 {
				t.Fatalf("behind %s, in life %d: told %d times", p.events[i].Type(), life+2, n)
			}
			if notes(before.Messages, "/out/task-7.txt") != 1 || len(before.Tasks) != 0 { // the agent works on this history
				t.Error("where its output is was not told, or the task counts as running")
			}
		}
	}
	if !begun {
		t.Error("no task was begun")
	}
}
