package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// renderer writes what happens as lines for a person. On a terminal a wait
// counts down in place; elsewhere each state is one plain line.
type renderer struct {
	out      io.Writer
	terminal bool
	width    func() int // columns of the terminal, 0 if nobody knows; may be nil
	colour   bool
	verbose  bool
	words    bool // show what the model said once it is certain
	stream   bool // show the model's words as they come …
	lines    bool // … by whole lines, for a screen with a prompt below

	pending string // words that wait for the end of their line
	code    bool   // the model's words are in a block of code

	inPlace  bool                // a countdown stands on the last line
	midLine  bool                // streamed text did not end with a line break
	healed   []*session.Recovery // not told yet
	waiting  int                 // recovery whose wait was told
	several  bool                // calls run at once: a result says whose it is
	refused  string              // the last call that was refused, which needs no more words
	streamed int                 // characters of the attempt that are on the screen

	mu     sync.Mutex // events, questions and the clock write at any time
	pulse  pulse
	spoke  time.Time     // when the last line was written
	silent time.Duration // after which the next line says that it still works
}

// colour says whether stream may be coloured: NO_COLOR beats everything.
func (w *world) colour(terminal bool) bool {
	if w.env("NO_COLOR") != "" || w.env("TERM") == "dumb" {
		return false
	}
	if force := w.env("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return terminal
}

const (
	dim    = "2"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (r *renderer) paint(style, text string) string {
	if !r.colour {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// line writes one line, below whatever stands there.
func (r *renderer) line(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(text)
}

func (r *renderer) put(text string) {
	r.spoke, r.silent = time.Now(), 0
	r.clear()
	r.flush()
	if r.midLine {
		fmt.Fprintln(r.out)
		r.midLine = false
	}
	text = marked(text)
	if r.lines && r.width != nil {
		text = wrap(text, r.width(), 2)
	}
	fmt.Fprintln(r.out, text)
}

func (r *renderer) clear() {
	if r.inPlace {
		fmt.Fprint(r.out, "\r\x1b[K")
		r.inPlace = false
	}
}

// done leaves the screen in order.
func (r *renderer) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tellHealed()
	r.clear()
	r.flush()
	if r.midLine {
		fmt.Fprintln(r.out)
		r.midLine = false
	}
}

func (r *renderer) event(e session.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pulse.event(e, time.Now())
	if b, ok := e.Body.(*session.Recovery); !ok || b.State != session.Healed {
		r.tellHealed()
	}
	switch b := e.Body.(type) {
	case *session.Begin:
		r.streamed = 0
	case *session.Delta:
		r.delta(b)
	case *session.Commit:
		r.streamed = 0
		r.flush()
		r.code = false
		r.calls(b.Message)
	case *session.Continue:
		r.streamed = 0
		r.calls(b.Message)
	case *session.Retract:
		if r.stream && r.streamed > 0 {
			r.put(r.paint(dim, fmt.Sprintf("✗ the last %s no longer count: %s", count(r.streamed, "character"), voidBecause(b.Cause))))
		}
		r.streamed, r.code = 0, false
	case *session.Recovery:
		r.recovery(b)
	case *session.Waiting:
		r.countdown(b)
	case *session.Result:
		r.result(b)
	case *session.Permission:
		if !b.Allowed {
			r.refused = b.Call
			r.put(r.paint(yellow, "✋ "+b.Name+" refused: "+tool.Clean(b.Reason)))
		}
	case *session.Compaction:
		if b.Rung == "refusal" {
			r.put(r.paint(yellow, "✂ what was refused leaves the conversation; the session can go on"))
			break
		}
		r.put(r.paint(yellow, fmt.Sprintf("✂ the conversation was shortened: about %s tokens → %s", thousands(b.Before), thousands(b.After))))
	case *session.Notice:
		mark := "· "
		if b.Level == session.Warning {
			mark = "! "
		}
		r.put(r.paint(yellow, mark+tool.Clean(b.Text)))
	case *session.Decision:
		if r.verbose {
			r.put(r.paint(dim, "  "+b.Outcome+" ⇒ "+b.Step))
		}
	}
}

// voidBecause says why words that were shown are taken back.
func voidBecause(cause string) string {
	if strings.Contains(cause, "refus") {
		return "the model refused"
	}
	return "the answer broke off"
}

func (r *renderer) delta(b *session.Delta) {
	if !r.stream || b.Input || b.Thinking {
		return
	}
	r.clear()
	r.streamed += utf8.RuneCountInString(b.Text)
	if r.lines {
		r.pending += b.Text
		if i := strings.LastIndexByte(r.pending, '\n'); i >= 0 {
			r.prose(r.pending[:i])
			r.pending = r.pending[i+1:]
		}
		return
	}
	fmt.Fprint(r.out, b.Text)
	r.midLine = !strings.HasSuffix(b.Text, "\n")
}

// prose writes whole lines of the model, code as it is and the rest broken
// between words.
func (r *renderer) prose(text string) {
	for line := range strings.SplitSeq(marked(tool.Clean(text)), "\n") {
		start := strings.TrimLeft(line, " ")
		if strings.HasPrefix(start, "```") || strings.HasPrefix(start, "~~~") {
			r.code = !r.code
		}
		if r.width != nil && !r.code && len(line)-len(start) < 4 && !strings.HasPrefix(start, "|") && !strings.HasPrefix(line, "\t") {
			hang := 0
			if strings.HasPrefix(start, "- ") || strings.HasPrefix(start, "* ") {
				hang = 2
			}
			line = wrap(line, r.width(), hang)
		}
		fmt.Fprintln(r.out, line)
	}
}

// flush ends the line that waits.
func (r *renderer) flush() {
	if r.pending != "" {
		r.prose(r.pending)
		r.pending = ""
	}
}

func (r *renderer) calls(m *message.Message) {
	if m == nil {
		return
	}
	if text := m.PlainText(); r.words && text != "" {
		r.put("» " + clip(text, 160))
	}
	r.several = len(m.Calls()) > 1
	for _, c := range m.Calls() {
		if list := todos(c.Name, c.Input); list != "" {
			r.put(r.paint(bold, "● "+c.Name) + list)
			continue
		}
		r.put(r.paint(bold, "● "+c.Name) + " " + brief(c.Input))
	}
}

// result shows how a call ended, with the first lines of a failure.
func (r *renderer) result(b *session.Result) {
	if b.Call == r.refused {
		return
	}
	text := strings.TrimSpace(tool.Clean(b.Block.PlainText()))
	if inner, ok := strings.CutPrefix(text, "<tool_use_error>"); ok { // a mark for the model
		text = strings.TrimSuffix(inner, "</tool_use_error>")
	}
	lines := strings.Split(text, "\n")
	if !b.Block.IsError {
		who := ""
		if r.several {
			who = b.Name + ": "
		}
		r.put(r.paint(dim, fmt.Sprintf("  └ %s%s%s", who, clip(lines[0], 100), more(len(lines)-1))))
		return
	}
	if strings.HasPrefix(lines[0], "Exit code ") && len(lines) > 1 { // which says little alone
		lines = append([]string{lines[0] + ": " + lines[1]}, lines[2:]...)
	}
	r.put(r.paint(red, fmt.Sprintf("  └ %s failed: %s%s", b.Name, clip(lines[0], 160), more(len(lines)-1))))
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return " (+" + count(n, "line") + ")"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// recovery says from the first try why, what and how often; and one dim line
// when it healed.
func (r *renderer) recovery(b *session.Recovery) {
	switch b.State {
	case session.Running:
		// Waits are told by their countdown, stubs by what they save.
		if b.Delay == 0 && b.Decision != "collapse_drain_retry" {
			r.put(r.paint(yellow, "↻ "+because(b)+" · "+decision(b)))
		}
	case session.Healed:
		r.healed = append(r.healed, b)
	case session.NotHealed:
		r.put(r.paint(red, fmt.Sprintf("✗ not healed: %s, in spite of %s", because(b), decision(b))))
	}
}

// tellHealed says in one line that an answer came, after whatever it took.
func (r *renderer) tellHealed() {
	n := len(r.healed)
	if n == 0 {
		return
	}
	last := r.healed[n-1]
	text := fmt.Sprintf("✓ healed: %s, by %s", because(last), decision(last))
	if n > 1 {
		text += fmt.Sprintf(" (%d steps)", n)
	}
	r.healed = nil
	r.put(r.paint(dim, text))
}

func because(b *session.Recovery) string {
	why := string(b.Cause)
	if why == "" {
		why = outcomeText(b.Outcome)
	}
	why = strings.ReplaceAll(why, "_", " ")
	if b.Status != 0 {
		why += fmt.Sprintf(" (%d)", b.Status)
	}
	return why
}

var decisions = map[string]string{
	"retry": "try", "gate": "waiting with the others", "unstreamed": "asking for it in one piece", "refresh": "new credentials", "clamp": "a smaller output limit",
	"max_output_tokens_escalate": "more output room",
	"max_output_tokens_recovery": "going on with the answer",
	"kept_calls":                 "running the complete calls",
	"collapse_drain_retry":       "leaving out old results",
	"media_strip_retry":          "leaving out images and documents",
	"drop_tool_retry":            "leaving out the tool that is refused",
	"pairing_repair_retry":       "sending calls and results as text",
	"truncated_call_retry":       "asking for the call again",
	"broken_stream_recovery":     "going on with the answer",
	"proactive_compact":          "shortening the conversation",
	"reactive_compact_retry":     "shortening the conversation",
	"window_full_compact":        "shortening the conversation",
	"skeleton_compact_retry":     "keeping only the essentials",
	"refusal_fallback":           "another model",
	"model_fallback":             "another model",
	"empty_answer_retry":         "asking again",
	"malformed_tool_use_retry":   "asking for the call again",
	"strip_thinking_retry":       "leaving out the thinking",
	"pause_turn_resume":          "letting the server go on",
	"stop_hook_blocking":         "going on as the hook says",
	"break_loop":                 "its calls lead nowhere and were not run",
	"token_budget_continuation":  "going on with the task",
}

func decision(b *session.Recovery) string {
	text := decisions[b.Decision]
	if text == "" {
		text = strings.ReplaceAll(b.Decision, "_", " ")
	}
	if b.Of > 1 || b.Decision == "retry" {
		text += " " + nOfM(b.Attempt, b.Of)
	}
	return text
}

// countdown tells a wait once; on a terminal the clock keeps it true.
func (r *renderer) countdown(b *session.Waiting) {
	if r.terminal {
		r.inPlaceLine(waitText(b, b.Left))
		return
	}
	if r.waiting != b.Recovery {
		r.waiting = b.Recovery
		r.put(waitText(b, b.Left))
	}
}

// inPlaceLine writes what the next line will take the place of.
func (r *renderer) inPlaceLine(text string) {
	if r.midLine {
		fmt.Fprintln(r.out)
		r.midLine = false
	}
	const stops = " · Ctrl+C stops"
	if r.width != nil {
		if columns := r.width(); columns > 0 {
			text = fit(text, columns-len(stops)) // a line that wraps cannot be taken back
		}
	}
	fmt.Fprint(r.out, "\r\x1b[K"+r.paint(yellow, text+stops))
	r.inPlace = true
}

// tick says at now that it still works, if it has been silent for long: on a
// terminal in place, elsewhere on a line of its own that comes ever less often.
func (r *renderer) tick(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.pulse.text(now)
	if text == "" {
		return
	}
	if r.terminal {
		r.inPlaceLine(text)
		return
	}
	silent := max(r.silent, firstSilence)
	if now.Sub(r.spoke) >= silent {
		text = "… " + strings.TrimPrefix(text, "⏸ ")
		if r.lines { // somebody sits there
			text += " · Ctrl+C stops"
		}
		r.put(r.paint(dim, text))
		r.silent = min(2*silent, lastSilence)
	}
}

// doing is what goes on, for a prompt to say.
func (r *renderer) doing(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulse.text(now)
}

// owns reports whether a call that runs is one of this agent: those of its
// sub-agents are not seen here.
func (r *renderer) owns(call string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.pulse.calls, func(c pulseCall) bool { return c.id == call })
}

// beats calls tick every second, until stop is called.
func beats(tick func(now time.Time)) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				tick(now)
			}
		}
	}()
	return func() { close(done); <-over }
}
