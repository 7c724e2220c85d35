package fault

import "unicode/utf8"

// An estimate has to be monotone and the same everywhere, not right: characters by a ratio, a fixed
// price for a picture, a little for every block and tool.
const (
	defaultCharsPerToken = 4.0
	tokensPerMedia       = 1600
	tokensPerBlock       = 3
)

type estimator struct{ charsPerToken float64 }

// chars is the number of characters that n tokens hold.
func (e estimator) chars(n int) int { return int(float64(n) * e.charsPerToken) }

func (e estimator) tokens(chars int) int {
	n := int(float64(chars) / e.charsPerToken)
	if float64(n)*e.charsPerToken < float64(chars) {
		n++
	}
	return n
}

// request measures system, tools and messages, the parts that fill the window.
func (e estimator) request(body map[string]any) int {
	var m measure
	for _, key := range []string{"system", "tools", "messages"} {
		m.add(body[key])
	}
	return m.tokens(e)
}

type measure struct{ chars, media, objects int }

func (m *measure) tokens(e estimator) int {
	return e.tokens(m.chars) + m.media*tokensPerMedia + m.objects*tokensPerBlock
}

func (m *measure) add(v any) {
	switch v := v.(type) {
	case string:
		m.chars += utf8.RuneCountInString(v)
	case []any:
		for _, e := range v {
			m.add(e)
		}
	case map[string]any:
		m.objects++
		if kind := str(v, "type"); kind == "image" || kind == "document" {
			m.media++
			return
		}
		for key, e := range v {
			if key == "signature" || key == "cache_control" {
				continue
			}
			m.chars += len(key)
			m.add(e)
		}
	case nil:
	default:
		m.chars += 4
	}
}
