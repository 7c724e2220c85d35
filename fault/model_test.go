package fault

import (
	"regexp"
	"strings"
	"testing"
)

// talk is a minimal agent: it runs calls through run and goes on until the model stops calling.
type talk struct {
	c        *client
	body     obj
	messages []any
	run      func(name string, input obj) (string, bool)
	calls    []string
}

func (k *talk) ask() *got {
	return k.c.ask(with(k.body, "messages", k.messages))
}

func (k *talk) say(content any) { k.messages = append(k.messages, user(content)) }

// loop answers calls until there are none, retrying whatever does not end properly.
func (k *talk) loop() *got {
	for range 40 {
		g := k.ask()
		if g.status != 200 || !g.stopped || g.stop == "max_tokens" {
			return g
		}
		k.messages = append(k.messages, assistant(g.content))
		var results []any
		for _, b := range g.content {
			m := object(b)
			if m["type"] != "tool_use" {
				continue
			}
			k.calls = append(k.calls, str(m, "name")+" "+compactJSON(m["input"]))
			text, failed := k.run(str(m, "name"), object(m["input"]))
			results = append(results, with(result(str(m, "id"), text), "is_error", failed))
		}
		if len(results) == 0 {
			return g
		}
		k.say(results)
	}
	k.c.t.Fatal("the model never stops calling")
	return nil
}

func toolNamed(name string, props ...string) obj {
	p := obj{}
	var required []any
	for _, s := range props {
		p[s] = obj{"type": "string"}
		required = append(required, s)
	}
	return obj{"name": name, "input_schema": obj{"type": "object", "properties": p, "required": required}}
}

const fixScript = `
model
  rule start
    when first
    think "Run the tests first."
    say "I run the tests."
    call shell command="go test ./..."
  rule read
    when result-of shell, result "(?P<file>\\w+\\.go):(?P<line>\\d+): (?P<why>.*)"
    say "Line ${line} of ${file}: ${why}"
    call read file_path="${cwd}/${file}"
  rule edit
    when result-of read, result "(?P<bad>return a - b)", seen "(?P<file>\\w+\\.go):\\d+"
    call edit file_path="${cwd}/${file}" old_string="${bad}" new_string="return a + b"
  rule again
    when result-of edit, not failed
    call shell command="go test ./..."
  rule gave-up
    when result-of edit, failed
    say "The edit failed."
  rule finish
    when result-of shell, result "^ok"
    say "All tests pass."
`

// The same script drives clients whose tools have other names and other properties.
func TestToolsByAbility(t *testing.T) {
	for _, tools := range [][]any{
		{toolNamed("Bash", "command", "description"), toolNamed("Read", "file_path"), toolNamed("Edit", "file_path", "old_string", "new_string")},
		{toolNamed("run_shell_command", "cmd"), toolNamed("read_file", "absolute_path"), toolNamed("replace", "path", "old_str", "new_str")},
		{toolNamed("shell", "script"), toolNamed("view", "filePath"), toolNamed("edit_file", "filePath", "oldText", "newText")},
	} {
		source := "return a - b"
		k := &talk{run: func(name string, input obj) (string, bool) {
			var values []string
			for _, key := range []string{"command", "cmd", "script", "file_path", "absolute_path", "path", "filePath", "old_string", "old_str", "oldText", "new_string", "new_str", "newText"} {
				if v := str(input, key); v != "" {
					values = append(values, v)
				}
			}
			switch abilityOf(name) {
			case "shell":
				if values[0] != "go test ./..." {
					return "Exit code 127", true
				}
				if strings.Contains(source, "+") {
					return "ok  \tcalc\t0.01s", false
				}
				return "--- FAIL: TestAdd\n    calc_test.go:9: Add(1, 2) = -1\nFAIL", true
			case "read":
				return "     1\tfunc Add(a, b int) int {\n     2\t\t" + source + "\n", false
			default:
				source = strings.Replace(source, values[1], values[2], 1)
				return "edited " + values[0], false
			}
		}}
		srv, c := serve(t, fixScript)
		k.c = c
		k.body = with(with(ask(), "tools", tools), "system", "Working directory: /home/me/calc\nBe brief.")
		k.say("Fix the failing test.")
		if g := k.loop(); g.text != "All tests pass." {
			t.Errorf("ended with %d %q, calls %q", g.status, g.text, k.calls)
		}
		if len(k.calls) != 4 || !strings.Contains(k.calls[1], "/home/me/calc/calc_test.go") {
			t.Errorf("calls %q", k.calls)
		}
		if r := srv.Report(); len(r.Violations) > 0 || len(r.Problems) > 0 {
			t.Errorf("report:\n%s", r)
		}
	}
}

