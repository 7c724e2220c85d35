package anthropic

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/daruma-agent/daruma/failure"
)

// vault knows every value that must not be repeated, and which keys the
// provider has refused. Keys come and go; what was secret once stays so.
type vault struct {
	mu       sync.Mutex
	values   []string
	redactor failure.Redactor
	refused  map[string]bool
}

// newVault knows the credentials of cfg, and the values of headers whose names
// sound like some.
func newVault(cfg Config) *vault {
	v := &vault{refused: map[string]bool{}}
	v.learn(cfg.APIKey)
	v.learn(cfg.AuthToken)
	for name, value := range cfg.Headers {
		name = strings.ToLower(name)
		for _, word := range []string{"key", "token", "auth", "secret", "cookie", "password"} {
			if strings.Contains(name, word) {
				v.learn(value)
				break
			}
		}
	}
	if u, err := url.Parse(cfg.BaseURL); err == nil {
		if password, ok := u.User.Password(); ok {
			v.learn(password)
		}
	}
	return v
}

func (v *vault) learn(value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if value == "" || slices.Contains(v.values, value) {
		return
	}
	v.values = append(v.values, value)
	// The longest first: one may begin with another.
	slices.SortFunc(v.values, func(a, b string) int { return len(b) - len(a) })
	v.redactor = failure.NewRedactor(v.values...)
}

func (v *vault) redact(text string) string {
	v.mu.Lock()
	r := v.redactor
	v.mu.Unlock()
	return r.Redact(text)
}

// refuse notes that the provider refused key.
func (v *vault) refuse(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused[key] = true
}

func (v *vault) isRefused(key string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused[key]
}
