package daruma_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/hook"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/builtin"
	"github.com/daruma-agent/daruma/tool/mcp"
	"github.com/go-json-experiment/json/jsontext"
)

// kind is one row of R70: a call that fails in this way, what the model is told,
// and what the run does.
type kind struct {
	name   string
	call   string             // as the script makes it; empty: call Read file_path="a"
	script string             // in the place of the usual one
	tools  []tool.Tool        // empty: Read, which works
	real   func() tool.Result // run before, by a real tool, and given back by Read
	config func(*testing.T) func(*daruma.Config)
	at     func(*daruma.Agent, session.Event)
	told   string // in the result
	class  string // of the first result
	fine   bool   // the result is no error
	reason loop.Reason
	hooked int // how often PostToolUseFailure is told: the column "failure hook"
	none   bool
}

// TestFailureKinds goes through all kinds of tool failures (R70): exactly one
// result for each call, marked as an error, with text that lets the model mend
// it, the message that made the call named, and the loop going on or ending by
// the rule of its row.
func TestFailureKinds(t *testing.T) {
	rows := kinds(t)
	if len(rows) < 22 {
		t.Errorf("%d rows, R70 has 22", len(rows))
	}
	for _, k := range rows {
		t.Run(k.name, func(t *testing.T) { k.test(t) })
	}
}

func (k kind) test(t *testing.T) {
	log := filepath.Join(t.TempDir(), "failed")
	hooks := hooked(t, map[hook.Event]string{hook.PostToolUseFailure: "echo x >> " + log})
	if k.real != nil {
		result := k.real()
		k.tools = []tool.Tool{&reader{&fickle{name: "Read", effect: tool.Pure, do: func(int, string) tool.Result { return result }}}}
	}
	if len(k.tools) == 0 {
		k.tools = []tool.Tool{&reader{&fickle{name: "Read", effect: tool.Pure, do: func(int, string) tool.Result { return tool.Text("ok") }}}}
	}
	if k.call == "" {
		k.call = `call Read file_path="a"`
	}
	if k.script == "" {
		k.script = fmt.Sprintf(oneCall, k.call)
	}
	var more func(*daruma.Config)
	if k.config != nil {
		more = k.config(t)
	}
	p := lab{script: k.script, at: k.at, config: func(cfg *daruma.Config) {
		cfg.Tools, _ = tool.NewSet(k.tools...)
		cfg.Tools.Spill = filepath.Dir(log)
		hooks(cfg)
		if more != nil {
			more(cfg)
		}
	}}.play(t)
	p.must(t, k.reason)
	results := of[*session.Result](p)
	if k.none {
		if len(results) != 0 {
			t.Errorf("%d results of calls that nobody made", len(results))
		}
		return
	}
	if len(results) == 0 {
		t.Fatal("the call has no result")
	}
	r := results[0]
	for _, one := range results { // they come as they end, and stand in order
		if one.Call == of[*session.Results](p)[0].Calls[0] {
			r = one
		}
	}
	if text := r.Block.PlainText(); !strings.Contains(text, k.told) || r.Block.IsError == k.fine || r.Class != k.class {
		t.Errorf("error %v, class %q, %s", r.Block.IsError, r.Class, text)
	}
	for _, m := range p.held { // R72
		if m.HasResults() && m.Caller == "" {
			t.Error("the message with the results does not name the one that made the calls")
		}
	}
	told, _ := os.ReadFile(log)
	if n := strings.Count(string(told), "x"); n != k.hooked {
		t.Errorf("the failure hook was told %d times, not %d", n, k.hooked)
	}
}

