package builtin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/tool"
)

type taskOutputInput struct {
	Task    string `json:"task_id" jsonschema:"of a command that Bash started with run_in_background"`
	Block   *bool  `json:"block,omitzero" jsonschema:"wait until the task has ended; true if not given"`
	Timeout int    `json:"timeout,omitzero" jsonschema:"milliseconds to wait at most; 30000 if not given"`
}

type taskStopInput struct {
	Task string `json:"task_id" jsonschema:"of a command that Bash started with run_in_background"`
}

// TaskOutput is the structured output of TaskOutput and TaskStop.
type TaskOutput struct {
	Retrieval string `json:"retrieval_status,omitzero"` // success, timeout or not_ready
	Task      Task   `json:"task"`
}

// Task is a command in the background, as screens show it.
type Task struct {
	ID          string `json:"task_id"`
	Type        string `json:"task_type"` // always local_bash
	Status      string `json:"status"`    // running, completed, failed or killed
	Command     string `json:"command"`
	Description string `json:"description,omitzero"`
	Output      string `json:"output"` // what is new
	Path        string `json:"output_file"`
	ExitCode    *int   `json:"exitCode,omitzero"` // nil: it has none yet
}

func (w *Workspace) taskOutput() tool.Tool {
	return &tool.Typed[taskOutputInput]{
		Name: "TaskOutput", Do: w.runTaskOutput,
		Description: "Shows what a command in the background has printed since the last time, and how it is. " +
			"It waits for the end of the command if block is not false, at most for the timeout. The whole output is in the file of the task.",
		// What was shown is not shown again, so it never runs beforehand.
		Judge: func(taskOutputInput) tool.Effect { return tool.Idempotent },
		Touch: func(taskOutputInput) tool.Access { return tool.Access{Kind: tool.AccessNone} },
	}
}

func (w *Workspace) runTaskOutput(ctx context.Context, _ tool.Call, in taskOutputInput) tool.Result {
	if in.Timeout < 0 {
		return tool.Refuse(tool.ClassBadInput, "timeout must not be negative")
	}
	t, missing := w.tasks.find(in.Task)
	if t == nil {
		return tool.Refuse(tool.ClassBadInput, missing)
	}
	retrieval := "success"
	if in.Block == nil || *in.Block {
		wait := defaultWait
		if in.Timeout > 0 {
			wait = atMost(w.cfg.MaxTimeout, in.Timeout)
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-t.done:
		case <-timer.C:
			retrieval = "timeout"
		case <-ctx.Done():
			return tool.Fail(tool.ClassAborted, "Waiting for task "+t.id+" was cancelled. The task goes on.")
		}
	} else if t.running() {
		retrieval = "not_ready"
	}
	return w.showTask(t, retrieval)
}

// showTask puts the state of a task and its new output into words.
func (w *Workspace) showTask(t *task, retrieval string) tool.Result {
	status := t.status()
	t.mu.Lock()
	defer t.mu.Unlock()
	text, told, err := t.log.since(t.told, w.cfg.MaxOutput)
	if err != nil {
		return tool.Fail(tool.Classify(err), fmt.Sprintf("the output of task %s cannot be read: %v", t.id, err))
	}
	t.told = told
	shown := Task{
		ID: t.id, Type: "local_bash", Status: status, Command: t.command, Description: t.description, Output: text, Path: t.log.file.Name(),
	}
	var lines []string
	switch status {
	case "running":
		lines = append(lines, fmt.Sprintf("Task %s is running, for %v so far.", t.id, time.Since(t.began).Round(time.Second)))
	case "killed":
		lines = append(lines, fmt.Sprintf("Task %s was ended by TaskStop.", t.id))
	default:
		lines = append(lines, fmt.Sprintf("Task %s has ended with exit code %d.", t.id, t.end.code))
		if t.end.err != nil {
			lines[0] = fmt.Sprintf("Task %s was not run: %v", t.id, t.end.err)
		}
	}
	if status != "running" && t.end.err == nil {
		shown.ExitCode = &t.end.code
		lines = append(lines, notices(t.end, "")...)
		if hint := w.hint(text, t.end.code); hint != "" {
			lines = append(lines, hint)
		}
	}
	if text = strings.TrimRight(text, "\n"); text == "" {
		text = "(no new output)"
	}
	r := tool.Text(strings.Join(append(lines, text), "\n"))
	r.Output = TaskOutput{Retrieval: retrieval, Task: shown}
	if status != "running" {
		t.known = true
		r.Task = &tool.Task{ID: t.id, Path: t.log.file.Name(), Ended: true}
	}
	return r
}

func (w *Workspace) taskStop() tool.Tool {
	return &tool.Typed[taskStopInput]{
		Name: "TaskStop", Do: w.runTaskStop,
		Description: "Ends a command in the background with all that it has started, and shows what it printed since the last time.",
		Judge:       func(taskStopInput) tool.Effect { return tool.Idempotent },
		Touch:       func(taskStopInput) tool.Access { return tool.Access{Kind: tool.AccessNone} },
	}
}

// runTaskStop waits until nothing of the task is alive, which takes no longer
// than its grace and a little.
func (w *Workspace) runTaskStop(_ context.Context, _ tool.Call, in taskStopInput) tool.Result {
	t, missing := w.tasks.find(in.Task)
	if t == nil {
		return tool.Refuse(tool.ClassBadInput, missing)
	}
	if t.running() {
		t.mu.Lock()
		t.stopped = true
		t.mu.Unlock()
		t.stop()
		<-t.done
		if !t.end.cancelled { // it was faster
			t.mu.Lock()
			t.stopped = false
			t.mu.Unlock()
		}
	}
	return w.showTask(t, "")
}
