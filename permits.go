package daruma

import (
	"context"
	"errors"
	"sync"

	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
)

// permits is what a session may do. An agent and all below it decide by the same
// one, so that what a person answers to one of them holds for all, at once.
type permits struct {
	mu     sync.Mutex
	policy *permission.Policy // nil: everything is allowed
}

func (p *permits) now() *permission.Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.policy
}

func (p *permits) apply(u permission.Update) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy == nil {
		return nil
	}
	next, err := p.policy.Apply(u)
	if err == nil {
		p.policy = next
	}
	return err
}

// apply changes the permissions of the session.
func (r *run) apply(u permission.Update) {
	if err := r.cfg.permits.apply(u); err != nil {
		r.notice(session.Warning, "the answer holds for this call only: %v", err)
	}
}

// askedInTurn puts the questions of sub-agents one after the other. What the
// answer to one of them settles is not asked again.
func (r *run) askedInTurn(ask permission.AskFunc) permission.AskFunc {
	return func(ctx context.Context, q permission.Question) (permission.Answer, error) {
		r.children.asking.Lock()
		defer r.children.asking.Unlock()
		if ctx.Err() != nil { // it ended while another question was open
			return permission.Answer{}, context.Cause(ctx)
		}
		if p := r.cfg.permits.now(); p != nil {
			switch p.Consider(q).Behavior {
			case permission.Allow:
				return permission.Answer{Behavior: permission.Allow}, nil
			case permission.Deny:
				return permission.Answer{}, errors.New("meanwhile it was forbidden")
			}
		}
		answer, err := ask(ctx, q)
		// What holds from now on does so before the next one is asked.
		if always := answer.Remember; err == nil && ctx.Err() == nil && answer.Behavior == permission.Allow && answer.Input == nil && len(always) > 0 {
			if r.cfg.permits.apply(permission.Remember(always)) == nil {
				answer.Remember = nil
			}
		}
		return answer, err
	}
}