func TestAbsentToolIsReported(t *testing.T) {
	srv, c := serve(t, "model\n  rule a\n    call fetch url=\"x\"\n")
	g := c.ask(ask(user("x")))
	if g.stop != "end_turn" || !strings.Contains(g.text, "fetch") {
		t.Errorf("got %s", g.raw)
	}
	if p := srv.Report().Problems; len(p) != 1 || !strings.Contains(p[0], "does not offer") {
		t.Errorf("problems %q", p)
	}
}

func TestCallsAsTheScriptWants(t *testing.T) {
	_, c := serve(t, "model\n  rule a\n    call-raw shell as \"call_0\" `{\"command\": \"l`\n    block `{\"type\":\"tool_use\",\"name\":\"generic_command\",\"input\":{\"a\":1}}`\n    call shell command=\"x\" n=5 deep=true\n    redacted \"opaque\"\n")
	g := c.ask(ask(user("x")))
	if len(g.inputs) != 3 || g.inputs[0] != `{"command": "l` || g.inputs[1] != `{"a":1}` || g.inputs[2] != `{"command":"x","n":5,"deep":true}` {
		t.Errorf("inputs %q", g.inputs)
	}
	if str(object(g.content[0]), "id") != "call_0" || str(object(g.content[1]), "name") != "generic_command" || str(object(g.content[3]), "data") != "opaque" {
		t.Errorf("content %v", g.content)
	}
	if g := c.ask(with(ask(user("x")), "stream", false)); g.inputs[0] != "{}" {
		t.Errorf("a broken input without a stream gave %q", g.inputs[0])
	}
}

const essay = "model\n  rule essay once\n    when first\n    say \"The story:\" fill=600\n    call shell command=\"date\"\n  rule end\n    when results\n    say \"The end.\"\n"

// An answer that max_tokens cuts is continued exactly where the client's history ends, as often as needed.
func TestContinuation(t *testing.T) {
	for name, echo := range map[string]func(*talk, *got){
		"in the history": func(k *talk, g *got) {
			k.messages = append(k.messages, assistant(g.content))
			k.say("Output token limit hit. Resume directly, pick up mid-thought.")
		},
		"trimmed": func(k *talk, g *got) {
			k.messages = append(k.messages, assistant([]any{text(strings.TrimSpace(g.text))}))
			k.say("Your answer was cut off. Continue exactly where you left off.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, c := serve(t, essay)
			k := &talk{c: c, body: with(ask(), "max_tokens", 150)}
			k.say("Tell me a story.")
			whole := ""
			var g *got
			for range 8 {
				if g = k.ask(); g.stop != "max_tokens" {
					break
				}
				if got := (len([]rune(g.text)) + 3) / 4; got != 150 || g.output != 150 {
					t.Errorf("cut at %d tokens, claimed %d", got, g.output)
				}
				piece := g.text
				if name == "trimmed" {
					piece = strings.TrimSpace(piece)
				}
				whole += piece
				echo(k, g)
			}
			whole += g.text
			if want := "The story:" + prose(2400); !sameButSpace(whole, want) {
				t.Errorf("pieces do not join:\n%s", whole)
			}
			if g.stop != "tool_use" || len(g.inputs) != 1 {
				t.Errorf("the call behind the text is missing: %s %q", g.stop, g.inputs)
			}
			if r := srv.Report(); r.Requests[1].Answer != "(go-on)" || len(r.Violations) > 0 {
				t.Errorf("report:\n%s", r)
			}
		})
	}
}

