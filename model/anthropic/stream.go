package anthropic

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// The rules of this package's own verdicts, found in [failure.Error.Rule].
const (
	RuleFirstByte  = "watchdog-first-byte"
	RuleBytes      = "watchdog-bytes"
	RuleEvents     = "watchdog-events"
	RuleSlept      = "machine-slept"    // a break or a stall, and the machine slept meanwhile
	RuleCut        = "stream-cut"       // the stream ended before the answer did
	RuleMalformed  = "stream-malformed" // the stream broke the protocol
	RuleUnsendable = "request-unsendable"
	RuleNoKey      = "key-unavailable" // the source of keys gave none: nothing was sent

	RuleForeign  = "foreign-answer"    // a good status, and then something that is no answer
	RuleNoStream = "stream-missing"    // the server refuses streams, or does not know where they are
	RuleTooLong  = "unstreamed-length" // the answer may not be asked for unstreamed: nothing was sent
	RuleWhole    = "watchdog-whole"    // an unstreamed answer was not complete in time
	RuleProxy    = "proxy"             // a proxy refused, or is not there; the API was not reached

	RuleCertificate       = "tls-certificate"        // that of the server
	RuleClientCertificate = "tls-client-certificate" // ours, or that there is none
	RuleTLSVersion        = "tls-version"
)

const (
	maxErrorBody = 1 << 20
	headKept     = 2 << 10 // of a stream, to show what came instead of an answer
	queueLength  = 16      // batches; a batch is what one read brought
	batchLength  = 256
	drainTime    = 250 * time.Millisecond
	drainBytes   = 64 << 10
)

// Stream implements [model.Model]. The answer is complete only when the server
// said why it stopped: with message_stop after a stop reason, or with a stop
// reason after the last block and then the end of the stream, however it
// ended. Everything else ends in a *failure.Error.
//
// A tool_use block whose input is cut or is no JSON object is yielded with the
// bytes as they came: ask Input.IsValid and Kind before running it. It is never
// turned into {}.
//
// An unstreamed request yields the same events, all at once. When to ask for one
// is the caller's to decide: see [StreamingFails].
//
// Reading has its own goroutine and a bounded queue; it is gone when Stream
// returns.
func (c *Client) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if ctx.Err() != nil {
			yield(model.Event{}, c.aborted(ctx))
			return
		}
		s := c.newStream(ctx, r)
		req, err := s.prepare("/v1/messages", c.encodeRequest)
		if err != nil {
			s.leave()
			yield(model.Event{}, err)
			return
		}
		go s.read(req)
		s.deliver(yield)
	}
}

// stream is one request in flight: a reader that fills the queue and a consumer
// that empties it.
type stream struct {
	client *Client
	caller context.Context
	ask    *model.Request
	key    Key // that it was sent with

	ctx   context.Context // ends when the consumer leaves
	leave context.CancelFunc

	requestCtx context.Context // ends as well when a watchdog fires
	kill       context.CancelCauseFunc

	dog   *watchdog
	queue chan []step
	spent chan []step // batches on their way back
	batch []step
	head  []byte // the first bytes of the body
}

type step struct {
	event model.Event
	err   error
}

func (c *Client) newStream(caller context.Context, r *model.Request) *stream {
	s := &stream{client: c, caller: caller, ask: r, queue: make(chan []step, queueLength), spent: make(chan []step, 2)}
	s.ctx, s.leave = context.WithCancel(caller)
	s.requestCtx, s.kill = context.WithCancelCause(s.ctx)
	s.dog = newWatchdog(c.timeouts, c.now, s.kill)
	s.dog.whole = r.Unstreamed
	return s
}

// prepare writes the request. Its failures are those of which the server never
// heard.
func (s *stream) prepare(path string, encode func(*model.Request) (body, error)) (*http.Request, error) {
	c := s.client
	b, err := encode(s.ask)
	if err != nil {
		if e := failureIn(err); e != nil {
			return nil, e
		}
		return nil, c.refuse(err)
	}
	if s.key, err = c.key(s.ctx); err != nil {
		return nil, err
	}
	return c.post(s.requestCtx, path, s.ask, b, s.key)
}

