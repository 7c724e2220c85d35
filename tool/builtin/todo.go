package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/daruma-agent/daruma/tool"
)

const todoText = `Keeps the list of what is to be done, which the user sees too. Each call replaces the whole list.

- Use it for work of three steps or more, not for a single question or change.
- Have exactly one item in_progress while you work, and set it to completed as soon as it is really done.
- content says what is to be done ("Run the tests"), activeForm the same as going on ("Running the tests").`

// Status says how far an item of the list is.
type Status = string

// The states of an item.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
)

// Todo is an item of the list of what is to be done.
type Todo struct {
	Content    string `json:"content" jsonschema:"what is to be done"`
	Status     Status `json:"status" enum:"pending,in_progress,completed"`
	ActiveForm string `json:"activeForm" jsonschema:"the same as going on"`
}

type todoInput struct {
	Todos []Todo `json:"todos" jsonschema:"the whole list"`
}

// TodoOutput is the structured output of TodoWrite.
type TodoOutput struct {
	Old []Todo `json:"oldTodos"`
	New []Todo `json:"newTodos"`
}

// Todos returns the list of what is to be done.
func (w *Workspace) Todos() []Todo {
	w.todoLock.Lock()
	defer w.todoLock.Unlock()
	return slices.Clone(w.todos)
}

// SetTodos gives the workspace the list of an earlier life.
func (w *Workspace) SetTodos(todos []Todo) { w.swapTodos(todos) }

func (w *Workspace) swapTodos(todos []Todo) (old []Todo) {
	w.todoLock.Lock()
	defer w.todoLock.Unlock()
	old, w.todos = w.todos, slices.Clone(todos)
	return old
}

func (w *Workspace) todoWrite() tool.Tool {
	return &tool.Typed[todoInput]{
		Name: "TodoWrite", Description: todoText, Do: w.runTodo,
		Judge: func(todoInput) tool.Effect { return tool.Idempotent },
		Touch: func(todoInput) tool.Access { return tool.Access{Kind: tool.AccessNone} },
	}
}

func (w *Workspace) runTodo(_ context.Context, _ tool.Call, in todoInput) tool.Result {
	active, done := 0, 0
	for i, t := range in.Todos {
		switch {
		case strings.TrimSpace(t.Content) == "":
			return tool.Refuse(tool.ClassBadInput, fmt.Sprintf("item %d of the list has no content; the list was not changed", i+1))
		case t.Status == InProgress:
			active++
		case t.Status == Completed:
			done++
		}
	}
	old := w.swapTodos(in.Todos)
	text := fmt.Sprintf("The list was updated: %d of %d done.", done, len(in.Todos))
	if active > 1 {
		text += fmt.Sprintf(" %d items are in progress: better have only one.", active)
	}
	r := tool.Text(text)
	r.Output = TodoOutput{old, in.Todos}
	return r
}
