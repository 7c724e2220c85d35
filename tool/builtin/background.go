package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daruma-agent/daruma/tool"
)

const (
	// maxTasks is how many commands may run in the background at once.
	maxTasks = 10
	// defaultWait is how long TaskOutput waits if it is not told.
	defaultWait = 30 * time.Second
	// maxHeld is how much of a line is held back until it is whole.
	maxHeld = 64 << 10
)

// tasks are the commands in the background. They end with the workspace.
type tasks struct {
	mu     sync.Mutex
	closed bool
	all    map[string]*task
	order  []string // their names as they began
}

// task is a command in the background.
type task struct {
	id          string
	command     string
	description string
	began       time.Time
	log         *taskLog
	stop        context.CancelFunc
	done        chan struct{} // closed when nothing of it is alive
	end         ending        // to be read then

	mu      sync.Mutex
	stopped bool  // by TaskStop
	known   bool  // the model was told of its end
	told    int64 // bytes of its output that the model was given
}

// running reports whether something of t is alive.
func (t *task) running() bool { return !closed(t.done) }

// status is what became of t, in the words of TaskOutput.
func (t *task) status() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.running():
		return "running"
	case t.stopped:
		return "killed"
	case t.end.err != nil || t.end.code != 0:
		return "failed"
	}
	return "completed"
}

// add takes in a task. It refuses when there are enough, or the workspace is closed.
func (ts *tasks) add(t *task) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return errors.New("the workspace is closed")
	}
	running := 0
	for _, o := range ts.all {
		if o.running() {
			running++
		}
	}
	if running >= maxTasks {
		return fmt.Errorf("%d tasks are running already, which is the most: end one with TaskStop", running)
	}
	if ts.all == nil {
		ts.all = map[string]*task{}
	}
	ts.all[t.id] = t
	ts.order = append(ts.order, t.id)
	return nil
}

func (ts *tasks) remove(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.all, t.id)
	ts.order = slices.DeleteFunc(ts.order, func(id string) bool { return id == t.id })
}

// find returns a task, or a text for the model that says which ones there are.
func (ts *tasks) find(id string) (*task, string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.all[id]; t != nil {
		return t, ""
	}
	if len(ts.order) == 0 {
		return nil, fmt.Sprintf("there is no task %s: none was started since this session was opened, and those of before have ended", id)
	}
	return nil, fmt.Sprintf("there is no task %s, only: %s", id, strings.Join(ts.order, ", "))
}

// Tasks lists the commands that run in the background at this moment, in the
// order of their start.
func (w *Workspace) Tasks() (commands []string) {
	ts := &w.tasks
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, id := range ts.order {
		t := ts.all[id]
		if t == nil {
			continue
		}
		select {
		case <-t.done:
		default:
			commands = append(commands, t.command)
		}
	}
	return commands
}

// Ended returns the tasks whose end nobody has heard of yet, each once, in the
// order of their start.
func (w *Workspace) Ended() (ended []tool.Task) {
	ts := &w.tasks
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, id := range ts.order {
		if t := ts.all[id]; t != nil && !t.running() {
			if text := t.farewell(); text != "" {
				ended = append(ended, tool.Task{ID: id, Path: t.log.file.Name(), Ended: true, Text: text})
			}
		}
	}
	return ended
}

// farewell says how t ended, once; empty if that is known.
func (t *task) farewell() string {
	status := t.status()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known {
		return ""
	}
	t.known = true
	how := fmt.Sprintf("has ended with exit code %d", t.end.code)
	switch {
	case status == "killed":
		how = "was ended by TaskStop"
	case t.end.err != nil:
		how = fmt.Sprintf("was not run: %v", t.end.err)
	}
	return fmt.Sprintf("Task %s in the background (%s) %s. TaskOutput with task_id %q shows what is new of its output, all of it is in %s.",
		t.id, clip(t.command), how, t.id, t.log.file.Name())
}

// mostNamed is how much of a command a sentence about it quotes, in bytes.
const mostNamed = 100

func clip(command string) string {
	command = strings.Join(strings.Fields(tool.Clean(command)), " ")
	if len(command) > mostNamed {
		command = strings.ToValidUTF8(command[:mostNamed], "") + "…"
	}
	return command
}

// close ends all tasks and waits until nothing of them is alive.
func (ts *tasks) close() {
	ts.mu.Lock()
	ts.closed = true
	all := slices.Collect(maps.Values(ts.all))
	ts.mu.Unlock()
	for _, t := range all { // all at once: each has its grace
		t.stop()
	}
	for _, t := range all {
		<-t.done
	}
}

