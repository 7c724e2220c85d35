package builtin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the pieces in which an output comes, its head, tail and file are those
// of the whole.
func TestCapture(t *testing.T) {
	var all strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&all, "line %d ü\n", i)
	}
	for _, piece := range []int{1, 7, 99, 100, 101, 4096, 1 << 20} {
		for _, size := range []int{0, 1, 150, 199, 200, 201, 300, 5000, all.Len()} {
			c := &capture{dir: t.TempDir(), keep: 100}
			for rest := all.String()[:size]; rest != ""; {
				n := min(piece, len(rest))
				if _, err := c.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			text, path := c.result(200)
			want := strings.ToValidUTF8(all.String()[:size], "\uFFFD")
			if size <= 200 {
				if text != want || path != "" {
					t.Errorf("pieces of %d, %d bytes: %q, file %q", piece, size, text, path)
				}
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil || string(b) != all.String()[:size] {
				t.Errorf("pieces of %d, %d bytes: file has %d: %v", piece, size, len(b), err)
			}
			head, tail, _ := strings.Cut(text, "\n[")
			_, tail, _ = strings.Cut(tail, "]\n")
			if !strings.HasPrefix(want, head) || !strings.HasSuffix(strings.TrimSuffix(want, "\uFFFD"), tail) || len(head) < 97 || len(tail) < 97 {
				t.Errorf("pieces of %d, %d bytes: %q", piece, size, text)
			}
		}
	}
}

func TestCaptureWithoutDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	c := &capture{dir: dir, keep: 10}
	fmt.Fprint(c, strings.Repeat("x", 1000))
	text, path := c.result(20)
	wants(t, text, "could not be kept", "no such file")
	if path != "" {
		t.Errorf("path %s", path)
	}
}

func TestIsBinary(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "plain\n": false, "caf\xe9 au lait\n": false, "./name\x00./other\x00": false, "\x1b[31mred\x1b[0m\n": false,
		"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00": true, "a\x00b\x00c\x00d\x00": true, "\x00\x00\x00": true, strings.Repeat("ü", 5000): false,
	} {
		if isBinary([]byte(text)) != want {
			t.Errorf("isBinary(%.20q) = %v", text, !want)
		}
	}
}
