package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func recoveriesCommand(w *world) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "recoveries",
		Short: "the table of everything that is done about a failure, with its limits",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			rows := wayBackRows()
			if asJSON {
				return printJSON(w.Stdout, rows)
			}
			if width := columns(w.Stdout); width > 0 {
				return shown(printRecoveryLines(w.Stdout, rows, width))
			}
			return shown(printRecoveryTable(w.Stdout, rows))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON array, for machines")
	return cmd
}

// printJSON writes v on one line.
func printJSON(out io.Writer, v any) error {
	line, err := json.Marshal(v, session.JSONOptions(), json.Deterministic(true))
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", line)
	}
	return written(err)
}

// written explains an error of writing to stdout.
func written(err error) error {
	switch {
	case errors.Is(err, syscall.EPIPE): // whoever read has enough, as head has: that is nothing to tell
		return &exitError{code: exitFailed}
	case err != nil:
		return fail(exitFailed, "run it again", "stdout cannot be written: %v", err)
	}
	return nil
}

// shown is written for what only tells something: a reader that has seen enough,
// such as head, is no failure.
func shown(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return written(err)
}

// wayBack is a row of the table.
type wayBack struct {
	Layer  int      `json:"layer"`
	Name   string   `json:"name"`  // of the recovery, or of the rule
	Cause  string   `json:"cause"` // in words
	Kinds  []string `json:"kinds,omitzero"`
	Action string   `json:"action"`
	Limit  int      `json:"limit"`
	WaitMS [2]int64 `json:"wait_ms,omitzero"` // least and most, of all waits together
	Scope  string   `json:"scope"`
	End    string   `json:"end"`
}

// wayBackRows asks both layers what they do, so it cannot say anything else.
func wayBackRows() []wayBack {
	rows := sameRequestRows(retry.Default())
	for _, r := range loop.Table() {
		rows = append(rows, wayBack{
			Layer: 3, Name: string(r.Name), Cause: r.Doc.Cause, Action: r.Doc.Action, Limit: r.Limit, Scope: r.Scope.String(), End: r.Doc.End,
		})
	}
	return rows
}

// verdicts says what each verdict of layer 1 does.
var verdicts = map[retry.Do]string{
	retry.Wait:      "send the same request again after a wait",
	retry.Ask:       "ask the person whether to wait",
	retry.Refresh:   "renew the credentials and send it again",
	retry.Clamp:     "send it again with less output room",
	retry.LeaveFast: "send it again at normal speed",
	retry.HandOver:  "hand over to another model, if one is named",
	retry.GiveUp:    "leave it to layer 3",
}

// sameRequestRows plays every kind of failure, as if it never passed, and puts
// kinds that are treated alike into one row.
func sameRequestRows(p retry.Policy) []wayBack {
	var rows []wayBack
	at := map[string]int{}
	add := func(name string, row wayBack) {
		key := fmt.Sprint(row.Name, row.Action, row.Limit, row.WaitMS, row.End)
		if i, ok := at[key]; ok {
			rows[i].Kinds = append(rows[i].Kinds, name)
			return
		}
		row.Layer, row.Scope, row.Kinds = 1, "request", []string{name}
		at[key] = len(rows)
		rows = append(rows, row)
	}
	for _, c := range typicalFailures() {
		plan := retry.Plan(p, c.facts)
		for i, s := range plan {
			next := "the rows below, or the end"
			if i+1 < len(plan) {
				next = verdicts[plan[i+1].Do] + ": " + plan[i+1].Why
			}
			if s.Do.Ends() && i > 0 {
				continue // it is the end of the row before
			}
			add(c.name, wayBack{
				Name: s.Rule, Cause: s.Why, Action: verdicts[s.Do], Limit: s.Requests,
				WaitMS: [2]int64{s.Min.Milliseconds(), s.Max.Milliseconds()}, End: next,
			})
		}
	}
	return rows
}

// typical is a failure as layer 1 meets it, with the name of its row.
type typical struct {
	name  string
	facts retry.Facts
}

