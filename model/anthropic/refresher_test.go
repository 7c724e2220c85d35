package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model"
)

// counting is a fetch that gives a new key each time, after a moment.
func counting(calls *atomic.Int32) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		n := calls.Add(1)
		time.Sleep(time.Second)
		return fmt.Sprintf(" secret-key-number-%d \n", n), nil
	}
}

// TestParallelRefresh: many that failed with one key renew it once, and one
// that comes late with an old key throws nothing away.
func TestParallelRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := NewRefresher(counting(&calls), 0)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if key, err := r.Current(t.Context()); err != nil || key.Value != "secret-key-number-1" {
					t.Errorf("%q, %v", key.Value, err)
				}
			})
		}
		all.Wait()
		old, _ := r.Current(t.Context())
		for i := range 50 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond) // during the fetch and after it
				if err := r.Refresh(t.Context(), old); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if key, _ := r.Current(t.Context()); key.Value != "secret-key-number-2" || calls.Load() != 2 {
			t.Errorf("%q after %d fetches", key.Value, calls.Load())
		}
	})
}

// TestFetchFails: three attempts in total, for the request and the refresh that
// follows it; the old key stays; no error holds a key.
func TestFetchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		broken := false
		r := NewRefresher(func(context.Context) (string, error) {
			calls.Add(1)
			if broken {
				return "another-secret-key", errors.New("helper printed another-secret-key, not first-secret-key")
			}
			return "first-secret-key", nil
		}, time.Hour)
		first, err := r.Current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		broken = true
		time.Sleep(2 * time.Hour)
		began := time.Now()
		if key, err := r.Current(t.Context()); err != nil || key != first {
			t.Errorf("the old key is lost: %v, %v", key.Value, err)
		}
		if took := time.Since(began); took != 1500*time.Millisecond || calls.Load() != 4 {
			t.Errorf("%d fetches in %v", calls.Load(), took)
		}
		err = r.Refresh(t.Context(), first)
		if err == nil || calls.Load() != 4 || !strings.Contains(err.Error(), "attempt 3 of 3") {
			t.Errorf("%v after %d fetches", err, calls.Load())
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %v", err, r, r, errors.Unwrap(err)), "secret-key") {
			t.Errorf("%v shows a key", err)
		}
		broken = false
		time.Sleep(2 * time.Minute)
		if err := r.Refresh(t.Context(), first); err == nil || !strings.Contains(err.Error(), "still the one") {
			t.Errorf("the same key again: %v", err)
		}
	})
}

func TestFetchGivesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, output := range []string{"", " \n", "two\nlines"} {
			r := NewRefresher(func(context.Context) (string, error) { return output, nil }, 0)
			if key, err := r.Current(t.Context()); err == nil {
				t.Errorf("%q gave %q", output, key.Value)
			}
		}
	})
}

// TestFetchIsLeft: who leaves ends only its own waiting.
func TestFetchIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		why := errors.New("the user left")
		r := NewRefresher(func(ctx context.Context) (string, error) {
			if calls.Add(1) == 1 {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "secret-key-of-the-second", nil
		}, 0)
		ctx, leave := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := r.Current(ctx); !errors.Is(err, why) {
				t.Error(err)
			}
		})
		all.Go(func() {
			time.Sleep(time.Second)
			if key, err := r.Current(t.Context()); err != nil || key.Value != "secret-key-of-the-second" {
				t.Errorf("%q, %v", key.Value, err)
			}
		})
		time.Sleep(time.Minute)
		leave(why)
		all.Wait()
	})
}

// rotating is a server that accepts one key, which changes.
type rotating struct {
	mu    sync.Mutex
	valid string
	seen  []string
}

func (s *rotating) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("X-Api-Key")
	s.seen = append(s.seen, key)
	res := &http.Response{StatusCode: 200, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(rich))}
	if key != s.valid {
		res.StatusCode = http.StatusUnauthorized
		res.Body = io.NopCloser(strings.NewReader(`{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key ` + key + `"}}`))
	}
	return res, nil
}

// TestKeyIsRenewed: a refused key is renewed once for all requests that it
// failed, and none of the keys is ever shown.
func TestKeyIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		server := &rotating{valid: "secret-key-number-2"}
		c := mustNew(t, Config{Credentials: NewRefresher(counting(&calls), 0), Transport: server})
		ask := func() {
			_, err := collect(t.Context(), c, hello)
			if e := failure.As(err); e != nil {
				if e.Kind != failure.Auth || strings.Contains(fmt.Sprintf("%+v", e), "secret-key") {
					t.Errorf("%+v", e)
				}
				if err := c.RefreshKey(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err = collect(t.Context(), c, hello); err != nil {
					t.Error(err)
				}
			}
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(ask)
		}
		all.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d fetches", calls.Load())
		}
		if err := c.RefreshKey(t.Context()); err != nil || calls.Load() != 2 {
			t.Errorf("a key that nobody refused was renewed: %v, %d fetches", err, calls.Load())
		}
	})
}

// fixedSource is a source of one key.
type fixedSource struct {
	key Key
	err error
}

func (f fixedSource) Current(context.Context) (Key, error) { return f.key, f.err }
func (f fixedSource) Refresh(context.Context, Key) error   { return f.err }

func TestCredentials(t *testing.T) {
	server := &rotating{valid: "none"}
	for _, tc := range []struct {
		source fixedSource
		says   string
	}{
		{fixedSource{err: errors.New("helper failed with api_key=" + testKey)}, "get the API key: helper failed"},
		{fixedSource{key: Key{Value: testKey + "\nmore"}}, "line break"},
	} {
		_, err := collect(t.Context(), mustNew(t, Config{Credentials: tc.source, Transport: server}), hello)
		e := failure.As(err)
		if e.Kind != failure.Auth || e.Rule != RuleNoKey || !strings.Contains(e.Message, tc.says) || len(server.seen) > 0 {
			t.Errorf("%s: %+v", e.Rule, e)
		}
		hidesKey(t, e)
	}
	// A key that is refused in a stream is as bad.
	refused := sse(start, `{"type":"error","error":{"type":"authentication_error","message":"token expired"}}`)
	c := mustNew(t, Config{Credentials: fixedSource{key: Key{Value: testKey}}, Transport: answering(text1(refused))})
	if _, err := collect(t.Context(), c, hello); failure.KindOf(err) != failure.Auth || !c.secrets.isRefused(testKey) {
		t.Errorf("refused in a stream: %v", err)
	}
	var got http.Header
	c = mustNew(t, Config{Credentials: fixedSource{key: Key{Value: testKey, Style: KeyAsBearer}}, Transport: transport(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		return nil, errors.New("enough of " + testKey)
	})})
	_, err := collect(t.Context(), c, &model.Request{})
	if got.Get("Authorization") != "Bearer "+testKey || got.Get("X-Api-Key") != "" {
		t.Errorf("%v", got)
	}
	if strings.Contains(err.Error(), testKey) || strings.Contains(fmt.Sprintf("%v %+v %#v", c, Key{Value: testKey}, Key{Value: testKey}), testKey) {
		t.Error("the key is shown")
	}
	if _, err := New(Config{APIKey: "k", Credentials: fixedSource{}}); err == nil {
		t.Error("a fixed key beside a source")
	}
	if err := mustNew(t, Config{APIKey: "k"}).RefreshKey(t.Context()); err == nil {
		t.Error("a fixed key was renewed")
	}
}
