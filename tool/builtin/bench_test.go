package builtin

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool"
)

// beside runs ours and theirs in turn, so that whatever else the machine does
// falls on both, and reports the time of each and their ratio.
func beside(b *testing.B, ours, theirs func()) {
	var mine, other time.Duration
	for b.Loop() {
		start := time.Now()
		ours()
		half := time.Now()
		theirs()
		mine += half.Sub(start)
		other += time.Since(half)
	}
	b.ReportMetric(float64(mine.Microseconds())/float64(b.N), "µs-ours/op")
	b.ReportMetric(float64(other.Microseconds())/float64(b.N), "µs-theirs/op")
	b.ReportMetric(float64(mine)/float64(other), "times-theirs")
	b.ReportMetric(0, "ns/op")
}

func workbench(b *testing.B) *Workspace {
	w, err := New(Config{Root: b.TempDir(), Env: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { w.Close() })
	return w
}

// BenchmarkRead reads a file of 1 MB, of which 2000 lines are shown and all are
// counted and summed up, beside os.ReadFile.
func BenchmarkRead(b *testing.B) {
	w := workbench(b)
	path := filepath.Join(w.root, "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("func f() { return 42 }\n"), 1<<20/23), 0o600); err != nil {
		b.Fatal(err)
	}
	beside(b, func() {
		if r := w.runRead(b.Context(), tool.Call{}, readInput{Path: "file"}); r.IsError {
			b.Fatal(text(r))
		}
	}, func() {
		if _, err := os.ReadFile(path); err != nil {
			b.Fatal(err)
		}
	})
}

// forest fills a folder with 10,000 files of source-like text, 80 MB in all.
func forest(b *testing.B, root string) {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return error string if err nil for range switch case default context struct type int map value key name file path")
	for i := range 10_000 {
		var t strings.Builder
		for t.Len() < 2000+random.IntN(12_000) {
			for range 4 + random.IntN(8) {
				t.WriteString(words[random.IntN(len(words))] + " ")
			}
			t.WriteByte('\n')
		}
		if i%500 == 0 {
			fmt.Fprintf(&t, "type Reader%d interface {\n", i)
		}
		name := filepath.Join(root, fmt.Sprintf("d%02d/e%02d", i%40, i/40%10), fmt.Sprintf("f%d.go", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(t.String()), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGrep searches 10,000 files beside ripgrep, which is looked for in
// the usual places and used here alone.
func BenchmarkGrep(b *testing.B) {
	rg := ""
	for _, path := range []string{"/usr/bin/rg", "/usr/local/bin/rg", "/opt/homebrew/bin/rg"} {
		if _, err := os.Stat(path); err == nil {
			rg = path
			break
		}
	}
	if rg == "" {
		b.Skip("ripgrep is not installed: get it with apt-get install ripgrep, or brew install ripgrep")
	}
	w := workbench(b)
	forest(b, w.root)
	both := func(b *testing.B, pattern string) {
		beside(b, func() {
			r := w.runGrep(b.Context(), tool.Call{}, grepInput{Pattern: pattern})
			if o := r.Output.(GrepOutput); o.NumFiles != 20 {
				b.Fatal(text(r))
			}
		}, func() {
			cmd := exec.Command(rg, "--files-with-matches", "--hidden", pattern, ".")
			cmd.Dir = w.root
			if out, err := cmd.Output(); err != nil || bytes.Count(out, []byte("\n")) != 20 {
				b.Fatalf("%v: %s", err, out)
			}
		})
	}
	for _, tree := range []string{"plain", "git"} {
		if tree == "git" {
			cmd := exec.Command("git", "init", "-q")
			cmd.Dir = w.root
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
		for name, pattern := range map[string]string{"literal": `interface \{`, "expression": `[A-Z]\w+er\d+ interface \{$`, "fold": `(?i)READER\d+`} {
			b.Run(tree+"/"+name, func(b *testing.B) { both(b, pattern) })
		}
	}
}
