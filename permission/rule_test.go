package permission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRules(t *testing.T) {
	for list, want := range map[string][]string{
		"":                                {},
		"Read":                            {"Read"},
		"Bash(git diff:*),Read":           {"Bash(git diff:*)", "Read"},
		"Bash(git diff:*) Read":           {"Bash(git diff:*)", "Read"},
		"  Bash(a, b) ,\n Edit(/x y/**) ": {"Bash(a, b)", "Edit(/x y/**)"},
		"Bash(echo (a b)),Read":           {"Bash(echo (a b))", "Read"},
		"mcp__gh__*,Agent(x)":             {"mcp__gh__*", "Agent(x)"},
		"Tool(param:value)":               {"Tool(param:value)"},
	} {
		rules, err := ParseRules(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
		}
		got := []string{}
		for _, r := range rules {
			got = append(got, r.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", list, diff)
		}
	}
}

func TestRuleErrors(t *testing.T) {
	for list, want := range map[string]string{
		"Bash(git":              "closing parenthesis",
		"Bash()":                "specifier is empty",
		"(x)":                   "name of a tool",
		"Bash(a)b":              "closing parenthesis",
		"Read(!x)":              "negated",
		"Read([x)":              "malformed",
		"WebFetch(example.com)": "domain:example.com",
		"WebFetch(domain:)":     "domain:example.com",
		"Grob(x)":               "no such specifier",
		"Bäsh":                  "name of a tool",
	} {
		_, err := ParseRules(list)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "parse permission rule") {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
	if _, err := ParseRule(" "); err == nil {
		t.Error("an empty rule is accepted")
	}
}

func TestParseMode(t *testing.T) {
	for name, want := range map[string]Mode{"": Default, "default": Default, "manual": Default, "acceptEdits": AcceptEdits,
		"plan": Plan, "dontAsk": DontAsk, "bypassPermissions": Bypass} {
		if got, err := ParseMode(name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	_, err := ParseMode("auto")
	if err == nil || !strings.Contains(err.Error(), "acceptEdits, plan, dontAsk or bypassPermissions") {
		t.Errorf("auto: %v", err)
	}
}

func TestValidate(t *testing.T) {
	good := &Policy{Mode: Plan, Allow: []Rule{{Tool: "mcp__gh__*"}, {Tool: "Agent", Specifier: "x"}}, Deny: []Rule{{Tool: "mcp__*"}, {Tool: "X", Specifier: "a:b"}}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := &Policy{Mode: "auto", Allow: []Rule{{Tool: "mcp__*"}, {Tool: "X", Specifier: "a:b"}}, Deny: []Rule{{Tool: "X", Specifier: "a"}}}
	err := bad.Validate()
	for _, want := range []string{`mode "auto"`, `rule "mcp__*"`, `rule "X(a:b)"`, `rule "X(a)"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %s in: %v", want, err)
		}
	}
}

func TestApply(t *testing.T) {
	p := &Policy{Allow: []Rule{{Tool: "Read", Source: "session"}, {Tool: "Bash", Source: "userSettings"}}, Dirs: []string{"/a"}}
	for _, tc := range []struct {
		u    Update
		want func(*Policy) bool
	}{
		{Update{Type: "setMode", Mode: Plan}, func(p *Policy) bool { return p.Mode == Plan }},
		{Update{Type: "addDirectories", Directories: []string{"/b"}}, func(p *Policy) bool { return cmp.Equal(p.Dirs, []string{"/a", "/b"}) }},
		{Update{Type: "removeDirectories", Directories: []string{"/a"}}, func(p *Policy) bool { return len(p.Dirs) == 0 }},
		{Update{Type: "addRules", Behavior: Deny, Rules: []UpdateRule{{"Bash", "rm:*"}}, Destination: "session"},
			func(p *Policy) bool {
				return cmp.Equal(p.Deny, []Rule{{Tool: "Bash", Specifier: "rm:*", Source: "session"}})
			}},
		{Update{Type: "removeRules", Behavior: Allow, Rules: []UpdateRule{{"Bash", ""}}}, func(p *Policy) bool { return len(p.Allow) == 1 }},
		{Update{Type: "replaceRules", Behavior: Allow, Rules: []UpdateRule{{"Edit", ""}}, Destination: "session"},
			func(p *Policy) bool {
				return len(p.Allow) == 2 && p.Allow[0].Tool == "Bash" && p.Allow[1].Tool == "Edit"
			}},
	} {
		next, err := p.Apply(tc.u)
		if err != nil || !tc.want(next) {
			t.Errorf("%+v: %+v, %v", tc.u, next, err)
		}
	}
	if len(p.Allow) != 2 || len(p.Deny) != 0 || len(p.Dirs) != 1 || p.Mode != "" {
		t.Errorf("the old policy changed: %+v", p)
	}
	for _, u := range []Update{{Type: "x"}, {Type: "setMode", Mode: "x"}, {Type: "addRules", Behavior: "x"},
		{Type: "addRules", Behavior: Allow, Rules: []UpdateRule{{"mcp__*", ""}}}, {Type: "addRules", Behavior: Deny, Rules: []UpdateRule{{"Read", "!x"}}}} {
		if next, err := p.Apply(u); err == nil || next != p {
			t.Errorf("%+v is accepted", u)
		}
	}
}
