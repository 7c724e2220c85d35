package daruma

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// input is what hooks are told of an event.
func (r *run) input(body hook.Body) hook.Input {
	in := hook.Input{Body: body, Common: hook.Common{
		Session: cmp.Or(r.cfg.parent, r.history.Session), Dir: r.cfg.Dir, PermissionMode: r.mode(),
	}}
	if r.cfg.Journal != nil {
		in.Transcript = r.cfg.Journal.Path()
	}
	if r.cfg.depth > 0 {
		in.AgentID, in.AgentType = r.history.Session, generalPurpose
	}
	return in
}

// ask asks the hooks, and takes in what they say that is not about the event.
func (r *run) ask(body hook.Body) hook.Output { return r.askAbout(r.input(body)) }

func (r *run) askAbout(in hook.Input) hook.Output {
	if !r.cfg.Hooks.Matches(in) {
		return hook.Output{}
	}
	out := r.cfg.Hooks.Run(r.ctx, in)
	out.Reason, out.Title = r.cfg.Redact.Known(out.Reason), r.cfg.Redact.Known(out.Title)
	out.StopReason, out.FirstMessage = r.cfg.Redact.Known(out.StopReason), r.cfg.Redact.Known(out.FirstMessage)
	r.hear(out)
	return out
}

// tell tells the hooks of what they cannot change, and waits for none.
func (r *run) tell(body hook.Body) {
	if in := r.input(body); r.cfg.Hooks.Matches(in) {
		r.cfg.Hooks.Start(in)
	}
}

// hear takes in what hooks say besides their word on the event: to the person,
// to the model, and that the run shall end.
func (r *run) hear(out hook.Output) {
	for _, one := range out.Results {
		r.emit(&session.Hook{
			Event: string(one.Entry.Event), Name: r.cfg.Redact.Known(one.Entry.Name), Outcome: one.Outcome, Exit: one.ExitCode,
			Chars: one.Chars, Took: one.Took, Stdout: r.cfg.Redact.Known(one.Stdout), Stderr: r.cfg.Redact.Known(one.Stderr),
		})
	}
	for _, t := range out.Notices { // they name the hook themselves
		r.notice(session.Warning, "%s", t.Text)
	}
	for _, t := range out.System {
		r.notice(session.Info, "%s: %s", t.Hook, t.Text)
	}
	if out.Title != "" && out.Title != r.history.Name {
		r.emit(&session.Name{Name: out.Title})
	}
	for _, t := range out.Context {
		r.context = append(r.context, t.Hook+" says: "+r.cfg.Redact.Known(t.Text))
	}
	if out.Stop && r.halt == "" {
		r.halt = cmp.Or(out.StopReason, "no reason was given")
		r.notice(session.Warning, "a hook ended the run: %s", r.halt)
	}
}

// passOn gives the model what hooks said, at a place where that may stand.
func (r *run) passOn() {
	if len(r.context) > 0 && !r.putOff {
		r.say(message.NewSynthetic(r.history.NextID(), strings.Join(r.context, "\n\n")))
		r.context = nil
	}
}

// greet is the beginning of a session, and what hooks want to be said first; they
// may give a prompt where the user gave none.
func (r *run) greet(source string) {
	out := r.ask(hook.SessionStartInput{Source: source, Model: r.modelName(), Title: r.history.Name})
	r.passOn()
	if out.FirstMessage != "" && source != "compact" && r.unprompted && !r.putOff {
		r.say(message.NewText(r.history.NextID(), out.FirstMessage))
	}
}

// admit puts a prompt into the conversation, unless a hook rejects it.
func (r *run) admit(text string) bool {
	var out hook.Output
	if r.cfg.depth == 0 { // what an agent asks another one is no user's prompt
		out = r.ask(hook.UserPromptSubmitInput{Text: text, Title: r.history.Name})
	}
	if r.ctx.Err() != nil && !out.Block {
		out = hook.Output{} // the run ends; the prompt is kept
	}
	if out.Block {
		r.context = nil
		r.emit(&session.Prompt{Text: text, State: session.PromptRejected})
		r.notice(session.Warning, "a hook rejected the prompt: %s", cmp.Or(out.Reason, "no reason was given"))
		return false
	}
	if !out.SuppressPrompt || len(r.context) == 0 {
		r.say(message.NewText(r.history.NextID(), text))
	} else {
		r.emit(&session.Prompt{Text: text, State: session.PromptCompleted}) // it waits no more
	}
	r.passOn()
	return true
}

