//go:build unix

package cli_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/internal/cli"
	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/script run the real command in a process of its own,
// against the fault server on a real socket. Beside what testscript offers they
// may say:
//
//	fault FILE            play the fault script FILE and point the command at it.
//	                      At the end of the script every step of it must have
//	                      landed, and no request may have broken the protocol
//	ends CODE COMMAND …   run COMMAND; it must end with CODE, and keep the promises
//	                      that every end keeps: see promises
//	signal NAME when FILE send the signal to the command that ends runs next, as
//	                      soon as FILE exists; or, with "signal NAME when N
//	                      requests", once the fault server has seen so many
//	lines                 stdout must be a whole run in the lines of stream-json
//	journal PATTERN       the journal of the last session must match (or not: !)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"daruma": func() { os.Exit(cli.Main(cli.System())) },
	})
}

// plantedKey is the key in the environment of every script. It has no form that
// gives it away, and must not stand in anything that the command writes.
const plantedKey = "Hush1Key2Of3The4Wire"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// Home and state lie outside of the folder in which the agent works.
			home, err := os.MkdirTemp("", "daruma-script-home-")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(home) })
			env.Setenv("HOME", home)
			env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			env.Setenv("ANTHROPIC_API_KEY", plantedKey)
			env.Values[scriptT{}] = env.T().(testing.TB)
			env.Values[scriptHome{}] = home
			env.Values[scriptServer{}] = new(*fault.Running)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fault": playFaults, "ends": ends, "signal": armSignal, "journal": grepJournal, "lines": checkLines,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// The keys of a script's testing.TB, of the folder of its home and state, and of
// its fault server.
type (
	scriptT      struct{}
	scriptHome   struct{}
	scriptServer struct{}
)

func playFaults(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fault FILE")
	}
	script, err := fault.Parse(args[0], ts.ReadFile(args[0]))
	ts.Check(err)
	listener, err := fault.Listen()
	ts.Check(err)
	t := ts.Value(scriptT{}).(testing.TB)
	server := fault.New(script, fault.Options{}).Serve(listener)
	*ts.Value(scriptServer{}).(**fault.Running) = server
	ts.Defer(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the fault server: %v", err)
		}
		report := server.Report()
		problems := report.Problems
		for _, v := range report.Violations {
			problems = append(problems, v.String())
		}
		for _, l := range report.Landing {
			if l.Fired < max(1, l.Times) {
				problems = append(problems, l.Kind+" "+l.ID+" did not land")
			}
		}
		if len(problems) > 0 && !t.Failed() {
			t.Errorf("%s:\n\t%s\n%s", args[0], strings.Join(problems, "\n\t"), report)
		}
	})
	ts.Setenv("ANTHROPIC_BASE_URL", server.URL)
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: ends CODE COMMAND [ARG]…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code, err := 0, ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("ended with %d instead of %d", code, want)
	}
	if broken := promises(code, ts.ReadFile("stdout"), ts.ReadFile("stderr")); broken != "" {
		ts.Fatalf("%s", broken)
	}
	ts.Check(keyKept(ts))
}

// lastWords are what stands last on stderr when the command did not succeed:
// what happened, and what to do.
var lastWords = regexp.MustCompile(`(?:^|\n)daruma: [^\n]{10,}\n {8}[^\n]{5,}\n$`)

