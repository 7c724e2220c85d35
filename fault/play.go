package fault

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// errEnded says that the script, not the client, ended the answer early.
var errEnded = errors.New("the script ended the answer")

// player carries one plan out.
type player struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	ctx   context.Context
	scale float64
	chunk int

	sent   int             // bytes of the planned body
	struck map[string]bool // steps of which a fault inside the body was reached
}

func newPlayer(ctx context.Context, w http.ResponseWriter, scale float64, chunk int) *player {
	return &player{w: w, ctl: http.NewResponseController(w), ctx: ctx, scale: scale, chunk: chunk, struck: map[string]bool{}}
}

// run sends the plan. It returns nil if all of it was sent, errEnded if a fault of the script ended it,
// and another error if the client left. Every wait ends with the client.
func (pl *player) run(p *plan) error {
	if err := pl.wait(p.waits.headers); err != nil {
		return err
	}
	for _, e := range p.ends {
		if err := pl.end(e.how, e.wait); err != nil {
			return err
		}
	}
	for _, h := range p.headers {
		if h[1] == "" {
			pl.w.Header()[h[0]] = nil // stops net/http from guessing one
			continue
		}
		pl.w.Header().Set(h[0], h[1])
	}
	pl.w.WriteHeader(p.status)
	if p.stream || p.waits.first > 0 || len(p.actions) > 1 {
		pl.flush()
	}
	if err := pl.wait(p.waits.first); err != nil {
		return err
	}
	for _, a := range p.actions {
		if err := pl.act(a, p.stream); err != nil {
			return err
		}
	}
	return pl.ctx.Err()
}

func (pl *player) act(a action, stream bool) error {
	if a.step != "" {
		pl.struck[a.step] = true
	}
	switch a.do {
	case "write":
		before := pl.sent
		n, err := pl.write(a.data, stream)
		pl.sent = before + n
		return err
	case "send":
		_, err := pl.write(a.data, true)
		return err
	case "wait":
		return pl.wait(a.wait)
	case "pings":
		return pl.pings(a)
	}
	return pl.end(a.do, a.wait)
}

func (pl *player) end(how string, wait time.Duration) error {
	switch how {
	case "stall":
		if wait == 0 {
			<-pl.ctx.Done()
			return pl.ctx.Err()
		}
		return pl.wait(wait)
	case "end":
		return errEnded
	}
	pl.drop(how == "reset")
	return errEnded
}

// lingerer is what a TCP connection can do: SetLinger(0) turns its closing into a reset.
type lingerer interface{ SetLinger(sec int) error }

// drop closes the connection under the answer, with a reset or without. If the server gives no way to
// the connection, its own way of aborting is the nearest.
func (pl *player) drop(reset bool) {
	conn, _, err := pl.ctl.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if l, ok := conn.(lingerer); ok && reset {
		_ = l.SetLinger(0) // a plain close is the second best
	}
	_ = conn.Close() // nobody is left to tell
}

func (pl *player) write(data string, flush bool) (n int, err error) {
	size := pl.chunk
	if size == 0 {
		size = len(data)
	}
	for len(data) > 0 {
		if err := pl.ctx.Err(); err != nil {
			return n, err
		}
		k := min(size, len(data))
		if _, err := pl.w.Write([]byte(data[:k])); err != nil {
			return n, err
		}
		n += k
		data = data[k:]
		if flush || pl.chunk > 0 {
			pl.flush()
		}
	}
	return n, nil
}

// flush sends what is buffered. A writer that cannot is a recorder in a test, and a lost client is
// noticed by the next write.
func (pl *player) flush() { _ = pl.ctl.Flush() }

func (pl *player) pings(a action) error {
	end := pl.scaled(a.wait)
	for spent := time.Duration(0); a.wait == 0 || spent < end; spent += max(1, pl.scaled(a.every)) {
		if _, err := pl.write("event: ping\ndata: {\"type\":\"ping\"}\n\n", true); err != nil {
			return err
		}
		if err := pl.wait(a.every); err != nil {
			return err
		}
	}
	return nil
}

func (pl *player) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * pl.scale)
}

func (pl *player) wait(d time.Duration) error {
	d = pl.scaled(d)
	if d <= 0 {
		return pl.ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-pl.ctx.Done():
		return pl.ctx.Err()
	}
}