// preToolUse asks the hooks about a call that could run.
func (r *run) preToolUse(c *call) (q permission.Question) {
	out := r.ask(hook.PreToolUseInput{ToolCall: c.forHooks()})
	if r.ctx.Err() != nil {
		return q // the call will not run, and a hook that was cut refused nothing
	}
	switch out.Permission {
	case hook.Deny:
		c.refuse(tool.ClassHook, cmp.Or(out.Reason, "a hook refused this call, without a reason."))
		c.known.Denied = true
		return q
	case hook.Defer:
		if _, calls := r.history.Open(); r.cfg.Defer && r.cfg.depth == 0 && len(calls) == 1 && r.halt == "" {
			r.deferred = &session.Deferred{ID: c.ID, Name: c.Name, Input: r.told(c)}
			r.notice(session.Info, "a hook puts the call of %s off: %s", c.Name, cmp.Or(out.Reason, "no reason was given"))
			return q
		}
		c.refuse(tool.ClassHook, "a hook puts this call off, which cannot be done here, so it was not run. "+out.Reason)
		c.known.Denied = true
		return q
	case hook.Ask:
		q.Hook = permission.Ask
	case hook.Allow:
		q.Hook = permission.Allow
	}
	q.HookReason = out.Reason
	if out.Input != nil {
		r.change(c, out.Input)
	}
	if r.halt != "" && c.known == nil {
		c.refuse(tool.ClassHook, "This call was not run: a hook ended the run. "+r.halt)
	}
	return q
}

func (c *call) forHooks() hook.ToolCall {
	return hook.ToolCall{Name: c.Name, Input: c.Input, ID: c.ID}
}

// asker is who answers the question that q is: a hook, or else the person.
func (r *run) asker(p *permission.Policy, q permission.Question) (ask permission.AskFunc, updates jsontext.Value) {
	d := p.Consider(q)
	if d.Behavior != permission.Ask {
		return nil, nil
	}
	in := hook.PermissionRequestInput{ToolCall: hook.ToolCall{Name: q.Call.Name, Input: q.Call.Input}}
	if len(d.Suggestions) > 0 {
		in.Suggestions, _ = json.Marshal([]permission.Update{permission.Remember(d.Suggestions)})
	}
	if a := r.ask(in).Answer; a != nil {
		answer := permission.Answer{Behavior: permission.Deny, Message: a.Message, Interrupt: a.Interrupt}
		if a.Allow {
			answer = permission.Answer{Behavior: permission.Allow, Input: a.Input}
			updates = a.Updates
		}
		return func(context.Context, permission.Question) (permission.Answer, error) { return answer, nil }, updates
	}
	if r.cfg.Ask != nil {
		r.tell(hook.NotificationInput{Message: "permission is needed: " + q.Call.Name, Type: "permission_prompt"})
	}
	return r.cfg.Ask, nil
}

// relax applies the changes of the permissions that a hook answered with.
func (r *run) relax(updates jsontext.Value) {
	var list []permission.Update
	if len(updates) > 0 && json.Unmarshal(updates, &list) != nil {
		r.notice(session.Warning, "the permission updates of a hook cannot be read and are left out")
	}
	for _, u := range list {
		r.apply(u)
	}
}

