package session

import (
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json/jsontext"
)

// The types of events.
const (
	TypeStart      Type = "session_start"
	TypeRunStart   Type = "run_start"
	TypePrompt     Type = "prompt_queued"
	TypeMessage    Type = "message"
	TypeDecision   Type = "decision"
	TypeBegin      Type = "attempt_begin"
	TypeBlock      Type = "block"
	TypeDelta      Type = "delta"
	TypeCheckpoint Type = "checkpoint"
	TypeCommit     Type = "attempt_commit"
	TypeContinue   Type = "attempt_continue"
	TypeRetract    Type = "attempt_retract"
	TypeRecovery   Type = "recovery"
	TypeWaiting    Type = "waiting"
	TypeIntent     Type = "tool_intent"
	TypeProgress   Type = "tool_progress"
	TypeResult     Type = "tool_result"
	TypeResults    Type = "tool_results"
	TypePermission Type = "permission"
	TypeCompaction Type = "compaction"
	TypeRepair     Type = "repair"
	TypeMismatch   Type = "pairing_mismatch"
	TypeNotice     Type = "notice"
	TypeName       Type = "session_name"
	TypeFileSaved  Type = "file_saved"
	TypeChild      Type = "subagent_start"
	TypeHook       Type = "hook"
	TypeEnd        Type = "run_end"
)

var bodies = map[Type]func() Body{
	TypeStart:      func() Body { return new(Start) },
	TypeRunStart:   func() Body { return new(RunStart) },
	TypePrompt:     func() Body { return new(Prompt) },
	TypeMessage:    func() Body { return new(Message) },
	TypeDecision:   func() Body { return new(Decision) },
	TypeBegin:      func() Body { return new(Begin) },
	TypeBlock:      func() Body { return new(Block) },
	TypeDelta:      func() Body { return new(Delta) },
	TypeCheckpoint: func() Body { return new(Checkpoint) },
	TypeCommit:     func() Body { return new(Commit) },
	TypeContinue:   func() Body { return new(Continue) },
	TypeRetract:    func() Body { return new(Retract) },
	TypeRecovery:   func() Body { return new(Recovery) },
	TypeWaiting:    func() Body { return new(Waiting) },
	TypeIntent:     func() Body { return new(Intent) },
	TypeProgress:   func() Body { return new(Progress) },
	TypeResult:     func() Body { return new(Result) },
	TypeResults:    func() Body { return new(Results) },
	TypePermission: func() Body { return new(Permission) },
	TypeCompaction: func() Body { return new(Compaction) },
	TypeRepair:     func() Body { return new(Repair) },
	TypeMismatch:   func() Body { return new(Mismatch) },
	TypeNotice:     func() Body { return new(Notice) },
	TypeName:       func() Body { return new(Name) },
	TypeFileSaved:  func() Body { return new(FileSaved) },
	TypeChild:      func() Body { return new(Child) },
	TypeHook:       func() Body { return new(Hook) },
	TypeEnd:        func() Body { return new(End) },
}

func newBody(t Type) Body {
	if make, ok := bodies[t]; ok {
		return make()
	}
	return nil
}

// Start is the first event of every process that works on a session.
type Start struct {
	Build      string   `json:"build,omitzero"` // version of daruma
	Dir        string   `json:"dir,omitzero"`   // working directory
	Model      string   `json:"model"`
	Fallbacks  []string `json:"fallbacks,omitzero"`
	Tools      []string `json:"tools,omitzero"`
	Permission string   `json:"permission,omitzero"` // mode
	Servers    []Server `json:"mcp_servers,omitzero"`
	Sandbox    string   `json:"sandbox,omitzero"` // what keeps commands in bounds
	Resumed    bool     `json:"resumed,omitzero"`
	PID        int      `json:"pid,omitzero"` // of the process that writes the journal
	Host       string   `json:"host,omitzero"`
	Parent     string   `json:"parent,omitzero"` // session that this one was forked from
	// Life is what everything that the process starts carries in its environment
	// (see builtin.LifeVariable), so that what outlives it can be found.
	Life string `json:"life,omitzero"`
}

// Server is an MCP server as it was at the start.
type Server struct {
	Name   string `json:"name"`
	Status string `json:"status"` // connected, failed, needs-auth, pending or disabled
}

// Name names the session for people. The last one holds; an empty one takes
// the name away.
type Name struct {
	Name string `json:"name"`
}

// FileSaved says that what a file holds was kept (see [Files]) because it is
// about to be changed.
type FileSaved struct {
	Call   string `json:"call,omitzero"` // empty: the file was taken back by a person
	Path   string `json:"path"`          // absolute
	Before string `json:"before"`        // hash, or Absent
	After  string `json:"after"`         // hash of what it is about to hold, or Absent
}

