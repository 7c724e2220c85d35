package fault

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// request is what one HTTP request asks, read leniently: whatever is missing or of the wrong type is
// zero here, and the judge says so.
type request struct {
	n       int
	at      time.Duration // since the server began
	method  string
	path    string
	header  http.Header
	raw     []byte
	body    map[string]any
	badJSON error

	model     string
	maxTokens int
	stream    bool
	purpose   string
	system    string
	tools     []tool
	messages  []message
	turns     []turn
	calls     []toolCall // of the whole conversation, the newest first
	tokens    int        // estimated
	media     int
}

type tool struct {
	name     string
	kind     string // type of a server tool
	props    map[string]any
	required []string
	raw      map[string]any
}

// message is one element of messages, as sent.
type message struct {
	index   int
	role    string
	content any
	blocks  []block
}

// block is one content block; a plain string counts as one text block.
type block struct {
	at   string // as the API names it: messages.3.content.1
	kind string
	m    map[string]any
}

// turn is a run of messages with one role: the API merges them before it looks at pairs.
type turn struct {
	role   string
	first  int // index of the first message
	blocks []block
}

type toolCall struct {
	id, name, input string
}

type toolResult struct {
	call   toolCall
	text   string
	failed bool
}

func str(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// integer reads a whole number; ok is false for anything else.
func integer(v any) (n int, ok bool) {
	f, isNumber := v.(float64)
	if !isNumber || f != float64(int(f)) {
		return 0, false
	}
	return int(f), true
}

// readRequest takes the body apart.
func readRequest(r *http.Request, raw []byte) *request {
	q := &request{method: r.Method, path: r.URL.Path, header: r.Header, raw: raw}
	var v any
	if len(raw) > 0 {
		q.badJSON = json.Unmarshal(raw, &v)
	}
	q.body = object(v)
	if q.badJSON == nil && q.body == nil && len(raw) > 0 {
		q.badJSON = fmt.Errorf("expected an object")
	}
	q.model = str(q.body, "model")
	q.maxTokens, _ = integer(q.body["max_tokens"])
	q.stream, _ = q.body["stream"].(bool)
	q.system = contentText(q.body["system"])
	for _, t := range list(q.body["tools"]) {
		q.tools = append(q.tools, readTool(object(t)))
	}
	for i, m := range list(q.body["messages"]) {
		q.addMessage(i, object(m))
	}
	q.calls = readCalls(q.turns)
	q.purpose = guessPurpose(q)
	return q
}

func readTool(m map[string]any) tool {
	schema := object(m["input_schema"])
	t := tool{name: str(m, "name"), kind: str(m, "type"), props: object(schema["properties"]), raw: m}
	for _, r := range list(schema["required"]) {
		if s, ok := r.(string); ok {
			t.required = append(t.required, s)
		}
	}
	return t
}

func (q *request) addMessage(i int, m map[string]any) {
	msg := message{index: i, role: str(m, "role"), content: m["content"]}
	switch c := m["content"].(type) {
	case string:
		if c != "" {
			b := block{at: fmt.Sprintf("messages.%d.content", i), kind: "text", m: map[string]any{"type": "text", "text": c}}
			msg.blocks = append(msg.blocks, b)
		}
	case []any:
		for k, v := range c {
			b := object(v)
			msg.blocks = append(msg.blocks, block{at: fmt.Sprintf("messages.%d.content.%d", i, k), kind: str(b, "type"), m: b})
		}
	}
	q.messages = append(q.messages, msg)
	for _, b := range msg.blocks {
		q.media += countMedia(b.kind, b.m)
	}
	if msg.role == "system" { // an instruction beside the conversation: nobody's turn
		return
	}
	if n := len(q.turns); n > 0 && q.turns[n-1].role == msg.role {
		q.turns[n-1].blocks = append(q.turns[n-1].blocks, msg.blocks...)
		return
	}
	q.turns = append(q.turns, turn{role: msg.role, first: i, blocks: slices.Clone(msg.blocks)})
}

func countMedia(kind string, m map[string]any) int {
	if kind == "image" || kind == "document" {
		return 1
	}
	n := 0
	if kind == "tool_result" {
		for _, c := range list(m["content"]) {
			n += countMedia(str(object(c), "type"), object(c))
		}
	}
	return n
}

// contentText joins the texts of a content that is a string or a list of blocks.
func contentText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var texts []string
	for _, b := range list(v) {
		if m := object(b); str(m, "type") == "text" {
			texts = append(texts, str(m, "text"))
		}
	}
	return strings.Join(texts, "\n")
}