// postToolUse tells the hooks what came of a call that ran, and lets them change
// the result. It runs beside other calls.
func (r *run) postToolUse(ctx context.Context, c *call, u *update) {
	ms := u.took.Milliseconds()
	if !u.result.IsError {
		in := r.input(hook.PostToolUseInput{ToolCall: c.forHooks(), Response: r.response(u), DurationMS: ms})
		if r.cfg.Hooks.Matches(in) {
			u.heard = r.cfg.Hooks.Run(ctx, in)
			u.result = r.cfg.Tools.Rewritten(c.Call, *u.result, u.heard.ToolOutput)
		}
		return
	}
	cut := ctx.Err() != nil
	text := plain(u.result.Content)
	in := r.input(hook.PostToolUseFailureInput{ToolCall: c.forHooks(), Error: text, IsInterrupt: cut, DurationMS: ms})
	switch {
	case !r.cfg.Hooks.Matches(in):
	case cut:
		r.cfg.Hooks.Start(in) // nobody waits any more
	default:
		u.heard = r.cfg.Hooks.Run(ctx, in)
	}
}

// response is a result as hooks see it.
func (r *run) response(u *update) jsontext.Value {
	var v any = u.result.Output
	if v == nil {
		v = plain(u.result.Content)
	}
	data, err := json.Marshal(v, session.JSONOptions())
	if err != nil {
		data, _ = json.Marshal(plain(u.result.Content))
	}
	return data
}

func plain(content []message.Block) string {
	b := message.Block{Type: message.ToolResult, Content: content}
	return b.PlainText()
}

// object takes in what a hook objects to in a result: the model is told.
func (r *run) object(out hook.Output) {
	r.hear(out)
	if out.Block && out.Reason != "" {
		r.context = append(r.context, r.cfg.Redact.Known(out.Reason))
	}
}

// afterBatch tells the hooks that all calls of an answer have their results.
func (r *run) afterBatch(made []message.Block) {
	if r.ctx.Err() != nil || !r.cfg.Hooks.Any(hook.PostToolBatch) {
		return
	}
	var in hook.PostToolBatchInput
	for _, b := range made {
		result := r.history.Results[b.ID]
		response, _ := json.Marshal(result.PlainText())
		in.Calls = append(in.Calls, hook.AnsweredCall{
			ToolCall: hook.ToolCall{Name: b.Name, Input: b.Input, ID: b.ID}, Response: response,
		})
	}
	if out := r.ask(in); out.Block && r.halt == "" {
		r.halt = cmp.Or(out.Reason, "no reason was given")
		r.notice(session.Warning, "a hook ended the run behind the calls: %s", r.halt)
	}
}

// stopping asks the hooks whether a final answer is accepted.
func (r *run) stopping() StopVerdict {
	used, _ := r.core.Used(r.state, loop.HookBlocked)
	var body hook.Body = hook.StopInput{Active: used > 0, LastMessage: joinParts(r.parts)}
	if r.cfg.depth > 0 {
		sub := hook.SubagentStopInput{Active: used > 0, LastMessage: joinParts(r.parts)}
		if r.cfg.Journal != nil {
			sub.Transcript = r.cfg.Journal.Path()
		}
		body = sub
	}
	out := r.ask(body)
	switch {
	case out.Stop:
		return StopVerdict{Stop: true}
	case out.Block:
		return StopVerdict{Block: cmp.Or(out.Reason, "A hook does not accept the answer, and gave no reason.")}
	}
	return StopVerdict{}
}

// mourn tells the hooks that the run ends with a failure (R58).
func (r *run) mourn(end *session.End) {
	if end.Failure == nil {
		return
	}
	in := hook.StopFailureInput{
		Error: string(end.Failure.Kind.Category()), Details: end.Failure.Message, LastMessage: end.Failure.Text(false),
		Attempts: r.history.Attempts,
	}
	if !end.NextAt.IsZero() {
		in.NextAt = end.NextAt.Format(time.RFC3339)
	}
	r.tell(in)
}

// beforeCompact asks whether the conversation may be summarised.
func (r *run) beforeCompact(trigger string) error {
	if out := r.ask(hook.PreCompactInput{Trigger: trigger, Instructions: r.instruction}); out.Block {
		r.uncompacted = true
		return fmt.Errorf("a hook keeps it as it is: %s", cmp.Or(out.Reason, "no reason was given"))
	}
	return nil
}

