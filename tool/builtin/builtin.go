// Package builtin (layer 4) answers one question: what can the agent do with
// its hands? It runs commands, reads, writes, edits and finds files, and keeps
// a list of what is to be done.
//
// The file tools are confined to the workspace by os.Root: neither `..` nor a
// link gets them out of it. Commands are not: what they may touch is for
// permission and sandbox to say.
package builtin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/sandbox"
	"github.com/daruma-agent/daruma/tool"
)

// Config says where the tools work and with what. Only Root is needed.
type Config struct {
	Root string   // the workspace: an existing folder
	Dirs []string // further folders that the file tools may use

	// Env is the environment of commands, as os.Environ gives it. This package
	// never looks at that of the process. Keys of model providers are taken out
	// of it, and so are the variables named in Secrets.
	Env     []string
	Secrets []string

	Shell string // empty: /bin/bash, or /bin/sh where there is none
	// Wrap changes the argument vector of a command before it runs, for example
	// to put it into a sandbox. May be nil.
	Wrap func(argv []string) []string
	// Helper is the argument vector of a process that watches over a command: one
	// that calls keeper.Main first, such as this very program with the argument
	// keeper.Argument. With it nothing of a command outlives the call or this
	// program, whatever it does. Empty: commands are children of this process, and
	// what hides well enough or outlives a killed agent goes on. Linux only.
	Helper []string
	// Sandbox is what commands may touch; it needs a Helper. Nil: all that the
	// user may.
	Sandbox *sandbox.Rules

	// Reader is the argument vector of a process that reads PDFs: one that calls
	// ReaderMain first, such as this very program with the argument ReaderArgument.
	// Empty: PDFs are not taken apart, only sent whole.
	Reader []string

	// Spill is the folder for outputs too large for the model, which Read and
	// Grep may then look into. If it is empty, what is cut is lost.
	Spill string
	// Hide takes secrets out of what is kept there. May be nil.
	Hide func(text string) string

	// Hidden says that a file, by its absolute path, must not be read: Glob and
	// Grep leave it out. May be nil.
	Hidden func(path string) bool

	// Web lets the agent fetch from the web. If it is nil, there is no WebFetch.
	Web *Web

	Timeout    time.Duration // of a command that asks for none, at most MaxTimeout; zero: 2 minutes
	MaxTimeout time.Duration // that a command can ask for; zero: 10 minutes
	Grace      time.Duration // from SIGTERM to SIGKILL; zero: 2 seconds. Keep it well below tool.Set.Patience
	MaxOutput  int           // bytes of a command's output for the model; zero: 30,000
}

// Workspace is the folder that the tools work in, and what they remember of it.
// It is safe for concurrent use.
type Workspace struct {
	cfg   Config
	root  string // absolute, as it is shown to the model
	env   []string
	git   string // path of git, or empty
	areas []area

	tasks  tasks
	memory memory
	// editing makes checking a file and replacing it one step, so that two of
	// our own edits cannot lose one another.
	editing sync.Mutex
	// decoding lets one image after the other be in memory as pixels.
	decoding sync.Mutex

	todoLock sync.Mutex
	todos    []Todo
}

// New opens a workspace. Close it when its tools are no longer called.
func New(cfg Config) (*Workspace, error) {
	cfg.MaxTimeout = cmp.Or(cfg.MaxTimeout, 10*time.Minute)
	cfg.Timeout = min(cmp.Or(cfg.Timeout, 2*time.Minute), cfg.MaxTimeout)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	cfg.MaxOutput = cmp.Or(cfg.MaxOutput, 30_000)
	if cfg.Root == "" {
		return nil, errors.New("open workspace: no root folder was named")
	}
	if cfg.Sandbox != nil && len(cfg.Helper) == 0 {
		return nil, errors.New("open workspace: a sandbox needs a helper process, and none was named")
	}
	w := &Workspace{cfg: cfg, memory: memory{marks: map[string]*mark{}}}
	for i, dir := range append([]string{cfg.Root}, cfg.Dirs...) {
		name, err := w.admit(dir, false)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("open workspace: %w", err)
		}
		if i == 0 {
			w.root = name
		}
	}
	if cfg.Spill != "" {
		err := os.MkdirAll(cfg.Spill, 0o700)
		if err == nil {
			w.cfg.Spill, err = w.admit(cfg.Spill, true)
		}
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("open folder for large outputs: %w", err)
		}
	}
	w.env = childEnv(cfg.Env, cfg.Secrets, w.root)
	w.git = lookPath("git", cfg.Env)
	if cfg.Shell == "" {
		w.cfg.Shell = "/bin/bash"
		if _, err := os.Stat(w.cfg.Shell); errors.Is(err, fs.ErrNotExist) {
			w.cfg.Shell = "/bin/sh"
		}
	}
	return w, nil
}

// admit opens a folder for the file tools and returns its absolute name.
func (w *Workspace) admit(dir string, readOnly bool) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return "", err
	}
	w.areas = append(w.areas, area{root: root, name: abs, real: real, readOnly: readOnly})
	return abs, nil
}

// Close ends the commands in the background, waits until nothing of them is
// alive, and lets go of the folders. The tools fail afterwards.
func (w *Workspace) Close() error {
	w.tasks.close()
	var errs []error
	for _, a := range w.areas {
		errs = append(errs, a.root.Close())
	}
	return errors.Join(errs...)
}

// Tools returns the tools of the workspace, always in the same order.
func (w *Workspace) Tools() []tool.Tool {
	tools := []tool.Tool{w.bash(), w.taskOutput(), w.taskStop(), w.read(), w.write(), w.edit(), w.glob(), w.grep(), w.todoWrite()}
	if w.cfg.Web != nil {
		tools = append(tools, w.webFetch())
	}
	return tools
}

// failure is the result of an operation on a file that went wrong. The text has
// the bare cause: the path in an error of os is not the one that the model knows.
func failure(op, path string, err error) tool.Result {
	var refused *refusal
	if errors.As(err, &refused) {
		return tool.Refuse(refused.class, fmt.Sprintf("%s %s: %s", op, path, refused.text))
	}
	cause := err
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		cause = pe.Err
	case errors.As(err, &le):
		cause = le.Err
	}
	return tool.Fail(tool.Classify(err), fmt.Sprintf("%s %s: %v", op, path, cause))
}

// refusal is what a tool will not do, with a text for the model.
type refusal struct{ class, text string }

func (r *refusal) Error() string { return r.text }

func refuse(class, format string, args ...any) error {
	return &refusal{class, fmt.Sprintf(format, args...)}
}

// The failure classes of this package.
const (
	ClassOutside = "OutsideWorkspace"
	ClassStale   = "FileChanged"  // changed since it was read
	ClassUnread  = "FileNotRead"  // not read, or not all of it
	ClassNoMatch = "EditNoMatch"  // old_string is not there, or not only once
	ClassKind    = "FileKind"     // binary, a folder, a device, too large
	ClassPattern = "BadPattern"   // of Glob or Grep
	ClassSupport = "NotSupported" // asked for, and not there
	ClassURL     = "BadURL"
	ClassAddress = "AddressRefused" // not on the public internet
	ClassNetwork = "NetworkError"   // no answer came
	ClassStatus  = "HTTPStatus"     // the answer was an error
)
