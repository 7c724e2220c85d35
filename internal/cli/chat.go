package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"golang.org/x/term"
)

const chatHelp = `Type a prompt and press Enter. While it works, what you type is queued.
  Esc, Ctrl+C   interrupt; when nothing runs, Ctrl+C twice or Ctrl+D leaves
  /now PROMPT   cut in: the model stops talking, what it said stays, and this follows
  /continue     go on from where it stopped
  /compact      shorten the conversation now; words behind it say what to keep
  /why          how the last run ended, and what led there
  /session      where this session is kept
  /help, /exit`

// talk is a conversation on a terminal, line by line: the screen below the
// last line is the prompt, everything else scrolls by above it.
type talk struct {
	agent *daruma.Agent
	setup *setup
	show  *renderer
	term  screen
	in    *os.File
	keys  *keys // nil if the terminal reads lines itself

	signals *signals

	prompts chan string
	gone    chan struct{} // the person left, or the terminal did
	leaving sync.Once
	code    int // of the exit then

	mu      sync.Mutex
	running bool
	answer  chan<- string // of a question that waits; nil without one
	lastC   time.Time     // of a Ctrl+C with nothing to interrupt
	status  string        // before the prompt
	sent    []string      // typed while it works, and not taken up yet
	dumb    bool          // the terminal cannot take anything back
	asked   bool          // a prompt was given: there is something to go on with
}

// screen is where the conversation is: a terminal that takes lines back, or one
// that cannot.
type screen interface {
	io.Writer
	ReadLine() (string, error)
	SetPrompt(prompt string)
	SetSize(width, height int) error
}

// chat talks until the person leaves.
func chat(w *world, o *options, s *setup) error {
	in, out := w.Stdin.(*os.File), w.Stdout.(*os.File)
	t := &talk{setup: s, prompts: make(chan string), gone: make(chan struct{}), in: in, dumb: w.env("TERM") == "dumb"}
	restore, err := t.open(in, out)
	if err != nil {
		return fail(exitUsage, `run one prompt with daruma -p "…"`, "this terminal cannot be used: %v", err)
	}
	defer restore()
	t.show = &renderer{out: discreet{t.term, s.config.Redact.Known}, colour: w.colour(true), verbose: o.verbose, stream: true, lines: true, width: func() int { return columns(out) }}
	s.config.Ask, s.config.AskWait = t.ask, t.askWait
	if t.agent, err = daruma.New(s.config); err != nil {
		return fail(exitConfig, "", "%v", err)
	}
	s.tell = t.show.line
	defer beats(t.beat)()
	t.signals = onSignals(t.agent, t.show.line, &talkSignals{leave: t.leave, key: t.interrupt})
	defer t.signals.stop()
	defer s.farewell(t.agent, "prompt_input_exit")
	t.show.line(fmt.Sprintf("daruma %s · %s · %s · /help", Version(), s.config.Models[0], w.Dir))
	for _, note := range s.told() {
		t.show.line(note)
	}
	if s.left != nil && o.prompt == "" {
		t.show.line("type /continue to go on from there, or another prompt")
	}
	if o.prompt == "" {
		t.again(false)
	}
	go t.read()
	if o.prompt != "" {
		t.run(t.agent.Run(context.Background(), o.prompt), "")
	}
	defer t.parting()
	for {
		select {
		case <-t.gone:
			if t.code != exitOK {
				return &exitError{code: t.code}
			}
			return nil
		case prompt := <-t.prompts:
			t.obey(prompt)
		}
	}
}

// open makes the terminal ready, until restore is called.
func (t *talk) open(in, out *os.File) (restore func(), err error) {
	if t.dumb {
		t.term = &plainScreen{in: bufio.NewReader(in), out: out}
		return func() {}, nil
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	t.keys = &keys{in: in, interrupt: t.interrupt}
	line := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, out}, "> ")
	if width, height, err := term.GetSize(int(out.Fd())); err == nil {
		_ = line.SetSize(width, height)
	}
	line.SetBracketedPasteMode(true)
	t.keys.suspend = func() {
		line.SetBracketedPasteMode(false)
		_ = term.Restore(int(in.Fd()), state)
		suspend()
		if _, err := term.MakeRaw(int(in.Fd())); err == nil {
			line.SetBracketedPasteMode(true)
			_, _ = line.Write(nil) // the prompt again
		}
	}
	t.term = line
	return func() {
		t.prompt("") // the shell's own stands there next
		line.SetBracketedPasteMode(false)
		_ = term.Restore(int(in.Fd()), state)
	}, nil
}

