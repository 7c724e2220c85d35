//go:build linux

package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// longModule is whose source TestLong works in: a dependency of this module, so
// that it is on every machine that can build it, and large enough.
const longModule = "golang.org/x/net"

// longRepository makes a repository with one commit out of the source of
// longModule and of files that are hard to read.
func longRepository(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "repository")
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", longModule).Output()
	if err != nil {
		t.Fatalf("where %s lies: %v", longModule, err)
	}
	source, files := strings.TrimSpace(string(out)), 0
	err = filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(dir, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		return os.WriteFile(filepath.Join(dir, rel), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 200 {
		t.Fatalf("%s has only %d files", longModule, files)
	}
	longAssets(t, filepath.Join(dir, "assets"))
	longGit(t, dir, "init", "-q")
	longGit(t, dir, "add", "-A")
	longGit(t, dir, "-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "commit", "-q", "-m", "as it was")
	return dir
}

// longGitEnv keeps what this machine says of git out of it.
var longGitEnv = []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}

func longGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), longGitEnv...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// longAssets are files that tools stumble over, and two scripts.
func longAssets(t testing.TB, dir string) {
	t.Helper()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"picture.png": picture.Bytes(),
		"paper.pdf":   longPaper("A page."),
		"blob.bin":    bytes.Repeat([]byte{0, 1, 2, 0xff}, 500),
		"huge.txt":    bytes.Repeat([]byte("what was said stays said\n"), 600_000),
		"fails.sh":    []byte("echo this is what is wrong >&2\nexit 3\n"),
		"outside.sh":  []byte("echo x > \"$OUTSIDE/escaped\" || echo it was not written\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// longPaper is a PDF of two pages with this text.
func longPaper(text string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	stream := "BT /F1 12 Tf 20 100 Td (" + text + ") Tj ET"
	var at []int
	for i, object := range []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R 3 0 R] /Count 2 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	table := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, table)
	return b.Bytes()
}

// longOutside is a folder that the sandbox of commands does not let them write
// to: temporary folders are open to them.
func longOutside(t testing.TB) string {
	t.Helper()
	home, _ := os.UserHomeDir()
	here, _ := os.Getwd()
	for _, above := range []string{home, here, "/var/lib", "/srv"} {
		temporary := false
		for _, open := range []string{"/tmp", "/var/tmp", "/dev/shm", os.TempDir()} {
			temporary = temporary || above == "" || strings.HasPrefix(above+"/", open+"/")
		}
		if temporary {
			continue
		}
		if dir, err := os.MkdirTemp(above, "daruma-outside-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	t.Fatal("there is no folder that can be written to but temporary ones")
	return ""
}

// longWeb is a site with one page.
func longWeb(t testing.TB) string {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/page" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><head><title>Dolls</title></head><body><h1>Seven times down</h1><p>Eight times up.</p></body></html>"))
	}))
	t.Cleanup(site.Close)
	return site.URL
}
