//go:build claudecode

package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

var (
	claudePath    = flag.String("claude", "", "the claude command to try; empty: it is installed with npm, for this test only")
	claudeVersion = flag.String("claude-version", "latest", "the version of @anthropic-ai/claude-code to install")
)

// TestClaudeCodeResumes lets the published Claude Code resume healed files of its
// own: each fault of TestFaults, TestStrangers and TestMedia is put into a real file, daruma
// heals a copy, and claude --resume goes on with it against daruma fault serve,
// whose strict judge must see valid requests only. What Claude Code makes of the
// broken file is logged beside it. Nothing leaves this machine but the download:
//
//	go test -tags claudecode ./session/doctor -run TestClaudeCodeResumes -timeout 60m -v
func TestClaudeCodeResumes(t *testing.T) {
	if *claudePath == "" {
		*claudePath = installClaude(t)
	}
	daruma := filepath.Join(t.TempDir(), "daruma")
	if out, err := exec.Command("go", "build", "-o", daruma, "../../cmd/daruma").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	script := filepath.Join(t.TempDir(), "good.fault")
	write(t, script, []byte("model\n  rule good\n    say \"Good.\"\n"))
	// What this version does with a file without a fault is its own affair: fields
	// that the judge does not know yet. Only what comes on top counts.
	sound := &broken{t: t, format: Claude, lines: everyday(t, Claude)}
	sound.sign()
	usual := (&claudeRun{t: t, daruma: daruma, script: script, file: sound.data()}).resume()
	if t.Logf("without a fault: %s", usual); usual.code != 0 || usual.said != "Good." {
		t.Fatal("a sound file is not resumed")
	}
	try := func(name string, lines []string, spots spotsOf, breakIt func(*broken)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &broken{t: t, format: Claude, lines: lines, spots: spots}
			b.sign()
			breakIt(b)
			f := open(t, "broken.jsonl", b.data())
			asItWas := (&claudeRun{t: t, daruma: daruma, script: script, file: b.data()}).resume()
			fixed := (&claudeRun{t: t, daruma: daruma, script: script, file: healed(t, f)}).resume()
			t.Logf("broken: %s; healed: %s", asItWas, fixed)
			if !fixed.like(usual) {
				t.Errorf("the healed file: %s\n%s", fixed, f.Diff())
			}
		})
	}
	for _, fault := range faults {
		for _, format := range fault.formats {
			if format == Claude {
				try(fault.name, everyday(t, Claude), spots[Claude], fault.breakIt)
			}
		}
	}
	for _, s := range strange {
		if slices.Contains(s.formats, Claude) {
			try(s.name, everyday(t, Claude), spots[Claude], s.breakIt)
		}
	}
	for _, m := range media {
		try("media/"+m.name, linesOf(t, Claude, "switched_image"), spotsOf{}, func(b *broken) {
			mime, data := m.data(pixel)
			for path, value := range map[string]string{"data": data, "media_type": mime} {
				if at := "/message/content/0/content/0/source/" + path; b.get(8, at) != fmt.Sprintf("%q", value) {
					b.set(8, at, fmt.Sprintf("%q", value))
				}
			}
		})
	}
}

// sign gives all thinking the signature of the server that judges it (see
// docs/fault-script.md): else nothing of it could be sent.
func (b *broken) sign() {
	for i := range b.lines {
		var line struct {
			Message struct {
				Model   string
				Content []struct{ Type, Thinking string }
			}
		}
		if json.Unmarshal([]byte(b.lines[i]), &line, json.MatchCaseInsensitiveNames(true)) != nil {
			continue // of another shape
		}
		for j, c := range line.Message.Content {
			if c.Type != "thinking" {
				continue
			}
			sum := sha256.Sum256([]byte(line.Message.Model + "\x00" + c.Thinking))
			text := "fault-signature|" + line.Message.Model + "|" + hex.EncodeToString(sum[:16])
			b.set(i, fmt.Sprintf("/message/content/%d/signature", j), fmt.Sprintf("%q", base64.StdEncoding.EncodeToString([]byte(text))))
		}
	}
}

