package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// mostText is how many characters of one text of a hook count.
const mostText = 10_000

// Hooks are configured hooks, ready to be asked. Its methods may be called from
// several goroutines.
type Hooks struct {
	cfg      Config
	handlers []Handler
	matchers []matcher
	client   *http.Client

	background context.Context // of hooks that nobody waits for
	stop       context.CancelFunc
	slots      chan struct{}
	observe    sync.Mutex
	asked      atomic.Uint64

	mu      sync.Mutex
	closed  bool
	async   sync.WaitGroup
	told    map[int]bool // handlers that cannot run, of which the person knows
	dropped []Text       // notices of hooks that nobody waited for
	spent   map[string]*Spent
}

// Spent is what one hook put into the conversation so far.
type Spent struct {
	Hook  string // its label
	Calls int    // times that it said something to the model
	Chars int
}

// New makes hooks ready. The error names a handler that cannot be understood;
// one that [Parse] accepted can.
func New(cfg Config) (*Hooks, error) {
	if cfg.Parallel <= 0 {
		cfg.Parallel = defaultParallel
	}
	if cfg.MaxAsync <= 0 {
		cfg.MaxAsync = defaultAsync
	}
	if cfg.Grace <= 0 {
		cfg.Grace = defaultGrace
	}
	h := &Hooks{
		cfg: cfg, handlers: slices.Clone(cfg.Handlers), slots: make(chan struct{}, cfg.MaxAsync),
		told: map[int]bool{}, spent: map[string]*Spent{},
	}
	if cfg.Transport != nil {
		h.client = &http.Client{
			Transport: cfg.Transport,
			// What goes to one address must not be sent to another.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	for i := range h.handlers {
		one := &h.handlers[i]
		m, err := compile(one.Event, one.Matcher)
		if _, known := traitOf(one.Event); err == nil && !known {
			err = errors.New(unknownEvent(string(one.Event)))
		}
		if err != nil {
			return nil, fmt.Errorf("%s (%s): %w", one.label(), one.Source, err)
		}
		h.matchers = append(h.matchers, m)
	}
	h.background, h.stop = context.WithCancel(context.Background())
	return h, nil
}

// List shows all hooks, in the order in which their answers are merged.
func (h *Hooks) List() []Entry {
	var all []Entry
	for i := range h.handlers {
		all = append(all, h.cfg.entry(&h.handlers[i]))
	}
	return all
}

// Any reports whether a hook could run for e, so that nobody prepares an input
// for nothing.
func (h *Hooks) Any(e Event) bool {
	return h != nil && slices.ContainsFunc(h.handlers, func(one Handler) bool { return one.Event == e && h.cfg.entry(&one).Runs })
}

// Matches reports whether a hook that can run matches in: such a call must not
// begin before its hooks were asked.
func (h *Hooks) Matches(in Input) bool {
	if h == nil || in.Body == nil {
		return false
	}
	t, _ := traitOf(in.Event())
	return len(h.choose(in, t, nil)) > 0
}

// Spent tells which hooks put how much into the conversation, the most first: a
// message about a full window should name them.
func (h *Hooks) Spent() []Spent {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Spent
	for _, s := range h.spent {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Spent) int {
		if a.Chars != b.Chars {
			return b.Chars - a.Chars
		}
		return strings.Compare(a.Hook, b.Hook)
	})
	return all
}

// Run asks all hooks that match in, together, waits for them and merges what they
// say. It does not fail: what goes wrong is in the output, and on a policy event
// it denies. When ctx ends, the hooks end. Nil hooks say nothing.
func (h *Hooks) Run(ctx context.Context, in Input) Output {
	if h == nil || in.Body == nil {
		return Output{}
	}
	t, _ := traitOf(in.Event())
	m := &merger{trait: t, failOpen: h.cfg.FailOpen, keep: h.keep, hide: h.hide}
	m.out.Notices = h.takeNotices()
	chosen := h.choose(in, t, m)
	if len(chosen) == 0 {
		return m.finish()
	}
	data, err := json.Marshal(in)
	ctx, cancel := h.bound(ctx, t, chosen)
	defer cancel()

	raws := make([]raw, len(chosen))
	var running sync.WaitGroup
	slots := make(chan struct{}, h.cfg.Parallel)
	for i, e := range chosen {
		switch {
		case err != nil:
			raws[i] = raw{ending: notStarted, why: "its input could not be written: " + err.Error()}
		case e.Async && e.Type == Command:
			h.start(e, in, data, m)
		default:
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				raws[i] = h.ask(ctx, e, in, data)
			})
		}
	}
	running.Wait()
	for i, e := range chosen {
		if !e.Async || e.Type != Command {
			h.judge(m, e, raws[i])
		}
	}
	return m.finish()
}

