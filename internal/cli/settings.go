package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/spf13/pflag"
)

// settingsFlags say where settings come from.
type settingsFlags struct {
	given      []string
	hookEvents bool
}

func (f *settingsFlags) register(p *pflag.FlagSet) {
	p.StringArrayVar(&f.given, "settings", nil, "hooks and permissions: a settings file, or such JSON itself")
	p.BoolVar(&f.hookEvents, "include-hook-events", false, "with stream-json: lines about hooks, too")
}

// permissionKeys is the part of a settings file about permissions.
type permissionKeys struct {
	Permissions struct {
		Allow []string `json:"allow"`
		Ask   []string `json:"ask"`
		Deny  []string `json:"deny"`
		Mode  string   `json:"defaultMode"`
	} `json:"permissions"`
}

// settings are all settings files together, the strongest first.
type settings struct {
	hooks       []hook.Config
	permissions []permissionKeys
	sources     []string
}

// read takes one file in.
func (s *settings) read(data []byte, source string) error {
	hooks, err := hook.Parse(data, source)
	if err != nil {
		return err
	}
	var keys permissionKeys
	if err := json.Unmarshal(data, &keys); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	s.hooks, s.permissions, s.sources = append(s.hooks, hooks), append(s.permissions, keys), append(s.sources, source)
	return nil
}

// readSettings reads the settings of the command line, of the folder as far as it
// is trusted, and of the user. Part of a list of guards is no guard: a file
// that cannot be read ends the command.
func (s *setup) readSettings(w *world, o *options) error {
	const step = `correct it; it should look like {"hooks":{…},"permissions":{…}}`
	for _, given := range o.settings.given {
		data, source := []byte(given), "--settings"
		if !strings.HasPrefix(strings.TrimSpace(given), "{") {
			var err error
			if data, err = readServers(absolute(w.Dir, []string{given})[0]); err != nil {
				return fail(exitInput, "name a settings file, or give its JSON", "--settings: %v", err)
			}
			source = given
		}
		if err := s.settings.read(data, source); err != nil {
			return fail(exitConfig, step, "%v", err)
		}
	}
	var paths []string
	dirs := foldersDown(w.Dir)
	slices.Reverse(dirs)
	for _, dir := range dirs {
		paths = append(paths, filepath.Join(dir, filepath.FromSlash(localSettings)), filepath.Join(dir, filepath.FromSlash(projectSettings)))
	}
	own := len(paths)
	if user := w.userSettings(); user != "" {
		paths = append(paths, user)
	}
	for i, path := range paths {
		read := o.mcp.ownFile
		if i >= own {
			read = readServers
		}
		data, err := read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			continue
		case i < own && !o.mcp.trust:
			s.notes = append(s.notes, fmt.Sprintf("%s was not used: pass --trust once you have read it", path))
			continue
		case err == nil:
			err = s.settings.read(data, path)
		}
		if err != nil {
			return fail(exitConfig, step, "%v", err)
		}
	}
	return nil
}

// userSettings is the settings file of the user.
func (w *world) userSettings() string {
	dir := w.env("XDG_CONFIG_HOME")
	if home := w.env("HOME"); !filepath.IsAbs(dir) && filepath.IsAbs(home) {
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "daruma", "settings.json")
}

// rules adds the rules of the settings to a policy.
func (s *settings) rules(p *permission.Policy) error {
	for n, keys := range s.permissions {
		for _, list := range []struct {
			texts []string
			rules *[]permission.Rule
		}{{keys.Permissions.Allow, &p.Allow}, {keys.Permissions.Ask, &p.Ask}, {keys.Permissions.Deny, &p.Deny}} {
			for _, text := range list.texts {
				rules, err := permission.ParseRules(text)
				if err != nil {
					return fail(exitConfig, "correct the rule", "%s: permissions: %v", s.sources[n], err)
				}
				for i := range rules { // "/x" is below the folder whose settings they are
					if dir := filepath.Dir(s.sources[n]); filepath.IsAbs(dir) && filepath.Base(dir) == ".claude" {
						rules[i].Root = filepath.Dir(dir)
					}
				}
				*list.rules = append(*list.rules, rules...)
			}
		}
	}
	return nil
}

// mode is the permission mode that the settings name; empty if none does.
func (s *settings) mode() string {
	for _, keys := range s.permissions {
		if keys.Permissions.Mode != "" {
			return keys.Permissions.Mode
		}
	}
	return ""
}

// slowHook is after how long a hook that still runs is told of.
const slowHook = 2 * time.Second

// hooks makes the hooks of the settings ready.
func (s *setup) hooks(w *world, _ *options) error {
	cfg := hook.Merge(s.settings.hooks...)
	s.notes = append(s.notes, cfg.Warnings...)
	if len(cfg.Handlers) == 0 {
		return nil
	}
	cfg.Match = s.matches
	cfg.Env, cfg.ProjectDir, cfg.Hide = s.marked(w, w.serverEnv()), w.Dir, s.config.Redact.Known
	cfg.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
	cfg.OutputDir = filepath.Join(w.stateDir(), "outputs")
	if s.scratch != "" {
		cfg.OutputDir = s.scratch
	}
	cfg.Observe = slowHooks(func(text string) { s.say(s.config.Redact.Known(text)) })
	hooks, err := hook.New(cfg)
	if err != nil {
		return fail(exitConfig, "correct the settings", "%v", err)
	}
	s.config.Hooks = hooks
	return nil
}

// slowHooks says which hook takes its time. Agents that work side by side may ask
// the same one: each asking has its own timer.
func slowHooks(say func(string)) func(hook.Entry, *hook.Result) {
	began := map[uint64]*time.Timer{}
	return func(e hook.Entry, r *hook.Result) { // one call at a time
		if r == nil {
			text := fmt.Sprintf("%s hook: %s (at most %s)", e.Event, clip(cmp.Or(e.StatusMessage, e.Name), 60), e.Limit)
			began[e.Asked] = time.AfterFunc(slowHook, func() { say(text) })
			return
		}
		if timer := began[e.Asked]; timer != nil {
			timer.Stop()
			delete(began, e.Asked)
		}
	}
}

// matches judges the "if" of a hook as a rule that would deny.
func (s *setup) matches(rule string, c hook.ToolCall) (bool, error) {
	rules, err := permission.ParseRules(rule)
	if err != nil {
		return false, err
	}
	own := s.config.Permission
	p := permission.Policy{Mode: permission.Bypass, Root: own.Root, Dirs: own.Dirs, Home: own.Home, Deny: rules}
	call := tool.Call{ID: c.ID, Name: c.Name, Input: c.Input}
	return p.Decide(call, s.config.Tools.Access(c.Name, c.Input)).Behavior == permission.Deny, nil
}

// say tells the person something at once, wherever lines go at the moment.
func (s *setup) say(text string) {
	if s.tell != nil {
		s.tell("… " + text)
	}
}

// farewellTime bounds what hooks do when the session ends.
const farewellTime = 75 * time.Second

// farewell ends the agent: hooks learn of it, and what they still do ends.
func (s *setup) farewell(agent *daruma.Agent, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	for _, line := range agent.Close(ctx, reason) {
		s.say(line)
	}
	if s.workspace == nil {
		return
	}
	for _, command := range s.workspace.Tasks() {
		s.say("ended with the session, in the background: " + s.config.Redact.Known(clip(command, 120)))
	}
}