// parting says how the conversation goes on another time.
func (t *talk) parting() {
	if t.asked && t.setup.path != "" && t.code == exitOK {
		t.show.line(t.show.paint(dim, "to go on another time: daruma --resume "+t.setup.session))
	}
}

// obey runs one prompt or command.
func (t *talk) obey(prompt string) {
	command, rest, _ := strings.Cut(prompt, " ")
	switch command {
	case "/continue":
		t.run(t.agent.Continue(context.Background()), "")
	case "/compact":
		t.run(t.agent.Compact(context.Background(), rest), "the conversation stays as it was")
	default:
		t.run(t.agent.Run(context.Background(), prompt), "")
	}
}

// leave ends the conversation as soon as its run is over.
func (t *talk) leave(code int) {
	t.leaving.Do(func() {
		t.code = code
		close(t.gone)
	})
}

func (t *talk) isLeaving() bool {
	select {
	case <-t.gone:
		return true
	default:
		return false
	}
}

// left ends it because nothing more can be read: the person left, or the
// terminal is gone.
func (t *talk) left() {
	if _, _, err := term.GetSize(int(t.in.Fd())); err != nil {
		t.agent.Shutdown()
		t.leave(exitHungUp)
		return
	}
	t.agent.Interrupt()
	t.leave(exitOK)
}

// read hands lines to whoever waits for one, until the person leaves.
func (t *talk) read() {
	for {
		line, err := t.term.ReadLine()
		if t.keys != nil {
			line = t.keys.pasted(line)
		}
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case err != nil || line == "/exit" || line == "/quit":
			t.left()
			return
		}
		t.line(line)
	}
}

// line gives one line to the question that waits, to the run in progress, or
// to a new run.
func (t *talk) line(line string) {
	t.mu.Lock()
	answer, running := t.answer, t.running
	now, cuts := strings.CutPrefix(line, "/now ")
	if cuts {
		line = strings.TrimSpace(now)
	}
	own := strings.HasPrefix(line, "/") && !cuts
	if running && answer == nil && line != "" && !own {
		t.sent = append(t.sent, line)
		if cuts {
			t.agent.SubmitNow(line)
		} else {
			t.agent.Submit(line)
		}
	}
	t.mu.Unlock()
	if t.tells(line) {
		t.again(running)
		return
	}
	switch {
	case answer != nil:
		answer <- strings.TrimSpace(line)
	case line == "":
		t.again(running)
	case own && line != "/continue" && line != "/compact" && !strings.HasPrefix(line, "/compact "):
		name, _, _ := strings.Cut(line, " ")
		t.show.line(fmt.Sprintf("there is no command %s; /help lists them. For a prompt that begins so, put a space before it.", clip(name, 40)))
		t.again(running)
	case running && own:
		t.show.line("it is at work: stop it with Ctrl+C, then " + line)
	case running && cuts:
		t.show.line(t.show.paint(dim, "cuts in: "+clip(line, 200)))
	case running:
		t.show.line(t.show.paint(dim, "queued: "+clip(line, 200)))
	default:
		select {
		case t.prompts <- line:
		case <-t.gone:
		}
	}
}

// tells obeys the commands that only tell something, also while a question waits.
func (t *talk) tells(line string) bool {
	switch line {
	case "/help":
		t.show.line(chatHelp)
	case "/why":
		t.why()
	case "/session":
		t.show.line(t.setup.session + "\n  " + t.setup.path)
	default:
		return false
	}
	return true
}

// again draws the prompt where nothing else will: a screen that cannot take it
// back has it only once.
func (t *talk) again(running bool) {
	if t.dumb && !running {
		t.prompt("> ")
	}
}

// interrupt is called for Esc and Ctrl+C, from the reader of the keys.
func (t *talk) interrupt(ctrlC bool) {
	if t.agent == nil || t.agent.Interrupt() || !ctrlC {
		return
	}
	t.mu.Lock()
	again := time.Since(t.lastC) < 3*time.Second
	t.lastC = time.Now()
	t.mu.Unlock()
	if again {
		t.leave(exitOK)
		return
	}
	t.show.line("press Ctrl+C again to leave")
	t.again(false)
}

