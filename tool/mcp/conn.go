package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is the longest message of a server that is read. A longer one is
// answered in its place with an error: memory has a bound.
const maxMessage = 16 << 20

// pipe is the connection to a server over its stdin and stdout. The one of the
// SDK ends with the first line that is no message; servers that print a
// greeting or a warning there are common, so this one leaves such lines out.
type pipe struct {
	process *process
	errs    *tail
	grace   time.Duration

	in        chan jsonrpc.Message
	out       chan []byte
	closing   chan struct{}
	closeOnce sync.Once
}

func newPipe(p *process, errs *tail, grace time.Duration) *pipe {
	c := &pipe{
		process: p, errs: errs, grace: grace,
		in: make(chan jsonrpc.Message), out: make(chan []byte, 16), closing: make(chan struct{}),
	}
	go c.read()
	go c.write()
	return c
}

// read hands on the messages until stdout ends.
func (c *pipe) read() {
	defer c.process.stdout.Close()
	defer close(c.in)
	r := bufio.NewReaderSize(c.process.stdout, 64<<10)
	for {
		line, err := readLine(r, maxMessage)
		for _, m := range c.decode(line) {
			select {
			case c.in <- m:
			case <-c.closing:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// decode reads a line; a batch is several messages.
func (c *pipe) decode(l line) []jsonrpc.Message {
	if l.size > maxMessage {
		return c.tooLong(l)
	}
	text := bytes.TrimSpace(l.text)
	if len(text) == 0 {
		return nil
	}
	parts := []jsontext.Value{text}
	if text[0] == '[' && json.Unmarshal(text, &parts) != nil {
		parts = []jsontext.Value{text}
	}
	var out []jsonrpc.Message
	for _, p := range parts {
		m, err := jsonrpc.DecodeMessage(p)
		if err != nil || len(p) == 0 || p[0] != '{' {
			c.errs.strayLine(text)
			return nil
		}
		out = append(out, m)
	}
	return out
}

// answerID finds the number of the call that an answer is for: it stands near
// the beginning of the line or, with some servers, at its end.
var answerID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"id"\s*:\s*(\d+)`) })

// tooLong is an error in the place of an answer that is too long, so that the
// call which waits for it ends.
func (c *pipe) tooLong(l line) []jsonrpc.Message {
	for _, part := range [][]byte{l.text[:min(len(l.text), 200)], l.end} {
		g := answerID().FindSubmatch(part)
		if g == nil {
			continue
		}
		m, err := jsonrpc.DecodeMessage(fmt.Appendf(nil,
			`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"its answer has %d bytes, and at most %d are read"}}`,
			g[1], jsonrpc.CodeInternalError, l.size, maxMessage))
		if err == nil {
			return []jsonrpc.Message{m}
		}
	}
	c.errs.strayLine(fmt.Appendf(nil, "a message of %d bytes, which is too long", l.size))
	return nil
}

// line is one line of input, or the beginning and the end of one that is too long.
type line struct {
	text []byte
	end  []byte
	size int
}

// readLine reads up to the next line end. Of a line longer than most it keeps
// what is needed to name it.
func readLine(r *bufio.Reader, most int) (l line, err error) {
	for {
		var part []byte
		part, err = r.ReadSlice('\n')
		l.size += len(part)
		if l.size <= most {
			l.text = append(l.text, part...)
		} else {
			l.text = l.text[:min(len(l.text), 200):min(len(l.text), 200)]
			l.end = append(l.end, part...)
			l.end = l.end[max(0, len(l.end)-200):]
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}

// write sends what Write accepted. A server that does not read blocks this
// goroutine and nobody else.
func (c *pipe) write() {
	for {
		select {
		case data := <-c.out:
			if _, err := c.process.stdin.Write(data); err != nil {
				_ = c.Close()
				return
			}
		case <-c.closing:
			return
		}
	}
}

// Read implements [sdk.Connection].
func (c *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, ok := <-c.in:
		if ok {
			return m, nil
		}
	case <-c.closing:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, io.EOF
}

// Write implements [sdk.Connection].
func (c *pipe) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	select {
	case <-c.closing: // first, for out may have room for what nobody will read
		return io.ErrClosedPipe
	default:
	}
	select {
	case c.out <- append(data, '\n'):
		return nil
	case <-c.closing:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close begins to end the server and does not wait for it: the SDK calls it
// with a lock held that every call needs.
func (c *pipe) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		go c.process.end(c.grace)
	})
	return nil
}

// SessionID implements [sdk.Connection].
func (c *pipe) SessionID() string { return "" }

// transport hands a connection to the SDK and remembers it, so that it can be
// closed from outside whatever the SDK waits for.
type transport struct {
	inner sdk.Transport // HTTP
	pipe  *pipe         // Stdio

	mu     sync.Mutex
	conn   sdk.Connection
	cancel context.CancelFunc
	over   bool
}

// Connect implements [sdk.Transport].
func (t *transport) Connect(ctx context.Context) (sdk.Connection, error) {
	if t.pipe != nil {
		return t.pipe, nil
	}
	// The older HTTP transport ends with the context in which it was opened,
	// which here is that of the start.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.mu.Lock()
	over := t.over
	t.cancel = cancel
	t.mu.Unlock()
	if over {
		cancel()
	}
	conn, err := t.inner.Connect(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	t.mu.Lock()
	t.conn, over = conn, t.over
	t.mu.Unlock()
	if over {
		_ = conn.Close()
		return nil, io.ErrClosedPipe
	}
	return conn, nil
}

// close closes the connection, or the one that is about to be.
func (t *transport) close() {
	if t.pipe != nil {
		_ = t.pipe.Close()
		return
	}
	t.mu.Lock()
	conn, cancel := t.conn, t.cancel
	t.over = true
	t.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
	if cancel != nil {
		cancel()
	}
}
