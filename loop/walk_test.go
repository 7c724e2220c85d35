package loop

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/failure"
)

var (
	update = flag.Bool("update", false, "rewrite testdata/transitions.txt")
	full   = flag.Bool("full", false, "walk with all recoveries at once, which takes half a minute")
)

// outcomes lists every outcome that phase can report, and every way to end it
// from outside.
func outcomes(phase Action, kinds []failure.Kind) []Outcome {
	var out []Outcome
	for _, kind := range reported[phase] {
		switch kind {
		case Measured:
			for fit := Fits; fit <= Overhead; fit++ {
				out = append(out, Outcome{Kind: kind, Fit: fit})
			}
		case Truncated:
			for _, full := range []bool{false, true} {
				out = append(out, Outcome{Kind: kind, Cut: CutText, Full: full}, Outcome{Kind: kind, Cut: CutCall, Full: full})
			}
		case Paused:
			out = append(out, Outcome{Kind: kind}, Outcome{Kind: kind, Cut: CutText})
		case Broken:
			out = append(out, Outcome{Kind: kind, Cut: CutText}, Outcome{Kind: kind, Cut: CutAfterCalls})
		case Failed, Overloaded:
			for _, k := range kinds {
				out = append(out, Outcome{Kind: kind, Failure: k})
			}
			if kind == Failed {
				out = append(out, Outcome{Kind: kind, Failure: failure.InvalidRequest, Tool: true})
			}
		default:
			out = append(out, Outcome{Kind: kind})
		}
	}
	for cause := ByUser; cause <= ByHook; cause++ {
		out = append(out, Outcome{Kind: Aborted, Cause: cause})
	}
	for budget := Turns; budget <= Refill; budget++ {
		out = append(out, Outcome{Kind: BudgetReached, Budget: budget})
	}
	return out
}

// external reports whether the world outside must do something for this edge
// to be taken: only such edges may close a cycle.
func external(step Step) bool {
	return step.Transition == NextTurn || step.Transition == QueuedPrompt || step.Transition == SpendBudget
}

// newAnswer reports whether step asks for an answer behind one that was whole,
// so that what is counted per answer begins anew.
func newAnswer(step Step) bool {
	return slices.ContainsFunc(table, func(r *Recovery) bool { return r.Progress && r.Name == step.Transition })
}

type edge struct {
	from State
	out  Outcome
	to   State
	step Step
}

// graph is every state that a run can reach, and the edges that a run can
// take by itself, without anything from outside.
type graph struct {
	states []State
	next   [][]int32
}

// walk visits every state that a run can reach and shows every edge to visit.
func walk(c *Core, kinds []failure.Kind, visit func(edge)) graph {
	g := graph{states: []State{{}}}
	index := map[State]int32{{}: 0}
	byPhase := map[Action][]Outcome{}
	for phase := Begin; phase < Finish; phase++ {
		byPhase[phase] = outcomes(phase, kinds)
	}
	for i := 0; i < len(g.states); i++ {
		s := g.states[i]
		var next []int32
		for _, o := range byPhase[s.Phase] {
			to, step := c.Next(s, o)
			visit(edge{s, o, to, step})
			if step.Do == Finish {
				continue
			}
			j, seen := index[to]
			if !seen {
				j = int32(len(g.states))
				index[to] = j
				g.states = append(g.states, to)
			}
			if !external(step) {
				next = append(next, j)
			}
		}
		g.next = append(g.next, next)
	}
	return g
}

// representatives has one failure for each way in which Next treats them; the
// golden table, which walks with all of them, shows the classes.
var representatives = []failure.Kind{
	failure.Overloaded, failure.ContextOverflow, failure.RequestTooLarge, failure.MediaInvalid, failure.ToolPairing,
	failure.ThinkingSignature, failure.ContentPolicy, failure.Aborted,
}

