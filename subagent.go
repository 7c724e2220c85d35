package daruma

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
)

// SubAgents lets the model hand tasks to agents of their own, with the tool
// Agent: each has its own conversation and journal, works under what is left of
// the parent's budget, and ends with it.
type SubAgents struct {
	Depth    int           // levels below the main agent; 0 means 1
	Count    int           // in one run; 0 means 32
	MaxTurns int           // of each; 0 means that of the parent
	MaxTime  time.Duration // of each, waits included; 0 means an hour
	// Open returns what the sub-agent with this session works with; again says
	// that it worked before. Nil: it shares the parent's tools, and no journal
	// is kept.
	Open func(id string, again bool) (Workplace, error)
}

// Workplace is what a sub-agent does not share with its parent.
type Workplace struct {
	Tools   *tool.Set
	Journal *session.Journal
	History *session.History
	Files   *session.Files
	Carry   func(budget int) []string
	Ended   func() []tool.Task
	Close   func()
}

// The bounds of sub-agents if none are named.
const (
	defaultDepth  = 1
	defaultAgents = 32
	defaultTime   = time.Hour
)

// AgentTool is the name of the tool.
const AgentTool = "Agent"

const agentText = `Gives a task to another agent, which works on it by itself and answers with its last message.

- It knows nothing of this conversation: put the whole task, the names of files and what you want to hear into prompt.
- It has the same tools and the same workspace. Several calls in one answer work at the same time: let no two change the same files.
- Use it for work that is long to do and short to report: searching a large code base, trying something out, a part of a larger task.
- An answer that says INCOMPLETE is not the whole work: read what is missing, and call Agent again with resume to let that agent go on.`

// agentRole is what a sub-agent is told besides the prompt of its parent.
const agentRole = `You work for another agent, on the one task that it gives you. Nobody can answer questions. ` +
	`Your last message is all that it gets: say what you found or did, with names of files, and what is left undone.`

type agentInput struct {
	Description string `json:"description,omitzero" jsonschema:"the task in 3 to 5 words"`
	Prompt      string `json:"prompt" jsonschema:"the whole task"`
	Type        string `json:"subagent_type,omitzero" jsonschema:"general-purpose, if given"`
	Model       string `json:"model,omitzero" jsonschema:"another model than yours; leave it out if in doubt"`
	Resume      string `json:"resume,omitzero" jsonschema:"the id of an agent that is to go on"`
	Background  bool   `json:"run_in_background,omitzero" jsonschema:"not supported: make several calls in one answer instead"`
}

// Delegated is the structured output of Agent.
type Delegated struct {
	Status   string      `json:"status"` // completed or incomplete
	Agent    string      `json:"agentId"`
	Reason   loop.Reason `json:"reason"`
	Took     int64       `json:"totalDurationMs"`
	Tokens   int         `json:"totalTokens"`
	ToolUses int         `json:"totalToolUseCount"`

	total, wasted session.Total
}

// children are the sub-agents of one run.
type children struct {
	mu      sync.Mutex
	begun   int
	session map[string]string // by call
	extra   map[string]string // what hooks want it to know, by call
	asking  sync.Mutex        // a person is asked one question at a time
}

// agentTool makes the tool; its calls come back to the run in progress.
func (a *Agent) agentTool() tool.Tool {
	return &tool.Typed[agentInput]{
		Name: AgentTool, Description: agentText,
		Touch:  func(agentInput) tool.Access { return tool.Access{Kind: tool.AccessNone} }, // what it does is judged by itself
		Beside: func(agentInput) bool { return true },
		Do: func(ctx context.Context, c tool.Call, in agentInput) tool.Result {
			a.mu.Lock()
			r := a.current
			a.mu.Unlock()
			if r == nil {
				return tool.Fail(tool.ClassUnknown, "no run is in progress: nothing was started")
			}
			return r.delegate(ctx, c, in)
		},
	}
}

// patienceWithAgents is longer than that with what they call: who gives up an
// agent that itself waits for a tool loses what it has.
func patienceWithAgents(cfg Config) map[string]time.Duration {
	longer := maps.Clone(cfg.Tools.Longer)
	if longer == nil {
		longer = map[string]time.Duration{}
	}
	levels := cmp.Or(cfg.SubAgents.Depth, defaultDepth) - cfg.depth
	longer[AgentTool] = time.Duration(levels+1) * cmp.Or(cfg.Tools.Patience, tool.DefaultPatience)
	return longer
}