func sameButSpace(a, b string) bool {
	space := regexp.MustCompile(`\s+`)
	return space.ReplaceAllString(a, "") == space.ReplaceAllString(b, "")
}

// A stream that breaks in its text is continued from what the client quotes, too.
func TestContinuationOfACutStream(t *testing.T) {
	_, c := serve(t, "step cut\n  cut text 500 close\n"+essay) // a reset may take back what was sent before it
	k := &talk{c: c, body: with(ask(), "max_tokens", 5000)}
	k.say("Tell me a story.")
	g := k.ask()
	if g.err == nil || len(g.text) < 300 {
		t.Fatalf("the stream broke with %v behind %d characters", g.err, len(g.text))
	}
	k.say("The connection broke and the answer was cut off. It began:\n<partial>" + g.text + "</partial>\nContinue exactly where it stopped.")
	if rest := k.ask(); g.text+rest.text != "The story:"+prose(2400) {
		t.Errorf("%q continued with %q", g.text[len(g.text)-30:], rest.text[:min(60, len(rest.text))])
	}
}

// Output that does not fit into max_tokens is cut by measure, also inside of the input of a call.
func TestTruncatedCall(t *testing.T) {
	_, c := serve(t, "model\n  rule a\n    call write file_path=\"a.txt\" content=\"0123456789012345678901234567890123456789\"\n")
	body := with(with(ask(user("x")), "tools", []any{toolNamed("Write", "file_path", "content")}), "max_tokens", 10)
	g := c.ask(body)
	if g.stop != "max_tokens" || !g.stopped || g.inputs[0] != `{"file_path":"a.txt","content":"01234567` {
		t.Errorf("got %s %q", g.stop, g.inputs)
	}
	if g := c.ask(with(body, "stream", false)); g.stop != "max_tokens" || g.inputs[0] != `{"file_path":"a.txt"}` {
		t.Errorf("without a stream: %s %q", g.stop, g.inputs)
	}
	if g := c.ask(with(body, "max_tokens", 100)); g.stop != "tool_use" || len(g.inputs) != 1 {
		t.Errorf("with room: %s %q", g.stop, g.inputs)
	}
}

func TestOverflow(t *testing.T) {
	long := strings.Repeat("word ", 1000) // 1250 tokens and a little
	for _, tt := range []struct {
		how       string
		max       int
		status    int
		want      string
		stop      string
		maxInput  int
		firedOnce bool
	}{
		{"too-long", 100, 400, `^prompt is too long: 1[23]\d\d tokens > 1000 maximum$`, "", 0, true},
		{"sum", 100, 400, `^prompt is too long: 1[23]\d\d tokens > 1000 maximum$`, "", 0, true},
		{"stop", 100, 200, "", "model_context_window_exceeded", 2000, true},
		{"cut", 100, 200, "", "end_turn", 1000, true},
	} {
		srv, c := serve(t, "window 1000 "+tt.how+"\n")
		g := c.ask(with(ask(user(long)), "max_tokens", tt.max))
		if g.status != tt.status || g.stop != tt.stop || tt.status == 400 && !regexp.MustCompile(tt.want).MatchString(refusal(g)) {
			t.Errorf("%s: got %d %q %q", tt.how, g.status, g.stop, refusal(g))
		}
		if tt.maxInput > 0 && (g.input > tt.maxInput || g.input == 0) {
			t.Errorf("%s: claimed %d input tokens", tt.how, g.input)
		}
		if l := srv.Report().Landing; len(l) != 1 || l[0].ID != "window" || l[0].Fired != 1 {
			t.Errorf("%s: landing %v", tt.how, l)
		}
	}
	_, c := serve(t, "window 2000 sum\n")
	g := c.ask(with(ask(user(long)), "max_tokens", 1500))
	if !regexp.MustCompile("^input length and `max_tokens` exceed context limit: 1[23]\\d\\d \\+ 1500 > 2000, decrease input length or `max_tokens` and try again$").MatchString(refusal(g)) {
		t.Errorf("sum: %s", refusal(g))
	}
	_, c = serve(t, "window 2000\nmodel\n  rule a\n    say \"x\" fill=3000\n")
	if g := c.ask(with(ask(user(long)), "max_tokens", 5000)); g.stop != "model_context_window_exceeded" || g.input+g.output < 1990 || g.input+g.output > 2000 {
		t.Errorf("filled window: %s %d + %d", g.stop, g.input, g.output)
	}
}

