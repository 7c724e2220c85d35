//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrustHoldsForWhatWasRead: a file that changes, or comes, between the
// decision and its use is not the one that is trusted.
func TestTrustHoldsForWhatWasRead(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const mine = `{"permissions":{"deny":["Write"]}}`
	write(projectSettings, mine)
	w := &world{Dir: dir, Env: []string{"DARUMA_HOME=" + state}}
	path := filepath.Join(dir, filepath.FromSlash(projectSettings))
	known := digestOf([]string{path}, map[string]ownFile{path: {[]byte(mine), nil}}, nil)
	record := trustRecord(w)
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &options{print: true}
	o.settleTrust(w)
	if !o.mcp.trust {
		t.Fatal("what was trusted before is not")
	}
	write(projectSettings, `{"permissions":{"allow":["Bash"]}}`)
	write(localSettings, `{"permissions":{"allow":["Bash"]}}`)
	write(projectServers, `{"mcpServers":{"evil":{"command":"evil"}}}`)
	s := &setup{}
	if err := s.readSettings(w, o); err != nil {
		t.Fatal(err)
	}
	if len(s.settings.permissions) != 1 || len(s.settings.permissions[0].Permissions.Deny) != 1 {
		t.Errorf("other settings are used than those that are trusted: %+v", s.settings.permissions)
	}
	cfg, _, err := mcpConfig(w, &o.mcp, o.mcp.trust)
	if err != nil || len(cfg.Servers) != 0 {
		t.Errorf("a server is used that nobody trusted: %v %+v", err, cfg.Servers)
	}
}

// TestFilesWithoutEnd: a file of the folder that never ends does not keep the
// command from beginning.
func TestFilesWithoutEnd(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, projectServers)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	for _, trusted := range []bool{false, true} {
		if text, notes := instructions(dir, trusted); text != "" || len(notes) != 1 {
			t.Errorf("instructions of %d bytes, notes %q", len(text), notes)
		}
	}
	w := &world{Dir: dir, Env: []string{"DARUMA_HOME=" + t.TempDir()}}
	o := &options{print: true}
	o.settleTrust(w)
	if f := o.mcp.own[filepath.Join(dir, projectServers)]; o.mcp.trust || f.err == nil || !strings.Contains(f.err.Error(), "no file") {
		t.Errorf("trusted %v, %v", o.mcp.trust, f.err)
	}
}

// TestInstructionsBehindLinks: a link within the repository is followed, one out
// of it only where the folder is trusted, and else a note says so.
func TestInstructionsBehindLinks(t *testing.T) {
	top, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	dir := filepath.Join(top, "part")
	for _, folder := range []string{filepath.Join(top, ".git"), dir} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{outside: "a word of elsewhere", filepath.Join(top, "docs.md"): "a word of here"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{filepath.Join(dir, "AGENTS.md"): "../docs.md", filepath.Join(top, "CLAUDE.md"): outside, filepath.Join(dir, "CLAUDE.md"): "gone.md"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	text, notes := instructions(dir, false)
	if !strings.Contains(text, "of here") || strings.Contains(text, "elsewhere") || len(notes) != 1 || !strings.Contains(notes[0], "--trust") {
		t.Errorf("not trusted: %q, %q", text, notes)
	}
	text, notes = instructions(dir, true)
	if !strings.Contains(text, "of here") || !strings.Contains(text, "elsewhere") || len(notes) != 0 {
		t.Errorf("trusted: %q, %q", text, notes)
	}
	link := filepath.Join(t.TempDir(), "link") // who works in a folder by another name of it
	if err := os.Symlink(top, link); err != nil {
		t.Fatal(err)
	}
	if text, _ = instructions(filepath.Join(link, "part"), false); !strings.Contains(text, "of here") {
		t.Errorf("by another name of the folder: %q", text)
	}
}
