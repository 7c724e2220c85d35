package cli

import (
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
)

// stream turns events into the lines of --output-format stream-json: events
// in, lines out, nothing else. The first line and the result are made by who
// knows the run: see output.
type stream struct {
	id      func() string // makes the uuid of a line
	session string
	retries int  // of the policy, for records that time alone bounds
	partial bool // stream_event lines too
	replay  bool // what people said too
	hooks   bool // lines about hooks too

	models map[int]string // of the attempts
	part   partial
	busy   bool             // a summary is being written
	held   *message.Message // an error that waits for the reason of the end
}

func (s *stream) head(typ, subtype string) head {
	return head{Type: typ, Subtype: subtype, UUID: s.id(), Session: s.session}
}

// lines is what e has to say.
func (s *stream) lines(e session.Event) []any {
	out := append(s.surface(e), s.status(e)...)
	switch b := e.Body.(type) {
	case *session.Begin:
		s.begin(b)
	case *session.Block:
		out = append(out, s.block(b)...)
	case *session.Delta:
		out = append(out, s.delta(b)...)
	case *session.Commit:
		out = append(out, s.stopPartial(b.Attempt, b.Stop, b.Spent)...)
		out = append(out, s.answer(b.Message, b.Attempt, b.Spent, false)...)
	case *session.Continue:
		out = append(out, s.kept(b)...)
	case *session.Retract:
		s.part = partial{}
		out = append(out, s.retract(b.Attempt, b.Cause, b.Lost, b.Spent))
	case *session.Message:
		out = append(out, s.message(b.Message)...)
	case *session.Result:
		out = append(out, s.result(b))
	case *session.Recovery:
		out = append(out, s.recovery(b)...)
	case *session.Compaction:
		out = append(out, s.compaction(b)...)
	case *session.Permission:
		if !b.Allowed {
			out = append(out, deniedLine{s.head("system", "permission_denied"), b.Name, b.Call, b.By, b.Reason, b.Reason})
		}
	case *session.Hook:
		out = append(out, s.hook(b)...)
	case *session.Notice:
		out = append(out, noticeLine{s.head("system", "informational"), b.Text, string(b.Level)})
	}
	return out
}

// status tells of the one thing that takes long and shows nothing else: a
// summary that is being written.
func (s *stream) status(e session.Event) []any {
	busy := s.busy
	switch b := e.Body.(type) {
	case *session.Begin:
		busy = b.Source == string(model.Compact)
	case *session.Compaction, *session.End:
		busy = false
	}
	if busy == s.busy {
		return nil
	}
	s.busy = busy
	line := statusLine{head: s.head("system", "status")}
	if busy {
		line.Status = "compacting"
	}
	return []any{line}
}

func (s *stream) begin(b *session.Begin) {
	if s.models == nil {
		s.models = map[int]string{}
	}
	s.models[b.Attempt] = b.Model
	s.part = partial{}
}

// messageID names the answer of an attempt in every line about it. The
// provider's own ID is not kept.
func (s *stream) messageID(attempt int) string {
	return fmt.Sprintf("msg_%s_%d", strings.ReplaceAll(s.session, "-", ""), attempt)
}

// answer is what a committed or kept answer says; nothing for the answers to
// helpers, which are no part of the conversation.
func (s *stream) answer(m *message.Message, attempt int, spent session.Spent, aborted bool) []any {
	if m == nil {
		return nil
	}
	stop := nullable(m.Stop)
	model := m.Model
	if model == "" {
		model = s.models[attempt]
	}
	return []any{talkLine{
		head: s.head("assistant", ""), Aborted: aborted, Attempt: attempt,
		Message: apiMessage{
			ID: s.messageID(attempt), Type: "message", Role: "assistant", Model: model,
			Content: apiContent(m.Blocks), Stop: &stop, Usage: toTokens(spent.Usage),
		},
	}}
}

// kept tells of an answer of which a part stays. Where nothing stays, what was
// streamed is void.
func (s *stream) kept(b *session.Continue) []any {
	if b.Message == nil {
		s.part = partial{}
		return []any{s.retract(b.Attempt, b.Cause, b.Lost, b.Spent)}
	}
	out := s.stopPartial(b.Attempt, b.Message.Stop, b.Spent)
	return append(out, s.answer(b.Message, b.Attempt, b.Spent, cutByAbort(b.Cause))...)
}

