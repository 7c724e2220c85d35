package daruma

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/compact"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
)

// interruptNote tells the model, at its next turn, why the last one ended.
const interruptNote = "[The user interrupted you here.]"

// finish writes the end of the run: what must be told to the model, the error
// that was withheld, and the one last event.
func (r *run) finish(step loop.Step) {
	aborted := step.Reason == loop.AbortedStreaming || step.Reason == loop.AbortedTools
	state := session.NotHealed
	if aborted {
		state = session.Cancelled
	}
	r.close(state)
	if aborted && r.base.Err() != nil && r.aborted().Cause == loop.ByUser && !r.noted() {
		r.say(message.NewSynthetic(r.history.NextID(), interruptNote))
	}
	if step.Reason == loop.AbortedTools && r.turn >= r.cfg.MaxTurns {
		r.notice(session.Warning, "the limit of %d turns is reached as well", r.cfg.MaxTurns) // (R85)
	}
	if aborted && r.cfg.Cleanup != nil {
		r.cleanUp()
	}
	if step.Reason == loop.Refusal {
		r.leaveOut()
	}
	if step.Reason == loop.Completed {
		for _, text := range r.taken {
			r.emit(&session.Prompt{Text: text, State: session.PromptCompleted})
		}
	}
	for _, text := range r.takeQueued() {
		r.emit(&session.Prompt{Text: text, State: session.PromptQueued}) // typed, not answered: it is kept
	}
	end := &session.End{
		Reason: step.Reason, IsError: step.Reason.IsError(), Text: joinParts(r.parts), Stop: r.stopped, Turns: r.turn,
		Took: time.Since(r.began), API: r.bill.api, Total: r.bill.total, Wasted: r.bill.waste,
		Recovered: r.healed, Denials: r.denials, Next: nextStep(step.Reason), Name: r.history.Name,
	}
	switch {
	case step.Reason == loop.ToolDeferred:
		end.Deferred, end.Stop = r.deferred, string(loop.ToolDeferred)
	case r.putOff: // it still waits
		end.Deferred = r.history.End.Deferred
	}
	if step.Surface {
		end.Failure = r.surfaced(step)
		text := end.Failure.Text(false)
		if end.Failure.Kind == failure.Unknown && r.failure != end.Failure {
			text = end.Failure.Message // our own words, and nothing failed
		}
		r.say(message.NewFailure(r.history.NextID(), text, end.Failure))
	}
	if r.later > 0 && step.Surface {
		end.NextAt = time.Now().Add(r.later).UTC()
		end.Next = fmt.Sprintf("go on after %s (in %s)", end.NextAt.Local().Format("15:04:05"), r.later.Round(time.Second))
	}
	r.mourn(end)
	r.emit(end)
}

// noted reports whether the model was told of an interrupt since it last
// answered: more of the same would only swell the prompt.
func (r *run) noted() bool {
	for _, m := range slices.Backward(r.history.Messages) {
		switch {
		case m.Role == message.Assistant && m.Failure == nil:
			return false
		case m.Synthetic && m.PlainText() == interruptNote:
			return true
		}
	}
	return false
}

// cleanupTime bounds what runs after an interrupt: the person waits.
const cleanupTime = 10 * time.Second

func (r *run) cleanUp() {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.base), cleanupTime)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			r.notice(session.Warning, "cleaning up panicked: %v", p)
		}
	}()
	if err := r.cfg.Cleanup(ctx); err != nil {
		r.notice(session.Warning, "cleaning up failed: %v", err)
	}
}

// leaveOut takes the newest round out of the conversation: what was refused
// once is refused with every later request that holds it (R93). The journal
// keeps it.
func (r *run) leaveOut() {
	msgs := r.history.Messages
	cut := compact.LastRound(msgs)
	c := &session.Compaction{Rung: "refusal", Cause: string(loop.Refusal), Before: message.Estimate(msgs), After: message.Estimate(msgs[:cut]), Dropped: len(msgs) - cut}
	for _, m := range msgs[:cut] {
		c.Order = append(c.Order, m.ID)
	}
	r.emit(c)
}

// surfaced is the failure that is shown: the one that nothing healed, or one
// that says why the run ended without any.
func (r *run) surfaced(step loop.Step) *failure.Error {
	if r.failure != nil && r.failure.Kind != failure.Aborted {
		return r.failure
	}
	kinds := map[loop.Reason]failure.Kind{
		loop.BlockingLimit: failure.ContextOverflow, loop.PromptTooLong: failure.ContextOverflow,
		loop.Refusal: failure.ContentPolicy,
	}
	e := &failure.Error{Kind: failure.Unknown, Retry: failure.RetryNo, Message: reasonWords[step.Reason]}
	if k, ok := kinds[step.Reason]; ok {
		e.Kind = k
	}
	return e
}

// reasonWords says each end in words.
var reasonWords = map[loop.Reason]string{
	loop.Completed:          "completed",
	loop.MaxTurns:           "the limit of turns is reached",
	loop.BudgetExhausted:    "the budget is used up",
	loop.PromptTooLong:      "the conversation does not fit the model's window and could not be made smaller",
	loop.ImageError:         "an image or document in the conversation is not accepted",
	loop.OutputLimit:        "the answer is longer than the output limit, even with its continuations",
	loop.APIError:           "the request failed",
	loop.ModelError:         "the model gave no usable answer",
	loop.Refusal:            "the model refused",
	loop.AbortedStreaming:   "interrupted while the model answered",
	loop.AbortedTools:       "interrupted while tools ran",
	loop.StopHookPrevented:  "a stop hook did not accept the answer",
	loop.HookStopped:        "a hook stopped the run",
	loop.BlockingLimit:      "the request would not fit the model's window",
	loop.RapidRefillBreaker: "the window fills again right after each compaction",
	loop.MalformedExhausted: "the model's tool calls cannot be read",
	loop.ToolLoop:           "the model repeats the same call",
	loop.SetupFailed:        "the run could not start",

	loop.StructuredRetryExhausted: "the answer does not have the form that was asked for",
	loop.ToolDeferred:             "a tool call was put off",
}

// nextStep is one line that tells a person what to do now.
func nextStep(reason loop.Reason) string {
	switch reason {
	case loop.Completed:
		return ""
	case loop.MaxTurns:
		return "continue the session, or allow more turns"
	case loop.PromptTooLong, loop.BlockingLimit, loop.RapidRefillBreaker:
		return "start a new session for the rest of the task, or use a model with a larger window"
	case loop.ToolDeferred:
		return "continue the session once its hook can decide: it is asked about the call again"
	case loop.OutputLimit:
		return "continue the session and ask for the rest in smaller parts, or raise the output limit"
	case loop.AbortedStreaming, loop.AbortedTools:
		return "continue the session when you are ready"
	case loop.ImageError:
		return "continue the session without that file, or with a smaller one"
	case loop.Refusal:
		return "rephrase the request, or start a new session"
	}
	return "continue the session to try again"
}

// joinParts joins an answer over its continuations. A model that repeats the
// end of the part before is trimmed.
func joinParts(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p[overlap(b.String(), p):])
	}
	return b.String()
}

// Bounds of what counts as a repetition: shorter ones are chance.
const (
	leastOverlap = 12
	mostOverlap  = 4000
)

// overlap is how much of the beginning of next repeats the end of prev.
func overlap(prev, next string) int {
	for n := min(len(prev), len(next), mostOverlap); n >= leastOverlap; n-- {
		if prev[len(prev)-n:] == next[:n] {
			return n
		}
	}
	return 0
}
