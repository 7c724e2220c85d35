package retry

import (
	"slices"
	"time"
)

// Stage is a part of what is done with a failure that does not pass: equal
// verdicts in a row.
type Stage struct {
	Do       Do
	Rule     string
	Why      string
	Times    int           // verdicts
	Requests int           // sent because of them
	Min, Max time.Duration // of all their waits together
	Last     Verdict       // the last of them
}

// Plan tells what is done when the try that facts describe fails again and
// again: it asks [Next] until that ends, or until a person has to choose.
func Plan(p Policy, f Facts) []Stage {
	var plan []Stage
	var s State
	for {
		var v Verdict
		s, v = Next(p, s, f)
		last := len(plan) - 1
		if last < 0 || plan[last].Do != v.Do || plan[last].Rule != v.Rule {
			plan = append(plan, Stage{Do: v.Do, Rule: v.Rule, Why: v.Why})
			last++
		}
		stage := &plan[last]
		stage.Times++
		stage.Last = v
		if v.Do.Ends() || v.Do == Ask {
			return plan
		}
		stage.Requests++
		stage.Min += v.Min
		stage.Max += v.Max
		s.Waited += v.Max // the worst case, as everywhere
		if v.Do == Clamp {
			f.MaxTokens = v.MaxTokens
		}
	}
}

// Worst is the largest number of requests that a plan sends, the one that
// failed first included, and the longest time that it waits.
func Worst(plan []Stage) (requests int, wait time.Duration) {
	requests = 1
	for stage := range slices.Values(plan) {
		requests += stage.Requests
		wait += stage.Max
	}
	return requests, wait
}
