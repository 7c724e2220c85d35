package anthropic

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/model"
)

// windowNames are the types of the windows that headers name in short.
var windowNames = map[string]string{
	"5h": "five_hour", "7d": "seven_day", "7d_opus": "seven_day_opus", "7d_sonnet": "seven_day_sonnet",
	"7d_oi": "seven_day_overage_included",
}

const (
	limitPrefix   = "anthropic-ratelimit-"
	unifiedPrefix = limitPrefix + "unified-"
	fastPrefix    = "anthropic-fast-"
	overage       = "overage"
)

// limitsOf reads the limits of an answer; nil if it tells of none. There are
// two families of headers: counts of requests and tokens a minute, and the
// windows of plans, which know shares only and name the one that decides.
func limitsOf(h http.Header) *model.RateLimits {
	windows := map[string]model.RateWindow{}
	left := map[string]bool{} // windows that tell what remains
	file := func(name, what, value string) {
		if w := windows[name]; readLimit(&w, what, value) {
			w.Type = name
			windows[name] = w
			left[name] = left[name] || what == "remaining"
		}
	}
	limits := &model.RateLimits{}
	var plan model.RateWindow // what is said without naming a window
	for name := range h {
		name, value := strings.ToLower(name), strings.TrimSpace(h.Get(name))
		if rest, ok := strings.CutPrefix(name, unifiedPrefix); ok {
			switch short, what := cutLast(rest); rest {
			case "representative-claim":
				plan.Type = value
			case "overage-disabled-reason":
				limits.NoOverage = value
			case "status", "reset":
				readLimit(&plan, rest, value)
			default:
				file(cmp.Or(windowNames[short], short), what, value)
			}
		} else if rest, ok := strings.CutPrefix(name, limitPrefix); ok {
			counted, what := cutLast(rest)
			file(strings.ReplaceAll(counted, "-", "_"), what, value)
		} else if rest, ok := strings.CutPrefix(name, fastPrefix); ok {
			counted, what := cutLast(rest)
			file("fast_"+strings.ReplaceAll(counted, "-", "_"), what, value)
		}
	}
	if len(windows) == 0 && plan == (model.RateWindow{}) && limits.NoOverage == "" {
		return nil
	}
	for name, w := range windows {
		if w.Limit > 0 && left[name] {
			w.Utilization = float64(max(0, w.Limit-w.Remaining)) / float64(w.Limit)
		}
		limits.Windows = append(limits.Windows, w)
	}
	slices.SortFunc(limits.Windows, func(a, b model.RateWindow) int { return cmp.Compare(a.Type, b.Type) })
	limits.RateWindow = deciding(plan, limits.Windows)
	return limits
}

// cutLast splits "5h-reset" at its last dash.
func cutLast(s string) (before, after string) {
	i := strings.LastIndexByte(s, '-')
	return s[:max(i, 0)], s[i+1:]
}

// readLimit files one value. What cannot be read, and what nobody knows yet, is
// passed over: limits are news, not orders.
func readLimit(w *model.RateWindow, what, value string) bool {
	number, err := strconv.ParseFloat(value, 64)
	isNumber := err == nil && number >= 0 && number < 1e15
	switch {
	case what == "status" && value != "":
		w.Status = value
	case what == "utilization" && isNumber:
		w.Utilization = number
	case what == "limit" && isNumber:
		w.Limit = int(number)
	case what == "remaining" && isNumber:
		w.Remaining = int(number)
	case what == "reset" && isNumber:
		w.Resets = time.Unix(int64(number), 0).UTC()
	case what == "reset":
		w.Resets, err = time.Parse(time.RFC3339, value)
		return err == nil
	default:
		return false
	}
	return true
}

// deciding is the window that plan names, with what plan says in its place;
// else the one that is used most. What can be bought on top decides only where
// it is named.
func deciding(plan model.RateWindow, windows []model.RateWindow) model.RateWindow {
	chosen := model.RateWindow{Type: plan.Type}
	for _, w := range windows {
		named := plan.Type != "" && w.Type == plan.Type
		fuller := plan.Type == "" && w.Type != overage && (chosen.Type == "" || w.Utilization > chosen.Utilization)
		if named || fuller {
			chosen = w
		}
	}
	chosen.Status = cmp.Or(plan.Status, chosen.Status)
	if !plan.Resets.IsZero() {
		chosen.Resets = plan.Resets
	}
	return chosen
}