// promises says which promise an end breaks: two lines for a person and no
// trace of the machinery; a result that says the same as the exit code.
func promises(code int, stdout, stderr string) string {
	for _, sign := range []string{"goroutine ", "panic:", "runtime error", "%!"} {
		if strings.Contains(stdout+stderr, sign) {
			return "the output shows the machinery: " + sign
		}
	}
	if code != 0 && !lastWords.MatchString(stderr) {
		return "the end is not explained: a line with what happened and a line with what to do have to be the last ones"
	}
	if code == 0 && strings.Contains(stderr, "daruma: ") {
		return "a failure is told, but the exit code is 0"
	}
	if !strings.HasPrefix(stdout, "{") {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	stdout = lines[len(lines)-1] // of a stream, the result is the last line
	var result struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
		IsError *bool  `json:"is_error"`
		Reason  string `json:"terminal_reason"`
		Exit    *int   `json:"exit_code"`
		Session string `json:"session_id"`
		Result  *string
	}
	switch err := json.Unmarshal([]byte(stdout), &result); {
	case err != nil:
		return "the result is no JSON object: " + err.Error()
	case result.Type != "result" || result.IsError == nil || result.Exit == nil || result.Session == "":
		return "the result lacks a field"
	case *result.IsError != (code != 0) || *result.Exit != code:
		return fmt.Sprintf("the result says is_error %v and exit_code %d, but the exit code is %d", *result.IsError, *result.Exit, code)
	case *result.IsError == (result.Reason == "completed") || *result.IsError == (result.Subtype == "success"):
		return fmt.Sprintf("is_error is %v, but the run ended with %s (%s)", *result.IsError, result.Reason, result.Subtype)
	}
	return ""
}

// keyKept looks for the planted key wherever the command writes.
func keyKept(ts *testscript.TestScript) error {
	leak := func(where, text string) error {
		if strings.Contains(text, plantedKey) {
			return fmt.Errorf("the key of the environment stands in %s", where)
		}
		return nil
	}
	err := errors.Join(leak("stdout", ts.ReadFile("stdout")), leak("stderr", ts.ReadFile("stderr")))
	walked := filepath.WalkDir(ts.Value(scriptHome{}).(string), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, leak(path, string(data)))
	})
	return errors.Join(err, walked)
}

func armSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}
	if neg || len(args) < 3 || args[1] != "when" || signals[args[0]] == 0 {
		ts.Fatalf("usage: signal INT|TERM|HUP|KILL when FILE, or when N requests")
	}
	file := ts.MkAbs(args[2])
	due := func() bool { _, err := os.Stat(file); return err == nil }
	if len(args) == 4 && args[3] == "requests" {
		server := *ts.Value(scriptServer{}).(**fault.Running)
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		due = func() bool { return len(server.Report().Requests) >= n }
	}
	state, sig, t := ts.Getenv("XDG_STATE_HOME"), signals[args[0]], ts.Value(scriptT{}).(testing.TB)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if !due() {
				continue
			}
			pid, err := writer(state)
			if err == nil {
				err = syscall.Kill(pid, sig)
			}
			if err != nil {
				t.Errorf("signal %s: %v", args[0], err)
			}
			return
		}
		t.Errorf("signal %s: the time for it never came", args[0])
	}()
	ts.Defer(func() { <-done })
}

// newest is the path of the journal that was written last.
func newest(state string) (string, error) {
	paths, _ := filepath.Glob(filepath.Join(state, "daruma", "sessions", "*", "*.jsonl"))
	var last string
	var at time.Time
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return "", err
		}
		if last == "" || info.ModTime().After(at) {
			last, at = p, info.ModTime()
		}
	}
	if last == "" {
		return "", errors.New("there is no journal")
	}
	return last, nil
}

var pidField = regexp.MustCompile(`"pid":(\d+)`)

// writer is the process that writes the newest journal.
func writer(state string) (int, error) {
	path, err := newest(state)
	if err != nil {
		return 0, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	found := pidField.FindAllSubmatch(data, -1)
	if len(found) == 0 {
		return 0, errors.New("the journal names no process")
	}
	return strconv.Atoi(string(found[len(found)-1][1]))
}

func grepJournal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] journal PATTERN")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	path, err := newest(ts.Getenv("XDG_STATE_HOME"))
	ts.Check(err)
	text := ts.ReadFile(path)
	switch {
	case re.MatchString(text) && neg:
		ts.Fatalf("%s stands in the journal: %s", args[0], re.FindString(text))
	case !re.MatchString(text) && !neg:
		ts.Fatalf("%s does not stand in the journal:\n%s", args[0], text)
	}
}
