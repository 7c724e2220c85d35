// Package compact (layer 3) answers one question: how does a history get
// smaller without breaking?
//
// The rungs are pure: they take messages and give messages. Cuts fall between
// rounds, so a call never loses its result, and what the user said stays word
// for word. Asking the model for a summary is the caller's business.
package compact

import (
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/message"
)

// Plan says what a compaction keeps.
type Plan struct {
	Words []*message.Message // what the user said, among Old
	Old   []*message.Message // what the summary stands for, Words included
	Tail  []*message.Message // the newest rounds, which stay as they are
}

// Split plans a compaction that keeps the newest rounds up to keep tokens, and
// at least nothing: a single round that is larger is summarised too. With
// nothing old there is nothing to gain.
func Split(history []*message.Message, keep int) Plan {
	cut, tokens := inProgress(history), 0
	for i := cut - 1; i >= 0; i-- {
		tokens += history[i].Tokens()
		if tokens > keep {
			break
		}
		if border(history, i) {
			cut = i
		}
	}
	p := Plan{Old: history[:cut], Tail: history[cut:]}
	for _, m := range p.Old {
		if said(m) {
			p.Words = append(p.Words, m)
		}
	}
	return p
}

// inProgress is where the answer begins that is being continued: its parts and
// the requests to go on must stay, else the model would begin anew.
func inProgress(history []*message.Message) int {
	i := len(history)
	for i >= 2 && history[i-1].Role == message.User && history[i-1].Synthetic &&
		history[i-2].Role == message.Assistant && len(history[i-2].Calls()) == 0 {
		i -= 2
	}
	return i
}

// border reports whether a round begins at i: a cut there splits no call from
// its results and no answer from its continuation.
func border(history []*message.Message, i int) bool {
	m := history[i]
	if m.Role == message.User {
		return !m.HasResults() && !m.Synthetic
	}
	return i == 0 || history[i-1].Role == message.User && !history[i-1].Synthetic
}

// LastRound is where the newest round begins.
func LastRound(history []*message.Message) int {
	for i := len(history) - 1; i >= 0; i-- {
		if border(history, i) {
			return i
		}
	}
	return 0
}

// said reports whether m is the user's own words.
func said(m *message.Message) bool {
	return m.Role == message.User && !m.Synthetic && m.Failure == nil && !m.HasResults()
}

// Instruction asks for the summary. It goes behind the conversation, so that
// the request shares its cached beginning with the requests before it.
const Instruction = `The conversation is about to exceed the context window. Write a summary that lets you go on with the task without the messages above. Do not call tools. The user's own messages are kept word for word beside your summary, so do not repeat them. Write, in this order and only where there is something to say:

1. Goal: what is to be achieved, and how one will know that it is.
2. Decisions and constraints: what was decided or forbidden, with reasons.
3. Files: each file that was read, created or changed, what matters in it (signatures, line numbers, exact snippets that are still needed).
4. Commands: what was run and what came of it, exact error messages that still matter.
5. Done: what is finished and verified.
6. Open: what is in progress, what failed and why, the very next step.

Be exact and short: names, paths and numbers instead of prose.`

// Ask is the instruction as a message. more is what a person wants the summary
// to keep, and may be empty.
func Ask(id, more string) *message.Message {
	text := Instruction
	if more = strings.TrimSpace(more); more != "" {
		text += "\n\nThe user asks of this summary: " + more
	}
	return message.NewSynthetic(id, text)
}

// clipped marks text that was cut in the middle.
const clipped = "\n[… %d characters left out …]\n"

// Request returns the messages that ask for a summary of old, within limit
// tokens: as they are when they fit, else with long results clipped, else
// without the oldest rounds. ask stands last: see [Ask].
func Request(old []*message.Message, limit int, ask *message.Message) []*message.Message {
	limit -= ask.Tokens()
	for _, chars := range []int{0, 4000, 1000, 200} {
		sent := old
		if chars > 0 {
			sent = clipResults(old, chars)
		}
		if message.Estimate(sent) <= limit {
			return append(sent[:len(sent):len(sent)], ask)
		}
		old = sent
	}
	return append(dropOldest(old, limit), ask)
}

// clipResults shortens each text of a tool result to at most chars characters.
func clipResults(msgs []*message.Message, chars int) []*message.Message {
	out := make([]*message.Message, len(msgs))
	for i, m := range msgs {
		out[i] = m
		if !m.HasResults() || m.Tokens() < chars/8 {
			continue
		}
		c := &message.Message{ID: m.ID, Role: m.Role, Caller: m.Caller, Synthetic: m.Synthetic}
		for _, b := range m.Blocks {
			if b.Type == message.ToolResult {
				b.Content, b.Raw = clipContent(b.Content, chars), nil
			}
			c.Blocks = append(c.Blocks, b)
		}
		out[i] = c
	}
	return out
}

func clipContent(content []message.Block, chars int) []message.Block {
	out := make([]message.Block, 0, len(content))
	for _, b := range content {
		switch b.Type {
		case message.Text:
			b.Text = Clip(b.Text, chars)
		case message.Image, message.Document:
			b = message.Block{Type: message.Text, Text: "[" + string(b.Type) + "]"}
		}
		out = append(out, b)
	}
	return out
}

// Clip cuts the middle out of text that has more than chars characters, and
// says so in its place.
func Clip(text string, chars int) string {
	if len(text) <= chars {
		return text
	}
	head, tail := chars*2/3, chars-chars*2/3
	left := len(text) - head - tail
	return strings.ToValidUTF8(text[:head], "") + fmt.Sprintf(clipped, left) + strings.ToValidUTF8(text[len(text)-tail:], "")
}

// dropOldest leaves out the oldest rounds until limit is met, but never the
// newest message.
func dropOldest(msgs []*message.Message, limit int) []*message.Message {
	total := message.Estimate(msgs)
	cut := 0
	for i := 1; i < len(msgs) && total > limit; i++ {
		if border(msgs, i) {
			for ; cut < i; cut++ {
				total -= msgs[cut].Tokens()
			}
		}
	}
	return msgs[cut:len(msgs):len(msgs)]
}

// Shrink returns the summary request anew after the provider refused it for
// its length: without the oldest rounds, as much as the numbers of the error
// say (over tokens), else a fifth (R45).
func Shrink(request []*message.Message, over int) []*message.Message {
	ask := request[len(request)-1]
	old := request[:len(request)-1]
	total := message.Estimate(old)
	if over <= 0 {
		over = total / 5
	}
	return append(dropOldest(clipResults(old, 1000), max(total-over, 0)), ask)
}