func (t turn) text() string {
	var texts []string
	for _, b := range t.blocks {
		if b.kind == "text" {
			texts = append(texts, str(b.m, "text"))
		}
	}
	return strings.Join(texts, "\n")
}

func (q *request) lastTurn() turn {
	if len(q.turns) == 0 {
		return turn{}
	}
	return q.turns[len(q.turns)-1]
}

func (q *request) lastUserText() string {
	for _, t := range slices.Backward(q.turns) {
		if text := t.text(); t.role == "user" && text != "" {
			return text
		}
	}
	return ""
}

// texts gives the texts of one role, the newest turn first.
func (q *request) texts(role string) []string {
	var out []string
	for _, t := range slices.Backward(q.turns) {
		if text := t.text(); t.role == role && text != "" {
			out = append(out, text)
		}
	}
	return out
}

func readCalls(turns []turn) []toolCall {
	var out []toolCall
	for _, t := range slices.Backward(turns) {
		for _, b := range slices.Backward(t.blocks) {
			if b.kind == "tool_use" {
				out = append(out, toolCall{str(b.m, "id"), str(b.m, "name"), compactJSON(b.m["input"])})
			}
		}
	}
	return out
}

// results gives the tool results of a turn, the newest first.
func (q *request) results(t turn) []toolResult {
	var out []toolResult
	for _, b := range slices.Backward(t.blocks) {
		if b.kind != "tool_result" {
			continue
		}
		r := toolResult{text: contentText(b.m["content"])}
		r.failed, _ = b.m["is_error"].(bool)
		id := str(b.m, "tool_use_id")
		for _, c := range q.calls {
			if c.id == id {
				r.call = c
				break
			}
		}
		out = append(out, r)
	}
	return out
}

func (q *request) lastResults() []toolResult { return q.results(q.lastTurn()) }

func compactJSON(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "null"
	}
	return string(b)
}

var (
	compactPattern  = pattern(`(?i)(summar(y|ize|ise)|compact|condense)[^.\n]{0,120}\b(conversation|session|history|dialog|transcript|so far|work)\b`)
	titlePattern    = pattern(`(?i)\b(title|topic)\b`)
	redoPattern     = pattern(`(?i)\b(tool )?call\b[^.\n]{0,60}\b(cut off|cut|truncated|incomplete|not run|not executed)\b[^\n]{0,80}\b(again|smaller|retry|repeat)`)
	continuePattern = nearby(`\b(continue|resume|carry on|go on|pick up|proceed|keep going)\b`,
		`(cut off|was cut|were cut|truncat|interrupted|token limit|length limit|output limit|max_tokens|left off|stopped|exactly where|where you|mid-(sentence|thought|response)|last (character|word))`)
)

// pattern compiles a regular expression at its first use: most processes that link this package never
// serve a request.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// nearby matches two things that stand close together, in either order: a long text that holds them far
// apart, such as a summary, is about something else.
func nearby(a, b string) func() *regexp.Regexp {
	const between = `.{0,120}?`
	return pattern(`(?is)` + a + between + b + `|` + b + between + a)
}

// guessPurpose says what a request is for: what the client declares, or what its words look like.
func guessPurpose(q *request) string {
	if v := strings.ToLower(q.header.Get("x-daruma-source")); v != "" {
		return v
	}
	last := q.lastTurn()
	switch {
	case last.role == "user" && compactPattern().MatchString(last.text()) && !beginsTask(q, last):
		return "compact"
	case strings.Contains(strings.ToLower(q.system), "summarizing conversations"):
		return "compact"
	case len(q.tools) == 0 && (titlePattern().MatchString(q.system) || titlePattern().MatchString(last.text())):
		return "title"
	}
	return "main"
}

// beginsTask keeps a user's task that merely speaks of a summary from being taken for a
// compaction: a compaction is asked for at the end of a conversation, a task begins one.
func beginsTask(q *request, last turn) bool {
	return len(q.turns) == 1 && len(q.tools) > 0 && last.first == 0
}

// looksContinued reports whether the last user text asks to go on with an answer that was cut.
func (q *request) looksContinued() bool {
	last := q.lastTurn()
	return last.role == "user" && asksToGoOn(last.text())
}

// asksToGoOn reports whether a text asks for the rest of an answer, or for a call that was cut.
func asksToGoOn(text string) bool {
	return continuePattern().MatchString(text) || redoPattern().MatchString(text)
}
