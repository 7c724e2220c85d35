package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/tool/builtin"
)

// Files that a compaction gives back whole (R46).
const (
	restoredFiles  = 5
	restoredTokens = 5_000 // of one file
)

// carried is what a compaction must not lose beside the user's words, within
// about budget tokens: the todo list, the files that were touched, and the
// newest of these as they are now.
func carried(ws *builtin.Workspace, dir string, budget int) []string {
	var todos, files strings.Builder
	for _, t := range ws.Todos() {
		fmt.Fprintf(&todos, "- [%s] %s\n", t.Status, t.Content)
	}
	touched := ws.Files()
	slices.Reverse(touched)
	for _, f := range touched {
		fmt.Fprintf(&files, "- %s\n", f.Path)
	}
	var out []string
	if todos.Len() > 0 {
		out = append(out, "Todo list:\n"+todos.String())
	}
	if files.Len() > 0 {
		out = append(out, "Files read or changed, newest first:\n"+files.String())
	}
	return append(out, restored(touched, dir, budget)...)
}

// restored returns the newest files that fit: whole ones, or none, since half a
// file is read again anyway.
func restored(files []builtin.File, dir string, budget int) []string {
	var out []string
	for _, f := range files[:min(len(files), restoredFiles)] {
		path := f.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > restoredTokens*8 {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil || !utf8.Valid(data) {
			continue
		}
		tokens := message.EstimateText(string(data))
		if tokens == 0 || tokens > restoredTokens || tokens > budget {
			continue
		}
		budget -= tokens
		out = append(out, fmt.Sprintf("%s as it is now:\n```\n%s\n```", f.Path, strings.TrimRight(string(data), "\n")))
	}
	return out
}
