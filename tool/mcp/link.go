package mcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daruma-agent/daruma/tool"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// link is one connection to a server.
type link struct {
	server    *server
	transport *transport
	process   *process // Stdio
	errs      tail
	version   string // of the protocol
	tools     []*sdk.Tool
	names     map[string]bool

	session *sdk.ClientSession
	gone    chan struct{} // closed when the session is over
	once    sync.Once
	suspect atomic.Bool // a call got no answer: to be tried before it is used again
	closed  atomic.Bool

	mu      sync.Mutex
	number  int
	watches map[string]*heard // by progress token
}

// The parts of the time for a start, and bounds of a list.
const (
	probeTime = 5 * time.Second // for a question that only a server of the newer era answers
	mostPages = 100
	mostTools = 1000
)

// connect opens the session. legacy asks in the way of the older era alone.
func (l *link) connect(ctx context.Context, legacy bool) error {
	client := sdk.NewClient(&sdk.Implementation{Name: "daruma", Version: l.server.all.cfg.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, // nobody to ask, no folders to tell: requests for it are refused at once
		// What a server needs from a person is told to the model, not asked.
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ProgressNotificationHandler: l.progressed,
	})
	probe := min(probeTime, l.server.all.cfg.Startup/3)
	client.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "server/discover" { // the SDK would wait for as long as the start may take
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, probe)
				defer cancel()
			}
			return next(ctx, method, req)
		}
	})
	opts := &sdk.ClientSessionOptions{}
	if legacy {
		opts.ProtocolVersion = "2025-11-25"
	}
	done := make(chan error, 1)
	go func() {
		session, err := client.Connect(ctx, l.transport, opts)
		if err == nil {
			l.session = session
			go func() {
				_ = session.Wait()
				close(l.gone)
			}()
		} else {
			l.transport.close()
			close(l.gone)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			l.version = l.session.InitializeResult().ProtocolVersion
		}
		return err
	case <-ctx.Done():
		l.transport.close() // whatever the SDK waits for
		<-done
		return ctx.Err()
	}
}

// list asks for the tools, page by page.
func (l *link) list(ctx context.Context) error {
	l.names = map[string]bool{}
	if caps := l.session.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return nil
	}
	params := &sdk.ListToolsParams{}
	for range mostPages {
		res, err := l.session.ListTools(ctx, params)
		if err != nil {
			return fmt.Errorf("it does not list its tools: %w", err)
		}
		for _, t := range res.Tools {
			if len(l.tools) == mostTools {
				return nil
			}
			l.tools = append(l.tools, t)
			l.names[t.Name] = true
		}
		if res.NextCursor == "" || res.NextCursor == params.Cursor {
			return nil
		}
		params = &sdk.ListToolsParams{Cursor: res.NextCursor}
	}
	return nil
}

func (l *link) alive() bool {
	if l.closed.Load() {
		return false
	}
	select {
	case <-l.gone:
		return false
	default:
	}
	if l.process != nil {
		select {
		case <-l.process.exited:
			return false
		default:
		}
	}
	return true
}

// answers asks something small, to know whether a server that did not answer a
// call is there at all.
func (l *link) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, min(probeTime, l.server.all.cfg.Startup))
	defer cancel()
	// The cursor makes it another request than the one whose answer is kept.
	_, err := l.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: "daruma-are-you-there"})
	return err == nil || refusal(err) != nil
}

// close ends the connection, and the server if it is a program of ours, in the
// background. Calls that run on it end at once.
func (l *link) close() {
	l.once.Do(func() {
		l.closed.Store(true)
		l.server.all.work.Go(func() {
			l.transport.close()
			<-l.gone
			if l.session != nil {
				_ = l.session.Close()
			}
		})
	})
}

// watch prepares a call for being heard of; the token goes with the call.
func (l *link) watch(progress func(string)) (h *heard, token string, forget func()) {
	h = &heard{progress: progress}
	l.mu.Lock()
	l.number++
	token = strconv.Itoa(l.number)
	l.watches[token] = h
	l.mu.Unlock()
	return h, token, func() {
		l.mu.Lock()
		delete(l.watches, token)
		l.mu.Unlock()
	}
}

// tellTime is the least time between two notices of progress that are handed
// on: a server may send as many as it likes.
const tellTime = 200 * time.Millisecond

// progressed is called for each notice of progress. One that names no call of
// ours counts for none.
func (l *link) progressed(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	l.mu.Lock()
	h := l.watches[fmt.Sprint(req.Params.ProgressToken)]
	l.mu.Unlock()
	if h == nil {
		return
	}
	now := time.Now().UnixNano()
	h.last.Store(now)
	if now-h.told.Load() < int64(tellTime) {
		return
	}
	text := req.Params.Message
	if text == "" && req.Params.Total > 0 {
		text = fmt.Sprintf("%g of %g", req.Params.Progress, req.Params.Total)
	}
	if h.progress != nil && text != "" {
		h.told.Store(now)
		h.progress(l.server.hide(tool.Clean(text)) + "\n")
	}
}

// Why a call was ended by us.
var (
	errLate = errors.New("the time is over")
	errIdle = errors.New("no progress")
)

// call calls a tool and waits for the answer, for progress, and for the end of
// its time.
func (l *link) call(ctx context.Context, name string, args any, limit time.Duration, progress func(string)) (*sdk.CallToolResult, error) {
	h, token, forget := l.watch(progress)
	defer forget()
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, heardKey{}, h))
	defer cancel(nil)
	late := time.AfterFunc(limit, func() { cancel(errLate) })
	defer late.Stop()
	if idle := l.server.all.cfg.IdleStdio; l.process != nil {
		h.last.Store(time.Now().UnixNano())
		var check *time.Timer
		var mu sync.Mutex // check is set before it is used
		mu.Lock()
		check = time.AfterFunc(idle, func() {
			mu.Lock()
			defer mu.Unlock()
			if left := idle - time.Since(time.Unix(0, h.last.Load())); left > 0 {
				check.Reset(left)
				return
			}
			cancel(errIdle)
		})
		mu.Unlock()
		defer check.Stop()
	}
	params := &sdk.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken(token)
	res, err := l.session.CallTool(ctx, params)
	if err == nil {
		return res, nil
	}
	if cause := context.Cause(ctx); ctx.Err() != nil && (cause == errLate || cause == errIdle) {
		err = cause
	} else if h.silent.Load() {
		err = errSilent
	}
	return nil, err
}
