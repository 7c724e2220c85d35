package daruma_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// fickle is a tool whose results are played by a test.
type fickle struct {
	name   string
	effect tool.Effect
	do     func(n int, input string) tool.Result

	mu  sync.Mutex
	ran int
}

func (f *fickle) Spec() model.Tool {
	return model.Tool{Name: f.name, Schema: jsontext.Value(`{"type":"object"}`)}
}
func (f *fickle) Effect(jsontext.Value) tool.Effect { return f.effect }
func (f *fickle) Access(jsontext.Value) tool.Access { return tool.Access{Kind: tool.AccessNone} }
func (f *fickle) Run(_ context.Context, c tool.Call) tool.Result {
	f.mu.Lock()
	f.ran++
	n := f.ran
	f.mu.Unlock()
	return f.do(n, string(c.Input))
}

// TestDoomLoops: calls that lead nowhere are noticed and not run once more; the
// model is told once, and the run ends if it goes on (corpus: doom-loop).
func TestDoomLoops(t *testing.T) {
	same := func(int, string) tool.Result { return tool.Text("the same") }
	fails := func(n int, _ string) tool.Result {
		return tool.Fail("X", fmt.Sprintf("No changes made: old and new text are equal (%d ms).", n))
	}
	const stubborn = "model\n  rule again\n    call %s x=\"1\"\n"
	for name, c := range map[string]struct {
		tool   *fickle
		script string
		ran    int // how often the tool runs before it is refused
	}{
		"C156 a read with the same result":   {&fickle{name: "read", effect: tool.Pure, do: same}, fmt.Sprintf(stubborn, "read"), 5},
		"C157 an edit that fails":            {&fickle{name: "edit", effect: tool.Unsafe, do: fails}, fmt.Sprintf(stubborn, "edit"), 3},
		"C153 a tool that does not exist":    {&fickle{name: "read", effect: tool.Pure, do: same}, "model\n  rule again\n    block `{\"type\":\"tool_use\",\"name\":\"gone\",\"input\":{}}`\n", 0},
		"a change that changes nothing":      {&fickle{name: "bash", effect: tool.Unsafe, do: same}, fmt.Sprintf(stubborn, "bash"), 10},
		"two calls that alternate":           {&fickle{name: "edit", effect: tool.Unsafe, do: func(_ int, in string) tool.Result { return tool.Text(in) }}, play(numbered(20, `edit x="a"`, `edit x="b"`)...), 6},
		"a read between reads of other text": {&fickle{name: "read", effect: tool.Pure, do: same}, play(append(numbered(9, `read x="a"`, `read x="%d"`), numbered(9, `read x="a"`)...)...), 9},
	} {
		t.Run(name, func(t *testing.T) {
			p := lab{script: c.script, config: func(cfg *daruma.Config) { cfg.Tools, _ = tool.NewSet(c.tool) }}.play(t)
			end := p.must(t, loop.ToolLoop)
			if c.tool.ran != c.ran {
				t.Errorf("it ran %d times, not %d", c.tool.ran, c.ran)
			}
			if !end.IsError || end.Failure == nil {
				t.Errorf("the end does not say what is wrong: %+v", end)
			}
			nudges := 0
			for _, r := range of[*session.Result](p) {
				if r.Class == tool.ClassRepeated && strings.Contains(r.Block.PlainText(), "leads nowhere") {
					nudges++
				}
			}
			if nudges != 2 {
				t.Errorf("%d calls were refused, want one that warns and one that ends the run", nudges)
			}
		})
	}
}

// play makes a model that calls so, one after the other, and is done then.
func play(calls ...string) string {
	text := "model\n"
	for i, c := range calls {
		text += fmt.Sprintf("  rule r%[1]d\n    when n %[1]d\n    call %[2]s\n", i+1, c)
	}
	return text + "  rule done\n    say \"Done.\"\n"
}

// numbered is call for each number up to n; %d in it is the number.
func numbered(n int, calls ...string) (out []string) {
	for i := range n {
		c := calls[i%len(calls)]
		if strings.Contains(c, "%d") {
			c = fmt.Sprintf(c, i)
		}
		out = append(out, c)
	}
	return out
}

// TestNoDoomLoop: what looks like a repetition and is work goes on.
func TestNoDoomLoop(t *testing.T) {
	for name, c := range map[string]struct {
		tools  []tool.Tool
		script string
	}{
		"polling with news": {[]tool.Tool{&fickle{name: "check", effect: tool.Pure, do: func(n int, _ string) tool.Result {
			return tool.Text(fmt.Sprintf("%d of 30 done", n))
		}}}, play(numbered(30, `check x="1"`)...)},
		"a test between edits": {[]tool.Tool{
			&fickle{name: "test", effect: tool.Pure, do: func(int, string) tool.Result { return tool.Text("FAIL") }},
			&fickle{name: "edit", effect: tool.Unsafe, do: func(_ int, in string) tool.Result { return tool.Text("edited") }},
		}, play(numbered(20, `test x="1"`, `edit x="%d"`)...)},
		"waiting for a server": {[]tool.Tool{
			&slow{name: "wait", effect: tool.Unsafe, takes: 30 * time.Second},
			&fickle{name: "check", effect: tool.Unsafe, do: func(n int, _ string) tool.Result {
				if n < 12 {
					return tool.Fail(tool.ClassExit, "Exit code 7")
				}
				return tool.Text("up")
			}},
		}, play(numbered(24, `check x="1"`, `wait x="1"`)...)},
		"one nudge is enough": {[]tool.Tool{&fickle{name: "read", effect: tool.Pure, do: func(int, string) tool.Result { return tool.Text("same") }}},
			play(append(numbered(6, `read x="1"`), `read x="2"`)...)},
	} {
		t.Run(name, func(t *testing.T) {
			p := lab{script: c.script, config: func(cfg *daruma.Config) { cfg.Tools, _ = tool.NewSet(c.tools...) }}.play(t)
			p.must(t, loop.Completed)
		})
	}
}
