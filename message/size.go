package message

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Token weights in thousandths, from measured bytes per token of a modern
// vocabulary: prose 4.2, code 3.9, JSON 2.8, digits 1.85, CJK 1.8 characters.
const (
	letterCost  = 210
	longCost    = 480 // letters and digits in runs that no word has: base64, hashes
	digitCost   = 540
	spaceCost   = 90
	punctCost   = 480
	wideCost    = 550 // a character beyond Latin
	longRun     = 32
	blockCost   = 8 // structure around a block
	imageTokens = 1600
	pageTokens  = 2000
)

// EstimateText estimates the tokens of text. It is an estimate by character
// class, within a quarter on prose, code, JSON and Chinese; callers calibrate
// it by the usage that the provider returns.
func EstimateText(text string) int {
	var cost, run, runCost int
	flush := func() {
		if run >= longRun {
			cost += run * longCost
		} else {
			cost += runCost
		}
		run, runCost = 0, 0
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			run++
			runCost += letterCost
			continue
		case '0' <= c && c <= '9':
			run++
			runCost += digitCost
			continue
		}
		flush()
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			cost += spaceCost
		case c < 0x80:
			cost += punctCost
		case c >= 0xC0: // the first byte of a character; the others cost nothing
			cost += wideCost
		}
	}
	flush()
	return (cost + 999) / 1000
}

type tokensKey struct{}

// Tokens estimates the tokens of m, once.
func (m *Message) Tokens() int {
	return m.Memo(tokensKey{}, func(m *Message) any { return blockTokens(m.Blocks) }).(int)
}

// Estimate estimates the tokens of msgs. It adds kept numbers, so it costs
// what the number of messages costs.
func Estimate(msgs []*Message) int {
	n := 0
	for _, m := range msgs {
		n += m.Tokens()
	}
	return n
}

func blockTokens(blocks []Block) int {
	n := 0
	for i := range blocks {
		b := &blocks[i]
		n += blockCost
		switch b.Type {
		case Image:
			n += imageTokens
		case Document:
			n += pageTokens * max(1, pages(b.Media))
		case ToolUse:
			n += EstimateText(b.Name) + EstimateText(string(b.Input))
		case ToolResult:
			n += blockTokens(b.Content)
		case Text, Thinking:
			n += EstimateText(b.Text) + len(b.Signature)/4
		default:
			n += EstimateText(b.Data) + EstimateText(rawText(b.Raw))
		}
	}
	return n
}

func pages(m *Media) int {
	if m == nil {
		return 0
	}
	if m.Pages > 0 {
		return m.Pages
	}
	return len(m.Data) / 100_000 // about 75 KB a page when nobody counted
}

func rawText(raw jsontext.Value) string { return string(raw) }