func kinds(t *testing.T) []kind {
	done, aborted := loop.Completed, loop.AbortedTools
	pure := func(do func(int, string) tool.Result) []tool.Tool {
		return []tool.Tool{&reader{&fickle{name: "Read", effect: tool.Pure, do: do}}}
	}
	rules := func(allow, deny string, ask permission.AskFunc) func(*testing.T) func(*daruma.Config) {
		return func(t *testing.T) func(*daruma.Config) {
			return func(cfg *daruma.Config) {
				strict(cfg)
				cfg.Permission.Deny, _ = permission.ParseRules(deny)
				cfg.Ask = ask
			}
		}
	}
	says := func(a permission.Answer) permission.AskFunc {
		return func(context.Context, permission.Question) (permission.Answer, error) { return a, nil }
	}
	on := func(e hook.Event, script string) func(*testing.T) func(*daruma.Config) {
		return func(t *testing.T) func(*daruma.Config) { return hooked(t, map[hook.Event]string{e: script}) }
	}
	slowly := []tool.Tool{&slow{name: "Read", effect: tool.Unsafe, takes: time.Hour}, &slow{name: "Look", effect: tool.Pure, takes: time.Hour}}
	interrupt := func(a *daruma.Agent, e session.Event) {
		if _, ok := e.Body.(*session.Intent); ok {
			time.AfterFunc(time.Second, func() { a.Interrupt() })
		}
	}
	two := fmt.Sprintf(oneCall, "call Read file_path=\"a\"\n    call Read file_path=\"b\"")
	return []kind{
		{name: "01 unknown tool", call: "block `{\"type\":\"tool_use\",\"name\":\"Raed\",\"input\":{}}`", told: "No such tool available: Raed. Did you mean Read? Available tools: Read.", class: tool.ClassUnknownTool, reason: done},
		{name: "02 abort before start", script: fmt.Sprintf(oneCall, "call Read x=1\n    call Look x=1"), tools: slowly, at: func(a *daruma.Agent, e session.Event) {
			if d, ok := e.Body.(*session.Decision); ok && strings.HasPrefix(d.Step, "tools") {
				a.Interrupt()
			}
		}, told: "was not started", class: tool.ClassAborted, reason: aborted},
		{name: "03 schema mismatch", call: "call-raw Read `{\"path\":1}`", told: "`file_path` is missing", class: tool.ClassBadInput, reason: done},
		{name: "04 the tool says no", tools: pure(func(int, string) tool.Result { return tool.Refuse("TooOld", "this file is from last year") }), told: "<tool_use_error>this file is from last year", class: "TooOld", reason: done, hooked: 1},
		{name: "05 a hook denies", config: on(hook.PreToolUse, "echo no >&2; exit 2"), told: "no", class: tool.ClassHook, reason: done},
		{name: "06 a hook stops", config: on(hook.PreToolUse, `printf '{"continue":false,"stopReason":"enough"}'`), told: "a hook ended the run. enough", class: tool.ClassHook, reason: loop.HookStopped},
		{name: "07 a rule refuses", config: rules("", "Read,Edit", nil), told: "the rule", class: tool.ClassDenied, reason: done},
		{name: "07 the user refuses with a word", config: rules("", "", says(permission.Answer{Message: "use b"})), told: "use b", class: tool.ClassDenied, reason: done},
		{name: "07 the user refuses without", script: two, config: rules("", "", says(permission.Answer{Interrupt: true})), told: "refused to let you use", class: tool.ClassDenied, reason: aborted},
		{name: "07 nobody can be asked, C098", config: rules("", "", nil), told: "nobody can be asked", class: tool.ClassDenied, reason: done},
		{name: "08 exception, C197", tools: pure(func(int, string) tool.Result { panic("boom") }), told: "boom", class: tool.ClassPanic, reason: done, hooked: 1},
		{name: "09 shell exit", real: shell(t, "echo so far; exit 3", 0), told: "Exit code 3\nso far", class: tool.ClassExit, reason: done, hooked: 1},
		{name: "09 exit 1 of grep", real: shell(t, "grep nothing /dev/null", 0), told: "no match", fine: true, reason: done},
		{name: "10 shell timeout, C253", real: shell(t, "echo a; echo b; sleep 30", 300), told: "Command timed out after", class: tool.ClassTimeout, reason: done, hooked: 1},
		{name: "11 a server's error", real: server(t, `"result":{"isError":true,"content":[{"type":"text","text":"no such table"}]}`), told: "no such table", class: mcp.ClassTool, reason: done, hooked: 1},
		{name: "12 a server wants credentials", real: unauthorised(t), told: "credentials", class: mcp.ClassAuth, reason: done, hooked: 1},
		{name: "13 a server is silent", real: server(t, ""), told: "did not answer", class: tool.ClassTimeout, reason: done, hooked: 1},
		{name: "14 abort while running", call: "call Read x=1", tools: slowly, at: interrupt, told: "cut: interrupted", class: tool.ClassAborted, reason: aborted, hooked: 1},
		{name: "15 a sibling failed, C277", script: two, tools: pure(func(n int, in string) tool.Result {
			if strings.Contains(in, `"a"`) {
				time.Sleep(time.Second)
				return tool.Fail("X", "a is broken")
			}
			return tool.Text("ok")
		}), told: "a is broken", class: "X", reason: done, hooked: 1},
		{name: "16 the answer was taken back", script: "step bad\n  stop refusal\n" + fmt.Sprintf(oneCall, `call Read file_path="a"`), reason: loop.Refusal, none: true},
		{name: "17 a call that cannot be read", script: "step bad\n  reply\n    call-raw Read \"{broken\"\nmodel\n  rule done\n    say \"Good.\"\n", reason: done, none: true},
		{name: "17 and again", script: "step bad always\n  reply\n    call-raw Read \"{broken\"\n", reason: loop.MalformedExhausted, none: true},
		{name: "18 C161 invalid escapes", script: "step bad\n  reply\n    call-raw Read `{\"file_path\": \"\\x41\"}`\nmodel\n  rule done\n    say \"Good.\"\n", reason: done, none: true},
		{name: "18 C160 arguments that are a list", script: "step bad\n  reply\n    call-raw Read `[1,2]`\nmodel\n  rule done\n    say \"Good.\"\n", reason: done, none: true},
		{name: "18 C160 a name that is empty", script: "step bad\n  reply\n    block `{\"type\":\"tool_use\",\"name\":\"\",\"input\":{}}`\nmodel\n  rule done\n    say \"Good.\"\n", reason: done, none: true},
		{name: "19 a hook stops behind it", config: on(hook.PostToolUse, `printf '{"continue":false,"stopReason":"seen"}'`), told: "ok", fine: true, reason: loop.HookStopped},
		{name: "20 too large", tools: pure(func(int, string) tool.Result { return tool.Text(strings.Repeat("many words ", 10_000)) }), told: "the whole text is in ", fine: true, reason: done},
		{name: "21 empty", tools: pure(func(int, string) tool.Result { return tool.Text(" \n") }), told: "(Read completed with no output)", fine: true, reason: done},
		{name: "22 no classifier, so a person or a rule decides", config: rules("", "", nil), told: "is needed, but nobody can be asked", class: tool.ClassDenied, reason: done},
	}
}

