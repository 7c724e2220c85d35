package fault

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// think is the scripted model: it looks at the conversation and gives its whole answer, before limits
// and faults. Problems are wishes of the script that this client cannot fulfil.
func (s *Script) think(sc *scene, m *memory, problem func(string)) *answer {
	q := sc.req
	key := q.conversationKey()
	odd := q.purpose == "compact" || q.purpose == "title"
	continued, from := q.continued(m)
	for _, r := range s.rules {
		if odd && !r.asksPurpose || continued != nil && !r.asksContinuation {
			continue
		}
		if !m.open(r, key) {
			continue
		}
		c := sc.with(sc.rand, "")
		if !r.when.holds(c) {
			continue
		}
		a := r.reply.answer(c, m, problem)
		a.rule, a.name, a.key = r.id, r.id, key
		return a
	}
	a := &answer{}
	switch {
	case continued != nil:
		a = continued.rest(from) // with its rule and key: the rule is used up when the rest has arrived
		a.name = "(go-on)"
		for i := range a.parts { // a call that was cut is made again, as a new one
			if a.parts[i].kind == "tool_use" {
				a.parts[i].id = callID(m)
			}
		}
		if len(a.parts) == 0 {
			a.parts = []part{{kind: "text", text: "That was all."}}
		}
	case q.purpose == "compact":
		a.name, a.parts = "(summary)", []part{{kind: "text", text: q.summary()}}
	case q.purpose == "title":
		a.name, a.parts = "(title)", []part{{kind: "text", text: "A scripted session"}}
	default:
		if len(s.rules) > 0 {
			problem(fmt.Sprintf("request %d: no rule of the model fits, so it only says that it is done", q.n))
		}
		a.name, a.parts = "(done)", []part{{kind: "text", text: "Done."}}
	}
	a.settle(q.model, nil)
	return a
}

// settle fixes what the parts imply: who signs, and why the answer stops.
func (a *answer) settle(model string, stop *stopSpec) {
	a.model = model
	a.stop = stopSpec{reason: "end_turn"}
	for i := range a.parts {
		a.parts[i].model = model
		if a.parts[i].kind == "tool_use" {
			a.stop.reason = "tool_use"
		}
	}
	if stop != nil {
		a.stop = *stop
	}
	a.paused = a.stop.reason == "pause_turn"
}

// answer makes a reply concrete for one request.
func (spec *replySpec) answer(s *scene, m *memory, problem func(string)) *answer {
	a := &answer{}
	for _, item := range spec.items {
		switch item.do {
		case "say", "think":
			text := item.text.expand(s)
			if item.fill > 0 {
				text += prose(item.fill * 4)
			}
			kind := map[string]string{"say": "text", "think": "thinking"}[item.do]
			a.parts = append(a.parts, part{kind: kind, text: text})
		case "redacted":
			a.parts = append(a.parts, part{kind: "redacted_thinking", text: item.text.expand(s)})
		case "call", "call-raw":
			a.parts = append(a.parts, item.call(s, m, problem))
		case "block":
			a.parts = append(a.parts, rawPart(item.text[0].text, m))
		case "summary":
			a.parts = append(a.parts, part{kind: "text", text: s.req.summary()})
		case "go-on":
			if earlier, from := s.req.continued(m); earlier != nil {
				a.parts = append(a.parts, earlier.rest(from).parts...)
			}
		}
	}
	a.settle(s.req.model, spec.stop)
	return a
}

// call picks the client's tool. Without one the model can only say so, and the report names the wish.
func (item replyItem) call(s *scene, m *memory, problem func(string)) part {
	t, ok := s.req.findTool(item.tool)
	if !ok {
		problem(fmt.Sprintf("request %d: the script calls the tool or ability %s, which the client does not offer", s.req.n, item.tool))
		return part{kind: "text", text: "I would need a tool for " + item.tool + ", and there is none."}
	}
	p := part{kind: "tool_use", id: item.id, name: t.name}
	if p.id == "" {
		p.id = callID(m)
	}
	if item.do == "call-raw" {
		p.input = item.text.expand(s)
	} else {
		p.input = t.input(item.args, s)
	}
	return p
}

func callID(m *memory) string { return fmt.Sprintf("toolu_%024d", m.nextCall()) }

// rawPart takes a block as the script wrote it. A tool_use is streamed as one, even of a tool that
// nobody offers.
func rawPart(text string, m *memory) part {
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return part{kind: "text", text: text}
	}
	if v["type"] != "tool_use" {
		return part{kind: str(v, "type"), raw: []byte(text)}
	}
	p := part{kind: "tool_use", id: str(v, "id"), name: str(v, "name"), input: compactJSON(v["input"])}
	if p.id == "" {
		p.id = callID(m)
	}
	if v["input"] == nil {
		p.input = "{}"
	}
	return p
}

