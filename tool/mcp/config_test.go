package mcp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool/mcp"
	"github.com/google/go-cmp/cmp"
)

func lookup(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "t0ken", "HOST": "h.example", "EMPTY": ""}[name]
	return v, ok
}

func TestParse(t *testing.T) {
	servers, warnings, err := mcp.Parse([]byte("\ufeff"+`{
 "other": {"x": [1, 2]},
 "mcpServers": {
  "db": {"type":"stdio","command":"${BIN:-dbsrv}","args":["--ro","${HOST}","${EMPTY:-x}"],"env":{"DSN":"${DSN:-file.db}"},"timeout":60000},
  "web": {"type":"http","url":"https://${HOST}/mcp","headers":{"Authorization":"Bearer ${TOKEN}"},"headersHelper":"print-token"},
  "two": {"type":"streamable-http","url":"http://127.0.0.1:1/"},
  "old": {"type":"sse","url":"http://127.0.0.1:1/sse","disabled":true},
  "unset": {"command":"x","args":["${NOT_SET}","$TOKEN","${not set}"]},
  "untyped": {"url":"https://h.example/mcp"},
  "ws": {"type":"ws","url":"wss://h.example/mcp"},
  "odd": {"type":"carrier-pigeon","command":"x"},
  "empty": {},
  "number": {"command":"x","args":[1]},
  "list": ["x"],
  "nowhere": {"type":"http","url":"not an address"},
  "negative": {"command":"x","timeout":-5},
  "endless": {"command":"x","timeout":1e300},
  "twice": {"command":"a"},
  "twice": {"command":"b"},
  "": {"command":"x"}
 }}`), ".mcp.json", lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := []mcp.Server{
		{Name: "db", Kind: mcp.Stdio, Command: "dbsrv", Args: []string{"--ro", "h.example", ""}, Env: map[string]string{"DSN": "file.db"}, Timeout: time.Minute, Source: ".mcp.json:4"},
		{Name: "web", Kind: mcp.HTTP, URL: "https://h.example/mcp", Headers: map[string]string{"Authorization": "Bearer t0ken"}, HeadersHelper: "print-token", Source: ".mcp.json:5"},
		{Name: "two", Kind: mcp.HTTP, URL: "http://127.0.0.1:1/", Source: ".mcp.json:6"},
		{Name: "old", Kind: mcp.SSE, URL: "http://127.0.0.1:1/sse", Disabled: true, Source: ".mcp.json:7"},
		{Name: "unset", Kind: mcp.Stdio, Command: "x", Args: []string{"${NOT_SET}", "$TOKEN", "${not set}"}, Source: ".mcp.json:8"},
		{Name: "negative", Kind: mcp.Stdio, Command: "x", Source: ".mcp.json:16"},
		{Name: "endless", Kind: mcp.Stdio, Command: "x", Timeout: 28 * time.Hour, Source: ".mcp.json:17"},
		{Name: "twice", Kind: mcp.Stdio, Command: "b", Source: ".mcp.json:19"},
	}
	if diff := cmp.Diff(want, servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	notes := []string{
		`.mcp.json:8: server "unset": the variable NOT_SET is not set, so ${NOT_SET} stays as it is`,
		`.mcp.json:9: server "untyped": it has a url but no type: add "type": "http": it is not used`,
		`.mcp.json:10: server "ws": type "ws" is not supported: it is not used`,
		`.mcp.json:11: server "odd": there is no type "carrier-pigeon": stdio, http and sse are possible: it is not used`,
		`.mcp.json:12: server "empty": it has no command: it is not used`,
		`.mcp.json:13: server "number": its args.0 has the wrong type: it is not used`,
		`.mcp.json:14: server "list": it is no object of settings: it is not used`,
		`.mcp.json:15: server "nowhere": its url is no address like https://example.com/mcp: it is not used`,
		`.mcp.json:16: server "negative": its timeout is negative and does not count`,
		`.mcp.json:19: server "twice" is there twice: this entry counts`,
		`.mcp.json:20: server "": it has no name: it is not used`,
	}
	if diff := cmp.Diff(notes, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "f:1: not a list of MCP servers: it ends in the middle",
		"{\n\"mcpServers\": {":                 "f:2: not a list of MCP servers: it ends in the middle",
		"{\n\"mcpServers\": {\n'a': 1}}":       "f:3: not a list of MCP servers: ",
		"[]":                                   "f:1: not a list of MCP servers: an object is needed",
		"{}":                                   `f:1: not a list of MCP servers: it has no "mcpServers"`,
		"{\"mcpServers\":[]}":                  "f:1: not a list of MCP servers: an object is needed",
		"{\"mcpServers\":{}}\n{\"more\":true}": "f:2: not a list of MCP servers: there is more behind the end",
	} {
		servers, _, err := mcp.Parse([]byte(text), "f", lookup)
		if err == nil || !strings.HasPrefix(err.Error(), want) || servers != nil {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"${A:-b}","args":["x"],"timeout":5}}}`))
	f.Add([]byte(`{"mcpServers":{"a":{"type":"http","url":"http://h/","headers":{"k":"${`))
	f.Fuzz(func(t *testing.T, data []byte) {
		servers, warnings, err := mcp.Parse(data, "f", lookup)
		if err != nil && (servers != nil || warnings != nil) {
			t.Error("an error beside a result")
		}
		for _, s := range servers {
			if s.Name == "" || s.Kind == mcp.Stdio && s.Command == "" || s.Kind != mcp.Stdio && s.URL == "" || s.Timeout < 0 {
				t.Errorf("a server that cannot be: %s", fmt.Sprintf("%+v", s))
			}
		}
	})
}