// assign gives a call of Agent the session that its sub-agent will have. It runs
// before the call, in the goroutine of the run.
func (r *run) assign(c *call) {
	var in agentInput
	if r.cfg.SubAgents == nil || c.Name != AgentTool || json.Unmarshal(c.Input, &in) != nil {
		return // a call that cannot be read is answered by the tool set
	}
	k, id := &r.children, in.Resume
	k.mu.Lock()
	defer k.mu.Unlock()
	most := cmp.Or(r.cfg.SubAgents.Count, defaultAgents)
	busy := false
	for _, other := range k.session {
		busy = busy || other == id
	}
	switch {
	case in.Background:
		c.refuse(tool.ClassBadInput, "run_in_background is not supported: nothing was started. Calls of Agent in one answer work at the same time.")
	case strings.TrimSpace(in.Prompt) == "":
		c.refuse(tool.ClassBadInput, "the prompt is empty: nothing was started")
	case in.Type != "" && in.Type != generalPurpose:
		c.refuse(tool.ClassBadInput, fmt.Sprintf("there is no agent of type %q: leave subagent_type out, or use %s", in.Type, generalPurpose))
	case id != "" && !r.history.HasChild(id):
		c.refuse(tool.ClassBadInput, fmt.Sprintf("no agent of this session has the id %q: nothing was started", id))
	case id != "" && busy:
		c.refuse(tool.ClassBadInput, fmt.Sprintf("the agent %s is at work: nothing was started", id))
	case k.begun >= most:
		c.refuse(ClassTooMany, fmt.Sprintf("%d agents were started in this run, and that is the limit: do the rest yourself", most))
	default:
		if id == "" {
			id = r.history.NextChild()
		}
		if k.session == nil {
			k.session, k.extra = map[string]string{}, map[string]string{}
		}
		k.begun++
		k.session[c.ID] = id
		r.emit(&session.Child{Call: c.ID, Session: id, Again: in.Resume != ""})
		about := r.input(hook.SubagentStartInput{})
		about.AgentID, about.AgentType = id, generalPurpose
		out := r.askAbout(about)
		r.context = r.context[:len(r.context)-len(out.Context)] // it is for the sub-agent
		for _, t := range out.Context {
			k.extra[c.ID] += "\n\n" + t.Hook + " says: " + r.cfg.Redact.Known(t.Text)
		}
	}
}

const generalPurpose = "general-purpose"

// Failure classes of sub-agents.
const (
	ClassTooMany    = "TooManyAgents"
	ClassIncomplete = "Incomplete"
)

// delegate runs a sub-agent until it ends. Whatever its end is, the result says
// what it has and whether that is all.
func (r *run) delegate(ctx context.Context, c tool.Call, in agentInput) tool.Result {
	r.children.mu.Lock()
	id, extra := r.children.session[c.ID], r.children.extra[c.ID]
	r.children.mu.Unlock()
	defer func() {
		r.children.mu.Lock()
		defer r.children.mu.Unlock()
		delete(r.children.session, c.ID)
	}()
	place := Workplace{Tools: r.alone}
	if open := r.cfg.SubAgents.Open; open != nil {
		var err error
		if place, err = open(id, in.Resume != ""); err != nil {
			return tool.Fail(tool.Classify(err), "the agent could not be started: "+r.cfg.Redact.Redact(err.Error()))
		}
	}
	if place.Close != nil {
		defer place.Close()
	}
	if place.History == nil && in.Resume != "" {
		if place.History = r.remembered(id); place.History == nil {
			return tool.Refuse(tool.ClassBadInput, fmt.Sprintf("what the agent %s knew was not kept: give the whole task to a new one", id))
		}
	}
	cfg, note := r.child(id, in, place)
	child, err := New(cfg)
	if err != nil {
		return tool.Fail(tool.ClassUnknown, "the agent could not be started: "+err.Error())
	}
	began := time.Now()
	w := watched{progress: c.Progress}
	end := w.watch(child.Run(ctx, in.Prompt+extra))
	if end == nil {
		return tool.Fail(ClassIncomplete, fmt.Sprintf("The agent could not begin: %v. Nothing was done.", w.err))
	}
	if place.Journal == nil {
		r.remember(id, child.History())
	}
	out := &Delegated{
		Status: "completed", Agent: id, Reason: end.Reason, Took: time.Since(began).Milliseconds(),
		Tokens: end.Total.Usage.Input + end.Total.Usage.Output + end.Total.Usage.CacheRead + end.Total.Usage.CacheWrite, ToolUses: w.calls,
		total: end.Total, wasted: end.Wasted,
	}
	result := w.result(end, id)
	if note != "" {
		result.Content = append(result.Content, message.Block{Type: message.Text, Text: note})
	}
	if result.IsError {
		out.Status = "incomplete"
	}
	result.Output = out
	return result
}

// remember keeps what a sub-agent without a journal knows, as long as this agent
// lives: it may have to go on.
func (a *Agent) remember(id string, h *session.History) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unsaved == nil {
		a.unsaved = map[string]*session.History{}
	}
	a.unsaved[id] = h
}

func (a *Agent) remembered(id string) *session.History {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unsaved[id]
}

