package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/daruma-agent/daruma/tool"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The failure classes of this package (R74).
const (
	ClassUnavailable = "McpUnavailable" // the server could not be reached: nothing was called
	ClassAuth        = "McpNeedsAuth"   // the server refuses the credentials (R70 row 12)
	ClassLost        = "McpLost"        // the connection ended during the call
	ClassSilent      = "McpSilent"      // no answer in time (R70 row 13)
	ClassRefused     = "McpRefused"     // the server refuses the request as such
	ClassTool        = "McpToolError"   // the tool says that it failed (R70 row 11)
	ClassInput       = "McpNeedsInput"  // the server wants to ask a person
)

// ending is how a call ended, as far as it matters for what is done next.
type ending int

const (
	answered  ending = iota
	cancelled        // by the user or the run
	late             // its own time is over
	silent           // nothing was heard of it for too long
	unsent           // it never reached the server
	forgotten        // the server does not know the session any more, so it did not run it
	busy             // the server said that it cannot, this time
	denied           // credentials were refused
	refused          // the server answered that the request is wrong
	garbled          // the server answered something that is no result
	lost             // the connection ended, and nobody knows what was done
)

// classify says how a call ended. ctx is that of the caller; program says that
// the server is one, whose connection ends in one way only.
func classify(ctx context.Context, err error, program bool) ending {
	status, _ := errors.AsType[*statusError](err)
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case err == nil:
		return answered
	case ctx.Err() != nil:
		return cancelled
	case err == errLate:
		return late
	case err == errIdle, errors.Is(err, errSilent):
		return silent
	case status != nil && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden):
		return denied
	case status != nil && status.code == http.StatusNotFound:
		return forgotten
	case status != nil:
		return busy
	case errors.Is(err, sdk.ErrConnectionClosed), op != nil && op.Op == "dial":
		return unsent
	case refusal(err) != nil:
		return refused
	case program && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe):
		return garbled
	}
	return lost
}

// refusal is the answer of a server that a request is wrong; nil if err is
// none, such as an error that the SDK made up.
func refusal(err error) *jsonrpc.Error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if _, transport := errors.AsType[*url.Error](err); !ok || transport || e.Code == notSent && e.Message == "rejected by transport" {
		return nil
	}
	return e
}

// notSent is how the SDK numbers its own error about what it did not send, or
// believes so.
const notSent = -32005

// again decides whether a call is made once more. What never ran is called
// again whatever it does; what may have run, only if twice is the same as once.
// Nothing is called more than twice.
func again(e ending, effect tool.Effect, attempt int) bool {
	if attempt > 0 {
		return false
	}
	switch e {
	case unsent, forgotten:
		return true
	case lost, busy:
		return effect != tool.Unsafe
	}
	return false
}

// call calls a tool of the server. Whatever happens is a result.
func (s *server) call(ctx context.Context, r *remote, c tool.Call) tool.Result {
	limit := s.cfg.Timeout
	if limit == 0 {
		limit = s.all.cfg.Call
	}
	for attempt := 0; ; attempt++ {
		l, err := s.connected(ctx)
		if err != nil {
			return s.unreached(ctx, err)
		}
		if !l.names[r.name] {
			return tool.Refuse(ClassUnavailable, fmt.Sprintf("The MCP server %s was connected to again and no longer offers the tool %s. "+
				"It was not called: go on without it.", s.cfg.Name, r.name))
		}
		began := time.Now()
		res, err := l.call(ctx, r.name, c.Input, limit, c.Progress)
		e := classify(ctx, err, l.process != nil)
		s.mind(l, e, err)
		if again(e, r.effect, attempt) {
			continue
		}
		if e == answered {
			return s.answer(r, res)
		}
		return s.failed(l, r, e, err, time.Since(began), attempt)
	}
}

