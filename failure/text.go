package failure

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// advice is what a person reads about a kind: what happened, and what to do
// next. The step differs where a person at a terminal has other means than the
// reader of a log.
type advice struct {
	what        string
	step        string
	interactive string // in place of step at a terminal; "" for the same
}

// advices holds the words for every kind. Figures, waits and the provider's own
// sentence are added by [Error.Text].
var advices = map[Kind]advice{
	Overloaded:        {what: "the provider is overloaded", step: "try again later, or name another model to fall back to", interactive: "try again in a while, or switch the model"},
	RateLimit:         {what: "too many requests or tokens for the moment", step: "wait and run again, or lower the number of parallel requests"},
	QuotaExhausted:    {what: "the allowance of this account is used up", step: "wait for its reset, raise the limit, or use another model or account"},
	Billing:           {what: "the account needs money", step: "add credit or raise the spending limit with the provider, then run again"},
	Auth:              {what: "the provider did not accept the credentials", step: "check the API key, or log in again"},
	Permission:        {what: "this account may not do that", step: "ask the administrator of the account for access, or use another account, region or model"},
	ModelNotFound:     {what: "the model is not there, or not open to this account", step: "check the model's name and the base URL, or choose another model"},
	ContextOverflow:   {what: "the prompt is too long", step: "start a new session, compact the history, or choose a model with a larger window", interactive: "compact the conversation, start a new one, or switch to a model with a larger window"},
	MaxTokensOverflow: {what: "more output was asked for than fits", step: "lower the maximum of output tokens"},
	RequestTooLarge:   {what: "the request has too many bytes", step: "remove large files or tool results from the conversation, or start a new session", interactive: "go back and leave out large files, or start a new conversation"},
	MediaTooLarge:     {what: "an image or document is too large", step: "send a smaller one, or split it", interactive: "go back and attach a smaller one"},
	MediaInvalid:      {what: "an image or document cannot be read", step: "check its format, remove its password, or leave it out", interactive: "go back and attach it in another format, or leave it out"},
	ToolPairing:       {what: "tool calls and their results do not pair in the history", step: "resume from an earlier point, or start a new session", interactive: "rewind to before the last tool call, or start a new conversation"},
	ThinkingSignature: {what: "the history holds thinking that this model does not accept", step: "start a new session, or return to the model that wrote it", interactive: "rewind, start a new conversation, or return to the model that wrote it"},
	ContentPolicy:     {what: "the provider's policy refused this content", step: "word the request in another way, or start a new session without the passage", interactive: "rewind and word it in another way, or start a new conversation"},
	InvalidRequest:    {what: "the provider calls the request wrong", step: "read its message, and check model, parameters and tool definitions"},
	ServerError:       {what: "the provider or a gateway failed", step: "try again later, and look at the provider's status page if it goes on"},
	Timeout:           {what: "no answer came in time", step: "try again, with a smaller request or a longer time limit if it goes on"},
	Network:           {what: "the connection to the provider failed", step: "check the network, the proxy and the base URL, then try again"},
	Aborted:           {what: "the request was cancelled", step: "run it again when wanted"},
	Unknown:           {what: "the request failed, and it is not clear why", step: "read the provider's message and check the settings before another try"},
}

// Text is the sentence shown to the person: what happened, with the figures
// that are known, and the next step. Interactive tells that someone is at a
// terminal. It holds no credential: all it quotes was redacted before.
func (e *Error) Text(interactive bool) string {
	a, ok := advices[e.Kind]
	if !ok {
		a = advices[Unknown]
	}
	if e.Kind == Network && e.Retry == RetryNo {
		a = advice{what: "the connection is not trusted or speaks another protocol", step: "check certificates, a proxy that inspects traffic, and the base URL"}
	}
	step := a.step
	if interactive && a.interactive != "" {
		step = a.interactive
	}
	var b strings.Builder
	b.WriteString(a.what)
	if figures := e.figures(); figures != "" {
		b.WriteString(": " + figures)
	}
	if e.quotes() {
		said := "the provider says: "
		if e.Kind == Network {
			said = "" // the words are a client's
		}
		b.WriteString(" (" + said + strings.TrimRight(shorten(e.Message, 200), ". ") + ")")
	}
	b.WriteString("; " + step)
	return b.String()
}

