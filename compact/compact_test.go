package compact

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
	"github.com/go-json-experiment/json/jsontext"
)

// conversation makes a valid history from bytes: each one is a step, such as a
// prompt, an answer, a batch of calls with results, an answer that was cut and
// continued. Any bytes will do, so a fuzzer can look for the odd ones.
func conversation(steps []byte) []*message.Message {
	h := &maker{}
	h.user("The task: make it work.")
	for i, s := range steps {
		size := int(s>>3) * 40
		switch s % 8 {
		case 0:
			h.assistant(text(size))
			h.user(fmt.Sprintf("Wish %d. %s", i, strings.Repeat("Please. ", int(s>>5))))
		case 1, 2, 3:
			h.calls(1+int(s%3), size)
		case 4:
			h.assistant(text(size))
			h.add(message.NewSynthetic(h.id(), "Your answer was cut off. Go on."))
		case 5:
			h.assistant(text(size), message.Block{Type: message.ToolUse, ID: h.call(), Name: "Look", Input: jsontext.Value(`{}`)})
			h.results(message.Block{Type: message.Image, Media: &message.Media{Type: "image/png", Data: strings.Repeat("a", size)}})
		case 6:
			h.user(fmt.Sprintf("Said in between, %d.", i))
		case 7:
			h.assistant(message.Block{Type: message.Thinking, Text: "Hm.", Signature: "s"}, text(size))
			h.add(message.NewSynthetic(h.id(), "Go on."))
		}
	}
	if h.msgs[len(h.msgs)-1].Role == message.Assistant {
		h.user("And now?")
	}
	return h.msgs
}

type maker struct {
	msgs []*message.Message
	n    int
	open []string
}

func (h *maker) id() string             { h.n++; return fmt.Sprintf("m%d", h.n) }
func (h *maker) add(m *message.Message) { h.msgs = append(h.msgs, m) }
func (h *maker) user(s string)          { h.add(message.NewText(h.id(), s)) }
func (h *maker) assistant(b ...message.Block) {
	h.add(&message.Message{ID: h.id(), Role: message.Assistant, Blocks: b})
}

func (h *maker) call() string {
	id := fmt.Sprintf("toolu_%d_%d", h.n, len(h.open))
	h.open = append(h.open, id)
	return id
}

func (h *maker) calls(n, size int) {
	blocks := []message.Block{text(40)}
	for range n {
		blocks = append(blocks, message.Block{Type: message.ToolUse, ID: h.call(), Name: "Read", Input: jsontext.Value(`{"path":"a"}`)})
	}
	h.assistant(blocks...)
	h.results(text(size))
}

// results answers every open call.
func (h *maker) results(content ...message.Block) {
	m := &message.Message{ID: h.id(), Role: message.User, Caller: h.msgs[len(h.msgs)-1].ID}
	for _, id := range h.open {
		m.Blocks = append(m.Blocks, message.Block{Type: message.ToolResult, ToolUseID: id, Content: content})
	}
	h.open = nil
	h.add(m)
}

func text(size int) message.Block {
	return message.Block{Type: message.Text, Text: "Words: " + strings.Repeat("some of them. ", size/14)}
}

// words are what the user said, in order.
func words(msgs []*message.Message) []string {
	var out []string
	for _, m := range msgs {
		if said(m) {
			out = append(out, m.PlainText())
		}
	}
	return out
}

// newID numbers the messages that a compaction makes.
func newID() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("new%d", n) }
}

const standsFor = "Goal: it works. Done: a part of it. Open: the rest, beginning with the tests."

// ways are the ways to make a history smaller; whatever keeps their promises
// for one keeps them for all.
var ways = map[string]func(h []*message.Message, keep int) []*message.Message{
	"collapse": func(h []*message.Message, keep int) []*message.Message { return Collapse(h, keep, newID()) },
	"media": func(h []*message.Message, _ int) []*message.Message {
		return StripMedia(h, func(*message.Message, int) bool { return true }, newID())
	},
	"summary": func(h []*message.Message, keep int) []*message.Message {
		p := Split(h, keep)
		if len(p.Old) == len(p.Words) {
			return h
		}
		return WithSummary(p, "summary", standsFor, []string{"Open: todo 1"})
	},
	"skeleton": func(h []*message.Message, keep int) []*message.Message {
		p := Split(h, keep)
		if len(p.Old) == len(p.Words) {
			return h
		}
		return Skeleton(p, "skeleton", []string{"Open: todo 1"})
	},
}