// judge adds what came of a hook to the output.
func (h *Hooks) judge(m *merger, e *Entry, r raw) {
	v := judge(m.trait, r)
	result := h.result(e, r, v)
	result.Chars = m.add(e, v)
	m.out.Results = append(m.out.Results, result)
	if result.Chars > 0 {
		h.account(h.hide(e.label()), result.Chars)
	}
	h.tell(*e, &result)
}

// result is what came of a hook, for screens and logs.
func (h *Hooks) result(e *Entry, r raw, v verdict) Result {
	result := Result{
		Entry: *e, Outcome: "success", ExitCode: r.code, Took: r.took,
		Stdout: clip(h.hide(text(r.stdout)), mostText), Stderr: clip(h.hide(text(r.stderr)), mostText),
	}
	if v.failed != "" || v.notice != "" {
		result.Outcome = "error"
	}
	if r.ending == timedOut || r.ending == cancelled {
		result.Outcome = "cancelled"
	}
	if r.ending != exited {
		result.ExitCode = -1
	}
	return result
}

func (h *Hooks) account(label string, chars int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spent[label]
	if s == nil {
		s = &Spent{Hook: label}
		h.spent[label] = s
	}
	s.Calls++
	s.Chars += chars
}

func (h *Hooks) tell(e Entry, r *Result) {
	if h.cfg.Observe != nil {
		h.observe.Lock()
		defer h.observe.Unlock()
		h.cfg.Observe(e, r)
	}
}

// choose finds the hooks that match, each once. m, if there is one, hears of those
// that cannot be judged.
func (h *Hooks) choose(in Input, t trait, m *merger) []*Entry {
	var chosen []*Entry
	seen := map[string]bool{}
	for i := range h.handlers {
		one := &h.handlers[i]
		if one.Event != t.event || h.cfg.disabled(one) || !h.matchers[i].matches(in.values()) {
			continue
		}
		if e := h.cfg.entry(one); !e.Runs {
			h.mention(i, one, m)
		} else if h.applies(one, in, m) && !seen[one.same()] {
			seen[one.same()] = true
			e.Asked = h.asked.Add(1)
			chosen = append(chosen, &e)
		}
	}
	return chosen
}

// mention tells once of a hook that would be asked if this version could.
func (h *Hooks) mention(i int, one *Handler, m *merger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m != nil && !h.told[i] && !one.supported() {
		h.told[i] = true
		m.notice(one.label(), fmt.Sprintf("hooks of type %q are not supported by this version: it was not asked and decides nothing", one.Type))
	}
}

// applies judges the "if" of a hook. One that cannot be judged applies.
func (h *Hooks) applies(one *Handler, in Input, m *merger) bool {
	call, ok := in.toolCall()
	switch {
	case one.If == "":
		return true
	case !ok:
		return false
	case h.cfg.Match == nil:
		return true
	}
	yes, err := h.match(one.If, call)
	if err != nil && m != nil {
		m.notice(one.label(), fmt.Sprintf(`its "if" cannot be judged, so it runs: %v`, err))
	}
	return yes || err != nil
}

func (h *Hooks) match(rule string, call ToolCall) (yes bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the judge of rules panicked: %v", p)
		}
	}()
	return h.cfg.Match(rule, call)
}

// bound gives the hooks of the end of a session their common time (R60): the
// person has closed the window.
func (h *Hooks) bound(ctx context.Context, t trait, chosen []*Entry) (context.Context, context.CancelFunc) {
	if t.event != SessionEnd {
		return context.WithCancel(ctx)
	}
	budget := endBudget
	for _, e := range chosen {
		budget = max(budget, min(e.Timeout, endBudgetMost))
	}
	for _, e := range chosen {
		if e.Timeout == 0 || e.Limit > budget {
			e.Limit = budget
		}
	}
	return context.WithTimeout(ctx, budget+h.cfg.Grace) // the limits come first, and say what happened
}