// run follows a run to its end. unusable are the words for it where a model that
// gave nothing usable is no more than that; may be empty.
func (t *talk) run(events func(func(session.Event, error) bool), unusable string) {
	t.asked = true
	t.setRunning(true)
	result, err := daruma.Collect(tee(tee(tee(events, t.signals.commands.event), t.show.event), t.taken))
	t.setRunning(false)
	t.show.done()
	if !t.dumb {
		t.prompt("> ")
	}
	t.ended(result, err, unusable)
	if result != nil {
		t.mu.Lock()
		late := len(t.sent) > 0 // it came when the run had taken up all that it would
		t.sent = nil
		t.mu.Unlock()
		if (late || len(t.agent.History().Queued) > 0) && !t.isLeaving() {
			if result.IsError {
				t.show.line(t.show.paint(dim, "next is what you typed meanwhile; Ctrl+C stops that, too"))
			}
			t.run(t.agent.Continue(context.Background()), "")
			return
		}
	}
	if !t.isLeaving() {
		t.again(false)
	}
}

// ended says how a run ended, and what can be done next.
func (t *talk) ended(result *daruma.Result, err error, unusable string) {
	switch {
	case err != nil:
		t.show.line(t.show.paint(red, "daruma: "+tool.Clean(err.Error())))
	case result.Reason == loop.ModelError && unusable != "":
		t.show.line(t.show.paint(dim, unusable))
	case result.IsError:
		what, step := ending(result)
		what = strings.TrimPrefix(what, string(result.Reason)+": ") // the name is for machines
		t.show.line(t.show.paint(red, tool.Clean(what)))
		t.show.line(t.show.paint(dim, tool.Clean(stepHere(result, step))))
	}
	if result != nil {
		t.show.line(t.show.paint(dim, summary(result)))
	}
}

// stepHere is a next step in the words of a conversation, where to continue is
// a command, and what only a new start takes up needs one.
func stepHere(r *daruma.Result, step string) string {
	if r.Reason == loop.APIError && r.NextAt.IsZero() && step != "" {
		if kind := r.Failure.Kind; kind == failure.Auth || kind == failure.ModelNotFound {
			return step + "; that takes a new start: leave with Ctrl+D, then daruma --continue"
		}
		return step + "; /continue tries again"
	}
	rest, ok := strings.CutPrefix(r.Next, "continue the session")
	switch {
	case r.Reason == loop.HookStopped:
		return "type another prompt; the hook said why"
	case !ok:
		return r.Next
	case r.Reason == loop.AbortedStreaming || r.Reason == loop.AbortedTools:
		return "type /continue to go on, or what to do instead"
	case rest == " to try again":
		return "type /continue to try again, or another prompt"
	}
	return "type /continue to go on" + rest
}

// taken notes that the run took up a prompt that was sent to it.
func (t *talk) taken(e session.Event) {
	b, ok := e.Body.(*session.Prompt)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.sent, b.Text); i >= 0 {
		t.sent = slices.Delete(t.sent, i, i+1)
	}
}

func (t *talk) setRunning(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running, t.status = on, ""
}

// beat keeps the screen true: its size, and before the prompt what goes on and
// what stops it.
func (t *talk) beat(now time.Time) {
	width, height, err := term.GetSize(int(t.in.Fd()))
	if err == nil {
		_ = t.term.SetSize(width, height) // nothing is done if it is as it was
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running || t.answer != nil {
		return
	}
	if t.dumb {
		t.show.tick(now)
		return
	}
	status := t.show.doing(now)
	if status != "" {
		const stops = " · Esc stops"
		status = fit(strings.TrimPrefix(status, "⏸ "), width-len(stops)-12) // room to type is left
		status = t.show.paint(dim, "["+status+stops+"]") + " "
	}
	if status != t.status {
		t.status = status
		t.prompt(status + "> ")
	}
}

// prompt changes the prompt and draws it anew.
func (t *talk) prompt(text string) {
	t.term.SetPrompt(text)
	_, _ = t.term.Write(nil)
}

// summary is the line below an answer: what it took.
func summary(r *daruma.Result) string {
	parts := []string{count(r.Turns, "turn"), round(r.Took).String()}
	if r.Recovered > 0 {
		parts = append(parts, fmt.Sprintf("healed %d", r.Recovered))
	}
	if r.Total.Unknown == 0 && r.Total.USD > 0 {
		parts = append(parts, fmt.Sprintf("about $%.4f", r.Total.USD))
	}
	if r.Wasted.USD > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f of it lost", r.Wasted.USD))
	}
	return strings.Join(parts, " · ")
}
