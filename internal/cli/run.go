package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
	"golang.org/x/term"
)

func (w *world) stdinIsTerminal() bool {
	f, ok := w.Stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func run(w *world, o *options) error {
	var sig *signals
	if o.print {
		sig = earlySignals(func(code int) { unborn(w, o, code) })
	}
	if err := o.check(w); err != nil {
		return err
	}
	s, err := prepare(w, o)
	if err != nil {
		return err
	}
	defer s.close()
	if o.print {
		return headless(w, o, s, sig)
	}
	return chat(w, o, s)
}

// unborn ends the process on a signal that came before its run began. It tells
// what any other end tells.
func unborn(w *world, o *options, code int) {
	e := fail(code, "run it again", "interrupted before the run began")
	newOutput(w, o, &setup{}).stillborn(loop.AbortedStreaming, errors.New(e.text), e)
	os.Exit(w.complain(e, &runError{e, errorLine{Reason: string(loop.AbortedStreaming), Code: code, Retryable: true}}))
}

// headless runs one prompt. The answer goes to stdout, everything else to stderr.
func headless(w *world, o *options, s *setup, sig *signals) error {
	s.config.Defer = true
	agent, err := daruma.New(s.config)
	if err != nil {
		return fail(exitConfig, "", "%v", err)
	}
	show := w.progress(s)
	show.verbose = o.verbose
	for _, note := range s.told() {
		show.line(note)
	}
	s.tell = show.line
	sig.attend(agent, show.line)
	defer s.farewell(agent, "other")
	out := newOutput(w, o, s)
	events := agent.Run(context.Background(), o.prompt)
	if o.prompt == "" {
		events = agent.Continue(context.Background())
	}
	stop := beats(show.tick)
	result, err := daruma.Collect(out.follow(tee(tee(events, sig.event), show.event)))
	stop()
	show.done()
	if err != nil {
		e := s.unwritable(w, err)
		if errors.Is(err, daruma.ErrEmpty) {
			e = fail(exitInput, "give a prompt", "nothing was said in this session yet")
		}
		out.stillborn(loop.SetupFailed, err, e)
		return e
	}
	if result.Session == "" {
		result.Session = s.session
	}
	exit := exitCode(result.Reason, result.Failure)
	halted := s.halted(result)
	if halted != nil {
		exit = halted.code
	}
	exit = sig.settle(exit)
	if err := out.finish(result, exit); err != nil {
		return fail(exitFailed, out.elsewhere(), "stdout cannot be written: %v", err)
	}
	switch {
	case exit == exitOK:
		return nil
	case halted != nil && exit == halted.code:
		return halted
	}
	return s.exitOf(result, exit)
}

// progress shows on stderr what goes on.
func (w *world) progress(s *setup) *renderer {
	return &renderer{
		out: discreet{w.Stderr, s.config.Redact.Known}, colour: w.colour(w.ErrTerminal),
		terminal: w.ErrTerminal && w.env("TERM") != "dumb", // which cannot take a line back
		width:    func() int { return columns(w.Stderr) },
	}
}

// columns is the width of the terminal behind out; 0 if it is none.
func columns(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// lastWords is one line about a run that did not complete.
func lastWords(r *daruma.Result) string {
	if tells(r) {
		return string(r.Reason) + ": " + r.Failure.Text(false)
	}
	return string(r.Reason) + ": " + reasonText(r.Reason)
}

// steps are the words for what a person of this command can turn.
var steps = map[failure.Kind]string{
	failure.Auth:          "check ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, and ANTHROPIC_BASE_URL",
	failure.ModelNotFound: "check --model or ANTHROPIC_MODEL, and ANTHROPIC_BASE_URL",
	failure.Network:       "check the network, the proxy and ANTHROPIC_BASE_URL",
	failure.Overloaded:    "try again later, or name other models with --fallback-model",
}

// tells reports whether the failure of r says more than the reason does.
func tells(r *daruma.Result) bool {
	return r.Failure != nil && (r.Failure.Kind != failure.Unknown || r.Reason == loop.APIError)
}

// ending says in two lines how a run ended that did not complete: what
// happened, and what to do.
func ending(r *daruma.Result) (what, step string) {
	if !tells(r) {
		return string(r.Reason) + ": " + reasonText(r.Reason), r.Next
	}
	what = r.Failure.Text(false)
	if at := strings.LastIndex(what, "; "); at >= 0 { // the words of a failure end with a step
		what, step = what[:at], what[at+2:]
	}
	if own, ok := steps[r.Failure.Kind]; ok {
		step = own
	}
	if r.Reason == loop.APIError && !r.NextAt.IsZero() && r.Next != "" {
		step = r.Next + ", or let it wait with --wait-for-limit"
	}
	if r.Failure.Status >= 300 {
		what += fmt.Sprintf(", HTTP %d", r.Failure.Status)
	}
	if r.Reason != loop.APIError {
		what, step = string(r.Reason)+": "+what, cmp.Or(r.Next, step)
	}
	return what, step
}

// goOn adds to a step how the session goes on from where it stopped.
func (s *setup) goOn(step string) string {
	if s.path == "" {
		return cmp.Or(step, "run it again")
	}
	switch step {
	case "continue the session to try again":
		return "try again: daruma -p --resume " + s.session
	case "go on", "", "continue the session when you are ready":
		return "go on: daruma -p --resume " + s.session
	}
	return step + "; to go on: daruma -p --resume " + s.session
}

// discreet takes the secrets that are known out of what is written through it,
// which is whole lines: a model may use in a call what it was never shown.
type discreet struct {
	out   io.Writer
	known func(string) string
}

func (d discreet) Write(p []byte) (int, error) {
	if _, err := io.WriteString(d.out, d.known(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// tee shows each event to see before it goes on.
func tee(events func(func(session.Event, error) bool), see func(session.Event)) func(func(session.Event, error) bool) {
	return func(yield func(session.Event, error) bool) {
		for e, err := range events {
			if err == nil {
				see(e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
