package permission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// Question is a call that somebody has to decide about.
type Question struct {
	Call   tool.Call
	Access tool.Access
	// AccessOf judges an input that the answer changed, usually the Access
	// method of the tool. If it is nil, an answer may not change the input.
	AccessOf func(input jsontext.Value) tool.Access

	// Hook is what a hook of the user says, and why: Deny holds; Ask makes a
	// question of what would be allowed; Allow spares a question that no ask rule
	// demands. Empty: nothing.
	Hook       Behavior
	HookReason string

	// The rest is set by Resolve.

	Reason      string // one sentence for the person who is asked
	ReasonType  ReasonType
	Rule        Rule
	Suggestions []Rule // rules for "always allow"; may be none
}

// Answer is what a person, or a program in their place, says to a question.
// The zero Answer is no.
type Answer struct {
	Behavior Behavior // Allow; everything else denies
	Message  string   // why not, in the person's words, for the model
	// Input replaces the input of an allowed call if it is not nil.
	Input jsontext.Value
	// Remember are rules to keep: see [Decision.Remember].
	Remember []Rule
	// Interrupt ends the turn after a refusal, as in a dialog where "no" means
	// "stop and listen to me".
	Interrupt bool
}

// AskFunc puts a question to somebody. It may take as long as it needs, and
// should return when ctx ends.
type AskFunc func(ctx context.Context, q Question) (Answer, error)

// Resolve decides a call and asks if the policy does not. It always ends in
// Allow or Deny: without somebody to ask, with an error, a panic or an end of
// ctx, the call is denied. It returns when ctx ends even if ask does not.
func (p *Policy) Resolve(ctx context.Context, q Question, ask AskFunc) Decision {
	d := p.Consider(q)
	if d.Behavior != Ask {
		return d
	}
	if ask == nil {
		return p.nobody(q, d)
	}
	q.Reason, q.ReasonType, q.Rule, q.Suggestions = d.Reason, d.ReasonType, d.Rule, d.Suggestions
	answer, err := put(ctx, q, ask)
	if err != nil {
		return p.refuse(q.Call, q.Access, ByFailure, "the question could not be answered: "+err.Error(), d.Rule)
	}
	if answer.Behavior != Allow {
		return p.rejected(q, answer)
	}
	return p.accepted(q, answer, d)
}

// Consider is what the policy says about a call, joined with what a hook says.
func (p *Policy) Consider(q Question) Decision {
	d := p.Decide(q.Call, q.Access)
	why := strings.TrimSpace(q.HookReason)
	switch {
	case q.Hook == Ask && d.Behavior == Allow:
		return Decision{Behavior: Ask, ReasonType: ByHook, Reason: "A hook wants a person to be asked. " + why}
	case q.Hook == Allow && d.Behavior == Ask && d.ReasonType != ByRule:
		return Decision{Behavior: Allow, ReasonType: ByHook, Reason: "A hook allows it. " + why}
	case q.Hook == Deny && d.Behavior != Deny:
		return p.refuse(q.Call, q.Access, ByHook, "a hook denies it: "+why, Rule{})
	}
	return d
}

// put asks, and waits no longer than ctx lasts.
func put(ctx context.Context, q Question, ask AskFunc) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	type reply struct {
		answer Answer
		err    error
	}
	replies := make(chan reply, 1) // the late answer of a dialog that was given up has a place to go
	go func() {
		r := reply{err: errors.New("the dialog ended without an answer")}
		defer func() {
			if v := recover(); v != nil {
				r = reply{err: fmt.Errorf("the dialog failed: %v", v)}
			}
			replies <- r
		}()
		answer, err := ask(ctx, q)
		r = reply{answer, err}
	}()
	select {
	case r := <-replies:
		// An answer that comes with the end of the run is not acted upon.
		return r.answer, errors.Join(r.err, ctx.Err())
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// nobody is the decision where nobody can be asked. The model must not wait or
// ask again, so it is told what to do instead.
func (p *Policy) nobody(q Question, d Decision) Decision {
	denied := Decision{Behavior: Deny, ReasonType: ByNobody, Rule: d.Rule, Suggestions: d.Suggestions,
		Reason: strings.TrimSuffix(d.Reason, ".") + ", and nobody can be asked."}
	allow := "No rule can be suggested that would allow it."
	switch {
	case len(d.Suggestions) > 0:
		allow = "It would be allowed by " + list(d.Suggestions) + "."
	case d.ReasonType == ByRule:
		allow = "It would be allowed without that ask rule."
	}
	denied.Message = fmt.Sprintf("Permission to use %s is needed, but nobody can be asked in this run. %s %s Do not repeat the call: go on with the work another way, and say at the end what could not be done.",
		describe(q.Call, q.Access), d.Reason, allow)
	return denied
}

// list writes rules into a sentence.
func list(rules []Rule) string {
	if len(rules) == 1 {
		return "the rule " + rules[0].String()
	}
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = r.String()
	}
	return "the rules " + strings.Join(texts, ", ")
}

// rejected is the decision after a no.
func (p *Policy) rejected(q Question, a Answer) Decision {
	d := Decision{Behavior: Deny, ReasonType: ByUser, Reason: "The user refused it.", Interrupt: a.Interrupt}
	d.Message = "The user refused to let you use " + describe(q.Call, q.Access) + ", so it was not run."
	word := strings.TrimSpace(a.Message)
	switch {
	case word != "":
		d.Reason = "The user refused it: " + word
		d.Message += " The user said: " + word
	case a.Interrupt:
		d.Message += " Stop here and wait for the user to say how to go on."
	default:
		d.Message += " Do not repeat it; go on another way, or ask what the user wants instead."
	}
	return d
}

// accepted is the decision after a yes. A changed input is a new call: what a
// rule denies stays denied whoever asks for it.
func (p *Policy) accepted(q Question, a Answer, asked Decision) Decision {
	if a.Input != nil {
		if q.AccessOf == nil {
			return p.refuse(q.Call, q.Access, ByFailure, "the answer changed the input, which cannot be checked here", Rule{})
		}
		call := q.Call
		call.Input = a.Input
		if d := p.Decide(call, q.AccessOf(a.Input)); d.Behavior == Deny {
			return d
		}
	}
	return Decision{Behavior: Allow, ReasonType: ByUser, Rule: asked.Rule, Reason: "The user allowed it.", Input: a.Input, Remember: a.Remember}
}