// small keeps the walk short without losing a kind of state: no limit above
// two, one model to fall back to.
var small = map[Transition]int{
	Fallback: 1, ContinueOutput: 1, RepeatCall: 1, ContinueBroken: 1, AskAgain: 1, ResumePause: 1, HookBlocked: 1, AfterRefusal: 1, DropTool: 1,
}

// halves turn some recoveries off, so that the walk takes a second instead of
// half a minute: each one is on in at least one half, beside all that could get
// in its way. go test ./loop -full walks with all of them at once.
var halves = map[string][]Transition{
	"around the context": {AfterRefusal, Flatten, StripThinking, AskForm, ResumePause, RepeatCall},
	"around the answer":  {BreakLoop, DropTool, CollapseDrain, ProactiveCompact, WindowCompact, ContinueBroken, AskAgain, StripMedia},
}

func TestWalk(t *testing.T) {
	if *full {
		halves = map[string][]Transition{"full": nil}
	}
	for name, off := range halves {
		t.Run(name, func(t *testing.T) {
			limits := maps.Clone(small)
			for _, transition := range off {
				limits[transition] = 0
			}
			walkAll(t, New(limits))
		})
	}
}

func walkAll(t *testing.T, c *Core) {
	edges := 0
	g := walk(c, representatives, func(e edge) {
		edges++
		if problem := broken(c, e); problem != "" {
			t.Fatalf("%s\n%+v\n%+v\n-> %+v", problem, e.from, e.out, e.step)
		}
	})
	steps := longest(t, g)
	t.Logf("%d states, %d edges; the longest way without outside help has %d steps", len(g.states), edges, steps)
	if steps > 60 {
		t.Errorf("a turn can take %d steps", steps)
	}
}

// broken names the law that an edge breaks.
func broken(c *Core, e edge) string {
	switch {
	case e.step.Do == Finish && e.step.Reason == "":
		return "a run ends without a reason"
	case e.step.Do != Finish && e.step.Surface:
		return "an error is shown while a recovery is open"
	case e.step.Do == Finish && !slices.Contains(Reasons, e.step.Reason):
		return "a run ends with a reason that is not in the list"
	case e.out.Kind == Failed && e.step.Do == RunHooks, e.out.Kind == Overloaded && e.step.Do == RunHooks:
		return "an error reaches the stop hooks (R55)"
	case e.step.Discard && e.step.Keep:
		return "an answer is both kept and taken back"
	case e.step.Do == Finish && e.step.Reason == Completed && e.out.Kind != HooksPassed:
		return "completed without a whole answer"
	case e.out.Kind == Truncated && e.step.Do == RunTools:
		return "a truncated call is run"
	case e.to.Phase != e.step.Do:
		return "the phase is not what was asked for"
	}
	for i, used := range e.to.Used {
		switch {
		case i >= len(table) && used > 0, i < len(table) && used > c.limits[i]:
			return "a recovery was used above its limit"
		case used < e.from.Used[i] && !external(e.step) && !newAnswer(e.step):
			return "a spent recovery came back"
		case used < e.from.Used[i] && table[i].Scope >= PerRun:
			return "a run-wide count was reset"
		case used < e.from.Used[i] && newAnswer(e.step) && table[i].Scope > PerAnswer:
			return "what asks for a new answer reset a count of the turn (R56)"
		}
	}
	return ""
}

// longest finds the longest path that needs nothing from outside, and fails
// on a cycle: this is the proof that every run ends.
func longest(t *testing.T, g graph) int {
	const unseen, open = 0, -1
	length := make([]int, len(g.states)) // of the path from each state, plus one
	var visit func(i int32) int
	visit = func(i int32) int {
		switch length[i] {
		case open:
			t.Fatalf("the loop can go on for ever at %+v", g.states[i])
		case unseen:
			length[i] = open
			most := 0
			for _, to := range g.next[i] {
				most = max(most, visit(to))
			}
			length[i] = most + 1
		}
		return length[i]
	}
	most := 0
	for i := range g.states {
		most = max(most, visit(int32(i)))
	}
	return most - 1
}

