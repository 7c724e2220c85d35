package failure

import (
	"github.com/go-json-experiment/json"
)

// Facts returns the figures of e under stable names: those of [Numbers] in
// JSON, the message's index from 0, and the date of relief where one is named.
func (e *Error) Facts() map[string]any {
	facts := map[string]any{}
	data, err := json.Marshal(e.Numbers)
	if err != nil || json.Unmarshal(data, &facts) != nil {
		return map[string]any{}
	}
	delete(facts, "no_allowance")
	delete(facts, "message")
	delete(facts, "block")
	if e.Numbers.NoAllowance {
		facts["limit"] = 0.0
	}
	if e.Numbers.Message > 0 {
		facts["message_index"] = float64(e.Numbers.Message - 1)
	}
	if e.Hint.Reset != "" {
		facts["reset_at"] = e.Hint.Reset
		if e.Kind == QuotaExhausted && len(e.Hint.Reset) == len("2006-01-02") {
			facts["regain_access"] = e.Hint.Reset
		}
	}
	return facts
}
