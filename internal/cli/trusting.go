package cli

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files of a folder that can make daruma run what they name.
const (
	projectSettings = ".claude/settings.json"
	localSettings   = ".claude/settings.local.json"
)

// ownSettings lists the files of this folder, and of those above it in its
// repository, that are followed only once a person trusts them.
func ownSettings(dir string) (paths []string) {
	for _, d := range foldersDown(dir) {
		for _, name := range []string{projectServers, projectSettings, localSettings} {
			if path := filepath.Join(d, filepath.FromSlash(name)); readable(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// settleTrust decides whether the folder's own settings count: by the flag, by
// what a person said before about the same files, or by asking.
func (o *options) settleTrust(w *world) {
	paths, links := ownSettings(w.Dir), outerLinks(w.Dir)
	if o.mcp.trust || len(paths)+len(links) == 0 {
		return
	}
	o.mcp.own = map[string]ownFile{}
	for _, path := range paths {
		data, err := readServers(path)
		o.mcp.own[path] = ownFile{data, err}
	}
	record, digest := trustRecord(w), digestOf(paths, o.mcp.own, links)
	if known, err := os.ReadFile(record); err == nil && record != "" && strings.TrimSpace(string(known)) == digest {
		o.mcp.trust = true
		return
	}
	if o.print || !w.Terminal {
		return // what is not used is told where it would be read
	}
	if len(paths) > 0 {
		fmt.Fprintf(w.Stderr, "This folder has settings of its own, which can run programs:\n  %s\n", strings.Join(paths, "\n  "))
	}
	if len(links) > 0 {
		fmt.Fprintf(w.Stderr, "It has instructions that are links out of it, which the model would read:\n  %s\n", strings.Join(links, "\n  "))
	}
	fmt.Fprint(w.Stderr, "Say y once you have read them; without them it goes on, too. Use them? [y/N] ")
	line, err := bufio.NewReaderSize(io.LimitReader(w.Stdin, 100), 16).ReadString('\n')
	if err != nil {
		fmt.Fprintln(w.Stderr) // Ctrl+D
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return
	}
	o.mcp.trust = true
	if record == "" {
		return
	}
	err = os.MkdirAll(filepath.Dir(record), 0o700)
	if err == nil {
		err = os.WriteFile(record, []byte(digest+"\n"), 0o600)
	}
	if err != nil {
		fmt.Fprintf(w.Stderr, "note: the answer holds for this time only: %v\n", err)
	}
}

// trustRecord is the file that remembers the answer for this folder.
func trustRecord(w *world) string {
	if w.stateDir() == "" {
		return ""
	}
	return filepath.Join(w.stateDir(), "trusted", fmt.Sprintf("%x", sha256.Sum256([]byte(w.Dir)))[:32])
}

// digestOf changes when one of the files does, or where a link leads: who trusted
// a file did not trust another one.
func digestOf(paths []string, own map[string]ownFile, links []string) string {
	h := sha256.New()
	for _, path := range paths {
		f := own[path]
		fmt.Fprintf(h, "%s\x00%v\x00%d\x00%s", path, f.err, len(f.data), f.data)
	}
	for _, link := range links {
		fmt.Fprintf(h, "link\x00%s", link)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// ownFile is a file of the folder as it was when it was decided about.
type ownFile struct {
	data []byte
	err  error
}

// ownFile reads a file of the folder. What was decided about is what counts: who
// changes it in between is not trusted.
func (m *mcpFlags) ownFile(path string) ([]byte, error) {
	if m.own == nil {
		return readServers(path)
	}
	if f, ok := m.own[path]; ok {
		return f.data, f.err
	}
	return nil, fs.ErrNotExist
}