// child makes the configuration of a sub-agent out of this one's.
func (r *run) child(id string, in agentInput, place Workplace) (cfg Config, note string) {
	subs := r.cfg.SubAgents
	cfg = r.cfg
	cfg.Tools, cfg.Journal, cfg.History, cfg.Files, cfg.Carry = place.Tools, place.Journal, place.History, place.Files, place.Carry
	cfg.Ended = place.Ended
	cfg.Session, cfg.Name, cfg.parent = id, "", r.history.Session
	cfg.System = append(slices.Clone(cfg.System), agentRole)
	cfg.MaxTurns = min(cmp.Or(subs.MaxTurns, cfg.MaxTurns), cfg.MaxTurns)
	cfg.MaxTime = cmp.Or(subs.MaxTime, defaultTime)
	cfg.TokenBudget, cfg.StopHooks, cfg.Cleanup, cfg.AskWait, cfg.Observe = 0, nil, nil, nil, nil
	cfg.purse, cfg.depth = r.bill.purse, cfg.depth+1
	if cfg.depth >= cmp.Or(subs.Depth, defaultDepth) {
		cfg.SubAgents = nil
	}
	if cfg.Ask != nil {
		cfg.Ask = r.askedInTurn(cfg.Ask)
	}
	switch {
	case in.Model == "" || in.Model == cfg.Models[0]:
	case model.Lookup(in.Model).ID == in.Model || slices.Contains(cfg.Models, in.Model):
		cfg.Models = chain(append([]string{in.Model}, cfg.Models...))
		cfg.Models = cfg.Models[:min(len(cfg.Models), maxChain)]
	default:
		note = fmt.Sprintf("(The model %s is not known: the agent worked with %s.)", in.Model, cfg.Models[0])
	}
	return cfg, note
}

// watched is what a parent sees of a sub-agent.
type watched struct {
	progress func(string)
	err      error
	calls    int
	texts    []string // what it said
	changed  []string // the calls with effects that it made
}

// watch follows a sub-agent to its end; nil if it could not begin.
func (w *watched) watch(events func(func(session.Event, error) bool)) (end *session.End) {
	for e, err := range events {
		if err != nil {
			w.err = err
			return nil
		}
		switch b := e.Body.(type) {
		case *session.Commit:
			w.heard(b.Message)
		case *session.Continue:
			w.heard(b.Message)
		case *session.Intent:
			if b.Group == 0 {
				w.changed = append(w.changed, b.Name+" "+brief(string(b.Input)))
			}
		case *session.Recovery:
			if b.State == session.Running {
				text := fmt.Sprintf("%s: %s, try %d of %d", cmp.Or(string(b.Cause), b.Outcome), b.Decision, b.Attempt, b.Of)
				if b.Delay > 0 && !b.NextAt.IsZero() {
					text += " at " + b.NextAt.Local().Format(time.TimeOnly)
				}
				w.say(text)
			}
		case *session.End:
			end = b
		}
	}
	return end
}

func (w *watched) heard(m *message.Message) {
	if m == nil {
		return
	}
	if text := strings.TrimSpace(m.PlainText()); text != "" {
		w.texts = append(w.texts, text)
	}
	for i := range m.Blocks {
		if b := &m.Blocks[i]; b.Type == message.ToolUse {
			w.calls++
			w.say(b.Name + " " + brief(string(b.Input)))
		}
	}
}

func (w *watched) say(text string) {
	if w.progress != nil {
		w.progress(text)
	}
}

// Bounds of what an incomplete result tells.
const (
	mostSaid = 6000 // bytes of what it said last
	mostTold = 20   // calls with effects
)

// result is what the parent's model reads.
func (w *watched) result(end *session.End, id string) tool.Result {
	if end.Reason == loop.Completed {
		return tool.Text(end.Text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "INCOMPLETE: the agent ended before its work was done: %s (turns: %d, tool calls: %d).", reasonWords[end.Reason], end.Turns, w.calls)
	if end.Failure != nil {
		fmt.Fprintf(&b, " (%s)", brief(end.Failure.Text(false)))
	}
	if len(w.changed) > 0 {
		fmt.Fprintf(&b, "\nIt made these calls, which may have changed something:\n- %s", strings.Join(w.changed[max(0, len(w.changed)-mostTold):], "\n- "))
	}
	if said := strings.Join(w.texts, "\n\n"); said != "" {
		b.WriteString("\nWhat it said until then:\n" + last(said, mostSaid))
	} else {
		b.WriteString("\nIt said nothing until then.")
	}
	fmt.Fprintf(&b, "\nTo let it go on, call %s with resume=%q.", AgentTool, id)
	class := ClassIncomplete
	if end.Reason == loop.AbortedStreaming || end.Reason == loop.AbortedTools {
		class = tool.ClassAborted
	}
	return tool.Fail(class, b.String())
}

// purse is what a run and all agents below it used of their budgets together.
type purse struct {
	mu   sync.Mutex
	usd  float64
	lost RecoveryBudget // to failures
}

func (p *purse) pay(usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usd += usd
}

// lose counts what a failure cost; its money is paid besides.
func (p *purse) lose(usd float64, tokens int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost.USD += usd
	p.lost.Tokens += tokens
	p.lost.Time += took
}

// reserve takes wait out unless judge, told what is used, names a budget that
// forbids it.
func (p *purse) reserve(wait time.Duration, judge func(usd float64, lost RecoveryBudget) loop.Budget) loop.Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := judge(p.usd, p.lost)
	if b == loop.NoBudget {
		p.lost.Time += wait
	}
	return b
}

func (p *purse) used() (usd float64, lost RecoveryBudget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.usd, p.lost
}
