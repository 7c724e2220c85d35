package hook

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const settings = `{
  "$schema": "x", "model": "m",
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash|Edit", "hooks": [
        {"type": "command", "command": "./check.sh", "args": ["--fast"], "timeout": 1.5, "if": "Bash(git push *)", "statusMessage": "checking"},
        {"type": "http", "url": "http://127.0.0.1:1/x?key=abc", "headers": {"A": "$B"}, "allowedEnvVars": ["B"]}
      ]},
      {"hooks": [{"type": "prompt", "prompt": "is it fine? $ARGUMENTS"}]}
    ],
    "Stop": [{"matcher": "x", "hooks": [{"type": "command", "command": "true", "if": "Bash"}]}],
    "PreToolUsed": [], "ConfigChange": "anything", "Zzz": 1
  }
}`

func TestParse(t *testing.T) {
	c, err := Parse([]byte(settings), "s.json")
	if err != nil {
		t.Fatal(err)
	}
	h := hooks(t, c)
	var got []string
	for _, e := range h.List() {
		got = append(got, strings.Join([]string{string(e.Event), e.Matcher, e.Name, e.Limit.String(), e.Source, e.Pointer, map[bool]string{true: "runs", false: "never"}[e.Runs]}, " · "))
	}
	want := []string{
		"PreToolUse · Bash|Edit · ./check.sh --fast · 1.5s · s.json · /hooks/PreToolUse/0/hooks/0 · runs",
		"PreToolUse · Bash|Edit · http://127.0.0.1:1/x · 10m0s · s.json · /hooks/PreToolUse/0/hooks/1 · runs",
		"PreToolUse ·  · prompt · 10m0s · s.json · /hooks/PreToolUse/1/hooks/0 · never",
		"Stop · x · true · 10m0s · s.json · /hooks/Stop/0/hooks/0 · never",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	first := h.List()[0]
	if !first.Direct || first.If != "Bash(git push *)" || first.StatusMessage != "checking" || h.List()[1].AllowedEnvVars[0] != "B" {
		t.Errorf("fields are lost: %+v", first)
	}
	warned := strings.Join(c.Warnings, "\n")
	for _, w := range []string{
		"s.json: /hooks/ConfigChange: this version never reports ConfigChange",
		`s.json: /hooks/PreToolUsed: there is no event "PreToolUsed": its hooks never run; did you mean PreToolUse?`,
		`s.json: /hooks/Zzz: there is no event "Zzz": its hooks never run`,
		`s.json: /hooks/PreToolUse/1/hooks/0: hooks of type "prompt" are not supported by this version`,
		"s.json: /hooks/Stop/0/matcher: Stop has nothing that a matcher could look at",
		`s.json: /hooks/Stop/0/hooks/0: "if" works for events about tools only`,
	} {
		if !strings.Contains(warned, w) {
			t.Errorf("no warning %q in\n%s", w, warned)
		}
	}
	if len(c.Warnings) != 6 {
		t.Errorf("%d warnings:\n%s", len(c.Warnings), warned)
	}
}

// TestParseErrors: each says where and what to do, and nothing of the file counts.
func TestParseErrors(t *testing.T) {
	one := func(handler string) string {
		return "{\n \"hooks\": {\"Stop\": [{\"hooks\": [\n  {\"type\":\"command\",\"command\":\"true\"},\n  " + handler + "]}]}}"
	}
	for _, c := range []struct{ name, data, want string }{
		{"cut", `{"hooks": {`, "s.json:1:12 (/): this is not JSON"},
		{"comma", "{\n  \"hooks\": {},\n}", "s.json:2:14 (/): this is not JSON"},
		{"top", `[]`, "s.json:1:1 (/): this is a list, and something else belongs here"},
		{"hooks", `{"hooks": 7}`, "s.json:1:11 (/hooks): this is a number"},
		{"disable", `{"disableAllHooks": "yes"}`, "s.json:1:21 (/disableAllHooks): this is a string"},
		{"event", `{"hooks": {"Stop": {}}}`, "s.json:1:20 (/hooks/Stop): this is an object"},
		{"command", one(`{"type":"command","command":5}`), "s.json:4:31 (/hooks/Stop/0/hooks/1/command): this is a number"},
		{"no command", one(`{"type":"command"}`), `s.json:4:3 (/hooks/Stop/0/hooks/1): a command hook needs "command": add it, or remove the hook`},
		{"no type", one(`{"command":"x"}`), `s.json:4:3 (/hooks/Stop/0/hooks/1): a hook needs "type": command or http`},
		{"type", one(`{"type":"comand","command":"x"}`), `the type "comand" is not known: use command or http`},
		{"url", one(`{"type":"http","url":"file:///x"}`), `an http hook needs "url", beginning with http:// or https://`},
		{"timeout", one(`{"type":"command","command":"x","timeout":0}`), `"timeout" is 0: give seconds, more than 0 and at most 86400`},
		{"shell", one(`{"type":"command","command":"x","shell":"powershell"}`), `"powershell" is not supported: use bash`},
		{"matcher", `{"hooks":{"PreToolUse":[{"matcher":"(?!Bash)","hooks":[]}]}}`, "s.json:1:36 (/hooks/PreToolUse/0/matcher): the matcher \"(?!Bash)\" is neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.data), "s.json")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
			if len(got.Handlers) > 0 {
				t.Error("a part of a broken file counts")
			}
		})
	}
	for _, empty := range []string{"", " \n", "{}", `{"hooks":{}}`} {
		if c, err := Parse([]byte(empty), "s.json"); err != nil || len(c.Handlers)+len(c.Warnings) > 0 {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		event   Event
		matcher string
		value   string
		want    bool
	}{
		{PreToolUse, "", "Bash", true},
		{PreToolUse, "*", "Bash", true},
		{PreToolUse, "Bash", "Bash", true},
		{PreToolUse, "Bash", "BashOutput", false},
		{PreToolUse, "bash", "Bash", false},
		{PreToolUse, "Edit|Bash", "Bash", true},
		{PreToolUse, "Edit, Bash", "Bash", true},
		{PreToolUse, " Edit | Write ", "Write", true},
		{PreToolUse, "Edit|", "", false},
		{PreToolUse, "mcp__a-b__c", "mcp__a-b__c", true},
		{PreToolUse, "mcp__a", "mcp__a__c", false},
		{PreToolUse, "mcp__a__.*", "mcp__a__c", true},
		{PreToolUse, "^Edit", "NotebookEdit", false},
		{PreToolUse, "Edit.*", "NotebookEdit", true}, // not anchored
		{PreToolUse, "Bash|Edit.*", "XBash", true},
		{StopFailure, "overloaded|rate_limit", "overloaded", true},
		{StopFailure, "overloaded, rate_limit", "overloaded", false}, // an expression there
		{StopFailure, "rate-limit", "x rate-limit x", true},          // an expression too
		{RecoveryStart, "overloaded", "overloaded", true},
	} {
		m, err := compile(c.event, c.matcher)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.matches([]string{c.value}); got != c.want {
			t.Errorf("%s: %q and %q: %v", c.event, c.matcher, c.value, got)
		}
	}
	m, _ := compile(Stop, "anything")
	if !m.matches(nil) {
		t.Error("a matcher keeps a hook from an event that has nothing to match")
	}
}

func TestMerge(t *testing.T) {
	parse := func(data, source string, managed bool) Config {
		c, err := Parse([]byte(data), source)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Handlers {
			c.Handlers[i].Managed = managed
		}
		return c
	}
	hook := func(rest string) string {
		return `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}` + rest + `}`
	}
	runs := func(c Config) (out string) {
		for _, e := range hooks(t, c).List() {
			if e.Runs {
				out += e.Source + " "
			}
		}
		return out
	}
	managed, user := parse(hook(""), "managed", true), parse(hook(""), "user", false)
	for _, c := range []struct{ name, project, want string }{
		{"all", hook(""), "managed project user "},
		{"the project disables all but the administrator's", hook(`,"disableAllHooks":true`), "managed "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := runs(Merge(managed, parse(c.project, "project", false), user)); got != c.want {
				t.Errorf("%q runs, and not %q", got, c.want)
			}
		})
	}
	if got := runs(Merge(parse(hook(`,"disableAllHooks":true`), "managed", true), user)); got != "" {
		t.Errorf("%q runs although the administrator disabled all", got)
	}
	strong, weak := parse(hook(`,"disableAllHooks":false`), "local", false), parse(hook(`,"disableAllHooks":true`), "user", false)
	if got := runs(Merge(strong, weak)); got != "local user " {
		t.Errorf("the strongest does not win: %q", got)
	}
	if _, err := New(Config{Handlers: []Handler{{Event: "Sotp", Type: Command, Command: "true"}}}); err == nil || !strings.Contains(err.Error(), "did you mean Stop?") {
		t.Errorf("New: %v", err)
	}
	if e := hooks(t, Config{Handlers: []Handler{sh(UserPromptSubmit, "x"), sh(SessionEnd, "x"), sh(Stop, "x")}}).List(); e[0].Limit != 30*time.Second || e[1].Limit != 1500*time.Millisecond || e[2].Limit != 600*time.Second {
		t.Errorf("default limits: %v %v %v", e[0].Limit, e[1].Limit, e[2].Limit)
	}
}
