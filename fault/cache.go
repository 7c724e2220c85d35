package fault

import (
	"crypto/sha256"
	"maps"
)

// promptCache remembers the prefixes that clients have marked, so that a client that keeps its prefix
// the same sees it in the usage, and one that does not sees that too. Nothing ever expires.
type promptCache map[[sha256.Size]byte]bool

// segment is one cacheable piece of a request: a tool, a block of the system prompt or of a message.
type segment struct {
	prefix [sha256.Size]byte // of everything up to and with this one
	tokens int               // up to and with this one
	marked bool
}

// charge splits the input of a request into what was read from the cache, what was written to it, and
// the rest, as the usage of the API does.
func (c promptCache) charge(q *request, e estimator) usage {
	u := usage{Input: q.tokens}
	segments := q.segments(e)
	last := -1
	for i, s := range segments {
		if s.marked {
			last = i
		}
	}
	if last < 0 {
		return u
	}
	for _, s := range segments[:last+1] {
		if c[s.prefix] {
			u.CacheRead = min(s.tokens, q.tokens)
		}
	}
	for _, s := range segments {
		if s.marked {
			c[s.prefix] = true
		}
	}
	u.CacheWrite = max(0, min(segments[last].tokens, q.tokens)-u.CacheRead)
	u.Input = q.tokens - u.CacheRead - u.CacheWrite
	return u
}

func (q *request) segments(e estimator) []segment {
	hash := sha256.Sum256([]byte(q.model))
	var out []segment
	var m measure
	add := func(v any) {
		b := object(v)
		if b == nil {
			b = map[string]any{"text": v}
		}
		marked := b["cache_control"] != nil
		bare := maps.Clone(b)
		delete(bare, "cache_control") // a mark moves on from turn to turn: it is no part of the prefix
		hash = sha256.Sum256(append(hash[:], encode(bare)...))
		m.add(bare)
		out = append(out, segment{hash, m.tokens(e), marked})
	}
	for _, t := range list(q.body["tools"]) {
		add(t)
	}
	if s, ok := q.body["system"].(string); ok {
		add(s)
	}
	for _, b := range list(q.body["system"]) {
		add(b)
	}
	for _, t := range q.turns {
		hash = sha256.Sum256(append(hash[:], t.role...))
		for _, b := range t.blocks {
			add(b.m)
		}
	}
	if n := len(out); n > 0 && q.body["cache_control"] != nil { // the mark of the whole request
		out[n-1].marked = true
	}
	return out
}
