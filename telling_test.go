package daruma_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// tell writes events as lines that a person can review: the time since the
// story began, the turn, and what happened.
func (s *story) tell(events []session.Event) {
	var streamed int
	for _, e := range events {
		if d, ok := e.Body.(*session.Delta); ok {
			streamed += len(d.Text)
			continue
		}
		if streamed > 0 {
			fmt.Fprintf(&s.got, "%8s %d   … %d characters\n", "", e.Turn, streamed)
			streamed = 0
		}
		if line := tellOne(e); line != "" {
			fmt.Fprintf(&s.got, "%8s %d %s\n", e.Time.Sub(s.began).Round(time.Millisecond), e.Turn, line)
		}
	}
}

func tellOne(e session.Event) string {
	switch b := e.Body.(type) {
	case *session.Start:
		return "session " + b.Model + " " + strings.Join(b.Fallbacks, " ")
	case *session.RunStart:
		return "run"
	case *session.Decision:
		return "  (" + b.Outcome + " => " + b.Step + ")"
	case *session.Begin:
		return fmt.Sprintf("attempt %d: %s for %s, %d messages, max_tokens %d, try %d", b.Attempt, b.Model, b.Source, b.Messages, b.MaxTokens, b.Try)
	case *session.Block:
		return ""
	case *session.Waiting:
		return ""
	case *session.Commit:
		if b.Message == nil {
			return fmt.Sprintf("commit %d: helper, %s", b.Attempt, b.Stop)
		}
		return fmt.Sprintf("commit %d: %s %s", b.Attempt, b.Stop, tellMessage(b.Message))
	case *session.Continue:
		return fmt.Sprintf("continue %d: %s, kept %s", b.Attempt, b.Cause, tellMessage(b.Message))
	case *session.Retract:
		return fmt.Sprintf("retract %d: %s, %d characters lost", b.Attempt, b.Cause, b.Lost)
	case *session.Recovery:
		text := fmt.Sprintf("recovery %d %s: %s%s by %s, %d of %d", b.ID, b.State, b.Decision, tellDelay(b), b.Rule, b.Attempt, b.Of)
		if b.To != "" {
			text += ", " + b.From + " -> " + b.To
		}
		return text
	case *session.Message:
		return tellMessage(b.Message)
	case *session.Intent:
		return "intent " + b.Name + " " + b.Effect
	case *session.Result:
		return fmt.Sprintf("result %s error=%v %s", b.Name, b.Block.IsError, short(b.Block.PlainText()))
	case *session.Results:
		return fmt.Sprintf("results of %d calls", len(b.Calls))
	case *session.Permission:
		return fmt.Sprintf("permission %s allowed=%v by %s", b.Name, b.Allowed, b.By)
	case *session.Compaction:
		return fmt.Sprintf("compaction by %s: %d messages dropped, %d new, %d in all", b.Rung, b.Dropped, len(b.New), len(b.Order))
	case *session.Notice:
		return "notice: " + b.Text
	case *session.Repair:
		return fmt.Sprintf("repair %v", b.Fixes)
	case *session.End:
		return fmt.Sprintf("END %s after %d turns, %d recovered, text %s", b.Reason, b.Turns, b.Recovered, short(b.Text))
	}
	return string(e.Type())
}

func tellDelay(b *session.Recovery) string {
	if b.Delay == 0 {
		return ""
	}
	return " after " + b.Delay.String()
}

func tellMessage(m *message.Message) string {
	if m == nil {
		return "nothing"
	}
	var parts []string
	for i := range m.Blocks {
		b := &m.Blocks[i]
		switch b.Type {
		case message.ToolUse:
			parts = append(parts, b.Name+" "+short(string(b.Input)))
		case message.ToolResult:
			parts = append(parts, "result "+short(b.PlainText()))
		default:
			parts = append(parts, string(b.Type)+" "+short(b.Text))
		}
	}
	who := string(m.Role)
	if m.Synthetic {
		who = "synthetic"
	}
	if m.Failure != nil {
		who = "failure " + string(m.Failure.Kind)
	}
	return who + "[" + strings.Join(parts, ", ") + "]"
}

func short(s string) string {
	const most = 70
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
