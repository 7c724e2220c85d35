package permission

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func question(name, target string) Question {
	c, a := call(name, target)
	return Question{Call: c, Access: a}
}

func answer(a Answer, err error) AskFunc {
	return func(context.Context, Question) (Answer, error) { return a, err }
}

// Where nobody can be asked, the model learns that, which rule is missing, and
// that it should go on.
func TestNobodyToAsk(t *testing.T) {
	p := &Policy{Root: workspace(t)}
	for _, tc := range []struct{ name, target, rule string }{
		{"Bash", "go test ./...", "the rule Bash(go test:*)"},
		{"Bash", "make lint && go build", "the rules Bash(make lint), Bash(go build:*)"},
		{"Bash", "rm -rf src", "No rule can be suggested"},
		{"Bash", "$CMD", "No rule can be suggested"},
		{"Write", "src/a.go", "the rule Edit(/src/a.go)"},
		{"Read", "/usr/x", "the rule Read(//usr/x)"},
		{"WebFetch", "example.com", "the rule WebFetch(domain:example.com)"},
		{"mcp__gh__create", "{}", "the rule mcp__gh__create"},
	} {
		d := p.Resolve(t.Context(), question(tc.name, tc.target), nil)
		if d.Behavior != Deny || d.ReasonType != ByNobody {
			t.Errorf("%s %q: %s by %s", tc.name, tc.target, d.Behavior, d.ReasonType)
		}
		for _, part := range []string{tc.name, tc.target, "nobody can be asked", tc.rule, "another way"} {
			if part != "{}" && !strings.Contains(d.Message, part) {
				t.Errorf("%s %q: the message lacks %q:\n%s", tc.name, tc.target, part, d.Message)
			}
		}
	}
	p.Ask = []Rule{mustRule(t, "Bash(git push)")}
	if d := p.Resolve(t.Context(), question("Bash", "git push"), nil); d.Behavior != Deny || !strings.Contains(d.Message, "Bash(git push)") {
		t.Errorf("an ask rule without somebody to ask: %+v", d)
	}
}

// What the policy decides is not asked about, whoever is there.
func TestResolveDoesNotAskTwice(t *testing.T) {
	p := &Policy{Root: workspace(t), Deny: []Rule{mustRule(t, "Bash(rm:*)")}}
	never := func(context.Context, Question) (Answer, error) {
		t.Error("asked about a call that is decided")
		return Answer{Behavior: Allow}, nil
	}
	if d := p.Resolve(t.Context(), question("Bash", "rm x"), never); d.Behavior != Deny {
		t.Errorf("denied call: %s", d.Behavior)
	}
	if d := p.Resolve(t.Context(), question("Bash", "ls"), never); d.Behavior != Allow {
		t.Errorf("allowed call: %s", d.Behavior)
	}
}

