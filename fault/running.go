package fault

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// Running is a server that listens.
type Running struct {
	*Server
	URL  string // base URL for clients, without a slash at the end
	http *http.Server
	done chan struct{}
}

// Listen opens a free port of the loopback interface.
func Listen() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	return l, nil
}

// Serve plays the script on l, which may be a real listener or a MemoryNet, until Close.
func (s *Server) Serve(l net.Listener) *Running {
	r := &Running{
		Server: s, URL: "http://" + l.Addr().String(), done: make(chan struct{}),
		http: &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)},
	}
	go func() {
		defer close(r.done)
		_ = r.http.Serve(l) // ends with Close, and then always with an error
	}()
	return r
}

// Close ends all connections and returns when the last handler has returned.
func (r *Running) Close() error {
	err := r.http.Close()
	<-r.done
	r.running.Wait()
	if err != nil {
		return fmt.Errorf("close fault server: %w", err)
	}
	return nil
}