// mind draws the conclusions for the connection.
func (s *server) mind(l *link, e ending, err error) {
	switch e {
	case late, silent:
		l.suspect.Store(true)
	case forgotten:
		l.close()
	case unsent, lost:
		if l.process != nil {
			l.close()
		} else {
			l.suspect.Store(true)
		}
	case denied:
		s.mu.Lock()
		s.state, s.err = NeedsAuth, bare(err)
		s.mu.Unlock()
		l.suspect.Store(true)
	}
}

// unreached is the result of a call that could not be made.
func (s *server) unreached(ctx context.Context, err error) tool.Result {
	if ctx.Err() != nil {
		return tool.Refuse(tool.ClassAborted, fmt.Sprintf("The call was cancelled while the MCP server %s was being connected to. It was not made.", s.cfg.Name))
	}
	if refusedAuth(err) {
		return s.askAuth(err)
	}
	text := fmt.Sprintf("The MCP server %s cannot be reached, so the tool was not called: %s.", s.cfg.Name, s.hide(err.Error()))
	if u, ok := errors.AsType[*unreachable](err); ok && u.wait > 0 {
		text += fmt.Sprintf(" It is tried again when it is called after %v.", u.wait.Round(time.Second))
	}
	return tool.Refuse(ClassUnavailable, text+" Go on without it, or try it again later.")
}

func (s *server) askAuth(err error) tool.Result {
	return tool.Refuse(ClassAuth, fmt.Sprintf("The MCP server %s refuses the credentials (%s), so the tool was not run. "+
		"Ask the user to put valid ones into its headers or headersHelper (%s), and go on without it until then.",
		s.cfg.Name, s.hide(bare(err).Error()), s.cfg.Source))
}

// failed is the result of a call without an answer: what happened, whether it
// took effect, and what to do.
func (s *server) failed(l *link, r *remote, e ending, err error, took time.Duration, attempt int) tool.Result {
	name, why := s.cfg.Name, s.hide(bare(err).Error())
	check := " Its outcome is unknown: check what it did before you repeat it."
	if r.effect != tool.Unsafe {
		check = " It says of itself that it may be repeated."
	}
	twice := ""
	if attempt > 0 {
		twice = " It was called twice."
	}
	switch e {
	case cancelled:
		return tool.Fail(tool.ClassAborted, fmt.Sprintf("The call was cancelled, and the MCP server %s was told so.", name)+check)
	case late:
		return tool.Fail(tool.ClassTimeout, fmt.Sprintf("The MCP server %s did not answer within %v, and was told to stop.", name, took.Round(time.Second))+check)
	case silent:
		return tool.Fail(ClassSilent, fmt.Sprintf("The MCP server %s fell silent: nothing came for too long, %v after the call. It was told to stop.",
			name, took.Round(time.Second))+check)
	case denied:
		return s.askAuth(err)
	case refused:
		return tool.Fail(ClassRefused, fmt.Sprintf("The MCP server %s refused the call: %s.", name, s.hide(tool.Clean(refusal(err).Message))))
	case garbled:
		return tool.Fail(ClassRefused, fmt.Sprintf("The MCP server %s ran the call and answered something that is no result: %s.", name, why)+check)
	case busy:
		return tool.Fail(ClassUnavailable, fmt.Sprintf("The MCP server %s could not serve the call: %s. Most likely it did nothing.%s%s", name, why, twice,
			" Try it again later."))
	case unsent, forgotten:
		return tool.Fail(ClassUnavailable, fmt.Sprintf("The MCP server %s went away twice before the call reached it: %s. It was not called.", name, why))
	}
	text := fmt.Sprintf("The connection to the MCP server %s ended during the call: %s.", name, why)
	if l.process != nil {
		<-l.process.exited // mind saw to it, within twice the grace
		text = fmt.Sprintf("The MCP server %s died during the call: it %s.", name, l.process.fate())
	}
	text += twice + check
	if words := l.errs.String(); l.process != nil && words != "" {
		text += "\nIts last words: " + s.hide(words)
	}
	return tool.Fail(ClassLost, text)
}
