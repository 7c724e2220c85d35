package doctor

import (
	"slices"
	"testing"
)

// matrix is what has to be tried with the files of every agent, with the rules
// that stand for it. Where an agent's files cannot have the fault, why says so.
var matrix = []struct {
	what  string
	rules []Rule
	why   map[Format]string
}{
	{"a call without result", []Rule{Unanswered}, nil},
	{"a result without call", []Rule{Orphan}, nil},
	{"an id that two calls share", []Rule{DuplicateCall}, map[Format]string{
		Daruma: "one process writes a journal, and takes the ids of one model",
	}},
	{"altered thinking", []Rule{Altered}, nil},
	{"foreign thinking", []Rule{Foreign}, map[Format]string{
		Codex: "its items do not name the model that made them, so only the refusal of the provider tells",
	}},
	{"empty text", []Rule{EmptyText}, nil},
	{"poisoned media", []Rule{BrokenMedia}, nil},
	{"media of another type", []Rule{WrongMediaType}, nil},
	{"oversize media", []Rule{LargeMedia}, nil},
	{"a torn line", []Rule{TornLine}, nil},
	{"two records on a line", []Rule{FusedLine}, nil},
	{"a circle of parents", []Rule{Cycle}, map[Format]string{
		Codex: "its records have no parents", Daruma: "its events have no parents",
	}},
	{"oversize text", []Rule{LargeText}, nil},
}

// TestMatrix holds that each fault is tried with the files of each agent.
func TestMatrix(t *testing.T) {
	tried := map[Rule][]Format{}
	for _, f := range faults {
		tried[f.rule] = append(tried[f.rule], f.formats...)
	}
	for _, m := range media { // TestMedia breaks the files of all agents
		tried[m.rule] = append(tried[m.rule], all...)
	}
	for _, row := range matrix {
		for _, format := range all {
			has := slices.ContainsFunc(row.rules, func(r Rule) bool { return slices.Contains(tried[r], format) })
			if why := row.why[format]; has == (why != "") {
				t.Errorf("%s, %s: tried %v, but: %q", row.what, format, has, why)
			}
		}
	}
}