// deliver runs in the consumer's goroutine.
func (s *stream) deliver(yield func(model.Event, error) bool) {
	complete := false
	defer func() {
		if !complete {
			s.leave()
		}
		for range s.queue { // the reader has left when the queue is closed
		}
		s.leave()
	}()
	for {
		select {
		case batch, open := <-s.queue:
			if !open {
				if !complete {
					yield(model.Event{}, s.client.aborted(s.caller))
				}
				return
			}
			for _, st := range batch {
				if s.caller.Err() != nil {
					yield(model.Event{}, s.client.aborted(s.caller))
					return
				}
				complete = st.event.Kind == model.EventStop
				if !yield(st.event, st.err) || st.err != nil {
					return
				}
			}
			select {
			case s.spent <- batch[:0]:
			default:
			}
		case <-s.caller.Done():
			if !complete {
				yield(model.Event{}, s.client.aborted(s.caller))
			}
			return
		}
	}
}

// read runs in its own goroutine.
func (s *stream) read(req *http.Request) {
	defer close(s.queue)
	defer s.kill(nil)
	if err := s.answer(req); err != nil {
		s.batch = append(s.batch, step{err: err})
		s.flush()
	}
}

func (s *stream) put(e model.Event) {
	s.batch = append(s.batch, step{event: e})
	if len(s.batch) >= batchLength {
		s.flush()
	}
}

// flush waits for the consumer, not for the server: no watchdog is armed.
func (s *stream) flush() {
	if len(s.batch) == 0 {
		return
	}
	select {
	case s.queue <- s.batch:
	case <-s.ctx.Done():
	}
	select {
	case s.batch = <-s.spent:
	default:
		s.batch = nil // the queue owns that slice now
	}
}

// answer sends req and turns what comes into events, the last of them
// EventStop, or returns the failure.
func (s *stream) answer(req *http.Request) error {
	res, err := s.do(req)
	if err != nil {
		return s.markNoStream(err)
	}
	defer res.Body.Close()
	d := &decoder{
		requestID: res.Header.Get("request-id"), limits: limitsOf(res.Header), put: s.put, progress: s.dog.progress,
		classify: func(data []byte) *failure.Error {
			report := s.client.report(res, data)
			report.InStream = true
			return classify(report)
		},
	}
	if err := s.decode(res, d); err != nil {
		e := failure.As(err)
		if e.RequestID == "" {
			e.RequestID = d.requestID
		}
		return s.failed(e)
	}
	s.put(d.end())
	s.flush()
	s.drain(res.Body)
	return nil
}

