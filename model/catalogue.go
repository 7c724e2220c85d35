package model

import "strings"

// Info is what is known of one model. Unknown models get the zero prices and
// cautious limits: an unknown cost is unknown, never zero.
type Info struct {
	ID        string
	Window    int // context window, tokens
	MaxOutput int // most output tokens of one answer
	Default   int // output room asked for at first (R51); answers need more rarely

	Raise         bool // the output room may be raised after a cut
	Thinks        bool // has thinking blocks
	Prefill       bool // accepts a conversation that ends with the assistant
	WindowStops   bool // ends with model_context_window_exceeded instead of refusing a large max_tokens
	NoSampling    bool // refuses temperature, top_p, top_k
	Priced        bool
	PricePerM     Price // US dollars per million tokens
	ImagesPerCall int
}

// Price is in US dollars per million tokens. A provider's bill is the truth;
// this is an estimate.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64
}

// CatalogueDate is the day on which the table below was last checked against
// the providers' public lists.
const CatalogueDate = "2026-11-30"

// Output room: the first request asks for little, since answers above it are
// rare and reserved room costs capacity (R51).
const (
	defaultOutput   = 8_000
	escalatedOutput = 64_000
)

// catalogue is matched by prefix, first match wins: longer names stand first.
var catalogue = []Info{
	{ID: "claude-fable-5", Window: 1_000_000, MaxOutput: 128_000, WindowStops: true, NoSampling: true, PricePerM: cached(10, 50)},
	{ID: "claude-opus-5", Window: 1_000_000, MaxOutput: 128_000, WindowStops: true, NoSampling: true, PricePerM: cached(5, 25)},
	{ID: "claude-opus-4-8", Window: 1_000_000, MaxOutput: 128_000, WindowStops: true, PricePerM: cached(5, 25)},
	{ID: "claude-opus-4", Window: 200_000, MaxOutput: 32_000, PricePerM: cached(15, 75)},
	{ID: "claude-sonnet-5", Window: 1_000_000, MaxOutput: 128_000, WindowStops: true, NoSampling: true, PricePerM: cached(2, 10)},
	{ID: "claude-sonnet-4-6", Window: 1_000_000, MaxOutput: 64_000, WindowStops: true, PricePerM: cached(3, 15)},
	{ID: "claude-sonnet-4-5", Window: 200_000, MaxOutput: 64_000, WindowStops: true, PricePerM: cached(3, 15)},
	{ID: "claude-sonnet-4", Window: 200_000, MaxOutput: 64_000, PricePerM: cached(3, 15)},
	{ID: "claude-haiku-4-5", Window: 200_000, MaxOutput: 64_000, WindowStops: true, PricePerM: cached(1, 5)},
}

// cached gives the usual cache prices: a read costs a tenth of the input, a
// write a quarter more than it.
func cached(in, out float64) Price {
	return Price{Input: in, Output: out, CacheRead: in / 10, CacheWrite: in * 1.25}
}

// Lookup returns what is known of the model with this id. An unknown model is
// no error: it gets a window of 200,000 tokens, 32,000 of output, no prices.
func Lookup(id string) Info {
	name := id[strings.LastIndexByte(id, '/')+1:] // gateways prefix the provider
	for _, info := range catalogue {
		if strings.HasPrefix(name, info.ID) {
			info.ID, info.Priced, info.Raise, info.Thinks = id, true, true, true
			info.Default = min(defaultOutput, info.MaxOutput)
			info.ImagesPerCall = 100
			if info.Window > 200_000 {
				info.ImagesPerCall = 600
			}
			return info
		}
	}
	return Info{
		ID: id, Window: 200_000, MaxOutput: 32_000, Default: defaultOutput,
		Raise: true, Thinks: true, ImagesPerCall: 100,
	}
}

// Escalated is the output room after a raise: once, as far as the model goes.
func (i Info) Escalated() int { return min(escalatedOutput, i.MaxOutput) }

// Cost estimates the price of u in US dollars; known is false when the model
// has no price, and then the cost is unknown, not zero.
func (i Info) Cost(u Usage) (usd float64, known bool) {
	p := i.PricePerM
	sum := float64(u.Input)*p.Input + float64(u.Output)*p.Output +
		float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite
	return sum / 1e6, i.Priced
}
