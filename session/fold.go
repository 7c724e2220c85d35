package session

import (
	"slices"
	"strconv"
	"strings"

	"github.com/daruma-agent/daruma/message"
)

// History is what a journal amounts to. [History.Apply] is the only way in
// which it changes, in memory as on disk, so both always agree.
type History struct {
	Session    string
	Parent     string // session that this one was forked from
	Name       string // that people gave it
	Start      *Start
	Messages   []*message.Message
	Results    map[string]message.Block // of calls whose message is not complete yet
	Intents    map[string]*Intent       // tools that began and did not end
	Queued     []string                 // prompts that nobody answered
	Seq        uint64
	Runs       int
	Attempts   int
	Recoveries int
	Attempt    *Begin // the attempt without end, if any
	Partial    string // its last checkpoint
	Children   []*Child
	Tasks      []*Task // in the background, of whose end the model was not told
	Running    bool    // the last run has no end
	End        *End    // of the last run that has one
	Unsure     bool    // the run that has no end may have gone on behind the last event

	ids int // highest number in a message ID
}

// Fold returns what events amount to.
func Fold(events []Event) *History {
	h := &History{}
	for _, e := range events {
		h.Apply(e)
	}
	return h
}

// Apply takes one event into h. Ephemeral and unknown events change nothing.
func (h *History) Apply(e Event) {
	h.Seq = max(h.Seq, e.Seq)
	h.Runs = max(h.Runs, e.Run)
	if h.Session == "" {
		h.Session = e.Session
	}
	switch b := e.Body.(type) {
	case *Start:
		h.Start = b
		if h.Parent == "" { // the first start of a fork names it; those behind are copies
			h.Parent = b.Parent
		}
	case *Name:
		h.Name = b.Name
	case *RunStart:
		h.Running = true
	case *Prompt:
		// One that is about to join the conversation waits, too: the process may
		// die before its message is there.
		switch i := slices.Index(h.Queued, b.Text); {
		case b.State == PromptQueued, b.State == PromptStarted:
			h.Queued = append(h.Queued, b.Text)
		case i >= 0: // rejected, or done
			h.Queued = slices.Delete(h.Queued, i, i+1)
		}
	case *Message:
		h.add(b.Message)
		h.Tasks = slices.DeleteFunc(h.Tasks, func(t *Task) bool { return slices.Contains(b.Ends, t.ID) })
	case *Begin:
		h.Attempt, h.Partial = b, ""
		h.Attempts = max(h.Attempts, b.Attempt)
	case *Checkpoint:
		h.Partial = b.Text
	case *Commit:
		h.Attempt, h.Partial = nil, ""
		h.add(b.Message)
	case *Continue:
		h.Attempt, h.Partial = nil, ""
		h.add(b.Message)
	case *Retract:
		h.Attempt, h.Partial = nil, ""
	case *Recovery:
		h.Recoveries = max(h.Recoveries, b.ID)
	case *Child:
		h.Children = append(h.Children, b)
	case *Intent:
		h.intent(b)
	case *Result:
		h.result(b)
	case *Results:
		h.results(b)
	case *Compaction:
		h.compact(b)
	case *End:
		h.Running, h.End = false, b
	}
}

func (h *History) add(m *message.Message) {
	if m == nil {
		return
	}
	h.Messages = append(h.Messages, m)
	h.number(m.ID)
	// A queued prompt is answered for once it stands in the conversation.
	if m.Role == message.User && !m.Synthetic && len(h.Queued) > 0 {
		if i := slices.Index(h.Queued, m.PlainText()); i >= 0 {
			h.Queued = slices.Delete(h.Queued, i, i+1)
		}
	}
}

func (h *History) number(id string) {
	if n, err := strconv.Atoi(strings.TrimPrefix(id, "m")); err == nil {
		h.ids = max(h.ids, n)
	}
}

// NextID returns an ID for the next message: short, unique in the session, and
// the same in every replay.
func (h *History) NextID() string {
	h.ids++
	return "m" + strconv.Itoa(h.ids)
}

func (h *History) intent(b *Intent) {
	if h.Intents == nil {
		h.Intents = map[string]*Intent{}
	}
	h.Intents[b.Call] = b
}

func (h *History) result(b *Result) {
	delete(h.Intents, b.Call)
	if h.Results == nil {
		h.Results = map[string]message.Block{}
	}
	h.Results[b.Call] = b.Block
	switch {
	case b.Task == nil:
	case b.Task.Ended:
		h.Tasks = slices.DeleteFunc(h.Tasks, func(t *Task) bool { return t.ID == b.Task.ID })
	default:
		h.Tasks = append(h.Tasks, b.Task)
	}
}

func (h *History) results(b *Results) {
	m := &message.Message{ID: b.ID, Role: message.User, Caller: b.Caller}
	for _, call := range b.Calls {
		if block, ok := h.Results[call]; ok {
			m.Blocks = append(m.Blocks, block)
		}
	}
	h.Results = nil
	if len(m.Blocks) > 0 {
		h.add(m)
	}
}

func (h *History) compact(b *Compaction) {
	byID := make(map[string]*message.Message, len(h.Messages)+len(b.New))
	for _, m := range slices.Concat(h.Messages, b.New) {
		byID[m.ID] = m
		h.number(m.ID)
	}
	next := make([]*message.Message, 0, len(b.Order))
	for _, id := range b.Order {
		if m := byID[id]; m != nil {
			next = append(next, m)
		}
	}
	h.Messages = next
}

// Answered reports whether the conversation ends with an answer.
func (h *History) Answered() bool {
	for _, m := range slices.Backward(h.Messages) {
		if m.Failure == nil {
			return m.Role == message.Assistant
		}
	}
	return false
}

// Doubtful reports whether a call without result may have taken effect: it began,
// or nobody knows whether it did.
func (h *History) Doubtful(call string) bool {
	in := h.Intents[call]
	return in == nil && h.Unsure || in != nil && in.Effect != pureEffect
}

// Open returns the calls of the last answer that have no message with results
// yet: the run ended, or the process died, in the middle of them.
func (h *History) Open() (caller *message.Message, calls []message.Block) {
	for i := len(h.Messages) - 1; i >= 0; i-- {
		m := h.Messages[i]
		switch {
		case m.Failure != nil:
			continue
		case m.Role == message.Assistant:
			return m, m.Calls()
		default:
			return nil, nil
		}
	}
	return nil, nil
}
