//go:build unix

package hook

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// ways are how a hook can end.
var ways = []struct{ name, command string }{
	{"exit 0", "exit 0"}, {"exit 1", "exit 1"}, {"exit 2", "exit 2"}, {"not found", "no-such-program-here"},
	{"child killed", "exit 137"}, {"timeout", "sleep 30"}, {"killed", "kill -KILL $$"},
}

// TestMatrix asks real processes: every event, every way to end, every kind of
// output. The golden file is the contract.
func TestMatrix(t *testing.T) {
	c := common(t)
	c.Dir = os.TempDir()
	type cell struct{ line string }
	var cells []*cell
	slots := make(chan struct{}, 16)
	var running sync.WaitGroup
	for _, e := range Events() {
		for _, way := range ways {
			for _, word := range words {
				cell := new(cell)
				cells = append(cells, cell)
				one := sh(e, "printf '%s' '"+says(e, word)+"'; echo 'first line' >&2; echo second >&2; "+way.command)
				one.Timeout = 60 * time.Second
				if way.name == "timeout" {
					one.Timeout = 400 * time.Millisecond
				}
				h := hooks(t, Config{Handlers: []Handler{one}})
				running.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					out := h.Run(context.Background(), example(e, c))
					cell.line = fmt.Sprintf("%-18s %-12s %-6s  %s", e, way.name, word, summary(out, one.label()))
					noYes(t, cell.line, way.name, word, out)
				})
			}
		}
	}
	running.Wait()
	var b strings.Builder
	for _, c := range cells {
		b.WriteString(c.line + "\n")
	}
	golden(t, "testdata/matrix.txt", b.String())
}

// noYes holds C276 for each cell, whatever the golden file says.
func noYes(t *testing.T, line, way, word string, out Output) {
	sound := (way == "exit 0" || way == "exit 1") && word == "json"
	if !sound && (out.Permission == Allow || out.Answer != nil && out.Answer.Allow) {
		t.Errorf("a failing hook agreed: %s", line)
	}
}

// summary is what an output says, in a line.
func summary(out Output, label string) string {
	var parts []string
	add := func(name, text string) {
		text = strings.ReplaceAll(text, label, "HOOK")
		text, _, _ = strings.Cut(text, ". A hook that fails never means yes")
		parts = append(parts, fmt.Sprintf("%s(%s)", name, strings.ReplaceAll(text, "\n", " / ")))
	}
	switch {
	case out.Permission != "":
		add(string(out.Permission), out.Reason)
	case out.Block:
		add("block", out.Reason)
	}
	if out.Stop {
		add("stop", out.StopReason)
	}
	if a := out.Answer; a != nil {
		add(map[bool]string{true: "answer allow", false: "answer deny"}[a.Allow], a.Message)
	}
	if a := out.Recovery; a != nil {
		add("recovery "+string(a.Do), a.Model)
	}
	for _, c := range out.Context {
		add("context", c.Text)
	}
	for _, s := range out.System {
		add("system", s.Text)
	}
	if out.ToolOutput != nil {
		add("output", string(out.ToolOutput))
	}
	if out.Title != "" {
		add("title", out.Title)
	}
	if out.FirstMessage != "" {
		add("prompt", out.FirstMessage)
	}
	for _, n := range out.Notices {
		add("notice", n.Text)
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, " ")
}
