package hook

import (
	"os"
	"strings"
	"testing"
)

// TestDocs holds the table of docs/hooks.md to the table in the code.
func TestDocs(t *testing.T) {
	const name, begin, end = "../docs/hooks.md", "<!-- table: begin -->\n", "<!-- table: end -->\n"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", name)
	}
	if *update {
		if err := os.WriteFile(name, []byte(before+begin+Table()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != Table() {
		t.Errorf("the table of %s is not the one of the code (write it with -update)", name)
	}
	for _, e := range elsewhere {
		if !strings.Contains(after, "`"+e+"`") {
			t.Errorf("%s does not name %s", name, e)
		}
	}
	if n := strings.Count(string(data), "\n"); n > 150 {
		t.Errorf("%s has %d lines", name, n)
	}
}
