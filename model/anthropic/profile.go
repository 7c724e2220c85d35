package anthropic

import "net/http"

// The versions of the wire.
const (
	Version2023 = "2023-06-01" // keys in x-api-key
	Version2026 = "2026-10-21" // bearer keys; temperature, top_p and top_k are refused, even at their defaults
)

// Profile is how one provider wants the API to be spoken: data. The zero value
// of every field is what most expect.
type Profile struct {
	Version string   // anthropic-version; Version2023
	Keys    KeyStyle // how keys travel; what the version expects

	// Unstreamed is the most output tokens that the provider lets one ask for
	// in an answer that is not streamed; 21,333.
	Unstreamed int
}

// KeyStyle is the header in which a key travels.
type KeyStyle string

// The styles of keys.
const (
	KeyAsHeader KeyStyle = "x-api-key"
	KeyAsBearer KeyStyle = "authorization" // Authorization: Bearer <key>
)

// Providers refuse to work on an unstreamed answer for more than ten minutes,
// and count on 128,000 tokens an hour: more output room than that is refused
// before the work begins.
const (
	tokensPerHour     = 128_000
	defaultUnstreamed = tokensPerHour * 10 / 60
)

// orDefault fills in what p leaves open. Versions that are newer than this
// program are taken to be like the newest that it knows.
func (p Profile) orDefault() Profile {
	if p.Version == "" {
		p.Version = Version2023
	}
	if p.Keys == "" {
		p.Keys = KeyAsBearer
		if p.Version == Version2023 {
			p.Keys = KeyAsHeader
		}
	}
	if p.Unstreamed <= 0 {
		p.Unstreamed = defaultUnstreamed
	}
	return p
}

// set puts a key where it belongs.
func (s KeyStyle) set(h http.Header, key string) {
	if s == KeyAsBearer {
		h.Set("Authorization", "Bearer "+key)
		return
	}
	h.Set("X-Api-Key", key)
}