func installClaude(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--cache", filepath.Join(dir, "cache"), "@anthropic-ai/claude-code@"+*claudeVersion)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	path := filepath.Join(dir, "node_modules", ".bin", "claude")
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("claude --version: %v\n%s", err, out)
	}
	t.Logf("Claude Code %s", out)
	return path
}

// claudeRun is one claude --resume, in a home of its own.
type claudeRun struct {
	t              *testing.T
	daruma, script string
	file           []byte
}

// claudeEnd is what came of it.
type claudeEnd struct {
	code       int
	said       string
	violations []string
	requests   int
}

// like reports whether it went on, and broke no rule that is not broken usually.
func (e claudeEnd) like(usual claudeEnd) bool {
	known := map[string]bool{}
	for _, v := range usual.violations {
		known[ruleOf(v)] = true
	}
	return e.code == 0 && e.said == "Good." && !slices.ContainsFunc(e.violations, func(v string) bool { return !known[ruleOf(v)] })
}

func ruleOf(violation string) string {
	rule, _, _ := strings.Cut(violation, ":")
	return rule
}

func (e claudeEnd) String() string {
	return fmt.Sprintf("exit %d, %d requests, %d violations %.300q, said %.200q", e.code, e.requests, len(e.violations), e.violations, e.said)
}

var sessionID = regexp.MustCompile(`"sessionId":"[^"]*"`)

const claudeSession = "11111111-2222-4333-8444-555555555555"

// atOnce bounds how many run beside each other: each is a large process.
var atOnce = make(chan struct{}, 2)

func (r *claudeRun) resume() claudeEnd {
	r.t.Helper()
	atOnce <- struct{}{}
	defer func() { <-atOnce }()
	home, project := r.t.TempDir(), r.t.TempDir()
	var slug strings.Builder
	for _, c := range project {
		if c < 128 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			slug.WriteRune(c)
		} else {
			slug.WriteByte('-')
		}
	}
	folder := filepath.Join(home, ".claude", "projects", slug.String())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		r.t.Fatal(err)
	}
	file := bytes.ReplaceAll(r.file, []byte("/home/user/project"), []byte(project))
	write(r.t, filepath.Join(folder, claudeSession+".jsonl"), sessionID.ReplaceAll(file, []byte(`"sessionId":"`+claudeSession+`"`)))

	url, report := r.serve()
	ctx, stop := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, *claudePath, "--resume", claudeSession, "-p", "Finish it.", "--output-format", "json")
	cmd.Dir = project
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy-key", "CLAUDE_CODE_MAX_RETRIES=0",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 10*time.Second
	err := cmd.Run()
	end := report()
	end.code = cmd.ProcessState.ExitCode()
	var result struct {
		Result string `json:"result"`
	}
	if json.Unmarshal(out.Bytes(), &result) == nil {
		end.said = result.Result
	} else {
		end.said = fmt.Sprint(out.String(), errs.String(), err)
	}
	return end
}

// serve starts daruma fault serve; report ends it.
func (r *claudeRun) serve() (url string, report func() claudeEnd) {
	r.t.Helper()
	cmd := exec.Command(r.daruma, "fault", "serve", "--script", r.script, "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	_, rest, found := strings.Cut(first, "ANTHROPIC_BASE_URL=")
	if err != nil || !found {
		r.t.Fatalf("the server began with %q, %v", first, err)
	}
	url, _, _ = strings.Cut(rest, " ")
	var once sync.Once
	end := func() (e claudeEnd) {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGINT)
			var text bytes.Buffer
			_, _ = text.ReadFrom(lines)
			_ = cmd.Wait() // it fails if there were violations
			var got struct {
				Requests   []any
				Violations []struct{ Rule, Detail string }
			}
			if err := json.Unmarshal(bytes.TrimSpace(text.Bytes()), &got, json.MatchCaseInsensitiveNames(true)); err != nil {
				r.t.Errorf("the report: %v\n%s", err, text.String())
			}
			e.requests = len(got.Requests)
			for _, v := range got.Violations {
				e.violations = append(e.violations, v.Rule+": "+v.Detail)
			}
		})
		return e
	}
	r.t.Cleanup(func() { end() })
	return url, end
}
