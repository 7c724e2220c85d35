package anthropic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/failure"
)

const (
	fetchAttempts = 3
	fetchPause    = 500 * time.Millisecond // before the second attempt; then twice as long
	// fetchRest is how long a fetch that failed is not begun again. Requests,
	// and the refresh after their failure, share its attempts and its error.
	fetchRest = time.Minute
)

// Refresher is a source of keys made of a function that fetches one: a command,
// a file, a metadata service. It keeps the key, and runs one fetch at a time.
type Refresher struct {
	fetch func(context.Context) (string, error)
	ttl   time.Duration
	turn  chan struct{} // holds one token while somebody fetches

	mu      sync.Mutex
	key     string
	fetched time.Time
	failure error // of the last fetch, and when that was
	failed  time.Time
}

var _ Credentials = (*Refresher)(nil)

// NewRefresher returns a source of keys that come from fetch. A key is used for
// ttl, then it is fetched anew; zero keeps it until the provider refuses it. A
// fetch that fails is tried three times in total, and then leaves the old key in
// use: it may well be good yet.
func NewRefresher(fetch func(context.Context) (string, error), ttl time.Duration) *Refresher {
	return &Refresher{fetch: fetch, ttl: ttl, turn: make(chan struct{}, 1)}
}

// Current implements [Credentials].
func (r *Refresher) Current(ctx context.Context) (Key, error) {
	if key, fresh := r.kept(); fresh {
		return Key{Value: key}, nil
	}
	err := r.renew(ctx, "", func(_ string, fresh bool) bool { return !fresh })
	if key, _ := r.kept(); key != "" && ctx.Err() == nil {
		return Key{Value: key}, nil
	}
	return Key{}, err
}

// Refresh implements [Credentials].
func (r *Refresher) Refresh(ctx context.Context, failed Key) error {
	return r.renew(ctx, failed.Value, func(key string, _ bool) bool { return key == failed.Value })
}

// String names no key.
func (r *Refresher) String() string { return "anthropic.Refresher{…}" }

// GoString names no key either.
func (r *Refresher) GoString() string { return r.String() }

func (r *Refresher) kept() (key string, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key, r.key != "" && (r.ttl <= 0 || time.Since(r.fetched) < r.ttl)
}

// renew fetches a key if that is still due once it is this caller's turn. The
// fetch belongs to the caller whose turn it is: when that one leaves, the next
// begins its own.
func (r *Refresher) renew(ctx context.Context, refused string, due func(key string, fresh bool) bool) error {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("fetch key: %w", context.Cause(ctx))
	}
	defer func() { <-r.turn }()
	if !due(r.kept()) {
		return nil
	}
	if err := r.recent(); err != nil {
		return err
	}
	key, err := r.attempts(ctx, refused)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil && err != nil:
		return fmt.Errorf("fetch key: %w", context.Cause(ctx)) // that says nothing about the fetch
	case err != nil:
		r.failure, r.failed = err, time.Now()
		return err
	}
	r.key, r.fetched, r.failure = key, time.Now(), nil
	return nil
}

// recent is the error of a fetch that failed a moment ago.
func (r *Refresher) recent() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil && time.Since(r.failed) < fetchRest {
		return r.failure
	}
	return nil
}

// attempts fetches until there is a key that is not the refused one.
func (r *Refresher) attempts(ctx context.Context, refused string) (string, error) {
	pause := fetchPause
	for n := 1; ; n++ {
		key, err := r.fetch(ctx)
		key = strings.TrimSpace(key)
		switch {
		case err != nil:
		case key == "":
			err = errors.New("there was none")
		case strings.ContainsFunc(key, notInValue):
			err = errors.New("what came is more than one line, or holds control characters")
		case key == refused:
			err = errors.New("it is still the one that the provider refused")
		default:
			return key, nil
		}
		if n == fetchAttempts || ctx.Err() != nil {
			old, _ := r.kept()
			known := failure.NewRedactor(key, old)
			return "", errors.New(known.Redact(fmt.Sprintf("fetch key, attempt %d of %d: %v", n, fetchAttempts, err)))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause *= 2
	}
}
