package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/builtin"
	"github.com/daruma-agent/daruma/tool/mcp"
)

const (
	defaultModel = "claude-sonnet-5"
	defaultBase  = "https://api.anthropic.com"
)

// setup is everything that a run needs, opened.
type setup struct {
	config    daruma.Config
	workspace *builtin.Workspace
	session   string
	path      string        // of the journal; empty without one
	servers   *mcp.Servers  // nil: there are none
	patience  time.Duration // with them
	scratch   string        // folder for large outputs that goes with the run; may be empty
	notes     []string
	wanted    string   // path of the session that is to go on
	ended     []string // what an earlier life had left running
	left      *preview // of a run that was cut off; nil without one

	settings settings
	tooling  builtin.Config // of the main agent, and of every sub-agent
	foreign  []tool.Tool    // of MCP servers
	tell     func(string)   // takes lines about long work; nil: nobody listens
}

func (s *setup) close() {
	if s.workspace != nil {
		s.workspace.Close()
	}
	if s.servers != nil {
		s.servers.Close()
	}
	if s.config.Journal != nil { // last: who has the session next must find nothing of this process at work
		s.config.Journal.Close()
	}
	if s.scratch != "" {
		os.RemoveAll(s.scratch)
	}
}

// prepare turns options and environment into a configuration. What it opened
// is closed again when it fails.
func prepare(w *world, o *options) (*setup, error) {
	s := &setup{}
	s.config.Life = newID()
	o.settleTrust(w)
	for _, step := range []func(*world, *options) error{
		s.readSettings, s.permission, s.models, s.retries, s.wire, s.startServers, s.tools, s.agents, s.hooks, s.journal,
	} {
		if err := step(w, o); err != nil {
			s.close()
			return nil, err
		}
	}
	s.lookBack(w)
	system, notes := systemPrompt(w, o.print, o.mcp.trust)
	s.config.System, s.notes = system, append(s.notes, notes...)
	s.config.MaxTurns, s.config.RefusalModel = o.maxTurns, o.refusal
	s.config.Build, s.config.Dir = Version(), w.Dir
	return s, nil
}

func (s *setup) wire(w *world, o *options) error {
	cfg, err := address(w, o)
	if err != nil {
		return err
	}
	wire, err := anthropic.New(cfg)
	if err != nil {
		return fail(exitConfig, "check ANTHROPIC_BASE_URL, the keys and the certificates", "%v", err)
	}
	s.config.Wire = wire
	if cfg.Credentials != nil {
		s.config.Refresh = wire.RefreshKey
	}
	s.config.Gate = gates(filepath.Join(w.stateDir(), "gates"), cfg.BaseURL, cfg.APIKey+cfg.AuthToken+o.keyHelper)
	s.config.Redact = failure.NewRedactor(w.secrets()...)
	return nil
}

// secretWords are parts of the names of variables that hold credentials.
var secretWords = []string{
	"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "PAT",
}

