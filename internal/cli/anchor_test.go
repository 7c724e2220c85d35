package cli

import (
	"testing"

	"github.com/daruma-agent/daruma/permission"
)

// A rule that begins with "/" is about the folder whose settings it stands in,
// which may lie above the one that daruma works in.
func TestRulesAreAnchoredAtTheirFolder(t *testing.T) {
	for source, want := range map[string]string{"/repo/.claude/settings.json": "/repo", "--settings": "", "/home/u/.config/daruma/settings.json": ""} {
		var s settings
		if err := s.read([]byte(`{"permissions":{"deny":["Edit(/docs/**)"]}}`), source); err != nil {
			t.Fatal(err)
		}
		p := &permission.Policy{Root: "/repo/sub"}
		if err := s.rules(p); err != nil || len(p.Deny) != 1 || p.Deny[0].Root != want {
			t.Errorf("%s: %v, %+v; want the root %q", source, err, p.Deny, want)
		}
	}
}