// continued finds the answer that the client wants to be continued: by what the client's history
// echoes of it, else by what its last message quotes.
func (q *request) continued(m *memory) (a *answer, from int) {
	if !q.looksContinued() || q.purpose == "compact" {
		return nil, 0
	}
	if redoPattern().MatchString(q.lastTurn().text()) {
		return m.cutCall(), 0
	}
	// An answer may have been cut several times: join the pieces while what stands between them asks
	// for more, and take the longest chain that is the beginning of something said.
	chain := ""
	for i := len(q.turns) - 2; i >= 0; i-- {
		t := q.turns[i]
		if t.role == "assistant" {
			chain = textOf(t) + chain
			if found, n := m.goesOn(chain); found != nil {
				a, from = found, n
			}
			continue
		}
		if !continuePattern().MatchString(t.text()) {
			break
		}
	}
	if a != nil {
		return a, from
	}
	return m.quoted(q.lastTurn().text())
}

// textOf joins the text blocks of a turn with nothing between them.
func textOf(t turn) string {
	var b strings.Builder
	for _, bl := range t.blocks {
		if bl.kind == "text" {
			b.WriteString(str(bl.m, "text"))
		}
	}
	return b.String()
}

// prose is text of about so many characters in numbered sentences: a reader sees at once whether a
// piece is missing or came twice.
func prose(chars int) string {
	words := []string{"the doll rights itself", "what was said stays said", "nothing is lost on the way", "the next try is another one"}
	var b strings.Builder
	for i := 1; b.Len() < chars; i++ {
		fmt.Fprintf(&b, " (%d) %s.", i, words[i%len(words)])
	}
	return b.String()[:chars]
}

// summary is the answer to a compaction: what the user said word for word, the files, and every call
// with the beginning and the end of its result, so that rules can still find what they look for. A
// summary has to be much shorter than what it stands for, so results give way first.
func (q *request) summary() string {
	var m measure
	m.add(q.body["messages"])
	for _, chars := range []int{600, 200, 80} {
		if s := q.summaryWith(chars); utf8.RuneCountInString(s) < m.chars*3/5 {
			return s
		}
	}
	return q.summaryWith(0)
}

func (q *request) summaryWith(resultChars int) string {
	var b strings.Builder
	b.WriteString("Summary of the conversation.\n\nThe user said:\n")
	var said []string
	for _, t := range q.turns {
		for _, bl := range t.blocks {
			if t.role == "user" && bl.kind == "text" {
				said = append(said, str(bl.m, "text"))
			}
		}
	}
	for i, text := range said[:max(0, len(said)-1)] { // the last one asks for the summary
		if i == 0 || !asksToGoOn(text) { // the client's own words, about an answer that is over
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	b.WriteString("\nFiles touched:\n")
	for _, f := range q.files() {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	b.WriteString("\nCalls made:\n")
	for _, t := range q.turns {
		for _, r := range slices.Backward(q.results(t)) {
			fmt.Fprintf(&b, "- called %s %s\n", r.call.name, r.call.input)
			if resultChars > 0 {
				fmt.Fprintf(&b, "%s\n", headAndTail(r.text, resultChars))
			}
		}
	}
	return b.String()
}

// files gives the paths that calls name, in order.
func (q *request) files() []string {
	var files []string
	for _, c := range slices.Backward(q.calls) {
		var input map[string]any
		if json.Unmarshal([]byte(c.input), &input) != nil {
			continue
		}
		for _, key := range []string{"file_path", "path", "filePath", "file", "filename"} {
			if f := str(input, key); f != "" && !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files
}

func headAndTail(s string, chars int) string {
	runes := []rune(s)
	if len(runes) <= chars {
		return s
	}
	return string(runes[:chars/2]) + "\n[…]\n" + string(runes[len(runes)-chars/2:])
}

var listedCall = pattern(`(?m)^\s*- (?:called )?([A-Za-z0-9_-]+) (\{.*)$`)

// summarisedCalls reads back the calls that a summary has listed: one of ours, or one by a client that
// lists a call in a line of its own.
func (q *request) summarisedCalls() []toolCall {
	var out []toolCall
	for _, text := range q.texts("user") {
		for _, m := range listedCall().FindAllStringSubmatch(text, -1) {
			out = append(out, toolCall{name: m[1], input: m[2]})
		}
	}
	return out
}
