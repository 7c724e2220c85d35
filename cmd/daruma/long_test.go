//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/sandbox"
)

// TestLong lets the real binary work for a hundred turns in a real repository,
// with every tool, while most of what can go wrong does, on both sides. The work
// ends completed, the server saw no broken conversation, every fault landed, the
// repository is as the work wants it, and nothing is left: no process, no
// descriptor, no call without a result.
func TestLong(t *testing.T) {
	l := newLong(t)
	began := time.Now()
	w := l.run()
	took := time.Since(began)
	l.clean(w)
	l.ended()
	l.recovered()
	l.answered()
	l.told()
	l.denied()
	l.worked()
	l.checked()
	early, late := w.descriptors(l.turns)
	t.Logf("%d turns, %d requests, %d recovered in %v; descriptors: %d early, %d late; %d MB at the end",
		l.result.Turns, len(l.server.Report().Requests), l.result.Recovery.Recovered, took.Round(100*time.Millisecond),
		len(early), len(late), w.last().rss>>10)
	if t.Failed() {
		t.Log(l.errs, l.server.Report())
	}
}

// long is one such run.
type long struct {
	*place
	outside string
	before  map[string]string // the files that the work changes, as they were
	args    []string
	env     []string

	lines  []longLine
	result longLine
	errs   string
	turns  int
}

// longLine is what the test reads of a line of stream-json.
type longLine struct {
	Type    string          `json:"type"`
	Subtype string          `json:"subtype"`
	Parent  string          `json:"parent_tool_use_id"`
	Message json.RawMessage `json:"message"`
	blocks  []longBlock     // of the message

	Turns    int    `json:"num_turns"`
	Reason   string `json:"terminal_reason"`
	Exit     *int   `json:"exit_code"`
	Recovery struct {
		Recovered int            `json:"recovered"`
		Records   []longRecovery `json:"records"`
	} `json:"recovery_summary"`
	Denials []struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
	Sandbox string `json:"sandbox"`
}

type longRecovery struct {
	Cause    string `json:"cause"`
	Decision string `json:"decision"`
	State    string `json:"state"`
}

type longBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Call    string          `json:"tool_use_id"`
	Failed  bool            `json:"is_error"`
	Content json.RawMessage `json:"content"`
}

