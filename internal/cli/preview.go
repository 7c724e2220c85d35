package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/session"
)

// preview is what the last run of a session left open: shown before the session
// goes on, and by session show.
type preview struct {
	Calls   []session.LeftCall `json:"calls"`
	Partial int                `json:"partial_chars,omitzero"` // of an answer that was being written
	Queued  []string           `json:"queued,omitzero"`        // prompts that nobody answered
	Ended   []string           `json:"ended,omitzero"`         // what still ran, and was ended
}

// previewOf returns nil if the last run of h came to its end, and left nothing
// open.
func previewOf(h *session.History) *preview {
	calls := h.Left()
	if !h.Running && len(calls) == 0 {
		return nil
	}
	return &preview{Calls: append([]session.LeftCall{}, calls...), Partial: len([]rune(h.Partial)), Queued: h.Queued}
}

// stateWords say what a state means for who goes on.
var stateWords = map[session.CallState][2]string{
	session.CallDone:       {"done", ""},
	session.CallNotStarted: {"not started", "  (the model is told, and may make it again)"},
	session.CallPutOff:     {"put off", "  (its hook is asked again)"},
	session.CallInDoubt:    {"in doubt", "  (it may have taken effect: the model is told to check before it repeats it)"},
}

// lines is p for people.
func (p *preview) lines() []string {
	what := "the last run was cut off"
	if n := len(p.Calls); n > 0 && p.Calls[0].State == session.CallPutOff {
		what = "the last run put a call off:"
	} else if n > 0 {
		what += " in the middle of " + count(n, "call") + ":"
	} else if p.Partial > 0 {
		what += fmt.Sprintf(" while the model answered; %s of that answer are in the journal and are not used", count(p.Partial, "character"))
	}
	out := []string{what}
	for _, c := range p.Calls {
		words := stateWords[c.State]
		out = append(out, fmt.Sprintf("  %-11s  %s %s%s", words[0], c.Name, brief(c.Input), words[1]))
	}
	for _, text := range p.Queued {
		out = append(out, "  unanswered   "+clip(text, 100)+"  (it is said again)")
	}
	return append(out, p.Ended...)
}

// changes says what is not as it was when a process worked on the session last:
// the person may not know, and the model cannot.
func changes(old *session.Start, dir, model, mode string, tools []string) []string {
	if old == nil {
		return nil
	}
	var out []string
	if old.Dir != "" && old.Dir != dir {
		gone := ""
		if info, err := os.Stat(old.Dir); err != nil || !info.IsDir() {
			gone = ", which is not there any more"
		}
		out = append(out, fmt.Sprintf("the session worked in %s before%s; now it works in %s", old.Dir, gone, dir))
	}
	if old.Model != "" && old.Model != model {
		out = append(out, fmt.Sprintf("the session worked with %s before; now %s is asked", old.Model, model))
	}
	if old.Permission != "" && old.Permission != mode {
		out = append(out, fmt.Sprintf("the permission mode was %s before; now it is %s", old.Permission, mode))
	}
	if len(old.Tools) > 0 {
		if gone := without(old.Tools, tools); len(gone) > 0 {
			out = append(out, "tools that the session had before are missing: "+strings.Join(gone, ", "))
		}
		if more := without(tools, old.Tools); len(more) > 0 {
			out = append(out, "tools that the session did not have before: "+strings.Join(more, ", "))
		}
	}
	return out
}

// without lists what is in a and not in b.
func without(a, b []string) []string {
	var out []string
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// lookBack tells what this process finds in a session that it goes on with.
func (s *setup) lookBack(w *world) {
	h := s.config.History
	if h == nil {
		return
	}
	s.left = previewOf(h)
	if s.left != nil {
		s.left.Ended = s.ended
	} else {
		s.notes = append(s.notes, s.ended...)
	}
	s.notes = append(s.notes, changes(h.Start, w.Dir, s.config.Models[0], string(s.config.Permission.Mode), s.toolNames())...)
}

// told are the notes for people with which a session begins.
func (s *setup) told() []string {
	var out []string
	for _, note := range s.notes {
		out = append(out, "note: "+note)
	}
	if s.left != nil {
		for i, line := range s.left.lines() {
			switch {
			case i == 0 || !strings.HasPrefix(line, " "):
				line = "note: " + line
			default:
				line = "    " + line
			}
			out = append(out, line)
		}
	}
	return out
}