// typicalFailures are one of each kind, and those that are treated in another
// way than their kind.
func typicalFailures() []typical {
	var out []typical
	add := func(name string, kind failure.Kind, change func(*failure.Error, *retry.Facts)) {
		e := &failure.Error{Kind: kind, Retry: failure.RetryNo}
		f := retry.Facts{Failure: e, MaxTokens: 64_000, Fallback: true, Refresh: kind == failure.Auth}
		switch kind {
		case failure.Overloaded, failure.RateLimit, failure.ServerError, failure.Timeout, failure.Network:
			e.Retry = failure.RetryYes
		case failure.MaxTokensOverflow:
			e.Numbers = failure.Numbers{InputTokens: 150_000, MaxTokens: 64_000, Limit: 200_000}
		}
		if change != nil {
			change(e, &f)
		}
		out = append(out, typical{name, f})
	}
	for _, kind := range failure.Kinds {
		add(string(kind), kind, nil)
	}
	add("overloaded, no other model named", failure.Overloaded, func(_ *failure.Error, f *retry.Facts) { f.Fallback = false })
	add("rate_limit that names 30 s", failure.RateLimit, func(e *failure.Error, _ *retry.Facts) {
		e.Retry, e.Hint = failure.RetryAfter, failure.Hint{Given: true, After: 30 * time.Second}
	})
	add("rate_limit that names 5 minutes", failure.RateLimit, func(e *failure.Error, _ *retry.Facts) {
		e.Retry, e.Hint = failure.RetryAfter, failure.Hint{Given: true, After: 5 * time.Minute}
	})
	add("timeout by silence", failure.Timeout, func(e *failure.Error, _ *retry.Facts) { e.Stalled = true })
	add("network behind finished thinking", failure.Network, func(_ *failure.Error, f *retry.Facts) { f.Progress.Thinking = true })
	add("any, when the server forbids repeating", failure.ServerError, func(e *failure.Error, f *retry.Facts) {
		e.Hint.ShouldRetry, f.Fallback = "false", false
	})
	return out
}

const tableHead = `# Ways back

What daruma does about a failure: one row for each way back, with its limit, what the limit is counted
in, and what follows when it did not help. The table is printed by ` + "`daruma recoveries`" + ` from the code
that decides.

`

const sameRequestHead = `## Layer 1: the same request again

Nothing is changed but time, credentials, speed or the output limit. Waits grow from %s to at most
%s, chance adds up to %d %%, and a wait that the server names is kept up to %s. The waits are those
of a failure that never passes. A model to fall back to counts as named.

| failure | rule | action | limit | waits together | counted per | then |
|---|---|---|---|---|---|---|
`

const changedHead = `
## Layer 3: something changes before the model is asked again

In the order in which they are tried: cheap before dear.

| name | cause | action | limit | counted per | then |
|---|---|---|---|---|---|
`

const tableFoot = `
Counts end with what they are counted per: an *answer* with the next whole one, a *turn* when tools have
run, a *run* with the next prompt. No way back can reset its own count, so each chain ends. A run has
its own bounds beside these: turns (250 if none are given), money and time. How a run ends:
[exit-codes.md](exit-codes.md).
`

func printRecoveryTable(out io.Writer, rows []wayBack) error {
	var b strings.Builder
	p := retry.Default()
	b.WriteString(tableHead)
	fmt.Fprintf(&b, sameRequestHead, words(p.Base), words(p.Cap), int(p.Jitter*100), words(p.HintLimit))
	layer := 1
	for _, r := range rows {
		if r.Layer != layer {
			layer = r.Layer
			b.WriteString(changedHead)
		}
		if layer == 1 {
			fmt.Fprintf(&b, "| %s | `%s`: %s | %s | %s | %s | %s | %s |\n",
				code(r.Kinds), r.Name, r.Cause, r.Action, times(r.Limit), waits(r.WaitMS), r.Scope, r.End)
			continue
		}
		limit := times(r.Limit)
		if r.Name == string(loop.Fallback) {
			limit = "once a model" // the chain is the limit
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, r.Cause, r.Action, limit, r.Scope, r.End)
	}
	b.WriteString(tableFoot)
	_, err := io.WriteString(out, b.String())
	return err
}

// printRecoveryLines prints the rows for a screen, where the table would not fit.
func printRecoveryLines(out io.Writer, rows []wayBack, width int) error {
	var b strings.Builder
	put := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format, args...), width, 2) + "\n") }
	put("THE SAME REQUEST AGAIN: nothing is changed but time, credentials, speed or the output limit")
	layer := 1
	for _, r := range rows {
		if r.Layer != layer {
			layer = r.Layer
			put("\nSOMETHING CHANGES before the model is asked again; cheap before dear")
		}
		title, how := strings.Join(r.Kinds, ", "), r.Action
		if layer != 1 {
			title = r.Cause
		}
		switch {
		case r.Name == string(loop.Fallback):
			how += ", once a model"
		case r.Limit > 0:
			how += fmt.Sprintf(", %s per %s", times(r.Limit), r.Scope)
		}
		if r.WaitMS[1] > 0 {
			how += ", waits of " + waits(r.WaitMS) + " together"
		}
		put("\n%s\n  %s (%s)", title, how, r.Name)
		if r.End != "" {
			put("  then: %s", r.End)
		}
	}
	put("\ndaruma recoveries | cat prints it as a table; docs/exit-codes.md says how a run ends")
	_, err := io.WriteString(out, b.String())
	return err
}

func code(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

func times(n int) string {
	switch n {
	case 0:
		return "–"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func waits(ms [2]int64) string {
	least, most := time.Duration(ms[0])*time.Millisecond, time.Duration(ms[1])*time.Millisecond
	if most == 0 {
		return "–"
	}
	return inSeconds(least) + " to " + inSeconds(most)
}

// words is a duration as people write it.
func words(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return count(int(d/time.Minute), "minute")
	}
	return inSeconds(d)
}

func inSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