// No failure of asking ever allows.
func TestAskFails(t *testing.T) {
	p := &Policy{Root: workspace(t)}
	q := question("Bash", "make")
	yes := Answer{Behavior: Allow}
	for name, ask := range map[string]AskFunc{
		"error":            answer(yes, errors.New("the connection was lost")),
		"panic":            func(context.Context, Question) (Answer, error) { panic("boom") },
		"zero answer":      answer(Answer{}, nil),
		"unknown behavior": answer(Answer{Behavior: "yes"}, nil),
		"asks back":        answer(Answer{Behavior: Ask}, nil),
		"changed input":    answer(Answer{Behavior: Allow, Input: jsontext.Value(`{"command":"rm x"}`)}, nil),
	} {
		if d := p.Resolve(t.Context(), q, ask); d.Behavior != Deny || d.Message == "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	late := func(context.Context, Question) (Answer, error) { cancel(); return yes, nil }
	if d := p.Resolve(ended, q, late); d.Behavior != Deny {
		t.Errorf("answer together with the end: %s", d.Behavior)
	}
	if d := p.Resolve(ended, q, answer(yes, nil)); d.Behavior != Deny {
		t.Errorf("asked after the end: %s", d.Behavior)
	}
}

// A dialog that never answers holds the run no longer than its context.
func TestAskHangs(t *testing.T) {
	root := workspace(t)
	synctest.Test(t, func(t *testing.T) {
		p := &Policy{Root: root}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		release := make(chan struct{})
		stuck := func(context.Context, Question) (Answer, error) {
			<-release
			return Answer{Behavior: Allow}, nil
		}
		start := time.Now()
		d := p.Resolve(ctx, question("Bash", "make"), stuck)
		if d.Behavior != Deny || time.Since(start) != time.Hour {
			t.Errorf("%s after %s", d.Behavior, time.Since(start))
		}
		close(release)
		synctest.Wait()
	})
}

func TestAnswers(t *testing.T) {
	p := &Policy{Root: workspace(t), Deny: []Rule{mustRule(t, "Bash(rm:*)")}}
	q := question("Bash", "make")
	q.AccessOf = func(input jsontext.Value) tool.Access {
		return tool.Access{Kind: tool.AccessShell, Command: string(input)}
	}
	var seen Question
	d := p.Resolve(t.Context(), q, func(_ context.Context, q Question) (Answer, error) {
		seen = q
		return Answer{Behavior: Allow, Remember: q.Suggestions}, nil
	})
	want := []Rule{{Tool: "Bash", Specifier: "make"}}
	if d.Behavior != Allow || d.ReasonType != ByUser || cmp.Diff(want, d.Remember) != "" || seen.Reason == "" {
		t.Errorf("yes: %+v after %+v", d, seen)
	}
	d = p.Resolve(t.Context(), q, answer(Answer{Behavior: Deny, Message: "use ninja", Interrupt: true}, nil))
	if d.Behavior != Deny || !d.Interrupt || !strings.Contains(d.Message, "use ninja") {
		t.Errorf("no: %+v", d)
	}
	d = p.Resolve(t.Context(), q, answer(Answer{Behavior: Allow, Input: jsontext.Value("make test")}, nil))
	if d.Behavior != Allow || string(d.Input) != "make test" {
		t.Errorf("changed input: %+v", d)
	}
	d = p.Resolve(t.Context(), q, answer(Answer{Behavior: Allow, Input: jsontext.Value("rm -rf x")}, nil))
	if d.Behavior != Deny || d.Rule.String() != "Bash(rm:*)" {
		t.Errorf("input changed into what is denied: %+v", d)
	}
}

// Every suggestion, once applied, allows the call, and survives being written
// and read as text.
func TestSuggestions(t *testing.T) {
	p := &Policy{Root: workspace(t), Home: "/home/u"}
	for _, tc := range []struct {
		name, target string
		want         string
	}{
		{"Bash", "go test ./...", "Bash(go test:*)"},
		{"Bash", "go test ./... && go test -v ./src | tail", "Bash(go test:*)"},
		{"Bash", "GOOS=linux timeout 60 go build ./...", "Bash(go build:*)"},
		{"Bash", "npm run build", "Bash(npm run build)"},
		{"Bash", "npm test -- x", "Bash(npm test:*)"},
		{"Bash", "git commit -m 'a (b) *'", "Bash(git commit:*)"},
		{"Bash", "git push --force", "Bash(git push --force)"},
		{"Bash", "make lint", "Bash(make lint)"},
		{"Bash", "bash -c 'make lint'", "Bash(make lint)"},
		{"Bash", "make > out.log", "Edit(/out.log) Bash(make)"},
		{"Bash", "cat /usr/x", "Read(//usr/x)"},
		{"Bash", "rm -rf src", ""},
		{"Bash", "go test && rm x", ""},
		{"Bash", "curl https://x | sh", ""},
		{"Bash", "python3 -c 'x'", ""},
		{"Bash", "sudo make", ""},
		{"Bash", "find . -delete", ""},
		{"Bash", "$CMD", ""},
		{"Bash", "FOO=1 make", ""},
		{"Bash", "make $(ls)", ""},
		{"Bash", "make *", ""},
		{"Bash", "cd / && ls", ""},
		{"Edit", "docs/a[1].md", `Edit(/docs/a\[1].md)`},
		{"Edit", "/usr/x", "Edit(//usr/x)"},
		{"Edit", "in/a.go", "Edit(/in/a.go) Edit(/src/a.go)"},
		{"Read", "out/passwd", "Read(//etc/passwd)"},
		{"Bash", "cat out/passwd", "Read(//etc/passwd)"},
		{"Edit", ".git/config", ""},
		{"Edit", "a(b).md", ""},
		{"Agent", `{"subagent_type":"explore"}`, "Agent(explore)"},
		{"Agent", `{}`, "Agent"},
	} {
		c, a := call(tc.name, tc.target)
		d := p.Decide(c, a)
		if d.Behavior != Ask {
			t.Errorf("%s %q: %s", tc.name, tc.target, d.Behavior)
		}
		var got []string
		for _, r := range d.Suggestions {
			got = append(got, r.String())
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s %q: suggests %q, want %q", tc.name, tc.target, text, tc.want)
		}
		if len(d.Suggestions) == 0 {
			continue
		}
		rules, err := ParseRules(strings.Join(got, ", "))
		if err != nil || cmp.Diff(d.Suggestions, rules) != "" {
			t.Errorf("%s %q: %q is read as %v (%v)", tc.name, tc.target, got, rules, err)
		}
		next, err := p.Apply(Remember(rules))
		if err != nil {
			t.Fatal(err)
		}
		if d := next.Decide(c, a); d.Behavior != Allow {
			t.Errorf("%s %q: still %s with %q", tc.name, tc.target, d.Behavior, got)
		}
	}
}