// promises names the one that a compaction from h to got breaks.
func promises(name string, h, got []*message.Message, keep int) string {
	rules := message.Rules{}
	if before := message.Check(h, rules); len(before) > 0 {
		return fmt.Sprintf("the conversation itself is wrong: %v", before)
	}
	if problems := message.Check(got, rules); len(problems) > 0 {
		return fmt.Sprintf("the smaller conversation is wrong: %v", problems)
	}
	if !slices.Equal(words(h), words(got)) {
		return fmt.Sprintf("the user said %q, now it is %q", words(h), words(got))
	}
	// A stub or a summary costs a little: what is small already may grow by it.
	if before, after := message.Estimate(h), message.Estimate(got); after > before+200 {
		return fmt.Sprintf("%d tokens became %d", before, after)
	}
	if newest := h[len(h)-1]; keep > 0 && newest.Tokens() <= keep && !newest.HasResults() && newest.Role == message.User && !newest.Synthetic &&
		got[len(got)-1].PlainText() != newest.PlainText() && !slices.Contains(words(got), newest.PlainText()) {
		return "the newest prompt is gone"
	}
	switch name {
	case "collapse", "media":
		if again := ways[name](got, keep); message.Estimate(again) < message.Estimate(got)*9/10 {
			return "a second time it still gets smaller"
		}
	}
	return ""
}

func TestPromises(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		steps := make([]byte, r.IntN(30))
		for i := range steps {
			steps[i] = byte(r.UintN(256))
		}
		h, keep := conversation(steps), r.IntN(3000)
		for name, way := range ways {
			got := way(h, keep)
			if broken := promises(name, h, got, keep); broken != "" {
				t.Fatalf("%s of %v keeping %d: %s", name, steps, keep, broken)
			}
			// Whatever follows whatever.
			for second, way := range ways {
				if broken := promises(second, got, way(got, keep/2), keep/2); broken != "" {
					t.Fatalf("%s and then %s of %v keeping %d: %s", name, second, steps, keep, broken)
				}
			}
		}
	}
}

func FuzzPromises(f *testing.F) {
	f.Add([]byte{1, 0, 13, 4, 7, 6, 255}, 100)
	f.Fuzz(func(t *testing.T, steps []byte, keep int) {
		if len(steps) > 60 {
			return
		}
		h := conversation(steps)
		keep = max(keep, 0) % 5000
		for name, way := range ways {
			if broken := promises(name, h, way(h, keep), keep); broken != "" {
				t.Errorf("%s: %s", name, broken)
			}
		}
	})
}

// TestRequestFits holds the request for a summary to its limit, whatever is to
// be summarised, and that shrinking it makes it smaller, down to one round.
func TestRequestFits(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 5))
		steps := make([]byte, 5+r.IntN(30))
		for i := range steps {
			steps[i] = byte(r.UintN(256))
		}
		h := conversation(steps)
		limit := 800 + r.IntN(4000)
		ask := Request(h, limit, Ask("ask", ""))
		if last := ask[len(ask)-1]; last.PlainText() != Instruction {
			t.Fatalf("%v: the request ends with %q", steps, last.PlainText())
		}
		if n := message.Estimate(ask); n > limit && len(ask) > 12 {
			t.Errorf("%v: %d tokens in %d messages, the limit is %d", steps, n, len(ask), limit)
		}
		for n := message.Estimate(ask); ; {
			ask = Shrink(ask, 0)
			now := message.Estimate(ask)
			if now > n {
				t.Fatalf("%v: %d tokens shrank to %d", steps, n, now)
			}
			if now == n {
				break
			}
			n = now
		}
	}
}

func TestClip(t *testing.T) {
	for n := range 40 {
		s := strings.Repeat("äö", n)
		for chars := range 30 {
			got := Clip(s, chars)
			if strings.ContainsRune(got, '\uFFFD') {
				t.Fatalf("Clip(%q, %d) cuts a character: %q", s, chars, got)
			}
			if len(s) <= chars && got != s {
				t.Errorf("Clip(%q, %d) = %q", s, chars, got)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	old := conversation([]byte{1, 9, 250, 250})
	for text, want := range map[string]error{
		"": ErrEmpty, "  \n ": ErrEmpty, "Yes.": ErrEmpty, standsFor: nil, strings.Repeat("word ", 5000): ErrInflated,
	} {
		if got := Judge(text, true, old); got != want {
			t.Errorf("Judge(%.20q) = %v, want %v", text, got, want)
		}
	}
	if got := Judge(standsFor, false, old); got != ErrCut {
		t.Errorf("a part of a summary: %v", got)
	}
}