// Hook says what came of a hook.
type Hook struct {
	Event   string        `json:"event"`
	Name    string        `json:"name"`
	Outcome string        `json:"outcome"` // success, error, cancelled
	Exit    int           `json:"exit,omitzero"`
	Chars   int           `json:"chars,omitzero"` // of it that the model was told
	Took    time.Duration `json:"took_ms,omitzero"`
	Stdout  string        `json:"stdout,omitzero"`
	Stderr  string        `json:"stderr,omitzero"`
}

// RunStart begins a run.
type RunStart struct {
	Continue bool `json:"continue,omitzero"` // no prompt was added
}

// Prompt tells of a prompt that was submitted while a run worked (R100).
type Prompt struct {
	Text  string      `json:"text"`
	State PromptState `json:"state,omitzero"`
}

// PromptState says how far a submitted prompt is.
type PromptState string

// The states. A prompt that started and has no end was in a run that failed.
const (
	PromptQueued    PromptState = ""          // nobody answered it: it waits for the next run
	PromptStarted   PromptState = "started"   // it joined the conversation
	PromptCompleted PromptState = "completed" // the run that it joined completed
	PromptRejected  PromptState = "rejected"  // a hook did not let it in
)

// Message adds a message to the conversation: prompts, results, nudges and
// pseudo-messages. Answers come with [Commit] and [Continue].
type Message struct {
	Ends    []string         `json:"ends,omitzero"` // tasks whose end it tells the model
	Message *message.Message `json:"message"`
}

// Decision is one step of the decision core: what was reported, what follows.
type Decision struct {
	Outcome    string          `json:"outcome"`
	Step       string          `json:"step"`
	Transition loop.Transition `json:"transition,omitzero"`
}

// Begin opens an attempt: one model request.
type Begin struct {
	Attempt   int    `json:"attempt"` // number within the session
	Model     string `json:"model"`
	Source    string `json:"source"`
	Try       int    `json:"try,omitzero"` // retry of the same request, from 1
	MaxTokens int    `json:"max_tokens"`
	Messages  int    `json:"messages"`
	Estimate  int    `json:"estimate"`      // tokens of the prompt, estimated
	Held      bool   `json:"held,omitzero"` // not sent: known to be refused
}

// Block says that the model began a block. It is provisional.
type Block struct {
	Attempt int               `json:"attempt"`
	Index   int               `json:"index"`
	Block   message.BlockType `json:"block"`
	Name    string            `json:"name,omitzero"` // of the tool
	ID      string            `json:"id,omitzero"`   // of the call
}

// Delta is streamed text. It is provisional until its attempt is committed.
type Delta struct {
	Attempt  int    `json:"attempt"`
	Index    int    `json:"index"`
	Text     string `json:"text"`
	Thinking bool   `json:"thinking,omitzero"`
	Input    bool   `json:"input,omitzero"` // of a tool call, as JSON
}

// Checkpoint saves long partial text, at most once a second.
type Checkpoint struct {
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
}

// Spent is what an attempt used. Retracted attempts cost money too.
type Spent struct {
	Usage   Tokens        `json:"usage"`
	USD     float64       `json:"usd,omitzero"`
	Unknown bool          `json:"unknown,omitzero"`  // the cost is not known
	First   time.Duration `json:"first_ms,omitzero"` // until the first event
	Total   time.Duration `json:"total_ms,omitzero"`
}

// Tokens is a usage as the journal keeps it.
type Tokens struct {
	Input      int `json:"input,omitzero"`
	Output     int `json:"output,omitzero"`
	CacheRead  int `json:"cache_read,omitzero"`
	CacheWrite int `json:"cache_write,omitzero"`
}

// Commit ends an attempt whose answer is whole. Message is nil for helper
// requests, whose answers are no part of the conversation.
type Commit struct {
	Attempt   int              `json:"attempt"`
	Message   *message.Message `json:"message,omitzero"`
	Stop      string           `json:"stop"`
	Answer    string           `json:"answer,omitzero"` // the provider's id of it
	Asked     string           `json:"asked,omitzero"`  // the model that was asked, if another one answered
	RequestID string           `json:"request_id,omitzero"`
	Spent     Spent            `json:"spent"`
}

// Continue ends an attempt of which something is kept: more follows.
type Continue struct {
	Attempt int              `json:"attempt"`
	Message *message.Message `json:"message,omitzero"` // nil when nothing could be kept
	Cause   string           `json:"cause"`
	Answer  string           `json:"answer,omitzero"` // as in Commit
	Asked   string           `json:"asked,omitzero"`
	Lost    int              `json:"lost_chars,omitzero"`
	Spent   Spent            `json:"spent"`
}

// Retract takes everything back that was streamed since its Begin (tombstone).
type Retract struct {
	Attempt int            `json:"attempt"`
	Cause   string         `json:"cause"`
	Failure *failure.Error `json:"failure,omitzero"`
	Rule    string         `json:"rule,omitzero"` // of layer 1, if it ended the tries
	Lost    int            `json:"lost_chars,omitzero"`
	Spent   Spent          `json:"spent"`
}