// shell runs a command for real; timeout is in milliseconds.
func shell(t *testing.T, command string, timeout int) func() tool.Result {
	return func() tool.Result {
		w, err := builtin.New(builtin.Config{Root: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		set, err := tool.NewSet(w.Tools()...)
		if err != nil {
			t.Fatal(err)
		}
		return set.Run(t.Context(), tool.Call{ID: "1", Name: "Bash", Input: jsontext.Value(fmt.Sprintf(`{"command":%q,"timeout":%d}`, command, timeout))})
	}
}

// server asks a real MCP server that answers every call with reply, or not at all.
func server(t *testing.T, reply string) func() tool.Result {
	script := fmt.Sprintf(`while read -r line; do
  id=$(printf '%%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
  *server/discover*) printf '{"jsonrpc":"2.0","id":%%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}\n' "$id" ;;
  *tools/list*) printf '{"jsonrpc":"2.0","id":%%s,"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
  *tools/call*) R='%s'; [ -z "$R" ] || printf '{"jsonrpc":"2.0","id":%%s,%%s}\n' "$id" "$R" ;;
  esac
done`, reply)
	return asks(t, mcp.Server{Name: "s", Kind: mcp.Stdio, Command: "sh", Args: []string{"-c", script}})
}

// unauthorised asks a server that lists its tools and then wants credentials.
func unauthorised(t *testing.T) func() tool.Result {
	calls := 0
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 4096)
		n, _ := r.Body.Read(body)
		line := string(body[:n])
		id := "0"
		if _, rest, ok := strings.Cut(line, `"id":`); ok {
			id, _, _ = strings.Cut(rest, ",")
			id = strings.TrimRight(id, "}\n ")
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(line, "tools/call"):
			calls++
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(line, `"initialize"`):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}`, id)
		case strings.Contains(line, "tools/list"):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}`, id)
		case strings.Contains(line, "server/discover"):
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	return func() tool.Result {
		s := httptest.NewServer(h)
		defer s.Close()
		return asks(t, mcp.Server{Name: "s", Kind: mcp.HTTP, URL: s.URL})()
	}
}

func asks(t *testing.T, s mcp.Server) func() tool.Result {
	return func() tool.Result {
		servers := mcp.Open(mcp.Config{Servers: []mcp.Server{s}, Env: []string{"PATH=" + os.Getenv("PATH")}, Call: 500 * time.Millisecond})
		defer servers.Close()
		servers.Wait(t.Context())
		set, err := tool.NewSet(servers.Tools()...)
		if err != nil || len(set.Names()) == 0 {
			t.Fatalf("the server has no tools: %v, %+v", err, servers.Status())
		}
		return set.Run(t.Context(), tool.Call{ID: "1", Name: set.Names()[0]})
	}
}
