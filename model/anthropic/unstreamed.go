package anthropic

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// OutputRoom is the max_tokens that r is sent with. Unstreamed it is no more
// than the provider allows; where thinking alone takes as much, there is no such
// request, and the server need not be asked.
func (c *Client) OutputRoom(r *model.Request) (int, error) {
	most := c.profile.Unstreamed
	if !r.Unstreamed || r.MaxTokens <= most {
		return r.MaxTokens, nil
	}
	if budget := r.Thinking.Budget; r.Thinking.Mode == model.ThinkingEnabled && budget >= most {
		return 0, &failure.Error{
			Kind: failure.InvalidRequest, Retry: failure.RetryNo, Rule: RuleTooLong,
			Message: fmt.Sprintf("ask without streaming: an answer may then have %d tokens, and %d for thinking leave no room; "+
				"stream it, or grant less thinking", most, budget),
		}
	}
	return most, nil
}

// againstStreams is what servers say that do not stream.
var againstStreams = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bstream(?:s|ed|ing)?\b.{0,60}\b(?:not |un)(?:yet |currently )?(?:supported|available|enabled|implemented|allowed|permitted)` +
		`|(?:not|n't|cannot) support stream`)
})

// markNoStream marks two refusals that meet streams alone: one that says so, and
// the 404 of an address that serves everything else. A 404 that speaks of the
// model is about the model, which would be missing just the same.
func (s *stream) markNoStream(err error) error {
	e := failureIn(err)
	if e == nil || e.Status < 400 || s.ask.Unstreamed {
		return err
	}
	said := strings.ToLower(e.Message + " " + e.Detail)
	final := e.Status < 500 || e.Status == http.StatusNotImplemented // else it speaks of this moment
	if final && againstStreams().MatchString(said) {
		e.Rule = RuleNoStream
	}
	if e.Status != http.StatusNotFound {
		return err
	}
	for _, name := range []string{"model", "deployment", "engine", strings.ToLower(s.ask.Model)} {
		if len(name) > 2 && strings.Contains(said, name) {
			return err
		}
	}
	e.Rule = RuleNoStream
	return err
}

// StreamingFails judges whether failures speak against streaming itself, so that
// the same request deserves one try without it (R28). They are those of one
// request, each answer to a try that was streamed, oldest first; the last must
// be the latest. Three things count:
//
//   - An answer of success that is neither a stream nor a message: something in
//     between cannot pass streams on. It will not learn it by being asked again.
//   - A refusal that names streaming, or a 404 that does not name the model:
//     streams are served elsewhere, or not at all.
//   - Two stalls before the first byte of an answer, one after the other: what
//     holds answers back until they are complete looks like this. One may be
//     chance, and a machine that slept is no stall.
//
// Whatever broke after the answer began does not count: streaming worked. Nor do
// refusals, overload and broken connections, which meet any request alike.
func StreamingFails(failures ...*failure.Error) bool {
	n := len(failures)
	if n == 0 || failures[n-1] == nil {
		return false
	}
	switch failures[n-1].Rule {
	case RuleForeign, RuleNoStream:
		return true
	case RuleFirstByte:
		return n > 1 && failures[n-2] != nil && failures[n-2].Rule == RuleFirstByte
	}
	return false
}

// StreamingFails is the package's [StreamingFails], for whoever holds the client
// as an interface.
func (c *Client) StreamingFails(failures ...*failure.Error) bool { return StreamingFails(failures...) }
