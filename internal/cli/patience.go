package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/daruma-agent/daruma/gate"
	"github.com/daruma-agent/daruma/retry"
	"github.com/spf13/pflag"
)

// patience are the flags about waiting, budgets and speed.
type patience struct {
	waitForLimit time.Duration
	unattended   bool
	maxUSD       float64
	maxTime      time.Duration
	lostUSD      float64
	lostTime     time.Duration
	idle         time.Duration
	tokens       int
	fast         bool
}

// defaultLimitWait is --wait-for-limit without a value.
const defaultLimitWait = 6 * time.Hour

func (p *patience) register(f *pflag.FlagSet) {
	f.DurationVar(&p.waitForLimit, "wait-for-limit", 0, "wait for a limit to be lifted, so long in all (without a value: 6h)")
	f.Lookup("wait-for-limit").NoOptDefVal = defaultLimitWait.String()
	f.BoolVar(&p.unattended, "unattended", false, "nobody waits: repeat for hours what passes by itself, within caps")
	f.Float64Var(&p.maxUSD, "max-budget-usd", 0, "end when so many US dollars are spent, failed tries included (an estimate)")
	f.IntVar(&p.tokens, "token-budget", 0, "go on until about so many output tokens are used, as long as it brings something")
	f.DurationVar(&p.maxTime, "max-time", 0, "end after so long, waits included, such as 30m")
	f.Float64Var(&p.lostUSD, "max-recovery-usd", 0, "end when failed tries have cost so many US dollars (an estimate)")
	f.DurationVar(&p.lostTime, "max-recovery-time", 0, "end when failed tries and waits have taken so long")
	f.DurationVar(&p.idle, "stream-idle-timeout", 0, "how long a stream may be silent before it counts as broken (default 5m)")
	f.BoolVar(&p.fast, "fast", false, "ask for the faster variant of the model, as far as it has room")
}

func (p *patience) check() error {
	switch {
	case p.waitForLimit < 0 || p.maxTime < 0 || p.idle < 0 || p.lostTime < 0:
		return errors.New("a time must be positive, such as 30m or 6h")
	case p.maxUSD < 0 || p.lostUSD < 0:
		return fmt.Errorf("a budget of %v US dollars: a positive number is needed", min(p.maxUSD, p.lostUSD))
	}
	return nil
}

// apply changes a policy. Unattended includes waiting for limits.
func (p *patience) apply(policy *retry.Policy, interactive bool) {
	policy.Interactive = interactive
	policy.WaitForLimit = p.waitForLimit
	policy.Unattended = p.unattended
	if p.unattended && p.waitForLimit > 0 {
		policy.TotalLimit = p.waitForLimit
	}
}

// gates opens the gate of each model once. A gate that cannot be opened is no
// gate: it may delay a run, never prevent one.
func gates(dir, base, account string) func(string) *gate.Gate {
	open := map[string]*gate.Gate{}
	return func(model string) *gate.Gate {
		g, ok := open[model]
		if !ok {
			g, _ = gate.Open(dir, gate.Key{BaseURL: base, Account: account, Model: model})
			open[model] = g
		}
		return g
	}
}
