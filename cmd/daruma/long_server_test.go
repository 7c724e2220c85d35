//go:build unix

package main

import (
	"context"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// longServerVariable makes the test binary a server of tools. It names a file
// that remembers from one life to the next that it has died.
const longServerVariable = "DARUMA_TEST_LONG_SERVER"

// longServer is an MCP server that dies in the middle of calls.
func longServer(memory string) int {
	type input struct {
		Text string `json:"text,omitempty"`
	}
	said := func(text string) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "keeps a note"}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		return said("kept: " + in.Text)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "erase", Description: "erases all notes"}, func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, any, error) {
		return said("all notes are gone")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "die", Description: "dies"}, func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, any, error) {
		os.Stderr.WriteString("no more notes\n")
		os.Exit(7)
		return nil, nil, nil
	})
	flaky := &mcp.Tool{Name: "flaky", Description: "dies once", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
	mcp.AddTool(s, flaky, func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, any, error) {
		if f, err := os.OpenFile(memory, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			os.Exit(8)
		}
		return said("here in the second life")
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}
