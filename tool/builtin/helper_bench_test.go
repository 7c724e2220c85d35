//go:build linux

package builtin

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/sandbox/keeper"
	"github.com/daruma-agent/daruma/tool"
)

// BenchmarkHelper compares, in one run, what it costs to run true: with exec
// alone, through bash, through Bash as a child, and through Bash with the helper of the
// real binary, without and with a sandbox; and what a start of that binary as a
// helper costs that has nothing to do. All are shown as multiples of exec.
func BenchmarkHelper(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "daruma")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/daruma").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	workspace := func(change func(*Config)) func() {
		cfg := Config{Root: b.TempDir(), Spill: b.TempDir(), Env: os.Environ()}
		change(&cfg)
		w, err := New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { w.Close() })
		set, err := tool.NewSet(w.Tools()...)
		if err != nil {
			b.Fatal(err)
		}
		return func() {
			if r := set.Run(b.Context(), tool.Call{Name: "Bash", Input: []byte(`{"command":"true"}`)}); r.IsError {
				b.Fatal(r)
			}
		}
	}
	start := func(argv ...string) func() {
		return func() {
			if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	watched := func(c *Config) { c.Helper = []string{binary, keeper.Argument} }
	ways := []struct {
		unit string
		do   func()
		took time.Duration
	}{
		{unit: "exec", do: start("/bin/true")},
		{unit: "x-bash", do: start("/bin/bash", "-c", "true")},
		{unit: "x-children", do: workspace(func(*Config) {})},
		{unit: "x-helper", do: workspace(watched)},
		{unit: "x-sandbox", do: workspace(func(c *Config) { boxed(c); watched(c) })},
		{unit: "x-idle-helper", do: func() { idleHelper(b, binary) }},
		{unit: "x-version", do: start(binary, "--version")},
	}
	for b.Loop() {
		for i := range ways {
			began := time.Now()
			ways[i].do()
			ways[i].took += time.Since(began)
		}
	}
	for _, w := range ways[1:] {
		b.ReportMetric(float64(w.took)/float64(ways[0].took), w.unit)
	}
	b.ReportMetric(float64(ways[0].took.Microseconds())/float64(b.N), "µs-exec")
}

// idleHelper starts a helper that is told nothing, and waits for its end.
func idleHelper(b *testing.B, binary string) {
	ours, theirs, err := socketpair()
	if err != nil {
		b.Fatal(err)
	}
	defer theirs.Close()
	cmd := &exec.Cmd{Path: binary, Args: []string{binary, keeper.Argument}, ExtraFiles: []*os.File{theirs}}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ours.Close()
	_ = cmd.Wait() // it says that it has no order
}
