package fault

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// A MemoryNet is a network inside of the process: a listener, and a dialer that reaches it. Nothing of
// it touches the operating system, so that a testing/synctest bubble can tell when all is idle.
type MemoryNet struct {
	mu     sync.Mutex
	down   error
	conns  chan net.Conn
	closed chan struct{}
}

// NewMemoryNet makes a network with one listener.
func NewMemoryNet() *MemoryNet {
	return &MemoryNet{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for the next dialed connection.
func (m *MemoryNet) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses all dialing from now on.
func (m *MemoryNet) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.closed:
	default:
		close(m.closed)
	}
	return nil
}

// Fail lets all dialing fail with err, as if the name could not be resolved or nobody listened, until
// Fail(nil). Open connections stay.
func (m *MemoryNet) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = err
}

// Addr is the address that a client can use in a URL.
func (m *MemoryNet) Addr() net.Addr { return memoryAddr{} }

// DialContext reaches the listener whatever the address is. It fits http.Transport.DialContext.
func (m *MemoryNet) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := newMemoryPair()
	refused := &net.OpError{Op: "dial", Net: "memory", Addr: memoryAddr{}, Err: syscall.ECONNREFUSED}
	m.mu.Lock()
	down := m.down
	m.mu.Unlock()
	if down != nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: memoryAddr{}, Err: down}
	}
	select {
	case <-m.closed:
		return nil, refused
	default:
	}
	select {
	case m.conns <- server:
		return client, nil
	case <-m.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Client is an HTTP client on this network. Close its idle connections when done.
func (m *MemoryNet) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: m.DialContext}}
}

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "fault.test:80" }

// memoryBuffer is what a real socket buffers for one direction before a writer has to wait.
const memoryBuffer = 256 << 10

// pipe is one direction of a connection.
type pipe struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever something changes
	data     []byte
	closed   bool // by the writer: the reader gets EOF behind the data
	gone     bool // by the reader: writing fails
	reset    bool // both ends fail, the reader behind the data
	readEnd  time.Time
	writeEnd time.Time
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

// update runs f under the lock and wakes everybody.
func (p *pipe) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait sleeps until something changes or the deadline is over. The lock is held before and after.
func (p *pipe) wait(deadline time.Time) error {
	var expired <-chan time.Time
	if !deadline.IsZero() {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		t := time.NewTimer(left)
		defer t.Stop()
		expired = t.C
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-expired: // noticed by the caller's next look at the deadline
	}
	return nil
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.gone && !p.reset:
			return 0, net.ErrClosed
		case len(p.data) > 0:
			n := copy(b, p.data)
			p.data = p.data[n:]
			close(p.changed)
			p.changed = make(chan struct{})
			return n, nil
		case p.reset:
			return 0, syscall.ECONNRESET
		case p.closed:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		if err := p.wait(p.readEnd); err != nil {
			return 0, err
		}
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.reset:
			return n, syscall.ECONNRESET
		case p.closed:
			return n, net.ErrClosed
		case p.gone:
			return n, syscall.EPIPE
		}
		if room := memoryBuffer - len(p.data); room > 0 && len(b) > 0 {
			k := min(room, len(b))
			p.data = append(p.data, b[:k]...)
			b, n = b[k:], n+k
			close(p.changed)
			p.changed = make(chan struct{})
		}
		if len(b) == 0 {
			return n, nil
		}
		if err := p.wait(p.writeEnd); err != nil {
			return n, err
		}
	}
}

// memoryConn is one end of a connection: it reads from one pipe and writes to the other.
type memoryConn struct {
	in, out *pipe
	mu      sync.Mutex
	linger  bool // false: closing resets, as SetLinger(0) does
}

func newMemoryPair() (client, server *memoryConn) {
	a, b := newPipe(), newPipe()
	return &memoryConn{in: a, out: b, linger: true}, &memoryConn{in: b, out: a, linger: true}
}

func opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "memory", Addr: memoryAddr{}, Err: err}
}

func (c *memoryConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, opError("read", err)
}

func (c *memoryConn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, opError("write", err)
}

// SetLinger(0) makes the next Close a reset. Unlike a real network this one delivers first what was sent
// before it, so that a position in a script means the same in every run.
func (c *memoryConn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = sec != 0
	return nil
}

func (c *memoryConn) Close() error {
	c.mu.Lock()
	reset := !c.linger
	c.mu.Unlock()
	// What the other end writes fails before it reads the end: who has seen the end cannot write any more.
	c.in.update(func() { c.in.gone = true; c.in.reset = c.in.reset || reset })
	c.out.update(func() { c.out.closed = true; c.out.reset = c.out.reset || reset })
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return memoryAddr{} }
func (c *memoryConn) RemoteAddr() net.Addr { return memoryAddr{} }

func (c *memoryConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.update(func() { c.in.readEnd = t })
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.update(func() { c.out.writeEnd = t })
	return nil
}
