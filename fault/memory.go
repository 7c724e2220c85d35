package fault

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// memory keeps what the server has said, to go on with answers that were cut, to know its own thinking
// again, and to give the same conversation the same answer.
type memory struct {
	mu    sync.Mutex
	said  []*answer      // whole answers, as meant, the newest last
	spent map[string]int // by rule: how many of its answers the client can have kept
	used  map[string]string
	calls int // tool calls made: the source of ids
}

const remembered = 256

func newMemory() *memory {
	return &memory{spent: map[string]int{}, used: map[string]string{}}
}

func (m *memory) remember(a *answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, a)
	if len(m.said) > remembered {
		m.said = slices.Delete(m.said, 0, len(m.said)-remembered)
	}
}

// open reports whether a rule may still answer. A rule that is used up still answers the conversation
// that it has answered before: a client that sends a request again has to get the same again.
func (m *memory) open(r *rule, key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.times == 0 || m.spent[r.id] < r.times || m.used[r.id] == key
}

// spend counts an answer of which the client can have kept something.
func (m *memory) spend(a *answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.rule != "" && m.used[a.rule] != a.key {
		m.used[a.rule] = a.key
		m.spent[a.rule]++
	}
}

// cutCall is the newest answer whose call the limit cut off, without what was said before the call:
// that has arrived.
func (m *memory) cutCall() *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range slices.Backward(m.said) {
		i := slices.IndexFunc(a.parts, func(p part) bool { return p.kind == "tool_use" })
		if i < 0 || !a.cutShort {
			continue
		}
		out := *a
		out.parts = slices.Clone(a.parts[i:])
		return &out
	}
	return nil
}

func (m *memory) nextCall() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	return m.calls
}

// wasPaused reports whether the server itself has stopped with pause_turn after this text.
func (m *memory) wasPaused(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.said, func(a *answer) bool { return a.paused && a.text() == text })
}

// byCall finds the answer that made a tool call.
func (m *memory) byCall(id string) *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range slices.Backward(m.said) {
		for _, p := range a.parts {
			if p.kind == "tool_use" && p.id == id {
				return a
			}
		}
	}
	return nil
}

// goesOn finds the answer that delivered is a beginning of, and how many bytes of its text that is.
func (m *memory) goesOn(delivered string) (a *answer, bytes int) {
	if strings.TrimSpace(delivered) == "" {
		return nil, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range slices.Backward(m.said) {
		if n, ok := beginning(a.text(), delivered); ok {
			return a, n
		}
	}
	return nil, 0
}

// beginning reports whether whole begins with part, and where part ends in it. Clients trim what they
// keep, so that white space may differ.
func beginning(whole, part string) (n int, ok bool) {
	if strings.HasPrefix(whole, part) {
		return len(part), true
	}
	rest := whole
	for _, word := range strings.Fields(part) {
		for _, r := range word {
			rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
			after, found := strings.CutPrefix(rest, string(r))
			if !found {
				return 0, false
			}
			rest = after
		}
	}
	return len(whole) - len(rest), true
}

// quoted finds the answer whose beginning, but not the whole of it, is quoted somewhere in the text of
// the user.
func (m *memory) quoted(text string) (a *answer, bytes int) {
	const recognisable = 40
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range slices.Backward(m.said) {
		whole := a.text()
		if len(whole) < recognisable {
			continue
		}
		at := strings.Index(text, whole[:recognisable])
		if at < 0 {
			continue
		}
		n := 0
		for n < len(whole) && at+n < len(text) && whole[n] == text[at+n] {
			n++
		}
		for n > 0 && n < len(whole) && whole[n]&0xC0 == 0x80 { // not inside of a character
			n--
		}
		if n < len(whole) {
			return a, n
		}
	}
	return nil, 0
}

// rest is the answer without the part that was delivered.
func (a *answer) rest(bytes int) *answer {
	out := *a
	out.parts, out.cutShort = nil, false
	for _, p := range a.parts {
		if bytes > 0 {
			if p.kind != "text" { // thinking that came before the cut, or a call that cannot have been kept
				continue
			}
			n := min(bytes, len(p.text))
			bytes -= n
			p.text = p.text[n:]
			if p.text == "" {
				continue
			}
		}
		out.parts = append(out.parts, p)
	}
	return &out
}

// conversationKey names a conversation by what was said and done in it. Thinking, cache marks and the
// model do not count: a client changes them when it asks the same again.
func (q *request) conversationKey() string {
	h := sha256.New()
	for _, t := range q.turns {
		h.Write([]byte(t.role + "\x00"))
		for _, b := range t.blocks {
			switch b.kind {
			case "text":
				h.Write([]byte(str(b.m, "text")))
			case "tool_use":
				h.Write([]byte(str(b.m, "id")))
			case "tool_result":
				h.Write([]byte(str(b.m, "tool_use_id") + contentText(b.m["content"])))
			}
			h.Write([]byte{0})
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}