// startTask runs a command in the background.
func (w *Workspace) startTask(call tool.Call, in bashInput) tool.Result {
	if w.cfg.Spill == "" {
		return tool.Refuse(ClassSupport, "run_in_background is not possible, since there is no folder for outputs: nothing was run")
	}
	file, err := os.CreateTemp(w.cfg.Spill, "task-*.txt")
	if err != nil {
		return tool.Fail(tool.Classify(err), fmt.Sprintf("the command was not run, since there is no file for its output: %v", err))
	}
	ctx, stop := context.WithCancel(context.Background()) // it outlives the call
	t := &task{
		id: strings.TrimSuffix(filepath.Base(file.Name()), ".txt"), command: in.Command, description: in.Description,
		began: time.Now(), log: &taskLog{file: file, hide: w.cfg.Hide}, stop: stop, done: make(chan struct{}),
	}
	begun := false
	defer func() { // also if a callback panics
		if !begun {
			close(t.done)
			w.tasks.remove(t)
			stop()
			t.log.Close()
			_ = os.Remove(file.Name())
		}
	}()
	// It is taken in before it begins, so that a workspace that closes misses none.
	if err := w.tasks.add(t); err != nil {
		return tool.Refuse(ClassSupport, fmt.Sprintf("the command was not run: %v", err))
	}
	c := w.command(in.Command, call)
	c.out = t.log
	r, err := c.begin()
	if err != nil {
		return tool.Fail(tool.Classify(err), fmt.Sprintf("the command was not run: %v", err))
	}
	begun = true
	go func() {
		defer close(t.done)
		defer t.log.Close()
		defer stop()
		t.end = r.finish(ctx)
	}()
	res := tool.Text(fmt.Sprintf("Task %s runs in the background. Its output goes to %s. TaskOutput waits for it and shows what is new, "+
		"TaskStop ends it; it ends with the session.", t.id, file.Name()))
	res.Output, res.Task = BashOutput{Task: t.id, Path: file.Name()}, &tool.Task{ID: t.id, Path: file.Name()}
	return res
}

// taskLog is the file of what a task prints. It is written line by line, without
// secrets, so that it can be read at any time.
type taskLog struct {
	hide func(string) string

	mu    sync.Mutex
	file  *os.File
	held  []byte // the beginning of a line
	size  int64  // bytes in the file
	lost  int64  // bytes that are not
	fault error  // why they are not, if not for their number
}

// Write never fails: a full disk must not break the pipe of the command.
func (l *taskLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, b...)
	cut := bytes.LastIndexByte(l.held, '\n') + 1
	if len(l.held)-cut > maxHeld {
		cut = len(l.held)
	}
	l.store(cut)
	return len(b), nil
}

// store writes the first n bytes of what is held.
func (l *taskLog) store(n int) {
	text := l.held[:n]
	if l.hide != nil && n > 0 {
		text = []byte(l.hide(string(text)))
	}
	room := max(maxSpill-l.size, 0)
	if l.fault != nil {
		room = 0
	}
	kept := text[:min(int64(len(text)), room)]
	written, err := l.file.Write(kept)
	if err != nil {
		l.fault = err
	}
	l.size += int64(written)
	l.lost += int64(len(text) - written)
	l.held = append(l.held[:0], l.held[n:]...)
}

func (l *taskLog) news() string { return "" } // nobody listens: TaskOutput reads the file

// Close writes what is held and closes the file.
func (l *taskLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store(len(l.held))
	return l.file.Close()
}

// since returns what was written since the byte from, at most limit bytes of its
// end, and how far it is read then. A line that is not whole yet comes later.
func (l *taskLog) since(from int64, limit int) (text string, to int64, err error) {
	l.mu.Lock()
	name, size, lost, fault := l.file.Name(), l.size, l.lost, l.fault
	l.mu.Unlock()
	f, err := os.Open(name)
	if err != nil {
		return "", from, err
	}
	defer f.Close()
	start := max(from, size-int64(limit))
	data := make([]byte, size-start)
	if _, err := io.ReadFull(io.NewSectionReader(f, start, size-start), data); err != nil {
		return "", from, err
	}
	switch {
	case isBinary(data):
		text = fmt.Sprintf("[binary output of %s, not shown]", bytesText(size-from))
	case start > from:
		text = fmt.Sprintf("[%d bytes left out here; the whole output is in %s]\n%s", start-from, name, tool.Clean(string(whole(data))))
	default:
		text = tool.Clean(string(data))
	}
	if lost > 0 {
		text += fmt.Sprintf("\n[%s of its output were not kept: ", bytesText(lost))
		if fault != nil {
			text += fault.Error() + "]"
		} else {
			text += "the file is full]"
		}
	}
	return text, size, nil
}
