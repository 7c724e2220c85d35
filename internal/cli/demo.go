package cli

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/retry"
	"github.com/daruma-agent/daruma/session"
	"github.com/spf13/cobra"
)

//go:embed demo
var demoFiles embed.FS

const demoPrompt = "The tests of this project fail. Find out why, mend it, and report."

// demoScale shortens the waits of the demo; --real-waits does not.
const demoScale = 0.5

func demoCommand(w *world) *cobra.Command {
	var keep, real bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "watch the agent repair a project while its model fails: no key, no network",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return demo(w, keep, real)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the project's folder")
	cmd.Flags().BoolVar(&real, "real-waits", false, "wait as long as a real run would")
	return cmd
}

// demo lets the real agent repair a real project against the fault server.
func demo(w *world, keep, real bool) error {
	began := time.Now()
	dir, err := demoProject()
	if err != nil {
		return fail(exitInput, "set TMPDIR to a folder that can be written", "the scratch project cannot be made: %v", err)
	}
	if !keep {
		defer os.RemoveAll(dir)
	}
	say := func(format string, args ...any) { fmt.Fprintf(w.Stdout, format+"\n", args...) }
	say("A project with a failing test, in %s:", dir)
	say("%s", indent(runTest(dir).output))
	if err := demoRun(w, dir, real); err != nil {
		return err
	}
	test := runTest(dir)
	say("\nThe project's own test, run once more by this command:")
	say("%s", indent(test.output))
	if !test.passed {
		return fail(exitFailed, "run it with --keep and look at the folder", "the test still fails")
	}
	say("Up again. %s in all.", time.Since(began).Round(100*time.Millisecond))
	if keep {
		say("The project is kept in %s", dir)
	}
	return nil
}

// demoRun plays the script and prints what it came to.
func demoRun(w *world, dir string, real bool) error {
	text, err := demoFiles.ReadFile("demo/demo.fault")
	if err != nil {
		return err
	}
	script, err := fault.Parse("demo.fault", string(text))
	if err != nil {
		return err
	}
	listener, err := fault.Listen()
	if err != nil {
		return fail(exitConfig, "allow connections to 127.0.0.1", "the fault server cannot listen: %v", err)
	}
	server := fault.New(script, fault.Options{}).Serve(listener)
	defer server.Close()
	s, err := demoSetup(w, dir, server.URL, real)
	if err != nil {
		return err
	}
	defer s.close()
	agent, err := daruma.New(s.config)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.Stdout, "The agent is asked: %s\n\n", demoPrompt)
	show := &renderer{out: w.Stdout, terminal: w.Terminal, colour: w.colour(w.Terminal), words: true}
	sig := onSignals(agent, show.line, nil)
	defer sig.stop()
	result, err := daruma.Collect(tee(tee(agent.Run(context.Background(), demoPrompt), sig.commands.event), show.event))
	show.done()
	if err != nil {
		return fail(exitFailed, "run it again", "%v", err)
	}
	if c := sig.code(); c != 0 {
		return fail(c, "run it again to see the end", "the demo was interrupted")
	}
	fmt.Fprintf(w.Stdout, "\nIts answer (%d characters, joined from its parts):\n%s\n", len(result.Text), indent(clip(result.Text, 400)))
	report := server.Report()
	printRecoveries(w, result, report)
	return demoVerdict(result, report)
}

func demoVerdict(result *daruma.Result, report fault.Report) error {
	var problems []string
	if result.Reason != loop.Completed {
		problems = append(problems, "the run ended with "+lastWords(result))
	}
	for _, v := range report.Violations {
		problems = append(problems, v.String())
	}
	for _, l := range report.Landing {
		if l.Kind == "limit" && l.Fired == 0 {
			problems = append(problems, "the "+l.ID+" was never full")
		}
	}
	for _, m := range report.Missed() {
		problems = append(problems, "this fault never struck: "+m)
	}
	problems = append(problems, report.Problems...)
	if len(problems) > 0 {
		return fail(exitFailed, "please report this: it is a defect of daruma", "%s", strings.Join(problems, "; "))
	}
	return nil
}

func demoSetup(w *world, dir, url string, real bool) (*setup, error) {
	home := *w
	home.Dir = dir
	s := &setup{}
	if err := s.tools(&home, &options{noJournal: true}); err != nil {
		return nil, err
	}
	wire, err := anthropic.New(anthropic.Config{BaseURL: url, APIKey: "the-demo-needs-no-key"})
	if err != nil {
		return nil, err
	}
	policy := retry.Default()
	if !real {
		policy.Base = time.Duration(float64(policy.Base) * demoScale)
		policy.Cap = time.Duration(float64(policy.Cap) * demoScale)
	}
	s.config.Wire, s.config.Retry = wire, &policy
	s.config.Models = []string{"demo-large", "demo-small"}
	s.config.System, _ = systemPrompt(&home, true, false)
	s.config.Session, s.config.Dir = newID(), dir
	allow, err := permission.ParseRules("Bash(sh test.sh)")
	if err != nil {
		return nil, err
	}
	s.config.Permission = &permission.Policy{Mode: permission.AcceptEdits, Root: dir, Allow: allow}
	return s, nil
}

// demoProject writes the scratch project, with a log that is too large for the
// model's window.
func demoProject() (string, error) {
	dir, err := os.MkdirTemp("", "daruma-demo-")
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	sub, err := fs.Sub(demoFiles, "demo/project")
	if err != nil {
		return "", err
	}
	err = fs.WalkDir(sub, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(sub, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), data, 0o644)
	})
	var log strings.Builder
	for i := range 700 {
		fmt.Fprintf(&log, "2026-11-30 09:%02d:%02d build step %d of 700: copied, compressed, checked and signed\n", i/60, i%60, i+1)
	}
	return dir, errors.Join(err, os.WriteFile(filepath.Join(dir, "build.log"), []byte(log.String()), 0o644))
}

type testRun struct {
	output string
	passed bool
}

func runTest(dir string) testRun {
	cmd := exec.Command("sh", "test.sh")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return testRun{output: strings.TrimSpace(string(out)), passed: err == nil}
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}

// printRecoveries is the table at the end: what failed, what was done, what it
// cost, how it ended.
func printRecoveries(w *world, r *daruma.Result, report fault.Report) {
	fmt.Fprintf(w.Stdout, "\n%-32s %-34s %-8s %-10s %s\n", "what failed", "what was done", "waited", "lost", "end")
	for _, rec := range r.Recoveries {
		lost := "-"
		if rec.Lost.Chars > 0 {
			lost = fmt.Sprintf("%d chars", rec.Lost.Chars)
		}
		fmt.Fprintf(w.Stdout, "%-32s %-34s %-8s %-10s %s\n", clip(because(&rec), 32), clip(decision(&rec), 34), waited(&rec), lost, rec.State)
	}
	fmt.Fprintf(w.Stdout, "\n%d requests, %d turns, %d failures healed; %s output tokens, %s of them taken back; protocol violations seen by the server: %d\n",
		len(report.Requests), r.Turns, r.Recovered,
		thousands(r.Total.Usage.Output), thousands(r.Wasted.Usage.Output), len(report.Violations))
}

func waited(rec *session.Recovery) string {
	if rec.Delay == 0 {
		return "-"
	}
	return round(rec.Delay).String()
}