func TestImpossibleOutcomesEndTheRun(t *testing.T) {
	c := New(nil)
	for phase := Begin; phase <= Finish; phase++ {
		for kind := Prompted; kind <= BudgetLeft; kind++ {
			if reports(phase, kind) {
				continue
			}
			_, step := c.Next(State{Phase: phase}, Outcome{Kind: kind})
			if step.Do != Finish || step.Reason != ModelError || !step.Surface {
				t.Errorf("phase %d, outcome %d: %+v", phase, kind, step)
			}
		}
	}
}

// TestGolden holds the whole behaviour as text: what follows each outcome, at
// first and when recoveries are spent. Read the difference before you accept it.
func TestGolden(t *testing.T) {
	tiny := maps.Clone(small)
	for _, name := range []Transition{AfterRefusal, BreakLoop, DropTool, RepeatCall, ContinueBroken, Flatten, StripMedia, AskAgain, AskForm, ResumePause} {
		tiny[name] = 0
	}
	rows := map[string][]failure.Kind{}
	type sight struct { // what a row shows of an edge
		phase    Action
		withheld bool
		out      Outcome
		step     Step
	}
	seen := map[sight]bool{}
	add := func(e edge) {
		s := sight{e.from.Phase, e.from.Withheld != "", e.out, e.step}
		if seen[s] {
			return
		}
		seen[s] = true
		name := e.out.Name()
		if e.out.Kind == Unchanged {
			name += withheld(e.from)
		}
		row := fmt.Sprintf("%-8s %-32s -> %s", e.from.Phase, name, e.step)
		if !slices.Contains(rows[row], e.out.Failure) {
			rows[row] = append(rows[row], e.out.Failure)
		}
	}
	walk(New(tiny), failure.Kinds, add)
	walk(New(map[Transition]int{
		Escalate: 0, ContinueOutput: 0, ProactiveCompact: 0, ReactiveCompact: 0, SkeletonCompact: 0, StripThinking: 0,
		CollapseDrain: 0, AfterRefusal: 1, DropTool: 1, RepeatCall: 1, ContinueBroken: 1, AskAgain: 1, ResumePause: 1,
	}), failure.Kinds, add)
	var lines []string
	for row, kinds := range rows {
		slices.Sort(kinds)
		line := row
		if kinds[0] != "" && len(kinds) < len(failure.Kinds) {
			line += "\n" + wrap(kinds)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const file = "testdata/transitions.txt"
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
		t.Errorf("the transition table changed; run go test ./loop -update and read git diff")
	}
}

func withheld(s State) string {
	if s.Withheld == "" {
		return " (nothing withheld)"
	}
	return " (error withheld)"
}

func wrap(kinds []failure.Kind) string {
	var b strings.Builder
	col := 0
	for _, k := range kinds {
		if col == 0 || col+len(k) > 90 {
			if col > 0 {
				b.WriteByte('\n')
			}
			b.WriteString("             ")
			col = 13
		}
		b.WriteString(string(k) + " ")
		col += len(k) + 1
	}
	return strings.TrimRight(b.String(), " ")
}

func TestDraft(t *testing.T) {
	c := New(map[Transition]int{Fallback: 2})
	s := State{Phase: Sample}
	for want := 1; want <= 2; want++ {
		var step Step
		s, step = c.Next(s, Outcome{Kind: Overloaded, Failure: failure.Overloaded})
		if d := c.Draft(s); d.Model != want || step.Transition != Fallback {
			t.Errorf("after %d hand-overs: draft %+v, step %s", want, d, step)
		}
		s.Phase = Sample
	}
	s, _ = c.Next(s, Outcome{Kind: Truncated, Cut: CutText})
	if d := c.Draft(s); !d.Raise || d.Model != 2 {
		t.Errorf("raised on the fallback: %+v", d)
	}
	if d := c.Draft(c.NextRun(s)); d != (Draft{}) {
		t.Errorf("the next run starts with %+v, want the primary model and nothing raised", d)
	}
}
