package builtin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/daruma-agent/daruma/tool"
)

const editText = `Replaces old_string by new_string in a file that you have read.

- old_string must be in the file exactly, with its whitespace, and only once: take enough lines around it, or set replace_all.
- Do not include the line numbers that Read shows.
- Line ends are kept as they are in the file.
- An empty old_string creates a new file with new_string as its content.`

type editInput struct {
	Path string `json:"file_path" jsonschema:"the file to change"`
	Old  string `json:"old_string" jsonschema:"the text to replace"`
	New  string `json:"new_string" jsonschema:"the text to put in its place"`
	All  bool   `json:"replace_all,omitzero" jsonschema:"replace it everywhere"`
}

// EditOutput is the structured output of Edit.
type EditOutput struct {
	Path         string `json:"filePath"`
	Old          string `json:"oldString"`
	New          string `json:"newString"`
	Original     string `json:"originalFile"`
	Patch        []Hunk `json:"structuredPatch"`
	UserModified bool   `json:"userModified"`
	ReplaceAll   bool   `json:"replaceAll"`
}

func (w *Workspace) edit() tool.Tool {
	return &tool.Typed[editInput]{
		Name: "Edit", Description: editText, Do: w.runEdit,
		Touch: func(in editInput) tool.Access {
			return tool.Access{Kind: tool.AccessEdit, Paths: []string{in.Path}}
		},
	}
}

func (w *Workspace) runEdit(_ context.Context, call tool.Call, in editInput) tool.Result {
	w.editing.Lock()
	defer w.editing.Unlock()
	p, err := w.writable(in.Path)
	if err != nil {
		return failure("edit", in.Path, err)
	}
	b, info, err := p.load()
	switch {
	case errors.Is(err, fs.ErrNotExist) && in.Old == "":
		return w.create(call, "edit", p, in.Path, in.New)
	case err != nil:
		return p.failure("edit", in.Path, err)
	case in.Old == "" && len(b) > 0:
		return failure("edit", in.Path, refuse(ClassNoMatch, "the file exists and is not empty. An empty old_string only creates files; nothing was changed"))
	case refuseBinary(b[:min(len(b), 8<<10)], "", info.Size()) != nil: // Read could not show it either
		err = refuse(ClassKind, "the file is not text in UTF-8. Use Bash to change it; nothing was changed")
	case in.Old != "":
		err = w.memory.check(p, sha256.Sum256(b), false)
	}
	if err != nil {
		return failure("edit", in.Path, err)
	}
	old := string(b)
	text, lines, err := substitute(old, in.Old, in.New, in.All)
	if err != nil {
		return failure("edit", in.Path, err)
	}
	known := w.memory.knowsAll(p)
	if err := p.change(call, b, []byte(text), info); err != nil {
		return failure("edit", in.Path, err)
	}
	w.memory.changed(p, sha256.Sum256([]byte(text)), known)
	hunks := patch(valid(old), valid(text))
	r := tool.Text(fmt.Sprintf("Edited %s (%s): %s%s", p.shown, stat(hunks), lines, parted(info)))
	r.Output = EditOutput{
		Path: p.shown, Old: in.Old, New: in.New, Original: valid(old), Patch: hunks, ReplaceAll: in.All,
	}
	return r
}

// substitute replaces old by text in content, once or everywhere. Line ends do
// not count in finding it and are kept as they are in the file. It also says
// where it was.
func substitute(content, old, text string, all bool) (result, where string, err error) {
	old = strings.ReplaceAll(old, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if old == text {
		return "", "", refuse(ClassNoMatch, "old_string and new_string are the same; nothing was changed")
	}
	if mostlyCRLF(content) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	found := locations(content, old)
	if len(found) == 1 && !all { // another one may begin within it, as in }\n}\n}\n
		begin := found[0][0] + skip(content[found[0][0]:], 1)
		for _, f := range locations(content[begin:], old) {
			found = append(found, [2]int{begin + f[0], begin + f[1]})
		}
	}
	switch {
	case len(found) == 0:
		return "", "", refuse(ClassNoMatch, "old_string is not in the file; nothing was changed. %s", nearby(content, old))
	case len(found) > 1 && !all:
		return "", "", refuse(ClassNoMatch, "old_string is in the file %d times, at %s; nothing was changed. "+
			"Take more of the lines around the one that you mean, or set replace_all", len(found), lineList(content, found))
	}
	if size := len(content) + len(found)*(len(text)-len(old)); size > maxWhole {
		return "", "", refuse(ClassKind, "the file would have %s, and at most %s can be changed here; nothing was changed", bytesText(int64(size)), bytesText(maxWhole))
	}
	var b strings.Builder
	last := 0
	for _, f := range found {
		b.WriteString(content[last:f[0]])
		b.WriteString(text)
		last = f[1]
	}
	b.WriteString(content[last:])
	return b.String(), lineList(content, found), nil
}

// locations finds old in content, where \r\n counts as \n: begin and end of each.
func locations(content, old string) (found [][2]int) {
	if old == "" {
		return [][2]int{{0, 0}}
	}
	plain := strings.ReplaceAll(content, "\r\n", "\n")
	at := 0 // in content, where from is in plain
	for from := 0; ; {
		i := strings.Index(plain[from:], old)
		if i < 0 {
			return found
		}
		begin := at + skip(content[at:], i)
		end := begin + skip(content[begin:], len(old))
		found = append(found, [2]int{begin, end})
		from, at = from+i+len(old), end
	}
}

// skip returns the length of the beginning of content that has n bytes when
// \r\n counts as one.
func skip(content string, n int) int {
	i := 0
	for ; n > 0; n-- {
		if strings.HasPrefix(content[i:], "\r\n") {
			i++
		}
		i++
	}
	return i
}

// lineList names the lines where things were found, the first ten of them.
func lineList(content string, found [][2]int) string {
	var b strings.Builder
	b.WriteString("line ")
	if len(found) > 1 {
		b.Reset()
		b.WriteString("lines ")
	}
	line, last := 1, 0
	for i, f := range found {
		if i == 10 {
			b.WriteString(" and more")
			break
		}
		line += strings.Count(content[last:f[0]], "\n")
		last = f[0]
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, line)
	}
	return b.String()
}
