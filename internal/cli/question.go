package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ask puts a permission question to the person.
func (t *talk) ask(ctx context.Context, q permission.Question) (permission.Answer, error) {
	prompt, always := "y/n> ", ""
	if len(q.Suggestions) > 0 {
		prompt, always = "y/a/n> ", "\n  a always: "+tool.Clean(q.Suggestions[0].String())
	}
	who, stop := "", "stop"
	if !t.show.owns(q.Call.ID) {
		who, stop = "a sub-agent asks: ", "stop that sub-agent"
	}
	show := func() {
		t.show.line(t.show.paint(yellow, "? "+who+q.Call.Name+" "+brief(q.Call.Input)))
		for _, line := range allOf(q.Call.Input) {
			t.show.line("  │ " + line)
		}
		t.show.line(t.show.paint(dim, "  "+tool.Clean(q.Reason)))
		t.show.line("  y yes · n no, and " + stop + " · or say what to do instead" + always)
	}
	var answer permission.Answer
	t.answers(ctx, prompt, show, func(line string) (ok bool) {
		if answer, ok = understand(line, q); !ok {
			t.show.line("  " + prompt[:len(prompt)-2] + ", or words: what is to be done instead")
		}
		return ok
	})
	return answer, context.Cause(ctx)
}

// mostShown bounds the lines of a call that a question shows.
const mostShown = 40

// allOf shows the input of a call as far as its one line does not: nobody can
// allow what they have not seen.
func allOf(input jsontext.Value) (lines []string) {
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil {
		return nil
	}
	for _, f := range []struct{ name, mark string }{{"command", ""}, {"old_string", "- "}, {"new_string", "+ "}, {"content", "+ "}, {"prompt", ""}} {
		text, ok := fields[f.name].(string)
		if !ok || f.mark == "" && clip(text, 120) == text {
			continue
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(tool.Clean(text), "\n"), "\n") {
			lines = append(lines, f.mark+line)
		}
	}
	if n := len(lines) - mostShown; n > 1 { // the end of a command is as telling as its beginning
		head, tail := lines[:mostShown/2], lines[len(lines)-mostShown/2:]
		lines = append(append(head[:len(head):len(head)], fmt.Sprintf("… %d lines are not shown; n stops, and the file or command can be asked for in parts …", n)), tail...)
	}
	return lines
}

func understand(line string, q permission.Question) (permission.Answer, bool) {
	switch strings.ToLower(line) {
	case "":
		return permission.Answer{}, false
	case "y", "yes":
		return permission.Answer{Behavior: permission.Allow}, true
	case "a", "always":
		if len(q.Suggestions) == 0 {
			return permission.Answer{}, false
		}
		return permission.Answer{Behavior: permission.Allow, Remember: q.Suggestions}, true
	case "n", "no":
		return permission.Answer{Interrupt: true}, true
	}
	return permission.Answer{Message: line}, true
}

// askWait lets the person choose what to do about a long wait.
func (t *talk) askWait(ctx context.Context, q daruma.WaitQuestion) daruma.WaitChoice {
	until := time.Now().Add(q.Wait)
	keys, prompt := "  w wait · n stop (what you typed is kept)", "w/n> "
	if q.Fallback {
		keys, prompt = "  w wait · m another model · n stop (what you typed is kept)", "w/m/n> "
	}
	show := func() {
		t.show.line(t.show.paint(yellow, fmt.Sprintf("⏸ %s: the provider asks to wait %s, until %s",
			strings.ReplaceAll(string(q.Failure.Kind), "_", " "), span(q.Wait), until.Local().Format(time.TimeOnly))))
		t.show.line(t.show.paint(dim, "  "+tool.Clean(q.Failure.Text(true))))
		t.show.line(keys)
	}
	choice := daruma.StopHere
	t.answers(ctx, prompt, show, func(line string) (ok bool) {
		if choice, ok = chosen(line, q.Fallback); !ok {
			t.show.line(keys)
		}
		return ok
	})
	return choice
}

// chosen understands the answer to a question about a long wait.
func chosen(line string, fallback bool) (daruma.WaitChoice, bool) {
	switch strings.ToLower(line) {
	case "w", "wait":
		return daruma.WaitForIt, true
	case "m", "model":
		if fallback {
			return daruma.AnotherModel, true
		}
	case "n", "no", "stop":
		return daruma.StopHere, true
	}
	return daruma.StopHere, false
}

// answers puts a question: lines go to take, until it understands one.
func (t *talk) answers(ctx context.Context, prompt string, show func(), take func(line string) bool) {
	lines := make(chan string, 16) // a line that comes too late has a place to go
	t.mu.Lock()
	t.answer = lines
	t.mu.Unlock()
	show() // who reads it may answer it
	t.prompt(prompt)
	defer func() {
		t.mu.Lock()
		t.answer, t.status = nil, ""
		t.mu.Unlock()
		if !t.dumb {
			t.prompt("> ")
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-lines:
			if take(line) {
				return
			}
			if t.dumb {
				t.prompt(prompt)
			}
		}
	}
}