// cutByAbort reports whether cause, the text of an outcome, is an abort.
func cutByAbort(cause string) bool {
	return strings.HasPrefix(cause, loop.Outcome{Kind: loop.Aborted}.Name())
}

func (s *stream) retract(attempt int, cause string, chars int, spent session.Spent) retractLine {
	return retractLine{
		head: s.head("system", "retract"), Attempt: attempt, Message: s.messageID(attempt), Cause: cause,
		Lost: session.Lost{Usage: spent.Usage, USD: spent.USD, Unknown: spent.Unknown, Took: spent.Total, Chars: chars},
	}
}

// message tells of what daruma says to the model, and of errors; what people
// said they know, unless a recording is played.
func (s *stream) message(m *message.Message) []any {
	switch {
	case m == nil:
		return nil
	case m.Failure != nil:
		s.held = m
		return nil
	case m.Role != message.User || !m.Synthetic && !s.replay:
		return nil
	}
	return []any{talkLine{
		head: s.head("user", ""), Synthetic: m.Synthetic, Replay: !m.Synthetic,
		Message: apiMessage{Role: "user", Content: apiContent(m.Blocks)},
	}}
}

// surface gives the error that was held back: now the reason of the end is
// known, which some categories depend on.
func (s *stream) surface(e session.Event) []any {
	m := s.held
	if m == nil {
		return nil
	}
	s.held = nil
	category := m.Failure.Kind.Category()
	if end, ok := e.Body.(*session.End); ok && end.Reason == loop.OutputLimit {
		category = failure.CategoryMaxOutputTokens
	}
	stop := nullable("stop_sequence")
	return []any{talkLine{
		head: s.head("assistant", ""), Error: string(category),
		Message: apiMessage{
			ID: s.messageID(0), Type: "message", Role: "assistant", Model: "<synthetic>",
			Content: apiContent(m.Blocks), Stop: &stop, Usage: &apiTokens{},
		},
	}}
}

// hook tells of a hook that has ended: that it began, and what came of it.
func (s *stream) hook(b *session.Hook) []any {
	if !s.hooks {
		return nil
	}
	started := hookLine{head: s.head("system", "hook_started"), ID: s.id(), Name: b.Name, Event: b.Event}
	ended := started
	ended.head = s.head("system", "hook_response")
	ended.Stdout, ended.Stderr, ended.Outcome = b.Stdout, b.Stderr, b.Outcome
	ended.Output = b.Stdout + b.Stderr
	if b.Exit >= 0 {
		ended.Exit = &b.Exit
	}
	return []any{started, ended}
}

func (s *stream) result(b *session.Result) talkLine {
	output := b.Output
	if output == nil && b.Block.IsError {
		output = "Error: " + b.Block.PlainText()
	}
	return talkLine{
		head: s.head("user", ""), Output: output,
		Message: apiMessage{Role: "user", Content: apiContent([]message.Block{b.Block})},
	}
}

func (s *stream) recovery(b *session.Recovery) []any {
	var out []any
	if b.Layer == "request" && b.Decision == "retry" && b.State == session.Running {
		line := retryLine{
			Type: "system", Subtype: "api_retry", Attempt: b.Attempt, Most: b.Of, Delay: b.Delay.Milliseconds(),
			Error: b.Cause.Category(), UUID: s.id(), Session: s.session,
		}
		if line.Most == 0 {
			line.Most = s.retries
		}
		if b.Status != 0 {
			line.Status = &b.Status
		}
		out = append(out, line)
	}
	return append(out, recoveryLine{s.head("system", "recovery"), b})
}

// compaction is a boundary where other words stand for what went away. Where
// parts only became smaller, the conversation is the same.
func (s *stream) compaction(b *session.Compaction) []any {
	if b.Rung != loop.Summary.String() && b.Rung != loop.Skeleton.String() {
		text := fmt.Sprintf("the conversation was made smaller (%s): about %s tokens → %s", b.Rung, thousands(b.Before), thousands(b.After))
		return []any{noticeLine{s.head("system", "informational"), text, string(session.Info)}}
	}
	out := []any{compactLine{s.head("system", "compact_boundary"), compactData{"auto", b.Before, b.After, b.Rung, b.Cause}}}
	for _, m := range b.New {
		if m.Synthetic {
			out = append(out, s.message(m)...)
		}
	}
	return out
}
