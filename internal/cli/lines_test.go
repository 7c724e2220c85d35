//go:build unix

package cli_test

import (
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/internal/cli"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"
)

// checkLines holds stdout to the schema of stream-json and to its order: init
// first, one result, last; no line has the uuid of another; every call has one
// result, but for one that is put off, and what was streamed is whole or taken
// back.
func checkLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: lines")
	}
	check := cli.LineSchema(ts.Value(scriptT{}).(testing.TB))
	seen := map[string]bool{}
	results, calls, open := 0, map[string]int{}, ""
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	for i, text := range lines {
		if err := check([]byte(text)); err != nil {
			ts.Fatalf("line %d: %v\n%s", i+1, err, text)
		}
		var line struct {
			Type, Subtype, UUID string
			MessageID           string `json:"message_id"`
			Message             jsontext.Value
			Calls               []struct { // of a run that was cut off: they get their results now
				ID    string `json:"tool_use_id"`
				State string
			}
			Deferred struct{ ID string } `json:"deferred_tool_use"` // it has its result in a run to come
			Event    struct {
				Type    string
				Message struct{ ID string }
			}
		}
		ts.Check(json.Unmarshal([]byte(text), &line, json.MatchCaseInsensitiveNames(true)))
		if seen[line.UUID] {
			ts.Fatalf("line %d has the uuid of another one", i+1)
		}
		seen[line.UUID] = true
		if first := line.Subtype == "init"; first != (i == 0) {
			ts.Fatalf("line %d: init has to be the first line, and no other", i+1)
		}
		if line.Type == "result" {
			results++
		}
		if line.Deferred.ID != "" {
			calls[line.Deferred.ID]--
		}
		for _, left := range line.Calls {
			if left.State != "done" {
				calls[left.ID]++
			}
		}
		var said struct {
			Content []struct {
				Type, ID string
				Call     string `json:"tool_use_id"`
			}
		}
		if line.Type == "assistant" || line.Type == "user" {
			ts.Check(json.Unmarshal(line.Message, &said, json.MatchCaseInsensitiveNames(true)))
		}
		for _, b := range said.Content {
			switch b.Type {
			case "tool_use":
				calls[b.ID]++
			case "tool_result":
				calls[b.Call]--
			}
		}
		switch {
		case line.Event.Type == "message_start" && open != "":
			ts.Fatalf("line %d: %s begins, but %s has no end", i+1, line.Event.Message.ID, open)
		case line.Event.Type == "message_start":
			open = line.Event.Message.ID
		case line.Event.Type == "message_stop", line.Subtype == "retract" && line.MessageID == open:
			open = ""
		}
	}
	if results != 1 || !strings.HasPrefix(lines[len(lines)-1], `{"type":"result"`) {
		ts.Fatalf("%d results, and the last line is %.80s", results, lines[len(lines)-1])
	}
	if open != "" {
		ts.Fatalf("%s has no end and was not taken back", open)
	}
	for id, n := range calls {
		if n != 0 {
			ts.Fatalf("the call %s and its results do not pair: %+d", id, n)
		}
	}
}
