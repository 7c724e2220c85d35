package anthropic

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/failure"
)

// Key is one credential. It prints as what it is, not as its value.
type Key struct {
	Value string
	Style KeyStyle // how it travels; empty: as the profile says
}

func (k Key) String() string { return "anthropic.Key{…}" }

// GoString prints no value either.
func (k Key) GoString() string { return k.String() }

// Credentials are a source of keys that may change while a client lives. It is
// asked before every request, so it should remember; [Refresher] does. Its
// methods are called by many goroutines.
type Credentials interface {
	// Current returns the key to use now.
	Current(ctx context.Context) (Key, error)
	// Refresh gets another key in the place of failed, which the provider
	// refused. Where another one is there already, nothing is to be done: of
	// many requests that fail together one renews the key, and none throws away
	// what another has just got.
	Refresh(ctx context.Context, failed Key) error
}

// RefreshKey renews the key that the provider refused (R15). It does nothing
// where the key that is current was not refused yet: then somebody else has
// renewed it. Without [Config.Credentials] there is nothing to renew, which is
// an error.
func (c *Client) RefreshKey(ctx context.Context) error {
	if c.credentials == nil {
		return errors.New("renew key: the client was given a fixed one; give it a source of keys")
	}
	key, err := c.credentials.Current(ctx)
	if err == nil && key.Value != "" && !c.secrets.isRefused(key.Value) {
		return nil
	}
	if err := c.credentials.Refresh(ctx, key); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("renew key: %w", context.Cause(ctx))
		}
		return errors.New(c.secrets.redact("renew key: " + err.Error()))
	}
	return nil
}

// key is the credential of one request; the zero Key where the client has a
// fixed one, or none.
func (c *Client) key(ctx context.Context) (Key, error) {
	if c.credentials == nil {
		return Key{}, nil
	}
	key, err := c.credentials.Current(ctx)
	switch {
	case ctx.Err() != nil:
		return Key{}, c.aborted(ctx)
	case err != nil:
		return Key{}, c.keyless(err.Error())
	case strings.ContainsFunc(key.Value, notInValue):
		return Key{}, c.keyless("it holds a line break or control character")
	}
	if key.Style == "" {
		key.Style = c.profile.Keys
	}
	c.secrets.learn(key.Value)
	return key, nil
}

// keyless is the failure of a request for which there is no key. The error of
// the source is not kept: it may hold what a key helper printed.
func (c *Client) keyless(why string) *failure.Error {
	return &failure.Error{
		Kind: failure.Auth, Retry: failure.RetryNo, Rule: RuleNoKey,
		Message: c.secrets.redact("get the API key: " + why),
	}
}
