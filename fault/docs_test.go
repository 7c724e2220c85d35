package fault

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// agent is a plain client: it retries, continues, compacts, strips and falls back, each as simply as
// can be. It is what the examples of the page are played with.
type agent struct {
	c        *client
	model    string
	messages []any
	source   string // of calc.go
	tries    int
	failures int // in a row
}

func agentTools() []any {
	return []any{toolNamed("Bash", "command"), toolNamed("Read", "file_path"), toolNamed("Edit", "file_path", "old_string", "new_string")}
}

func (a *agent) request(messages []any) *got {
	a.tries++
	return a.c.ask(obj{
		"model": a.model, "max_tokens": 4000, "stream": true, "messages": messages, "tools": agentTools(),
		"system": "You are an agent.\nWorking directory: /home/me/calc",
	})
}

// run plays one prompt to its end and returns what the model said last.
func (a *agent) run(content any) string {
	a.messages = append(a.messages, user(content))
	said := ""
	for a.tries < 40 {
		g := a.request(a.messages)
		if a.recover(g) {
			continue
		}
		a.failures = 0
		a.messages = append(a.messages, assistant(g.content))
		said += g.text
		results := a.results(g)
		switch {
		case g.stop == "max_tokens":
			a.messages = append(a.messages, user("Your answer was cut off. Continue exactly where you stopped."))
		case len(results) == 0:
			return said
		default:
			said = ""
			a.messages = append(a.messages, user(results))
		}
	}
	return "gave up"
}

// recover reports whether the request has to be sent again, after changing what has to change.
func (a *agent) recover(g *got) bool {
	switch {
	case g.status == 400 && strings.Contains(g.raw, "too long"):
		a.compact()
	case g.status == 413:
		a.messages = []any{user("Describe the picture (it was too large to send).")}
	case g.status == 529 && a.failures >= 2:
		a.model = "claude-small-1"
		a.failures = 0
	case g.stopped && g.err == nil && g.failure == "" && len(g.content) > 0:
		return false
	default:
		a.failures++
		time.Sleep(time.Second)
	}
	return true
}

// compact lets the model summarise all but the last pair, and starts again from that.
func (a *agent) compact() {
	n := len(a.messages) - 1
	last := object(a.messages[n])
	var short []any
	for _, b := range list(last["content"]) {
		m := object(b)
		short = append(short, with(m, "content", headAndTail(str(m, "content"), 400)))
	}
	tail := with(last, "content", short)
	g := a.request(append(slices.Clone(a.messages[:n]), tail, user("Summarize the conversation so far.")))
	a.messages = []any{user("The conversation so far was compacted.\n" + g.text)}
}

func (a *agent) results(g *got) []any {
	var out []any
	for _, b := range g.content {
		m := object(b)
		input := object(m["input"])
		if m["type"] != "tool_use" {
			continue
		}
		text := ""
		switch path := str(input, "file_path"); {
		case str(m, "name") == "Bash" && strings.Contains(a.source, "+"):
			text = "ok  \tcalc\t0.01s"
		case str(m, "name") == "Bash":
			text = "--- FAIL: TestAdd\n    calc_test.go:9: Add(1, 2) = -1\nFAIL"
		case strings.HasSuffix(path, "build.log"):
			text = strings.Repeat("a line of the log\n", 1500)
		case str(m, "name") == "Read":
			text = a.source
		default:
			a.source = strings.Replace(a.source, str(input, "old_string"), str(input, "new_string"), 1)
			text = "edited"
		}
		out = append(out, result(str(m, "id"), text))
	}
	return out
}

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

func TestExamplesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/fault-script.md")
	if err != nil {
		t.Fatal(err)
	}
	var scripts, landings []string
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		switch m[1] {
		case "fault":
			scripts = append(scripts, m[2])
		case "landing":
			landings = append(landings, m[2])
		}
	}
	ends := []string{
		"They ran.", "Grüße aus dem Rechenzentrum.", "The test passes. In detail:" + prose(3200), "Described by claude-small-1.",
	}
	if len(scripts) != len(ends) || len(landings) != len(ends) {
		t.Fatalf("%d scripts and %d landings on the page, expected %d", len(scripts), len(landings), len(ends))
	}
	for i, text := range scripts {
		t.Run(fmt.Sprint("example ", i+1), func(t *testing.T) {
			script, err := Parse("fault-script.md", text)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { playExample(t, script, landings[i], ends[i]) })
		})
	}
}

func playExample(t *testing.T, script *Script, landing, end string) {
	m := NewMemoryNet()
	srv := New(script, Options{}).Serve(m)
	h := m.Client()
	a := &agent{c: &client{t, srv.URL, h}, model: "claude-large-1", source: "func Add(a, b int) int {\n\treturn a - b\n}"}
	prompt := any("Fix the failing test.")
	if strings.Contains(landing, "too-large") {
		prompt = []any{text("Describe the picture."), image("image/png", png)}
	}
	if said := a.run(prompt); said != end {
		t.Errorf("ended with %q, want %q", said, end)
	}
	r := srv.Report()
	var lines []string
	for _, l := range r.Landing {
		lines = append(lines, fmt.Sprintf("%s %s: %s\n", l.Kind, l.ID, l.fate()))
	}
	if got := strings.Join(lines, ""); got != landing || len(r.Violations) > 0 || len(r.Problems) > 0 {
		t.Errorf("landed as\n%s\nwant\n%s\nreport:\n%s", got, landing, r)
	}
	h.CloseIdleConnections()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}

// The page names everything that the parser knows, and the judge's rules.
func TestPageIsComplete(t *testing.T) {
	page, err := os.ReadFile("../docs/fault-script.md")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`[a-z0-9_]+(?:-[a-z0-9_]+)*`).FindAllString(string(page), -1) {
		words[w] = true
	}
	var wanted []string
	wanted = append(wanted, ruleNames...)
	wanted = append(wanted, stopReasons[0], "scale", "seed", "models", "prefill", "judge", "for", "step", "layer", "model", "rule")
	for name := range conditions {
		wanted = append(wanted, name)
	}
	for name := range effectReaders {
		wanted = append(wanted, name)
	}
	for name := range builtinHoles {
		wanted = append(wanted, name)
	}
	for _, a := range abilities {
		wanted = append(wanted, a.name)
	}
	for _, w := range wanted {
		if !words[w] {
			t.Errorf("docs/fault-script.md does not mention %s", w)
		}
	}
}
