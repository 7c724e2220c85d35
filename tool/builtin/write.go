package builtin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/daruma-agent/daruma/tool"
)

const writeText = `Writes a whole file: a new one, or one that you have read completely.

- file_path is relative to the root of the workspace, or absolute below it. Folders are created as needed.
- Prefer Edit for changes to an existing file: it sends only what changes.
- An existing file keeps its mode and its line ends. Do not write files that nobody asked for.`

type writeInput struct {
	Path    string `json:"file_path" jsonschema:"the file to write"`
	Content string `json:"content" jsonschema:"all of its content"`
}

// WriteOutput is the structured output of Write.
type WriteOutput struct {
	Type     string  `json:"type"` // create or update
	Path     string  `json:"filePath"`
	Content  string  `json:"content"`
	Patch    []Hunk  `json:"structuredPatch"`
	Original *string `json:"originalFile"` // nil if there was none
}

func (w *Workspace) write() tool.Tool {
	return &tool.Typed[writeInput]{
		Name: "Write", Description: writeText, Do: w.runWrite,
		Judge: func(writeInput) tool.Effect { return tool.Idempotent },
		Touch: func(in writeInput) tool.Access {
			return tool.Access{Kind: tool.AccessEdit, Paths: []string{in.Path}}
		},
	}
}

func (w *Workspace) runWrite(_ context.Context, call tool.Call, in writeInput) tool.Result {
	w.editing.Lock()
	defer w.editing.Unlock()
	p, err := w.writable(in.Path)
	if err != nil {
		return failure("write", in.Path, err)
	}
	old, info, err := p.load()
	if errors.Is(err, fs.ErrNotExist) {
		return w.create(call, "write", p, in.Path, in.Content)
	}
	if err != nil {
		return failure("write", in.Path, err)
	}
	content := alike(in.Content, string(old))
	if content == string(old) {
		n := lineCount(content)
		w.memory.read(p, sha256.Sum256(old), n, span{call.ID, 1, n}) // the model knows it, having said it
		return tool.Text(p.shown + " has this content already; nothing had to be changed")
	}
	switch {
	case refuseBinary(old[:min(len(old), 8<<10)], "", info.Size()) != nil: // Read could not show it either
		err = refuse(ClassKind, "the file is there and is not text in UTF-8. Remove it first with Bash if it is to be replaced; nothing was changed")
	case len(old) > 0:
		err = w.memory.check(p, sha256.Sum256(old), true)
	}
	if err == nil {
		err = p.change(call, old, []byte(content), info)
	}
	if err != nil {
		return failure("write", in.Path, err)
	}
	w.memory.changed(p, sha256.Sum256([]byte(content)), true)
	original := valid(string(old))
	hunks := patch(original, content)
	r := tool.Text(fmt.Sprintf("Updated %s (%s)%s", p.shown, stat(hunks), parted(info)))
	r.Output = WriteOutput{Type: "update", Path: p.shown, Content: content, Patch: hunks, Original: &original}
	return r
}

// create writes a file that is not there yet.
func (w *Workspace) create(call tool.Call, op string, p place, path, content string) tool.Result {
	err := p.area.root.MkdirAll(filepath.Dir(p.rel), 0o777)
	if err == nil {
		err = p.change(call, nil, []byte(content), nil)
	}
	if err != nil {
		return failure(op, path, err)
	}
	w.memory.changed(p, sha256.Sum256([]byte(content)), true)
	hunks := patch("", content)
	r := tool.Text(fmt.Sprintf("Created %s (%s)", p.shown, plural(lineCount(content), "line", "lines")))
	r.Output = WriteOutput{Type: "create", Path: p.shown, Content: content, Patch: hunks}
	return r
}

// change replaces what the file holds, after it was reported.
func (p place) change(call tool.Call, before, after []byte, info fs.FileInfo) error {
	if info != nil && before == nil {
		before = []byte{} // empty is not absent
	}
	if call.Saved != nil {
		if err := call.Saved(p.abs, before, after); err != nil {
			return fmt.Errorf("what the file holds could not be kept, so nothing was changed: %w", err)
		}
	}
	return p.replace(after, info)
}

// parted says what a file has lost that had several names: putting a new file
// in its place leaves the old one to the others.
func parted(old fs.FileInfo) string {
	if n := nameCount(old); n > 1 {
		return fmt.Sprintf("; it had %s by hard links, which keep the old content", plural(n-1, "other name", "other names"))
	}
	return ""
}

// writable locates a file that may be changed.
func (w *Workspace) writable(path string) (place, error) {
	p, err := w.locate(path)
	switch {
	case err != nil:
		return p, err
	case p.area.readOnly:
		return p, refuse(ClassOutside, "files in %s can only be read", p.area.name)
	case strings.HasSuffix(path, "/") || p.rel == ".":
		return p, refuse(ClassKind, "this names a folder, not a file")
	}
	return p, nil
}

// alike gives content the line ends and the byte order mark of old. The model is
// not shown them, so it cannot keep them itself.
func alike(content, old string) string {
	if mostlyCRLF(old) {
		content = strings.ReplaceAll(strings.ReplaceAll(content, "\r\n", "\n"), "\n", "\r\n")
	}
	if strings.HasPrefix(old, bom) && !strings.HasPrefix(content, bom) {
		content = bom + content
	}
	return content
}

// lineCount counts lines as Read does: a last one without an end counts too.
func lineCount(text string) int { return len(trimEmpty(strings.SplitAfter(text, "\n"))) }

func mostlyCRLF(text string) bool {
	return 2*strings.Count(text, "\r\n") > strings.Count(text, "\n")
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// unchanged looks once more, since writing and noting what is written take their
// time: what somebody else has done meanwhile must not be lost.
func (p place) unchanged(old fs.FileInfo) error {
	now, err := p.area.root.Lstat(p.rel)
	switch {
	case old == nil && errors.Is(err, fs.ErrNotExist):
		return nil
	case old != nil && err == nil && os.SameFile(old, now) && now.Size() == old.Size() && now.ModTime().Equal(old.ModTime()):
		return nil
	case old == nil && err != nil:
		return err
	}
	return refuse(ClassStale, "something else has changed the file at this moment. Read it again; nothing was changed")
}

// replace puts data in the place of a file in one step: whoever looks sees the
// old file or the new one, whole, also after a crash. old is what is replaced,
// nil if there is nothing.
func (p place) replace(data []byte, old fs.FileInfo) (err error) {
	root, mode := p.area.root, fs.FileMode(0o666)
	if old != nil {
		// A rename does not ask the file; its owner said that it shall not change.
		if old.Mode().Perm()&0o222 == 0 {
			return refuse("EACCES", "the file is write-protected (mode %v); nothing was changed", old.Mode().Perm())
		}
		mode = old.Mode().Perm()
	}
	dir := filepath.Dir(p.rel)
	temp := filepath.Join(dir, ".daruma-"+strings.ToLower(rand.Text())[:12]+".tmp")
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(temp))
		}
	}()
	if old != nil {
		keepOwner(f, old)
		p.keepAttributes(f)
		err = f.Chmod(old.Mode()) // past the umask, and after the owner, who may clear bits
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = p.unchanged(old)
	}
	if err == nil {
		err = root.Rename(temp, p.rel)
	}
	if err != nil {
		return err
	}
	// The new name is in the folder, which has to reach the disk too; where a
	// folder cannot be synced there is nothing more to do.
	if d, openErr := root.Open(dir); openErr == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}
