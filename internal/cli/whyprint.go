package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
)

// print writes y for people: first how it ended, then what led there, then what
// to do.
func (y *why) print(out io.Writer, colour bool) error {
	var b strings.Builder
	r := &renderer{out: &b, colour: colour}
	y.head(r)
	y.printChain(r)
	y.printRest(r)
	r.line(r.paint(bold, "Safe next:"))
	for _, step := range y.Next {
		r.line("  - " + step)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// why tells in a conversation how its last run ended.
func (t *talk) why() {
	if t.setup.path == "" {
		t.show.line("nothing of this session is kept, so nothing can be told")
		return
	}
	p, err := readPast(t.setup.path)
	if err == nil {
		t.mu.Lock()
		p.inUse = t.running // nobody else can work on it
		t.mu.Unlock()
		var y *why
		if y, err = explainEnd(p); err == nil {
			for i, step := range y.Next { // of which those of a shell are not for here
				y.Next[i], _, _ = strings.Cut(step, ": daruma -p --resume ")
			}
			var b strings.Builder
			err = y.print(&b, t.show.colour)
			t.show.line(strings.TrimRight(b.String(), "\n"))
		}
	}
	if err != nil {
		t.show.line(err.Error())
	}
}

func (y *why) head(r *renderer) {
	switch {
	case y.State == runRunning:
		r.line(r.paint(bold, "Still running: ") + y.Words)
	case y.State == runCrashed:
		r.line(r.paint(red, "Ended without an end: ") + "the process died " + y.Words)
	case y.Reason == loop.Completed:
		r.line(r.paint(green, "Completed: ") + y.Words)
	default:
		words := y.Words
		if y.Failure != nil && y.Reason == loop.APIError {
			words = failureText(y.Failure)
		}
		r.line(r.paint(red, "Stopped: ") + words + " (" + string(y.Reason) + ")")
	}
	took := max(0, y.Ended.Sub(y.Began)) // the clock may have been set back
	r.line(r.paint(dim, fmt.Sprintf("  session %s, run %d, turn %d, %s to %s (%s)",
		y.Session, y.Run, y.Turn, clock(y.Began), clock(y.Ended), round(took))))
}

// endings says what became of a way back.
var endings = map[string]string{
	string(session.Running): "still at it", string(session.Healed): "healed", string(session.NotHealed): "did not help",
	string(session.Cancelled): "cancelled", string(session.Superseded): "not enough",
}

func (y *why) printChain(r *renderer) {
	for _, s := range merged(y.Chain) {
		line := "  " + clock(s.At) + "  " + s.What
		if s.Did == "" {
			r.line(line)
			continue
		}
		end := endings[s.State]
		if y.State == runCrashed && s.State == string(session.Running) {
			end = "cut off"
		}
		if end != "" {
			end = "  → " + end
		}
		style := dim
		if s.State == string(session.NotHealed) || s.State == string(session.Superseded) {
			style = yellow
		}
		r.line(line)
		r.line(strings.Repeat(" ", len(clock(s.At))+4) + r.paint(style, "↳ "+s.Did+end))
	}
}

// merged puts repetitions of the same request that ended alike on one line.
func merged(steps []whyStep) []whyStep {
	var out []whyStep
	var first whyStep // of the repetitions that stand last in out
	n := 0            // of them
	for _, s := range steps {
		again := strings.HasPrefix(s.Did, "try ")
		if n > 0 && again && s.State == first.State && withoutNumber(s.What) == withoutNumber(first.What) {
			n++
			last := &out[len(out)-1]
			last.What = fmt.Sprintf("%d requests: %s", n, withoutNumber(s.What))
			last.Did = first.Did + " … " + s.Did
			continue
		}
		n = 0
		if again {
			first, n = s, 1
		}
		out = append(out, s)
	}
	return out
}

// withoutNumber leaves out which request it was.
func withoutNumber(what string) string {
	if strings.HasPrefix(what, "request ") {
		_, what, _ = strings.Cut(what, ": ")
	}
	return what
}

func (y *why) printRest(r *renderer) {
	if len(y.Refused) > 0 {
		r.line(r.paint(bold, "Refused:"))
		for _, f := range y.Refused {
			r.line(fmt.Sprintf("  %s  %s: %s (%s)", clock(f.At), f.What, strings.TrimRight(f.Reason, "."), f.Rule))
		}
	}
	if len(y.Calls) > 0 && y.Reason != loop.Completed {
		r.line(r.paint(bold, "Last calls:"))
		for _, call := range y.Calls {
			r.line("  " + call.String())
		}
	}
	if len(y.Failed) > 0 {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(y.Failed)) {
			parts = append(parts, fmt.Sprintf("%s %d", name, y.Failed[name]))
		}
		r.line("Failed calls: " + strings.Join(parts, ", "))
	}
	for _, text := range y.Queued {
		r.line("Not answered yet: " + clip(text, 100))
	}
	if y.Damaged > 0 {
		r.line(fmt.Sprintf("Damaged: %s of the session cannot be read", count(y.Damaged, "line")))
	}
	r.line(y.cost())
}

// cost is what the run took, and what of it was for nothing.
func (y *why) cost() string {
	text := fmt.Sprintf("Used: %s, %s tokens in, %s out, %s", count(y.Attempts[0], "request"),
		thousands(y.Spent.Usage.Input+y.Spent.Usage.CacheRead+y.Spent.Usage.CacheWrite), thousands(y.Spent.Usage.Output), price(y.Spent))
	if y.Attempts[1] == 0 && y.LostTime == 0 {
		return text
	}
	return text + fmt.Sprintf("; of it lost: %s, %s output tokens, %s, %s",
		count(y.Attempts[1], "request"), thousands(y.Lost.Usage.Output), price(y.Lost), round(y.LostTime.Truncate(time.Millisecond)))
}

// price is what is known of a price; what is not known is said.
func price(t session.Total) string {
	switch {
	case t.Unknown == 0 && t.USD == 0:
		return "no money"
	case t.Unknown == 0:
		return "about " + usd(t.USD)
	case t.USD == 0:
		return "price not known"
	}
	return fmt.Sprintf("about %s and %s of unknown price", usd(t.USD), count(t.Unknown, "request"))
}