// quotes holds for the kinds that nobody can act on without the provider's own
// words.
func (e *Error) quotes() bool {
	switch e.Kind {
	case InvalidRequest, Unknown, Permission, ModelNotFound, Billing, ServerError, MediaInvalid, Network:
		return e.Message != ""
	}
	return false
}

// figures puts the numbers of the failure into words.
func (e *Error) figures() string {
	n := e.Numbers
	switch e.Kind {
	case ContextOverflow:
		switch {
		case n.InputTokens > n.Limit && n.Limit > 0:
			return fmt.Sprintf("%s of %s tokens", group(n.InputTokens), group(n.Limit))
		case n.Requested > n.Limit && n.Limit > 0:
			return fmt.Sprintf("%s of %s tokens, answer included", group(n.Requested), group(n.Limit))
		case n.InputTokens > 0 && n.MaxTokens > 0 && n.Limit > 0:
			return fmt.Sprintf("%s in and %s out are over %s tokens", group(n.InputTokens), group(n.MaxTokens), group(n.Limit))
		case n.LimitChars > 0:
			return fmt.Sprintf("%s of %s characters", group(n.Chars), group(n.LimitChars))
		case n.Limit > 0:
			return fmt.Sprintf("the limit is %s tokens", group(n.Limit))
		}
	case MaxTokensOverflow:
		switch {
		case n.InputTokens > 0 && n.MaxTokens > 0 && n.Limit > 0:
			return fmt.Sprintf("%s in and %s out are over %s tokens", group(n.InputTokens), group(n.MaxTokens), group(n.Limit))
		case n.MaxTokens > 0 && n.Limit > 0:
			return fmt.Sprintf("%s of %s tokens", group(n.MaxTokens), group(n.Limit))
		case n.Limit > 0:
			return fmt.Sprintf("the limit is %s tokens", group(n.Limit))
		}
	case RequestTooLarge, MediaTooLarge:
		return n.sizes()
	case RateLimit, QuotaExhausted, Overloaded:
		return e.relief()
	case Billing:
		if n.Affordable > 0 {
			return fmt.Sprintf("the balance buys %s tokens", group(n.Affordable))
		}
	}
	return ""
}

func (n Numbers) sizes() string {
	switch {
	case n.Bytes > 0 && n.LimitBytes > 0:
		return fmt.Sprintf("%s of %s bytes", group(n.Bytes), group(n.LimitBytes))
	case n.LimitBytes > 0:
		return fmt.Sprintf("the limit is %s bytes", group(n.LimitBytes))
	case n.Chars > 0 && n.LimitChars > 0:
		return fmt.Sprintf("%s of %s characters", group(n.Chars), group(n.LimitChars))
	case n.LimitPixels > 0:
		return fmt.Sprintf("the limit is %s pixels", group(n.LimitPixels))
	case n.LimitPages > 0:
		return fmt.Sprintf("the limit is %s pages", group(n.LimitPages))
	case n.LimitItems > 0:
		return fmt.Sprintf("the limit is %s of them in one request", group(n.LimitItems))
	}
	return ""
}

// relief says when a limit ends, as far as the payload told.
func (e *Error) relief() string {
	switch {
	case e.Hint.After > 0:
		return "free again in " + spoken(e.Hint.After)
	case e.Hint.Reset != "":
		return "free again at " + e.Hint.Reset
	case e.Numbers.NoAllowance:
		return "the plan holds none for this model"
	case e.Numbers.Limit > 0 && e.Numbers.QuotaWindow != "":
		return fmt.Sprintf("the limit is %s for each %s", group(e.Numbers.Limit), e.Numbers.QuotaWindow)
	}
	return ""
}

// spoken rounds a wait up to what a person cares about.
func spoken(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int((d+time.Second-1)/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int((d+time.Minute-1)/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int((d+time.Hour-1)/time.Hour)) + " h"
	}
	return strconv.Itoa(int((d+24*time.Hour-1)/(24*time.Hour))) + " days"
}

// group writes n with its thousands apart: 209,062.
func group(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
