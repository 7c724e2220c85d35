package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

//go:embed system.md
var systemText string

// maxInstructions bounds what is read of one instructions file.
const maxInstructions = 32 << 10

// systemPrompt returns the parts of the system prompt, what never changes
// first; alone says that nobody can be asked, trusted that a person has read
// what the folder brings along. Beside them are notes for the
// person about instructions that were cut or unreadable.
func systemPrompt(w *world, alone, trusted bool) (parts, notes []string) {
	text, notes := instructions(w.Dir, trusted)
	parts = []string{strings.TrimSpace(systemText)}
	if text != "" {
		parts = append(parts, text)
	}
	env := fmt.Sprintf("Working directory: %s\nPlatform: %s/%s\nDate: %s\n", w.Dir, runtime.GOOS, runtime.GOARCH, time.Now().Format(time.DateOnly))
	if readable(filepath.Join(w.Dir, ".git")) {
		env += "The working directory is a git repository.\n"
	}
	if alone {
		env += "Nobody can answer questions in this run: decide yourself, do the work, and say in the end what was done and what was not.\n"
	}
	return append(parts, env), notes
}

// instructions reads AGENTS.md and CLAUDE.md of every folder from the root of
// the repository down to dir. A file that only imports the other is not read
// twice. A link out of the repository is followed only if the folder is trusted:
// whoever made the repository could have any file of this machine sent away.
func instructions(dir string, trusted bool) (text string, notes []string) {
	var b strings.Builder
	folders := foldersDown(dir)
	for _, d := range folders {
		seen := ""
		for _, name := range instructionFiles {
			path := filepath.Join(d, name)
			real, err := filepath.EvalSymlinks(path)
			if os.IsNotExist(err) {
				continue
			}
			if err == nil && !trusted && !within(folders[0], real) {
				notes = append(notes, fmt.Sprintf("instructions of %s are not used: it is a link to %s, outside of the folder; pass --trust once you have read it", path, real))
				continue
			}
			var data []byte
			if err == nil {
				data, err = readStart(real, maxInstructions+1)
			}
			if err != nil {
				notes = append(notes, fmt.Sprintf("instructions of %s are not used: %v", path, err))
				continue
			}
			content := strings.TrimSpace(strings.ToValidUTF8(string(data), "\uFFFD"))
			if content == "" || content == "@AGENTS.md" || content == seen {
				continue
			}
			seen = content
			if len(content) > maxInstructions {
				content = strings.ToValidUTF8(content[:maxInstructions], "")
				notes = append(notes, fmt.Sprintf("only the first %d KB of %s are used", maxInstructions>>10, path))
			}
			fmt.Fprintf(&b, "Instructions of %s, which the user's own messages override:\n\n%s\n\n", path, content)
		}
	}
	return strings.TrimSpace(b.String()), notes
}

// instructionFiles are their names in each folder.
var instructionFiles = []string{"AGENTS.md", "CLAUDE.md"}

// outerLinks lists the instructions that are links out of the repository, and
// where they lead.
func outerLinks(dir string) (links []string) {
	folders := foldersDown(dir)
	for _, d := range folders {
		for _, name := range instructionFiles {
			path := filepath.Join(d, name)
			if real, err := filepath.EvalSymlinks(path); err == nil && !within(folders[0], real) {
				links = append(links, path+" -> "+real)
			}
		}
	}
	return links
}

// within reports whether path, without links in it, is in the folder dir.
func within(dir, path string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// readStart reads at most the first bytes of a file, and nothing of what is none:
// a link of a folder that nobody knows may point to what never ends.
func readStart(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// foldersDown lists the folders from the root of the git repository to dir;
// only dir when there is none.
func foldersDown(dir string) []string {
	var up []string
	for d := dir; ; d = filepath.Dir(d) {
		up = append([]string{d}, up...)
		if readable(filepath.Join(d, ".git")) {
			return up
		}
		if d == filepath.Dir(d) {
			return []string{dir}
		}
	}
}
