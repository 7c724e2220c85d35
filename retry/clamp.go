package retry

import (
	"cmp"

	"github.com/daruma-agent/daruma/failure"
)

// Clamp constants (R14).
const (
	clampMargin = 1000 // tokens kept free: the two sides count differently
	clampFloor  = 3000 // below this an answer is not worth its request
)

// clamp lowers max_tokens so that input and output fit the window together
// (R14). When no reduction can fit, or a second one would not be lower, the
// history is what is too long.
func clamp(_ Policy, s *State, f Facts) (Verdict, bool) {
	if f.Failure.Kind != failure.MaxTokensOverflow {
		return Verdict{}, false
	}
	n := f.Failure.Numbers
	asked := cmp.Or(f.MaxTokens, n.MaxTokens)
	if s.Clamped > 0 {
		asked = min(asked, s.Clamped)
	}
	floor := max(clampFloor, f.Budget+1)
	room, tooLong := 0, true
	switch {
	case s.Clamped == 0 && n.InputTokens > 0 && n.Limit > 0:
		room = n.Limit - n.InputTokens - clampMargin
	case s.Clamped == 0 && n.InputAtLeast == 0 && 0 < n.Limit && n.Limit < asked:
		// The model's own cap on output; it may be lower than our floor, and
		// where thinking does not fit under it, the history is not to blame.
		room, floor, tooLong = n.Limit, f.Budget+1, false
	case asked > floor:
		// No figure to go by, or one that did not hold: halve. A lower bound of
		// the input is no figure; less by it leaves one token less each time.
		room = max(asked/2, floor)
	}
	if room < floor || room >= asked {
		return Verdict{Do: GiveUp, Overflow: tooLong}, true
	}
	s.Clamped = room
	return Verdict{Do: Clamp, MaxTokens: room}, true
}