func newLong(t *testing.T) *long {
	t.Helper()
	script, err := os.ReadFile("testdata/long.fault")
	if err != nil {
		t.Fatal(err)
	}
	l := &long{place: newPlace(t, build(t), string(script)), outside: longOutside(t), before: map[string]string{}}
	l.dir = longRepository(t)
	for name := range longEdits {
		l.before[name] = l.file(name)
	}
	aside := t.TempDir()
	home := filepath.Join(aside, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"notes": map[string]any{
		"command": own, "env": map[string]string{longServerVariable: filepath.Join(aside, "died")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	l.args = []string{
		"-p", "--output-format", "stream-json", "--permission-mode", "acceptEdits", "--settings", longSettings,
		"--mcp-config", string(servers), "--web-allow-private", "--stream-idle-timeout", "3s", "--fallback-model", "claude-haiku-4-5",
		"--api-key-helper", `echo x >> "$ASIDE/keys"; echo "key-$(wc -l < "$ASIDE/keys")"`,
		"Look after this repository. WEB=" + longWeb(t),
	}
	for _, kv := range os.Environ() {
		own := func(prefix string) bool { return strings.HasPrefix(kv, prefix) }
		if !slices.ContainsFunc([]string{"ANTHROPIC_", "CLAUDE_", "DARUMA_", "BASH_", "MCP_", "XDG_", "HOME=", "API_TIMEOUT_MS="}, own) {
			l.env = append(l.env, kv)
		}
	}
	l.env = append(append(l.env, longGitEnv...), "ANTHROPIC_BASE_URL="+l.server.URL, "XDG_STATE_HOME="+l.state, "HOME="+home,
		"ASIDE="+aside, "OUTSIDE="+l.outside)
	return l
}

func (l *long) file(name string) string {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(data)
}

// longTime is far more than the run needs; a run that hangs ends here.
const longTime = 4 * time.Minute

// run starts the command, watches it and reads what it prints.
func (l *long) run() *watcher {
	l.t.Helper()
	adopt(l.t)
	ctx, cancel := context.WithTimeout(context.Background(), longTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.binary, l.args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = l.dir, l.env, 10*time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	w := watch(cmd.Process.Pid)
	if err = l.read(out, w); err != nil {
		cancel() // nobody reads any more
	}
	w.stop()
	_ = cmd.Wait() // its code says it
	l.errs = errs.String()
	if err != nil {
		l.t.Fatalf("the lines of the run: %v\n%s", err, l.errs)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		l.t.Errorf("ended with %d", code)
	}
	return w
}

var longNumber = regexp.MustCompile(`^(\d{3}) `)

func (l *long) read(out io.Reader, w *watcher) error {
	in := bufio.NewScanner(out)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var line longLine
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			return fmt.Errorf("%w: %.200s", err, in.Text())
		}
		if line.Type == "assistant" || line.Type == "user" {
			var m struct {
				Content []longBlock `json:"content"`
			}
			if err := json.Unmarshal(line.Message, &m); err != nil {
				return fmt.Errorf("%w: %.200s", err, in.Text())
			}
			line.blocks = m.Content
		}
		l.lines = append(l.lines, line)
		if line.Type == "assistant" && line.Parent == "" {
			l.turns++
			w.at(l.turns)
		}
	}
	if n := len(l.lines); n > 0 {
		l.result = l.lines[n-1]
	}
	return in.Err()
}

// ended holds how the run ended, for its caller and for the server.
func (l *long) ended() {
	l.t.Helper()
	r := l.result
	if r.Type != "result" || r.Subtype != "success" || r.Reason != "completed" || r.Exit == nil || *r.Exit != 0 {
		l.t.Errorf("the result is %+v", r)
	}
	if r.Turns < 100 {
		l.t.Errorf("only %d turns", r.Turns)
	}
	report := l.server.Report()
	for _, missed := range append(report.Missed(), report.Problems...) {
		l.t.Errorf("fault server: %s", missed)
	}
}

// recovered holds that each of them healed, and that none is left open.
func (l *long) recovered() {
	l.t.Helper()
	healed := map[string]bool{}
	for _, r := range l.result.Recovery.Records {
		switch r.State {
		case "healed":
			healed[r.Decision] = true
		case "superseded": // by the next way, which is in the list as well
		default:
			l.t.Errorf("the way back %s for %s ended %s", r.Decision, r.Cause, r.State)
		}
	}
	for _, way := range longWays {
		if !healed[way] {
			l.t.Errorf("the way back %s did not heal anything", way)
		}
	}
}

// answered holds that every call has one result, behind it.
func (l *long) answered() {
	l.t.Helper()
	results := map[string]int{}
	for _, line := range l.lines {
		for _, b := range line.blocks {
			switch b.Type {
			case "tool_use":
				if _, twice := results[b.ID]; twice {
					l.t.Errorf("the call %s was made twice", b.ID)
				}
				results[b.ID] = 0
			case "tool_result":
				if _, made := results[b.Call]; !made {
					l.t.Errorf("a result for %s, which was not called", b.Call)
				}
				results[b.Call]++
			}
		}
	}
	for id, n := range results {
		if n != 1 {
			l.t.Errorf("the call %s has %d results", id, n)
		}
	}
	if len(results) < 100 {
		l.t.Errorf("only %d calls", len(results))
	}
}

// told holds that each result tells the model what happened.
func (l *long) told() {
	l.t.Helper()
	said, calls := map[string][]longBlock{}, map[string]string{}
	last := ""
	for _, line := range l.lines {
		if line.Parent != "" {
			continue
		}
		for _, b := range line.blocks {
			switch b.Type {
			case "text":
				if longNumber.MatchString(b.Text) {
					last = b.Text[4:]
				}
			case "tool_use":
				calls[b.ID] = last
			case "tool_result":
				said[calls[b.Call]] = append(said[calls[b.Call]], b)
			}
		}
	}
	if n := strings.Count(l.synthetic(), "a hook has seen this change"); n < 10 {
		l.t.Errorf("the model was told %d times what the hook said of changes", n)
	}
	for begin, want := range longSaid {
		if begin == longOutsideSaid && sandbox.ABI() == 0 {
			continue // this kernel has no sandbox
		}
		pattern, failed := strings.CutPrefix(want, "✗")
		found, matched := false, false
		var texts []string
		for answer, results := range said {
			if !strings.HasPrefix(answer, begin) {
				continue
			}
			found = true
			for _, r := range results {
				texts = append(texts, fmt.Sprintf("(failed: %v) %.600s", r.Failed, r.Content))
				matched = matched || r.Failed == failed && regexp.MustCompile(pattern).Match(r.Content)
			}
		}
		if !found || !matched {
			l.t.Errorf("%q: the results do not say %q:\n%s", begin, want, strings.Join(texts, "\n"))
		}
	}
}

// synthetic is all text between the results, which is not the user's.
func (l *long) synthetic() string {
	var b strings.Builder
	for _, line := range l.lines {
		for _, block := range line.blocks {
			if line.Type == "user" && block.Type == "text" {
				b.WriteString(block.Text + "\n")
			}
		}
	}
	return b.String()
}

// denied holds which calls were denied.
func (l *long) denied() {
	l.t.Helper()
	want := []string{"Bash curl", "Bash git push", "Read assets/out", "Write escaped.txt", "mcp__notes__erase"}
	var got []string
	for _, d := range l.result.Denials {
		i := slices.IndexFunc(want, func(s string) bool {
			name, part, _ := strings.Cut(s, " ")
			return name == d.Tool && strings.Contains(string(d.Input), part)
		})
		if i < 0 {
			l.t.Errorf("%s %s was denied", d.Tool, d.Input)
			continue
		}
		got = append(got, want[i])
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		l.t.Errorf("denied were %q, not %q", got, want)
	}
}

// worked holds that the repository has the changes of the work and no others.
func (l *long) worked() {
	l.t.Helper()
	status := []string{"?? notes/"}
	for name, edits := range longEdits {
		want := l.before[name]
		for _, e := range edits {
			want = strings.Replace(want, e[0], e[1], 1)
		}
		if l.file(name) != want {
			l.t.Errorf("%s is not as it should be:\n%s", name, longGit(l.t, l.dir, "diff", name))
		}
		status = append(status, " M "+name)
	}
	got := strings.Split(strings.TrimRight(longGit(l.t, l.dir, "status", "--porcelain"), "\n"), "\n")
	slices.Sort(status)
	slices.Sort(got)
	if !slices.Equal(got, status) {
		l.t.Errorf("git status:\n%s\nwanted:\n%s", strings.Join(got, "\n"), strings.Join(status, "\n"))
	}
	if text := l.file("notes/long.txt"); strings.Count(text, "\n") != 60 || !strings.HasSuffix(text, "60 the doll rights itself\n") {
		l.t.Errorf("the new file holds %q", text)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(l.dir), "escaped.txt")); err == nil {
		l.t.Error("a file was written outside of the repository by Write")
	}
	_, err := os.Stat(filepath.Join(l.outside, "escaped"))
	switch {
	case err != nil:
	case sandbox.ABI() == 0 && strings.HasPrefix(l.lines[0].Sandbox, "none"):
		l.t.Logf("this kernel has no sandbox: %s", l.lines[0].Sandbox)
	default:
		l.t.Error("a command has written outside of the repository")
	}
}

// checked holds that the journals are sound: that of the session and those of
// the other agents.
func (l *long) checked() {
	l.t.Helper()
	paths := l.journals()
	if len(paths) != 8 {
		l.t.Errorf("%d journals, not those of the session and seven agents: %q", len(paths), paths)
	}
	for _, path := range paths {
		if out := l.place.run(0, "session", "check", path); strings.Contains(out, "damaged") {
			l.t.Errorf("%s: %s", path, out)
		}
	}
}

// clean holds that nothing is left of the run, and that it did not grow.
func (l *long) clean(w *watcher) {
	l.t.Helper()
	for _, p := range orphans(5 * time.Second) {
		l.t.Errorf("a process is left: %d, child of %d, in state %c: %s", p.pid, p.parent, p.state, p.line)
	}
	for _, line := range w.stale {
		l.t.Errorf("an ended child was not asked for: %s", line)
	}
	early, late := w.descriptors(l.turns)
	if len(early) == 0 || len(late) == 0 {
		l.t.Fatalf("the agent was not seen early (%d) and late (%d)", len(early), len(late))
	}
	if len(late) > len(early)+2 {
		l.t.Errorf("%d descriptors were open early, %d late:\n%q\n%q", len(early), len(late), early, late)
	}
	if strings.Contains(l.errs, "goroutine ") {
		l.t.Errorf("stderr shows the machinery:\n%s", l.errs)
	}
}
