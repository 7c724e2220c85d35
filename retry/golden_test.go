package retry

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
)

var update = flag.Bool("update", false, "rewrite testdata/verdicts.txt")

// TestGolden holds the whole behaviour as text: what each rule decides, for
// whom and about what, and what becomes of a failure that does not pass. Read
// the difference before you accept it.
func TestGolden(t *testing.T) {
	got := "What each rule decides\n\n" + ruleTable() + "\nWhat becomes of a failure that does not pass, by default\n\n" + planTable()
	const file = "testdata/verdicts.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the table of verdicts changed; run go test ./retry -update and read git diff")
	}
}

// ruleTable has a paragraph for each rule: its reason, and the distinct
// verdicts with the modes and the kinds of failure that they are for.
func ruleTable() string {
	type row struct {
		rule, verdict string
		kind          failure.Kind
	}
	seen := map[row]map[string]bool{}
	tiny := small()
	tiny.Retries, tiny.UnattendedRetries, tiny.TotalLimit = 1, 1, 40*time.Second
	for _, m := range modes {
		for _, kind := range failure.Kinds {
			walk(m.of(tiny), []failure.Kind{kind}, func(e edge) {
				r := row{e.v.Rule, shape(e.v), kind}
				if seen[r] == nil {
					seen[r] = map[string]bool{}
				}
				seen[r][m.name] = true
			})
		}
	}
	type class struct{ rule, verdict, who string }
	kinds := map[class][]failure.Kind{}
	for r, in := range seen {
		c := class{r.rule, r.verdict, who(in)}
		kinds[c] = append(kinds[c], r.kind)
	}
	lines := map[string][]string{}
	for c, ks := range kinds {
		lines[c.rule] = append(lines[c.rule], fmt.Sprintf("    %-26s %-15s %s", c.verdict, c.who, list(ks)))
	}
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "%s: %s\n", r.name, r.why)
		for _, line := range slices.Sorted(slices.Values(lines[r.name])) {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// shape is a verdict without its numbers.
func shape(v Verdict) string {
	s := string(v.Do)
	for _, mark := range []struct {
		set  bool
		text string
	}{
		{v.Do == Wait && v.Max == 0, " 0 s"}, {v.DropPool, ", new pool"}, {v.Of == 0 && v.Do == Wait, ", uncounted"},
		{v.Overflow, " as overflow"}, {v.Once, ", asked once"}, {v.Later > 0, ", come back later"},
		{v.Cooldown > 0, ", cooldown"}, {v.FastOff != "", " for the session"},
	} {
		if mark.set {
			s += mark.text
		}
	}
	return s
}

// who names the modes, or those that are left out.
func who(in map[string]bool) string {
	var with, without []string
	for _, m := range modes {
		if in[m.name] {
			with = append(with, m.name)
		} else {
			without = append(without, m.name)
		}
	}
	switch {
	case len(without) == 0:
		return ""
	case len(without) == 1:
		return "not " + without[0]
	}
	return strings.Join(with, ", ")
}

func whoOf(names []string) string {
	in := map[string]bool{}
	for _, name := range names {
		in[name] = true
	}
	return who(in)
}

func list(kinds []failure.Kind) string {
	if len(kinds) > len(failure.Kinds)/2 {
		var others []string
		for _, k := range failure.Kinds {
			if !slices.Contains(kinds, k) {
				others = append(others, string(k))
			}
		}
		return "all but " + strings.Join(others, " ")
	}
	var names []string
	for _, k := range failure.Kinds {
		if slices.Contains(kinds, k) {
			names = append(names, string(k))
		}
	}
	return strings.Join(names, " ")
}

// planTable shows what [Plan] says of the failures that people meet.
func planTable() string {
	hint := func(d time.Duration) failure.Hint { return failure.Hint{Given: true, After: d} }
	cases := []struct {
		name  string
		facts Facts
	}{
		{"overloaded", Facts{Failure: &failure.Error{Kind: failure.Overloaded, Retry: failure.RetryYes}}},
		{"overloaded, a model to fall back to", Facts{Failure: &failure.Error{Kind: failure.Overloaded, Retry: failure.RetryYes}, Fallback: true}},
		{"rate_limit, 5 s", Facts{Failure: &failure.Error{Kind: failure.RateLimit, Retry: failure.RetryAfter, Hint: hint(5 * time.Second)}}},
		{"rate_limit, 10 min", Facts{Failure: &failure.Error{Kind: failure.RateLimit, Retry: failure.RetryAfter, Hint: hint(10 * time.Minute)}}},
		{"quota_exhausted, 5 h", Facts{Failure: &failure.Error{Kind: failure.QuotaExhausted, Retry: failure.RetryAfter, Hint: hint(5 * time.Hour)}}},
		{"server_error, a model to fall back to", Facts{Failure: &failure.Error{Kind: failure.ServerError, Retry: failure.RetryYes}, Fallback: true}},
		{"network", Facts{Failure: &failure.Error{Kind: failure.Network, Retry: failure.RetryYes}}},
		{"timeout by a silent stream", Facts{Failure: &failure.Error{Kind: failure.Timeout, Retry: failure.RetryYes, Stalled: true}}},
		{"auth, credentials can be renewed", Facts{Failure: &failure.Error{Kind: failure.Auth, Retry: failure.RetryNo}, Refresh: true}},
		{"max_tokens_overflow, no figures", Facts{Failure: &failure.Error{Kind: failure.MaxTokensOverflow, Retry: failure.RetryNo}, MaxTokens: 32_000}},
		{"rate_limit in fast mode, 19 s", Facts{Failure: &failure.Error{Kind: failure.RateLimit, Retry: failure.RetryAfter, Hint: hint(19 * time.Second)}, Fast: true}},
		{"rate_limit in fast mode, 20 s", Facts{Failure: &failure.Error{Kind: failure.RateLimit, Retry: failure.RetryAfter, Hint: hint(20 * time.Second)}, Fast: true}},
		{"billing", Facts{Failure: &failure.Error{Kind: failure.Billing, Retry: failure.RetryNo}}},
	}
	var b strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&b, "%s\n", c.name)
		plans := map[string][]string{}
		for _, m := range modes {
			p := Default()
			m.apply(&p)
			plan := planText(Plan(p, c.facts))
			plans[plan] = append(plans[plan], m.name)
		}
		for _, m := range modes {
			for plan, in := range plans {
				if in[0] == m.name {
					fmt.Fprintf(&b, "    %-15s %s\n", whoOf(in), plan)
				}
			}
		}
	}
	return b.String()
}

func planText(plan []Stage) string {
	var parts []string
	for _, s := range plan {
		part := string(s.Do)
		if s.Times > 1 {
			part += fmt.Sprintf(" ×%d", s.Times)
		}
		if s.Max > 0 {
			part += fmt.Sprintf(" %v–%v", s.Min.Round(100*time.Millisecond), s.Max.Round(100*time.Millisecond))
		}
		parts = append(parts, part+" ("+s.Rule+")")
	}
	return strings.Join(parts, ", ")
}
