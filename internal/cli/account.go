package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model/anthropic"
)

// How the provider is reached, and as whom. The variables are those that people
// have set for other agents.

// address is where the provider is, and with which key it is asked.
func address(w *world, o *options) (anthropic.Config, error) {
	cfg := anthropic.Config{
		BaseURL: w.env("ANTHROPIC_BASE_URL"), APIKey: w.env("ANTHROPIC_API_KEY"), AuthToken: w.env("ANTHROPIC_AUTH_TOKEN"),
		Profile: profile(w), Proxy: http.ProxyFromEnvironment,
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultBase
	}
	if u, err := url.Parse(cfg.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cfg, fail(exitConfig, "it should look like https://api.example.com", "ANTHROPIC_BASE_URL is no address: %q", failure.Redact(cfg.BaseURL))
	}
	switch {
	case o.keyHelper != "":
		cfg.APIKey, cfg.AuthToken, cfg.Credentials = "", "", keyHelper(w, o.keyHelper)
	case cfg.APIKey == "" && cfg.AuthToken == "" && cfg.BaseURL == defaultBase:
		return cfg, fail(exitAuth, "export ANTHROPIC_API_KEY=…, or see it work without one: daruma demo",
			"there is no key: neither ANTHROPIC_API_KEY nor ANTHROPIC_AUTH_TOKEN is set")
	}
	var err error
	if strings.HasPrefix(cfg.BaseURL, "https:") { // certificates take a while to read
		if cfg.TLS, err = trust(w); err != nil {
			return cfg, err
		}
	}
	cfg.Timeouts, err = timeouts(w, o.patience.idle)
	return cfg, err
}

// helperTime bounds one run of a key helper; a key of it is used for helperTTL
// unless it is refused before.
const (
	helperTime = 30 * time.Second
	helperTTL  = 5 * time.Minute
)

// keyHelper returns keys that a command prints (apiKeyHelper in the settings of
// other agents). The command is the user's own, from a flag or the environment,
// never from the workspace.
func keyHelper(w *world, command string) anthropic.Credentials {
	return anthropic.NewRefresher(func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, helperTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Env, cmd.Dir, cmd.WaitDelay = w.Env, w.Dir, time.Second
		var errors bytes.Buffer
		cmd.Stderr = &errors
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("the key helper failed: %w: %s", err, clip(errors.String(), 200))
		}
		return strings.TrimSpace(string(out)), nil
	}, helperTTL)
}

// trust reads the certificates that the environment names.
func trust(w *world) (anthropic.TLS, error) {
	var t anthropic.TLS
	for _, f := range []struct {
		name string
		to   *[]byte
	}{
		{"NODE_EXTRA_CA_CERTS", &t.Roots},
		{"CLAUDE_CODE_CLIENT_CERT", &t.Cert},
		{"CLAUDE_CODE_CLIENT_KEY", &t.Key},
	} {
		path := w.env(f.name)
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return t, fail(exitConfig, "name a file that can be read, or unset "+f.name, "%s: %v", f.name, err)
		}
		*f.to = data
	}
	return t, nil
}

// timeouts are the watchdogs of the wire: silence as the flag says, the wait
// for an answer as API_TIMEOUT_MS says.
func timeouts(w *world, idle time.Duration) (anthropic.Timeouts, error) {
	t := anthropic.Timeouts{Bytes: idle, Events: idle}
	text := w.env("API_TIMEOUT_MS")
	if text == "" {
		return t, nil
	}
	ms, err := strconv.Atoi(text)
	if err == nil && (ms <= 0 || ms > 1<<31-1) {
		err = errors.New("it must be from 1 to 2147483647")
	}
	if err != nil {
		return t, fail(exitConfig, "set it to a number of milliseconds, such as 600000", "API_TIMEOUT_MS is no time: %q", text)
	}
	t.FirstByte = time.Duration(ms) * time.Millisecond
	t.Whole = t.FirstByte
	return t, nil
}

// profile is the version of the wire that the provider speaks.
func profile(w *world) anthropic.Profile {
	return anthropic.Profile{Version: w.env("ANTHROPIC_VERSION")}
}