// trigger says who wants the conversation summarised.
func (r *run) trigger() string {
	if r.manual {
		return "manual"
	}
	return "auto"
}

// afterCompact tells the hooks of a summary; those that begin sessions may say
// again what the model must know.
func (r *run) afterCompact(step loop.Step) {
	if step.Rung != loop.Summary && step.Rung != loop.Skeleton {
		return
	}
	r.ask(hook.PostCompactInput{Trigger: r.trigger(), Summary: r.summarisedAs})
	if r.cfg.depth == 0 {
		r.greet("compact")
	}
}

// longestHookWait bounds how long a hook can make a run wait.
const longestHookWait = 6 * time.Hour

// wayBack asks the hooks about a recovery that is about to begin.
func (r *run) wayBack(rec *session.Recovery) hook.RecoveryAction {
	if !r.cfg.Hooks.Any(hook.RecoveryStart) {
		return hook.RecoveryAction{}
	}
	out := r.ask(hook.RecoveryStartInput{RecoveryRecord: forHooks(rec)})
	if out.Recovery == nil {
		return hook.RecoveryAction{}
	}
	return *out.Recovery
}

func forHooks(rec *session.Recovery) hook.RecoveryRecord {
	record, _ := json.Marshal(rec, session.JSONOptions())
	return hook.RecoveryRecord{Decision: rec.Decision, Cause: string(rec.Cause), Record: record}
}

// heedRetry lets the hooks change what layer 1 wants to do about t.
func (r *run) heedRetry(v retry.Verdict, t *attempt) retry.Verdict {
	act := r.wayBack(r.retryRecord(t, v))
	switch {
	case act.Do == hook.GiveUp:
		v.Do, v.Rule = retry.GiveUp, "hook"
	case act.Do == hook.Fallback && r.another(t):
		v.Do, v.Rule = retry.HandOver, "hook"
	case act.Do == hook.Wait:
		v.Do, v.Rule = retry.Wait, "hook"
		v.Min = min(max(0, time.Until(act.Until)), longestHookWait)
		v.Max = v.Min
	}
	return v
}

// heedStep lets the hooks change what layer 3 wants to do about o.
func (r *run) heedStep(state loop.State, o loop.Outcome, next loop.State, step loop.Step, rec *session.Recovery) (loop.State, loop.Step) {
	switch act := r.wayBack(rec); {
	case act.Do == hook.GiveUp:
		return r.core.Next(r.core.GiveUp(state), o)
	case act.Do == hook.Fallback && o.Kind == loop.Failed && r.models() > 0:
		return r.core.Next(state, loop.Outcome{Kind: loop.Overloaded, Failure: o.Failure})
	case act.Do == hook.Wait:
		d := min(max(0, time.Until(act.Until)), longestHookWait)
		r.wait(d, &session.Recovery{Cause: rec.Cause, NextAt: time.Now().Add(d)})
	}
	return next, step
}

// lastHookTime is what hooks that nobody waits for get when the session ends.
const lastHookTime = 10 * time.Second

// Close ends what the agent started: hooks learn that the session ends, and
// those that nobody waits for get ten seconds, or until ctx ends. reason is one of clear, resume,
// logout, prompt_input_exit and other. The lines returned are for the person.
func (a *Agent) Close(ctx context.Context, reason string) []string {
	if a.cfg.Hooks == nil {
		return nil
	}
	r := &run{Agent: a}
	out := a.cfg.Hooks.Run(ctx, r.input(hook.SessionEndInput{Reason: reason}))
	var lines []string
	ctx, cancel := context.WithTimeout(ctx, lastHookTime)
	defer cancel()
	for _, t := range out.System {
		lines = append(lines, a.cfg.Redact.Redact(t.Hook+": "+t.Text))
	}
	for _, t := range append(out.Notices, a.cfg.Hooks.Close(ctx)...) {
		lines = append(lines, a.cfg.Redact.Redact(t.Text))
	}
	return lines
}
