package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json"
)

// transcript writes what was said and done for people: their prompts, the
// answers whole, calls and results shortened, ways back as dim lines.
func (p *past) transcript(out io.Writer, colour bool) error {
	var b strings.Builder
	r := &renderer{out: &b, colour: colour}
	if s := p.history.Start; s != nil {
		r.line(r.paint(dim, fmt.Sprintf("session %s · %s · %s", p.id, s.Model, s.Dir)))
	} else {
		r.line(r.paint(dim, "session "+p.id))
	}
	if p.history.Name != "" {
		r.line(r.paint(dim, "called "+p.history.Name))
	}
	if p.history.Parent != "" {
		origin := "a copy of the session " + p.history.Parent + ", and what came after"
		if session.IsChild(p.history.Session) {
			origin = "a sub-agent of the session " + p.history.Parent
		}
		r.line(r.paint(dim, origin))
	}
	if p.inUse {
		r.line(r.paint(yellow, p.usedBy()+"; this is what it has written so far"))
	}
	if p.damaged > 0 {
		r.line(r.paint(red, fmt.Sprintf("%s cannot be read: daruma session check %s", count(p.damaged, "line"), p.id)))
	}
	for _, e := range p.events {
		p.tell(r, e)
	}
	if p.history.Running {
		what := "the process died in this run: daruma why " + p.id
		if p.inUse {
			what = "at work now"
		}
		r.line(r.paint(yellow, "… "+what))
	}
	if left := p.left(); left != nil {
		for _, line := range left.lines() {
			r.line(r.paint(yellow, "  "+line))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (p *past) tell(r *renderer, e session.Event) {
	switch b := e.Body.(type) {
	case *session.RunStart:
		text := "── run " + fmt.Sprint(e.Run) + " · " + clock(e.Time)
		if b.Continue {
			text += " · goes on"
		}
		r.line("\n" + r.paint(dim, text))
	case *session.Message:
		p.said(r, b.Message)
	case *session.Commit:
		tellAnswer(r, b.Message)
	case *session.Continue:
		tellAnswer(r, b.Message)
	case *session.Recovery:
		if b.State != session.Running {
			r.line(r.paint(dim, "↻ "+because(b)+" · "+decision(b)+" · "+endings[string(b.State)]))
		}
	case *session.Compaction:
		r.line(r.paint(dim, fmt.Sprintf("✂ made smaller (%s): about %s tokens → %s", b.Rung, thousands(b.Before), thousands(b.After))))
	case *session.Result:
		if !b.Denied { // the refusal stands above it
			r.event(e)
		}
	case *session.Permission:
		r.event(e)
	case *session.Notice:
		r.line(r.paint(dim, "· "+b.Text))
	case *session.End:
		if b.IsError {
			r.line(r.paint(red, "■ "+reasonText(b.Reason)+" ("+string(b.Reason)+")"))
		}
	}
}

func (p *past) said(r *renderer, m *message.Message) {
	switch {
	case m == nil || m.HasResults():
	case m.Failure != nil:
		r.line(r.paint(red, "✗ "+m.PlainText()))
	case m.Synthetic:
		r.line(r.paint(dim, "(to the model: "+clip(m.PlainText(), 100)+")"))
	default:
		r.line(r.paint(bold, "> "+strings.ReplaceAll(strings.TrimSpace(m.PlainText()), "\n", "\n> ")))
	}
}

func tellAnswer(r *renderer, m *message.Message) {
	if m == nil {
		return
	}
	if text := strings.TrimSpace(m.PlainText()); text != "" {
		r.line(text)
	}
	r.calls(m)
}

// lines writes the session as --output-format stream-json would have: a first
// line and a result for each run, and what people said.
func (p *past) lines(out io.Writer) error {
	s := &stream{id: newID, session: p.id, replay: true}
	write := func(line any) error {
		data, err := json.Marshal(line, session.JSONOptions())
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", data)
		}
		return err
	}
	bill := byModel{}
	var run []session.Event
	for _, e := range p.events {
		var lines []any
		switch b := e.Body.(type) {
		case *session.Start:
			lines = append(lines, startLine(s, b))
		case *session.RunStart:
			bill, run = byModel{}, nil
		}
		bill.add(e)
		run = append(run, e)
		lines = append(lines, s.lines(e)...)
		if b, ok := e.Body.(*session.End); ok {
			lines = append(lines, pastResult(p.id, run, b, bill))
		}
		for _, line := range lines {
			if err := write(line); err != nil {
				return err
			}
		}
	}
	if left := p.left(); left != nil {
		return write(previewLine{s.head("system", "resume_preview"), left})
	}
	return nil
}

// left is what the last run left open, unless it is still at it.
func (p *past) left() *preview {
	if p.inUse {
		return nil
	}
	return previewOf(p.history)
}

// startLine is the first line of a session that is over: where the key came
// from is not known any more.
func startLine(s *stream, b *session.Start) initLine {
	return initLine{
		head: s.head("system", "init"), Dir: b.Dir, Model: b.Model, Fallbacks: b.Fallbacks, Mode: permissionMode(b.Permission),
		Tools: append([]string{}, toolNames(b.Tools)...), KeySource: "none", Version: b.Build, Agent: "daruma", Style: "default",
		MCPServers: append([]session.Server{}, b.Servers...), Commands: []string{}, Skills: []string{}, Plugins: []string{}, Resumed: b.Resumed, Sandbox: b.Sandbox,
	}
}

func permissionMode(mode string) string {
	if mode == "" {
		return "default"
	}
	return mode
}

func pastResult(id string, run []session.Event, end *session.End, bill byModel) resultLine {
	r, err := daruma.Collect(func(yield func(session.Event, error) bool) {
		for _, e := range run {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		r = &daruma.Result{End: *end}
	}
	line := toLine(r, id, exitCode(end.Reason, end.Failure))
	line.Models = bill
	return line
}
