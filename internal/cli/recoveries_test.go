package cli

import (
	"bytes"
	"io"
	"testing"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
)

// TestRecoveriesDocument keeps the document what the command prints.
func TestRecoveriesDocument(t *testing.T) {
	var out bytes.Buffer
	cmd := recoveriesCommand(&world{Stdout: &out})
	cmd.SetArgs([]string{})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/recoveries.md", out.Bytes())
}

// TestRecoveriesComplete: every failure has a row of layer 1, and every
// recovery has a name that people read on the screen.
func TestRecoveriesComplete(t *testing.T) {
	said := map[string]bool{}
	for _, r := range wayBackRows() {
		for _, k := range r.Kinds {
			said[k] = true
		}
		if r.Action == "" || r.End == "" || r.Cause == "" {
			t.Errorf("the row %s lacks words: %+v", r.Name, r)
		}
	}
	for _, k := range failure.Kinds {
		if !said[string(k)] {
			t.Errorf("no row tells of %s", k)
		}
	}
	for _, r := range loop.Table() {
		if decisions[string(r.Name)] == "" {
			t.Errorf("the screen has no words for %s", r.Name)
		}
	}
	if err := printJSON(io.Discard, wayBackRows()); err != nil {
		t.Error(err)
	}
}
