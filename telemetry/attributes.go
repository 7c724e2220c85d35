package telemetry

import (
	"strings"
	"time"

	"github.com/daruma-agent/daruma/session"
	"go.opentelemetry.io/otel/attribute"
)

const agentName = "daruma"

// Names that the conventions give.
const (
	keyOperation     = "gen_ai.operation.name"
	keyProvider      = "gen_ai.provider.name"
	keyConversation  = "gen_ai.conversation.id"
	keyAgent         = "gen_ai.agent.name"
	keyVersion       = "gen_ai.agent.version"
	keyRequestModel  = "gen_ai.request.model"
	keyMaxTokens     = "gen_ai.request.max_tokens"
	keyResponseModel = "gen_ai.response.model"
	keyFinish        = "gen_ai.response.finish_reasons"
	keyFirst         = "gen_ai.response.time_to_first_chunk"
	keyInputTokens   = "gen_ai.usage.input_tokens" // cached ones included
	keyOutputTokens  = "gen_ai.usage.output_tokens"
	keyCacheRead     = "gen_ai.usage.cache_read.input_tokens"
	keyCacheWrite    = "gen_ai.usage.cache_creation.input_tokens"
	keyTool          = "gen_ai.tool.name"
	keyToolType      = "gen_ai.tool.type"
	keyCall          = "gen_ai.tool.call.id"
	keyErrorType     = "error.type"
	keyStatus        = "http.response.status_code"
	keyResend        = "http.request.resend_count"

	// with [Config.Content] only
	keyInput     = "gen_ai.input.messages"
	keyOutput    = "gen_ai.output.messages"
	keyArguments = "gen_ai.tool.call.arguments"
	keyResult    = "gen_ai.tool.call.result"

	other = "_OTHER" // what has no name that may be told
)

// Names of ours. Times are in seconds, as in the conventions.
const (
	keyRun          = "daruma.run"      // number within the session
	keyContinue     = "daruma.continue" // without a prompt
	keyReason       = "daruma.reason"
	keyInterrupted  = "daruma.interrupted"
	keyTurns        = "daruma.turns"
	keyRecovered    = "daruma.recovered"
	keyDenials      = "daruma.denials"
	keyAPITime      = "daruma.api_time"
	keyUSDUnknowns  = "daruma.cost.unknown_attempts"
	keyWastedInput  = "daruma.wasted.input_tokens"
	keyWastedOutput = "daruma.wasted.output_tokens"
	keyWastedUSD    = "daruma.wasted.cost.usd"
	keyFailureKind  = "daruma.failure.kind"

	keyTurn        = "daruma.turn"
	keyAttempt     = "daruma.attempt" // number within the session
	keySource      = "daruma.source"  // on whose behalf
	keyMessages    = "daruma.request.messages"
	keyEstimate    = "daruma.request.estimated_tokens"
	keyHeld        = "daruma.held" // known to be refused, and not sent
	keyOutcome     = "daruma.outcome"
	keyCause       = "daruma.cause"
	keyLostChars   = "daruma.lost_chars"
	keyRequest     = "daruma.request_id" // of the provider
	keyFailureRule = "daruma.failure.rule"
	keyFailureText = "daruma.failure.message" // with [Config.Content] only
	keyStalled     = "daruma.stalled"
	keyUSD         = "daruma.cost.usd"
	keyUSDUnknown  = "daruma.cost.unknown" // the cost is an upper estimate, if there is one
	keyLink        = "daruma.link"

	keyEffect = "daruma.tool.effect"
	keyDenied = "daruma.tool.denied"

	keyRecovery        = "daruma.recovery.id"
	keyRecoveryCause   = "daruma.recovery.cause"
	keyRecoveryAttempt = "daruma.recovery.attempt"
	keyRecoveryOf      = "daruma.recovery.of"
)

// attrs collects attributes. Each method leaves out what says nothing.
type attrs []attribute.KeyValue

func (a *attrs) text(key, value string) {
	if value != "" {
		*a = append(*a, attribute.String(key, value))
	}
}

func (a *attrs) count(key string, n int) {
	if n != 0 {
		*a = append(*a, attribute.Int(key, n))
	}
}

func (a *attrs) flag(key string, on bool) {
	if on {
		*a = append(*a, attribute.Bool(key, true))
	}
}

func (a *attrs) seconds(key string, d time.Duration) {
	if d > 0 {
		*a = append(*a, attribute.Float64(key, d.Seconds()))
	}
}

func (a *attrs) money(key string, usd float64) {
	if usd > 0 {
		*a = append(*a, attribute.Float64(key, usd))
	}
}

func (a *attrs) list(key string, values ...string) {
	if len(values) > 0 && values[0] != "" {
		*a = append(*a, attribute.StringSlice(key, values))
	}
}

// usage leaves out what no provider has counted; with anything counted, a zero
// is one.
func (a *attrs) usage(t session.Tokens) {
	if t == (session.Tokens{}) {
		return
	}
	*a = append(*a, attribute.Int(keyInputTokens, input(t)), attribute.Int(keyOutputTokens, t.Output))
	a.count(keyCacheRead, t.CacheRead)
	a.count(keyCacheWrite, t.CacheWrite)
}

// input is the whole prompt as the conventions count it.
func input(t session.Tokens) int { return t.Input + t.CacheRead + t.CacheWrite }

// common are the attributes that every span begins with.
func (r *run) common(operation string) attrs {
	var a attrs
	a.text(keyOperation, operation)
	a.text(keyProvider, r.cfg.Provider)
	a.text(keyConversation, r.session)
	return a
}

const (
	maxWord  = 100
	maxClass = 60
)

// word is a name or number that another side chose.
func (r *run) word(s string) string { return cut(r.cfg.Redact.Known(s), maxWord) }

// notInClass holds for what no class of a failure is made of.
func notInClass(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-./:*", c))
}

// cut shortens s to about n bytes, and mends it.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
