package loop

import "testing"

func TestEveryRecoveryHasWords(t *testing.T) {
	for _, r := range Table() {
		if r.Doc.Cause == "" || r.Doc.Action == "" || r.Doc.End == "" {
			t.Errorf("%s: its Doc lacks words: %+v", r.Name, r.Doc)
		}
	}
}