func TestLimitsOfOneModel(t *testing.T) {
	srv, c := serve(t, "window 200k\nbody 2KB\nfor \"claude-small-*\"\n  window 100\n")
	small := with(ask(user(strings.Repeat("x", 1000))), "model", "claude-small-1")
	if g := c.ask(small); g.status != 400 || !strings.Contains(refusal(g), "> 100 maximum") {
		t.Errorf("small: %d %s", g.status, g.raw)
	}
	if g := c.ask(with(small, "model", "claude-large-1")); g.status != 200 {
		t.Errorf("large: %d %s", g.status, g.raw)
	}
	if g := c.ask(ask(user(strings.Repeat("x", 3000)))); g.status != 413 || g.failure != "request_too_large" {
		t.Errorf("body: %d %s", g.status, g.raw)
	}
	if l := srv.Report().Landing; len(l) != 2 || l[0].Fired != 1 || l[1].Fired != 1 {
		t.Errorf("landing %v", l)
	}
}

// A compaction gets a summary of what was sent, and rules still find in it what they look for.
func TestCompaction(t *testing.T) {
	srv, c := serve(t, `
model
  rule first
    when not called shell
    call shell command="go test"
  rule second
    when called shell "go test", seen "(?P<file>\\w+\\.go):\\d+"
    say "still ${file}"
`)
	k := &talk{c: c, body: ask(), run: func(string, obj) (string, bool) { return "calc_test.go:9: wrong\n" + strings.Repeat("x", 5000), true }}
	k.say("Fix calc, and keep the word pomegranate.")
	if g := k.loop(); g.text != "still calc_test.go" {
		t.Fatalf("got %q", g.text)
	}
	const cut = "Your answer was cut off. Continue exactly where it stopped."
	k.messages = append(k.messages, assistant("still"), user(cut), assistant(" here"))
	k.say("Your task is to create a detailed summary of the conversation so far.")
	g := k.ask()
	if strings.Contains(g.text, cut) {
		t.Errorf("the summary asks to go on with an answer that is over:\n%s", g.text)
	}
	for _, want := range []string{"Fix calc, and keep the word pomegranate.", `called Bash {"command":"go test"}`, "calc_test.go:9: wrong"} {
		if !strings.Contains(g.text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, g.text)
		}
	}
	if len(g.text) > 1500 {
		t.Errorf("the summary has %d characters", len(g.text))
	}
	k.messages = nil
	k.say("This session is continued. " + g.text)
	if g := k.ask(); g.text != "still calc_test.go" {
		t.Errorf("after the compaction: %q", g.text)
	}
	if r := srv.Report(); r.Requests[2].Purpose != "compact" || r.Requests[2].Answer != "(summary)" || r.Requests[3].Purpose != "main" {
		t.Errorf("report:\n%s", r)
	}
}

func TestPurposeByHeaderAndRules(t *testing.T) {
	_, c := serve(t, "model\n  rule t\n    when purpose title\n    say \"My title\"\n  rule s\n    when purpose compact\n    say \"short\"\n  rule c\n    when continuation\n    say \"no more\"\n  rule m\n    say \"main\"\n")
	bare := with(ask(user("Write a title for this conversation.")), "tools", []any{})
	if g := c.ask(bare); g.text != "My title" {
		t.Errorf("title: %q", g.text)
	}
	if g := c.ask(ask(user("a"), assistant("b"), user("Summarize our conversation."))); g.text != "short" {
		t.Errorf("compact: %q", g.text)
	}
	if g := c.ask(ask(user("Summarize the session handling in auth.go"))); g.text != "main" {
		t.Errorf("a task that speaks of summaries: %q", g.text)
	}
	if g := c.ask(ask(user("a"), assistant("ma"), user("You were cut off, continue."))); g.text != "no more" {
		t.Errorf("continuation: %q", g.text)
	}
}