// ask runs one hook and measures it.
func (h *Hooks) ask(ctx context.Context, e *Entry, in Input, data []byte) (r raw) {
	h.tell(*e, nil)
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			r = raw{ending: notStarted, why: fmt.Sprintf("it made this program panic: %v", p)}
		}
		r.took, r.limit = time.Since(began), e.Limit
	}()
	if ctx.Err() != nil {
		return raw{ending: cancelled}
	}
	if e.Type == HTTP {
		return h.post(ctx, e, data)
	}
	return h.command(ctx, e, in, data)
}

// start runs a hook that nobody waits for.
func (h *Hooks) start(e *Entry, in Input, data []byte, m *merger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		m.notice(e.label(), "not started: the session is ending")
		return
	}
	select {
	case h.slots <- struct{}{}:
	default:
		m.notice(e.label(), fmt.Sprintf("not started: %d hooks that nobody waits for are running", cap(h.slots)))
		return
	}
	h.async.Go(func() {
		defer func() { <-h.slots }()
		// What it says comes too late, but that it failed is worth a line.
		r := h.ask(h.background, e, in, data)
		v := judge(m.trait, r)
		result := h.result(e, r, v)
		h.tell(*e, &result)
		if why := v.failed + v.notice; why != "" && !v.refusal {
			h.drop(Text{h.hide(e.label()), h.hide(e.label() + ": " + why)})
		}
	})
}

// Start tells hooks of an event whose course they cannot change, such as
// StopFailure, and waits for none of them (R58). What fails is a notice of the
// next Run or of Close.
func (h *Hooks) Start(in Input) {
	if h == nil || in.Body == nil || !h.Any(in.Event()) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	why := ""
	select {
	case h.slots <- struct{}{}:
		if !h.closed {
			h.async.Go(func() {
				defer func() { <-h.slots }()
				h.drop(h.Run(h.background, in).Notices...)
			})
			return
		}
		<-h.slots
		why = "the session is ending"
	default:
		why = fmt.Sprintf("%d hooks that nobody waits for are running", cap(h.slots))
	}
	h.dropLocked(Text{"hooks", fmt.Sprintf("the %s hooks were not started: %s", in.Event(), why)})
}

// drop keeps notices for later, a bounded number.
func (h *Hooks) drop(notices ...Text) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(notices...)
}

func (h *Hooks) dropLocked(notices ...Text) {
	const most = 32
	h.dropped = append(h.dropped, notices[:min(len(notices), max(0, most-len(h.dropped)))]...)
}

func (h *Hooks) takeNotices() []Text {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.dropped
	h.dropped = nil
	return n
}

// Close starts no more hooks that nobody waits for, gives those that run until
// ctx ends, ends them, and returns when none of them is alive. The notices are
// of those that failed or were ended.
func (h *Hooks) Close(ctx context.Context) []Text {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	done := make(chan struct{})
	go func() {
		h.async.Wait()
		close(done)
	}()
	var ended []Text
	select {
	case <-done:
	case <-ctx.Done():
		if n := len(h.slots); n > 0 {
			ended = append(ended, Text{"hooks", fmt.Sprintf("%d hooks that nobody waited for were still running and were ended", n)})
		}
	}
	h.stop()
	<-done
	return append(h.takeNotices(), ended...)
}

// keep bounds a text of a hook. The whole of one that is cut goes to a file.
func (h *Hooks) keep(hook, s string) string {
	s = h.hide(strings.TrimSpace(text([]byte(s))))
	n := utf8.RuneCountInString(s)
	if n <= mostText {
		return s
	}
	where := "were not kept"
	if h.cfg.OutputDir != "" {
		path, err := spill(h.cfg.OutputDir, s)
		where = "are, with all of it, in " + path
		if err != nil {
			where = "could not be kept: " + err.Error()
		}
	}
	const room = 1000 // for the note; longer paths are cut with it
	head := string([]rune(s)[:mostText-room])
	return head + clip(fmt.Sprintf("\n[The %s said %d characters; those from here on %s.]", hook, n, where), room)
}

func (h *Hooks) hide(s string) string {
	if h.cfg.Hide == nil {
		return s
	}
	return h.cfg.Hide(s)
}

func spill(dir, s string) (path string, err error) {
	f, err := os.CreateTemp(dir, "hook-*.txt")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(s)
	return f.Name(), errors.Join(err, f.Close())
}
