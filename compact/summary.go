package compact

import (
	"errors"
	"strings"

	"github.com/daruma-agent/daruma/message"
)

// The ways in which a summary is no summary.
var (
	ErrEmpty    = errors.New("the summary is empty")
	ErrCut      = errors.New("the summary is no whole answer")
	ErrInflated = errors.New("the summary is as long as what it stands for")
)

// minSummary is the shortest text that can carry a task on, in characters.
const minSummary = 40

// Judge tells whether text can stand for old. whole says that the model ended it
// by itself, and with nothing but text.
func Judge(text string, whole bool, old []*message.Message) error {
	switch {
	case len(strings.TrimSpace(text)) < minSummary:
		return ErrEmpty
	case !whole:
		return ErrCut
	case message.EstimateText(text) > message.Estimate(old)*4/5:
		return ErrInflated
	}
	return nil
}

const summaryHead = "This conversation was shortened. The messages of the user above are complete; " +
	"what happened after them is summarised here.\n\n"

const summaryEnd = "\n\nGo on with the task from here. Do not mention this summary; read a file again when its exact content matters."

// WithSummary builds the smaller history: the user's words, the summary with
// what is carried over, the tail.
func WithSummary(p Plan, id, summary string, carry []string) []*message.Message {
	text := summaryHead + strings.TrimSpace(summary) + join(carry) + summaryEnd
	return assemble(p, message.NewSynthetic(id, text))
}

const skeletonHead = "The earlier part of this conversation was left out because it no longer fits; no summary could be made. " +
	"The user's messages above are complete. Look at the files again before you rely on what you remember."

// Skeleton builds the smallest history that carries the task on without asking
// a model: the user's words, what is carried over, what was called, the tail.
func Skeleton(p Plan, id string, carry []string) []*message.Message {
	return assemble(p, message.NewSynthetic(id, skeletonHead+called(p.Old)+join(carry)))
}

func assemble(p Plan, m *message.Message) []*message.Message {
	out := make([]*message.Message, 0, len(p.Words)+1+len(p.Tail))
	out = append(out, p.Words...)
	out = append(out, m)
	return append(out, p.Tail...)
}

func join(carry []string) string {
	var b strings.Builder
	for _, c := range carry {
		if c = strings.TrimSpace(c); c != "" {
			b.WriteString("\n\n" + c)
		}
	}
	return b.String()
}

// called lists the newest calls of old, one a line.
func called(old []*message.Message) string {
	const most, width = 40, 160
	var lines []string
	for _, m := range old {
		for _, c := range m.Calls() {
			input := string(c.Input)
			if len(input) > width {
				input = strings.ToValidUTF8(input[:width], "") + "…"
			}
			lines = append(lines, "- "+c.Name+" "+input)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n\nCalls so far:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}