// secrets are the values of the environment that must not leave it, longest
// first: one may begin with another.
func (w *world) secrets() []string {
	var out []string
	for _, kv := range w.Env {
		name, value, _ := strings.Cut(kv, "=")
		for part := range strings.SplitSeq(strings.ToUpper(name), "_") {
			if slices.Contains(secretWords, part) && !readable(value) { // the path of a key file is no key
				out = append(out, value)
				break
			}
		}
		if u, err := url.Parse(value); err == nil && u.User != nil { // DATABASE_URL and its like
			if password, ok := u.User.Password(); ok {
				out = append(out, password)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

func (s *setup) models(w *world, o *options) error {
	primary := o.model
	if primary == "" {
		primary = w.env("ANTHROPIC_MODEL")
	}
	if primary == "" {
		primary = defaultModel
	}
	s.config.Models = []string{primary}
	for name := range strings.SplitSeq(o.fallback, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(s.config.Models, name) {
			s.config.Models = append(s.config.Models, name)
		}
	}
	if n := len(s.config.Models) - 1; n > 3 {
		return usage(fmt.Errorf("--fallback-model names %d models: at most 3 are possible", n))
	}
	return nil
}

// mostRetries bounds what the environment may ask for, as in other agents.
const mostRetries = 15

// retries takes the number of retries from the flag, else from the variable
// that people have set for other agents.
func (s *setup) retries(w *world, o *options) error {
	n := o.retries
	if text := w.env("CLAUDE_CODE_MAX_RETRIES"); n < 0 && text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 0 {
			return fail(exitConfig, fmt.Sprintf("set it to a number from 0 to %d, or unset it", mostRetries),
				"CLAUDE_CODE_MAX_RETRIES is no number of retries: %q", text)
		}
		n = min(n, mostRetries)
	}
	p := retry.Default()
	if n >= 0 {
		p.Retries = n
	}
	o.patience.apply(&p, !o.print)
	s.config.Retry = &p
	s.config.TokenBudget, s.config.Unstreamed = o.patience.tokens, w.env("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK") == ""
	s.config.Recovery = daruma.RecoveryBudget{USD: o.patience.lostUSD, Time: o.patience.lostTime}
	s.config.MaxUSD, s.config.MaxTime, s.config.Fast = o.patience.maxUSD, o.patience.maxTime, o.patience.fast
	return nil
}

func (s *setup) permission(w *world, o *options) error {
	if o.skip {
		o.mode = string(permission.Bypass)
	}
	o.mode = cmp.Or(o.mode, s.settings.mode(), string(permission.Default))
	mode, err := permission.ParseMode(o.mode)
	if err != nil {
		return usage(err)
	}
	p := &permission.Policy{Mode: mode, Root: w.Dir, Dirs: absolute(w.Dir, o.dirs), Home: w.env("HOME")}
	for _, list := range []struct {
		flag  string
		texts []string
		rules *[]permission.Rule
	}{{"--allowedTools", o.allowed, &p.Allow}, {"--disallowedTools", o.denied, &p.Deny}} {
		for _, text := range list.texts {
			rules, err := permission.ParseRules(text)
			if err != nil {
				return usage(fmt.Errorf("%s: %w", list.flag, err))
			}
			*list.rules = append(*list.rules, rules...)
		}
	}
	if err := s.settings.rules(p); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return usage(err)
	}
	s.config.Permission = p
	return nil
}

func absolute(base string, dirs []string) []string {
	var out []string
	for _, d := range dirs {
		if !filepath.IsAbs(d) {
			d = filepath.Join(base, d)
		}
		out = append(out, d)
	}
	return out
}

func (s *setup) tools(w *world, o *options) error {
	for _, dir := range absolute(w.Dir, o.dirs) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fail(exitInput, "name a folder that exists", "--add-dir %s: there is no such folder", dir)
		}
	}
	spill := filepath.Join(w.stateDir(), "outputs")
	if o.noJournal { // large outputs must be there while it runs, and then nothing stays
		s.scratch, _ = os.MkdirTemp("", "daruma-outputs-")
		spill = s.scratch
	} else if w.stateDir() == "" {
		return fail(exitConfig, "set HOME or XDG_STATE_HOME, or run with --no-session-persistence", "there is no place for sessions: HOME is not set")
	}
	cfg := builtin.Config{
		Root: w.Dir, Dirs: absolute(w.Dir, o.dirs), Spill: spill, Hide: s.config.Redact.Known, Hidden: s.config.Permission.Hides,
		Env: append(s.marked(w, w.Env), "CI=true", "GIT_TERMINAL_PROMPT=0"), Reader: pdfReader(),
		Web: &builtin.Web{AllowPrivate: o.webInside, Proxy: http.ProxyFromEnvironment, Agent: "daruma/" + Version()},
	}
	if err := s.bound(w, o, &cfg); err != nil {
		return err
	}
	s.tooling, s.foreign = cfg, s.serverTools(w)
	ws, set, err := s.hands()
	if err != nil {
		return s.unwritable(w, err)
	}
	s.workspace, s.config.Tools, s.config.Ended = ws, set, ws.Ended
	s.config.Carry = func(budget int) []string { return carried(ws, w.Dir, budget) }
	return nil
}

// stateDir is where sessions and large outputs are kept; empty if there is no
// place for them.
func (w *world) stateDir() string {
	if dir := w.env("DARUMA_HOME"); dir != "" {
		return dir
	}
	if dir := w.env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "daruma")
	}
	if home := w.env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "daruma")
	}
	return ""
}

func (s *setup) unwritable(w *world, err error) *exitError {
	return fail(exitConfig, "make it writable, set XDG_STATE_HOME, or run with --no-session-persistence",
		"%s cannot be used: %v", w.stateDir(), err)
}

func readable(path string) bool { _, err := os.Stat(path); return err == nil }
