package daruma

import (
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
)

// tellEnded tells the model, before it is asked, of the tasks in the background
// that have ended meanwhile. Nothing is asked because of them.
func (r *run) tellEnded() {
	if r.cfg.Ended != nil {
		r.tellOf(append(goneWords(r.gone), r.cfg.Ended()...))
		r.gone = nil
	}
}

// goneWords are about the tasks that an earlier life of the session had in the
// background, and of whose end the model did not hear.
func goneWords(tasks []*session.Task) (gone []tool.Task) {
	for _, t := range tasks {
		text := fmt.Sprintf("Task %s is gone: what runs in the background ends with the process that began it.", t.ID)
		if t.Path != "" {
			text += " What it printed until then is in " + t.Path + "."
		}
		gone = append(gone, tool.Task{ID: t.ID, Text: text + " Begin it again if it is still needed."})
	}
	return gone
}

// tellOf says it in one event with the fact that it was said: a crash neither
// loses nor repeats it.
func (r *run) tellOf(ended []tool.Task) {
	var ids, lines []string
	for _, t := range ended {
		ids, lines = append(ids, t.ID), append(lines, r.cfg.Redact.Known(t.Text))
	}
	if len(ids) == 0 {
		return
	}
	text := strings.Join(lines, "\n")
	r.emit(&session.Message{Ends: ids, Message: message.NewSynthetic(r.history.NextID(), "["+text+"]")})
	r.notice(session.Info, "%s", text)
}

// begunOrEnded is what the journal keeps of a task.
func begunOrEnded(t *tool.Task) *session.Task {
	if t == nil {
		return nil
	}
	return &session.Task{ID: t.ID, Path: t.Path, Ended: t.Ended}
}