// Intent says that a tool with effects is about to run.
type Intent struct {
	Call    string         `json:"call"`
	Name    string         `json:"name"`
	Effect  string         `json:"effect"`
	Input   jsontext.Value `json:"input,omitzero"`
	Group   int            `json:"group,omitzero"` // process group, once known
	Started time.Time      `json:"started,omitzero"`
}

// Progress is output of a running tool.
type Progress struct {
	Call string `json:"call"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// Result is the one result of a call, as the model will read it.
type Result struct {
	Call   string        `json:"call"`
	Task   *Task         `json:"task,omitzero"`
	Name   string        `json:"name"`
	Block  message.Block `json:"block"`
	Class  string        `json:"class,omitzero"` // of the failure, never its text
	Denied bool          `json:"denied,omitzero"`
	Took   time.Duration `json:"took_ms,omitzero"`
	// Output is the tool's structured output, for screens.
	Output any `json:"output,omitzero"`
}

// Task is work in the background: a call began it, or told of its end.
type Task struct {
	ID    string `json:"id"`
	Path  string `json:"path,omitzero"` // of the file with its output
	Ended bool   `json:"ended,omitzero"`
}

// Results puts the results of a turn into the conversation, as one message in
// the order of the calls. Their content came with [Result].
type Results struct {
	ID     string   `json:"id"`     // of the message
	Caller string   `json:"caller"` // ID of the assistant message with the calls
	Calls  []string `json:"calls"`
}

// Permission is the answer to whether a call may run.
type Permission struct {
	Call    string `json:"call"`
	Name    string `json:"name"`
	Allowed bool   `json:"allowed"`
	By      string `json:"by"` // rule, mode, user, …
	Reason  string `json:"reason,omitzero"`
}

// Compaction replaces the conversation by a smaller one.
type Compaction struct {
	Rung    string             `json:"rung"`
	Cause   string             `json:"cause"`
	Before  int                `json:"before"` // tokens, estimated
	After   int                `json:"after"`
	Dropped int                `json:"dropped"` // messages that are no longer sent
	New     []*message.Message `json:"new"`     // messages made for it
	Order   []string           `json:"order"`   // IDs of the new conversation, new and old
}

// Repair says that the view that is sent was mended.
type Repair struct {
	Fixes []message.Fix `json:"fixes"`
}

// Mismatch is written when the provider refuses how calls and results pair
// (R37): the end of what was sent and of what happened, each message as
// role:type:id of its blocks, so that the fault can be found without the texts.
type Mismatch struct {
	Said string   `json:"said"` // by the provider
	Sent []string `json:"sent"`
	Held []string `json:"held"`
}

// Level says how much a notice matters.
type Level string

// The levels.
const (
	Info    Level = "info"
	Warning Level = "warning"
)

// Notice is a line for the person.
type Notice struct {
	Level Level  `json:"level"`
	Text  string `json:"text"`
}

// Denial is a call that permission refused.
type Denial struct {
	Tool  string         `json:"tool_name"`
	Call  string         `json:"tool_use_id"`
	Input jsontext.Value `json:"tool_input,omitzero"`
}

// Total is what a run or a part of it cost.
type Total struct {
	Usage   Tokens  `json:"usage"`
	USD     float64 `json:"usd"`
	Unknown int     `json:"unknown,omitzero"` // attempts whose cost is not known
}

// Add adds what others used.
func (t *Total) Add(o Total) {
	t.Usage.Input += o.Usage.Input
	t.Usage.Output += o.Usage.Output
	t.Usage.CacheRead += o.Usage.CacheRead
	t.Usage.CacheWrite += o.Usage.CacheWrite
	t.USD += o.USD
	t.Unknown += o.Unknown
}

// End is the last event of every run, and the only one of its kind in it.
type End struct {
	Reason    loop.Reason    `json:"reason"`
	IsError   bool           `json:"is_error"`
	Failure   *failure.Error `json:"failure,omitzero"` // that was surfaced
	Text      string         `json:"text"`             // the answer, joined over continuations
	Stop      string         `json:"stop,omitzero"`    // of the last answer
	Turns     int            `json:"turns"`
	Took      time.Duration  `json:"took_ms"`
	API       time.Duration  `json:"api_ms"`
	Total     Total          `json:"total"`
	Wasted    Total          `json:"wasted"` // of Total: in attempts that were taken back
	Recovered int            `json:"recovered"`
	Denials   []Denial       `json:"denials,omitzero"`
	Next      string         `json:"next,omitzero"`    // what a person can do now
	Name      string         `json:"name,omitzero"`    // of the session, so that a list finds it here
	NextAt    time.Time      `json:"next_at,omitzero"` // when trying again is worth it
	Deferred  *Deferred      `json:"deferred,omitzero"`
}

// Deferred is a call that a hook put off: it has no result until the session
// goes on, and then the hook is asked again.
type Deferred struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`
}
