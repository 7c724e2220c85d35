package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

func whyCommand(w *world) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why [SESSION]",
		Short: "how the last run ended, what led there, and what is safe to do next",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 { // many a prompt begins with this word
				return fail(exitUsage, `if it is a prompt, put it in quotes: daruma -p "why …"`, "why takes one session, not %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := w.past(strings.Join(args, ""))
			if err != nil {
				return err
			}
			y, err := explainEnd(p)
			if err != nil {
				return err
			}
			w.tellUse(p.path)
			if asJSON {
				return printJSON(w.discreet(), y)
			}
			return shown(y.print(w.discreet(), w.colour(w.Terminal)))
		},
		ValidArgsFunction: completeSessions(w),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object, for machines")
	return cmd
}

// The states of a run.
const (
	runEnded   = "ended"
	runRunning = "running"
	runCrashed = "crashed" // it has no end, and nobody works on it
)

// why is how a run ended, and what led there.
type why struct {
	Session string      `json:"session_id"`
	Path    string      `json:"path"`
	Run     int         `json:"run"`
	Turn    int         `json:"turn"`
	State   string      `json:"state"`
	Reason  loop.Reason `json:"reason,omitzero"`
	Words   string      `json:"words"` // the reason, or what was going on
	Began   time.Time   `json:"began"`
	Ended   time.Time   `json:"ended"` // or last seen alive

	Failure  *failure.Error `json:"failure,omitzero"`
	Chain    []whyStep      `json:"chain"`
	Refused  []whyRefusal   `json:"refused"`
	Failed   map[string]int `json:"failed_calls,omitzero"` // by tool
	Calls    []whyCall      `json:"last_calls,omitzero"`
	Doubt    []whyCall      `json:"in_doubt,omitzero"` // calls that may have taken effect
	Queued   []string       `json:"queued,omitzero"`   // prompts that nobody answered
	Spent    session.Total  `json:"spent"`
	Lost     session.Total  `json:"lost"`
	LostTime time.Duration  `json:"lost_ms"` // in failed attempts and waits
	Attempts [2]int         `json:"attempts"`
	Next     []string       `json:"next"` // safe steps
	NextAt   time.Time      `json:"next_at,omitzero"`
	Damaged  int            `json:"damaged_lines,omitzero"`
}

// whyStep is one link of the chain: what happened, and what was done about it.
type whyStep struct {
	At       time.Time `json:"at"`
	What     string    `json:"what"`
	Did      string    `json:"did,omitzero"`
	State    string    `json:"state,omitzero"`
	Records  []int     `json:"recoveries,omitzero"`
	Rule     string    `json:"rule,omitzero"`
	Evidence string    `json:"evidence,omitzero"`
}

type whyRefusal struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Rule   string    `json:"rule"`
	Reason string    `json:"reason"`
}

type whyCall struct {
	ID     string         `json:"tool_use_id"`
	Name   string         `json:"tool_name"`
	Input  jsontext.Value `json:"tool_input,omitzero"`
	Effect string         `json:"effect,omitzero"`
}

func (c whyCall) String() string { return c.Name + " " + brief(c.Input) }

// explainEnd goes through the events of the last run.
func explainEnd(p *past) (*why, error) {
	run := p.lastRun()
	if run == nil {
		return nil, fail(exitInput, "begin a run: daruma -p --resume "+p.id+" \"…\"", "the session %s has no run yet", p.id)
	}
	y := &why{
		Session: p.id, Path: p.path, Run: run[0].Run, Began: run[0].Time, Ended: run[len(run)-1].Time,
		State: runCrashed, Chain: []whyStep{}, Refused: []whyRefusal{}, Queued: p.history.Queued, Damaged: p.damaged,
	}
	c := chain{why: y, at: map[int]int{}, calls: map[string]message.Block{}}
	for _, e := range run {
		c.add(e)
	}
	switch {
	case c.end != nil:
		y.end(c.end)
		if c.end.Failure != nil {
			c.giveUp(c.end.Failure)
		}
	case p.inUse:
		y.State, y.Words, y.Ended = runRunning, c.doing(p), time.Now().UTC()
	default:
		y.Words = c.doing(p)
	}
	if c.end == nil {
		y.Spent, y.Lost = c.spent, c.lost
		if c.begun != nil {
			y.Spent.Unknown++ // the answer that nobody got may have its price
		}
	}
	if y.State != runRunning {
		for _, in := range p.history.Intents {
			y.Doubt = append(y.Doubt, whyCall{in.Call, in.Name, in.Input, in.Effect})
		}
	}
	y.steps(c.end)
	return y, nil
}

func (y *why) end(b *session.End) {
	y.State, y.Reason, y.Failure, y.NextAt = runEnded, b.Reason, b.Failure, b.NextAt
	y.Words = reasonText(b.Reason)
	y.Spent, y.Lost = b.Total, b.Wasted
	y.Turn = b.Turns
}

// reasonText is a reason in words.
func reasonText(reason loop.Reason) string {
	if reason == loop.Completed {
		return "the whole answer came"
	}
	text := (&daruma.Result{End: session.End{Reason: reason}}).Err().Error()
	text = strings.TrimPrefix(text, string(reason)+": ")
	if text == "" || strings.HasPrefix(text, string(reason)) {
		return strings.ReplaceAll(string(reason), "_", " ")
	}
	return text
}

// ownSteps are the words of this command for what an end calls for.
var ownSteps = map[loop.Reason][]string{
	loop.MaxTurns:           {"allow more turns: --max-turns"},
	loop.BudgetExhausted:    {"raise the limit that was reached: --max-budget-usd or --max-time"},
	loop.PromptTooLong:      {"start a new session for the rest of the task", "choose a model with a larger window: --model"},
	loop.BlockingLimit:      {"start a new session for the rest of the task", "choose a model with a larger window: --model"},
	loop.RapidRefillBreaker: {"ask for less at once: large results fill the window again and again"},
	loop.OutputLimit:        {"ask for the rest in smaller parts"},
	loop.MalformedExhausted: {"choose another model: --model"},
	loop.ModelError:         {"try again, or choose another model: --model"},
	loop.Refusal:            {"word the request in another way"},
	loop.ToolLoop:           {"say what to do instead of the call that was repeated"},
	loop.AbortedStreaming:   {},
	loop.AbortedTools:       {},
}

// steps lists what is safe to do next.
func (y *why) steps(end *session.End) {
	add := func(format string, args ...any) { y.Next = append(y.Next, fmt.Sprintf(format, args...)) }
	for _, call := range y.Doubt {
		add("check what %s %s did before it is repeated: it may have taken effect", call.Name, brief(call.Input))
	}
	switch {
	case y.State == runRunning:
		add("wait, or interrupt it where it runs")
		return
	case y.Reason == loop.Completed:
		add("go on with another prompt: daruma -p --resume %s \"…\"", y.Session)
		return
	case y.State == runCrashed:
		add("go on from here: %s", resumeCommand(y.Session))
		if y.Damaged > 0 {
			add("look at the file first: daruma session check %s", y.Session)
		}
		return
	}
	r := &daruma.Result{End: *end}
	_, step := ending(r)
	if !y.NextAt.IsZero() && y.NextAt.After(time.Now()) {
		step = "wait until " + clock(y.NextAt)
	}
	if own, ok := ownSteps[y.Reason]; ok {
		y.Next = append(y.Next, own...)
	} else if step != "" {
		add("%s", step)
	}
	if len(end.Denials) > 0 {
		add("allow what was refused: --allowedTools, or --permission-mode")
	}
	add("go on from where it stopped: %s", resumeCommand(y.Session))
}
