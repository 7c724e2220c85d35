package doctor

import (
	"path/filepath"
	"testing"
)

func TestTmp(t *testing.T) {
	all, _ := filepath.Glob("testdata/*/*.jsonl")
	for _, p := range all {
		f, err := Open(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(f.Report().String())
		t.Log(f.Diff())
	}
}