// do sends req. Any status but 2xx is a failure.
func (s *stream) do(req *http.Request) (*http.Response, error) {
	s.dog.begin()
	res, err := s.client.http.Do(req)
	s.dog.end(0)
	if err != nil {
		return nil, s.broken(err, failure.Report{Provider: provider, Err: err, Now: s.client.now()})
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{&watched{body: res.Body, dog: s.dog, before: s.flush}, res.Body}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusProxyAuthRequired { // without CONNECT a proxy answers in the server's place
		refusal := refusedBy(nil, req.URL.Host, res)
		return nil, s.broken(refusal, failure.Report{Provider: provider, Err: refusal, Now: s.client.now()})
	}
	// What can be read of the body is enough: the status alone says a lot.
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if s.caller.Err() != nil {
		return nil, s.client.aborted(s.caller)
	}
	return nil, s.failed(classify(s.client.report(res, text)))
}

const provider = "anthropic"

func (c *Client) report(res *http.Response, text []byte) failure.Report {
	return failure.Report{Provider: provider, Status: res.StatusCode, Header: res.Header, Body: text, Now: c.now()}
}

// classify is [failure.Classify] with the limits that came along.
func classify(report failure.Report) *failure.Error {
	e := failure.Classify(report)
	if limits := limitsOf(report.Header); limits != nil {
		_ = e.Wrap(&model.LimitsError{Limits: limits})
	}
	return e
}

// decode reads the body of a good status, whatever it holds: a stream, a whole
// message from a gateway that does not stream, or something foreign. The first
// byte tells; content types lie.
func (s *stream) decode(res *http.Response, d *decoder) error {
	body := bufio.NewReader(io.TeeReader(res.Body, (*headWriter)(s)))
	first, err := firstByte(body)
	switch {
	case err == io.EOF:
		return s.foreign(res, "the body is empty")
	case err != nil:
		return s.cut(err)
	case first != '{' && first != '[' && first != '<':
		s.dog.streams()
		return s.events(res, newEventReader(body), d)
	}
	whole, err := io.ReadAll(io.LimitReader(body, maxEvent))
	if err != nil {
		return s.cut(err)
	}
	recognised, err := d.whole(whole)
	if err == nil && !recognised {
		return s.foreign(res, "the body is not a message")
	}
	return err
}

// events reads a stream to the end of the answer.
func (s *stream) events(res *http.Response, events *eventReader, d *decoder) error {
	for seen := 0; ; seen++ {
		e, err := events.next()
		if err == nil {
			err = d.event(e)
		}
		switch {
		case err == nil && !d.done:
			continue
		case d.done || s.caller.Err() == nil && d.complete():
			return nil
		case err == bufio.ErrTooLong:
			return malformed("an event is longer than %d MiB", maxEvent>>20)
		case err == io.EOF && !d.started:
			if seen == 0 && bytes.HasPrefix(s.head, []byte("event: message_start")) {
				return s.cut(io.ErrUnexpectedEOF) // it broke within its first event
			}
			return s.foreign(res, "no answer began in it")
		case failureIn(err) != nil:
			return err
		}
		return s.cut(err)
	}
}

func failureIn(err error) *failure.Error {
	e, _ := errors.AsType[*failure.Error](err)
	return e
}

// firstByte passes over white space and a byte order mark and peeks at what
// follows.
func firstByte(r *bufio.Reader) (byte, error) {
	if mark, err := r.Peek(3); err == nil && string(mark) == "\uFEFF" {
		_, _ = r.Discard(3)
	}
	for {
		next, err := r.Peek(1)
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsAny(next, " \t\r\n") {
			return next[0], nil
		}
		_, _ = r.Discard(1)
	}
}

// headWriter keeps the first bytes of a body.
type headWriter stream

func (h *headWriter) Write(p []byte) (int, error) {
	if room := headKept - len(h.head); room > 0 {
		h.head = append(h.head, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// foreign is the failure of a good status with something else than an answer:
// a login page, a proxy's greeting, nothing (R30).
func (s *stream) foreign(res *http.Response, what string) *failure.Error {
	e := classify(s.client.report(res, s.head))
	if e.Kind == failure.ServerError {
		e.Rule = RuleForeign
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	e.Message = strings.TrimSpace(fmt.Sprintf("status %d, but %s (%s): a proxy or gateway may be in between. %s",
		res.StatusCode, what, kind, e.Message))
	return e
}

// cut is the failure of a stream that ended too early, in whatever way.
func (s *stream) cut(err error) *failure.Error {
	e := &failure.Error{Kind: failure.Network, Retry: failure.RetryYes, Rule: RuleCut}
	e.Message = "the stream ended before the answer was complete"
	if err != io.EOF {
		e.Message += ": " + err.Error()
	}
	return s.because(e.Wrap(err))
}

// broken is the failure of a request that got no answer.
func (s *stream) broken(err error, report failure.Report) error {
	e := failure.Classify(report)
	_ = explainTLS(e, err) || explainProxy(e, err)
	return s.failed(s.because(e))
}

// because puts the true cause in the place of what the transport says: that
// the caller left, or that a watchdog fired.
func (s *stream) because(e *failure.Error) *failure.Error {
	if s.caller.Err() != nil {
		return s.client.aborted(s.caller)
	}
	if stalled := s.dog.stalled(); stalled != nil {
		e = stalled
	}
	if e.Stalled || e.Kind == failure.Network {
		// A connection of HTTP/2 outlives its requests, and the others of the
		// pool go the same way: the next try must not get one of them.
		s.client.DropIdle()
	}
	s.dog.nameSleep(e)
	return e
}

// failed is the last station of every failure that the server or the way to it
// is to blame for: a key that was refused is noted, and no key leaves in it.
func (s *stream) failed(e *failure.Error) *failure.Error {
	secrets := s.client.secrets
	if e.Kind == failure.Auth && s.key.Value != "" {
		secrets.refuse(s.key.Value)
	}
	e.Message, e.Detail = secrets.redact(e.Message), secrets.redact(e.Detail)
	e.Type, e.RequestID = secrets.redact(e.Type), secrets.redact(e.RequestID)
	return e
}

// drain reads what follows a complete answer, so that the connection can be
// used again; not for long.
func (s *stream) drain(body io.Reader) {
	timer := time.AfterFunc(drainTime, func() { s.kill(nil) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}
