package cli

import (
	"bytes"
	"os"
	"testing"

	"github.com/daruma-agent/daruma/failure"
	"github.com/go-json-experiment/json"
)

// TestExplainCorpus puts every row of the corpus through the command's JSON
// lines: kind, verdict and wait as labelled, and a plan that ends.
func TestExplainCorpus(t *testing.T) {
	rows, err := os.ReadFile("../../failure/testdata/errors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := world{Args: []string{"explain", "--json"}, Stdin: bytes.NewReader(rows), Stdout: &out, Stderr: os.Stderr}
	if code := Main(w); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	answers := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	n := 0
	for line := range bytes.Lines(rows) {
		var row struct {
			ID    string
			Kind  failure.Kind
			Retry failure.Retry
			After *float64 `json:"retry_after_s"`
		}
		var got explained
		if err := json.Unmarshal(line, &row, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answers[n], &got); err != nil {
			t.Fatalf("%v\n%s", err, answers[n])
		}
		n++
		if got.Kind != row.Kind || got.Retry != row.Retry || (got.AfterS == nil) != (row.After == nil) {
			t.Errorf("%s: %s %s, want %s %s", row.ID, got.Kind, got.Retry, row.Kind, row.Retry)
		}
		if len(got.Plan) == 0 || got.Plan[len(got.Plan)-1].Do != "end" {
			t.Errorf("%s: the plan has no end: %+v", row.ID, got.Plan)
		}
		if got.Requests < 1 || got.Requests > 20 {
			t.Errorf("%s: %d requests at worst", row.ID, got.Requests)
		}
	}
	if n != len(answers) || n < 300 {
		t.Errorf("%d rows, %d answers", n, len(answers))
	}
}
