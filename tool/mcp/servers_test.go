package mcp_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// The servers of the tests are this test binary, started again with a mode in
// the environment: real processes over real pipes.
const modeVar = "MCP_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVar); mode != "" {
		serve(mode)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func serve(mode string) {
	note := os.Getenv("MCP_TEST_NOTE") // a file in which a server tells what it did
	tell := func(what string) {
		if note == "" {
			return
		}
		f, err := os.OpenFile(note, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, what)
			f.Close()
		}
	}
	tell(fmt.Sprintf("start %d", os.Getpid()))
	switch mode {
	case "sdk":
		_ = sdkServer(tell).Run(context.Background(), &sdk.StdioTransport{})
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot read the configuration; password=hunter2hunter2")
		os.Exit(3)
	case "mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stubborn": // neither the end of stdin nor SIGTERM ends it, and it has a child
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "300")
		if child.Start() == nil {
			tell(fmt.Sprintf("child %d", child.Process.Pid))
		}
		raw(mode, tell)
		select {}
	case "spin": // takes the end of stdin for an empty line, for ever
		raw(mode, tell)
		for {
			_, _ = os.Stdin.Read(make([]byte, 1))
		}
	case "slow":
		time.Sleep(700 * time.Millisecond)
		raw(mode, tell)
	case "agent": // what uses servers, to be killed
		runAgent()
	default:
		raw(mode, tell)
	}
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
		Protocol  string         `json:"protocolVersion"`
		Meta      struct {
			Token any `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

const plainTools = `{"tools":[
 {"name":"echo","description":"says it again","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},
 {"name":"look","description":"reads","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`

// raw is a server written by hand, of the older era, with one fault.
func raw(mode string, tell func(string)) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	say := func(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
	if mode == "stray" {
		say("Welcome to the server!")
		say(`{"level":"info","msg":"structured, and no message all the same"}`)
		say("[not, json]")
	}
	if mode == "flood" {
		go func() {
			for {
				fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 200))
			}
		}()
	}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m request
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		tell(m.Method + " " + m.Params.Name)
		id := string(m.ID)
		switch m.Method {
		case "server/discover":
			if mode == "oldstyle" { // some end when the first message is not the one they know
				os.Exit(1)
			}
			if mode == "ignores" { // others say nothing at all
				continue
			}
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		case "initialize":
			if mode == "wrongid" {
				say(`{"jsonrpc":"2.0","id":9999,"result":{}}`)
				continue
			}
			caps := `{"tools":{}}`
			if mode == "nocaps" {
				caps = `{}`
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":%s,"serverInfo":{"name":"raw","version":"1"}}}`, id, caps)
		case "tools/list":
			listTools(mode, id, say)
		case "tools/call":
			callTool(mode, id, &m, say)
		}
	}
}

func listTools(mode, id string, say func(string, ...any)) {
	tools := plainTools
	switch mode {
	case "notools":
		tools = `{"tools":[]}`
	case "listerror":
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the database is away"}}`, id)
		return
	case "badschema":
		tools = `{"tools":[{"name":"good","inputSchema":{"type":"object"}},
 {"name":"text","inputSchema":{"type":"string"}},
 {"name":"nested","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"required":["a"]}}},
 {"name":"typo","inputSchema":{"type":"object","properties":{"a":{"type":"strnig"}}}},
 {"name":"list","inputSchema":[1]},
 {"name":"names","inputSchema":{"type":"object","properties":{"a b":{"type":"string"}}}},
 {"name":"any","inputSchema":{"anyOf":[{"required":["a"]}],"properties":{"a":{"type":"string"}}}},
 {"name":"none"}]}`
	case "names":
		long := strings.Repeat("x", 150)
		tools = `{"tools":[{"name":"a.b/c","inputSchema":{"type":"object"}},{"name":"a b c","inputSchema":{"type":"object"}},
 {"name":"` + long + `1","inputSchema":{"type":"object"}},{"name":"` + long + `2","inputSchema":{"type":"object"}},
 {"name":"talks","description":"` + strings.Repeat("d", 5000) + `","inputSchema":{"type":"object"}}]}`
	case "comesback":
		if os.Getenv("MCP_TEST_SECOND") == "" && started() > 1 { // the second life offers less
			tools = `{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
		}
	case "pages":
		tools = strings.TrimSuffix(plainTools, "}") + `,"nextCursor":"again"}`
	}
	say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, strings.ReplaceAll(tools, "\n", ""))
}

// started counts the lives of this server.
func started() int {
	data, _ := os.ReadFile(os.Getenv("MCP_TEST_NOTE"))
	return strings.Count(string(data), "start ")
}

func callTool(mode, id string, m *request, say func(string, ...any)) {
	result := func(text string) {
		b, _ := json.Marshal(text)
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, b)
	}
	switch {
	case mode == "dies" || mode == "comesback" && started() == 1:
		fmt.Fprintln(os.Stderr, "panic: index out of range; api_key=sk-abcdefghijklmnop")
		os.Exit(2)
	case mode == "hangs":
		return
	case mode == "deaf": // it reads nothing any more
		select {}
	case mode == "huge":
		fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
		part := strings.Repeat(`0123456789abcd\n`, 1<<12)
		for range 240 { // 15 MB
			fmt.Fprint(os.Stdout, part)
		}
		say(`"}]}}`)
	case mode == "toohuge":
		fmt.Fprintf(os.Stdout, `{"result":{"content":[{"type":"text","text":"`)
		for range 20 << 10 {
			fmt.Fprint(os.Stdout, strings.Repeat("x", 1<<10))
		}
		say(`"}]},"jsonrpc":"2.0","id":%s}`, id)
	case mode == "garbled":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":"all well"}}`, id)
	case mode == "unknown":
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such thing"}}`, id)
	case mode == "elicits": // asks the client, and waits for an answer
		say(`{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}`)
		say(`{"jsonrpc":"2.0","id":"q2","method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}`)
		answers := bufio.NewReader(os.Stdin)
		var got []string
		for range 2 {
			line, _ := answers.ReadString('\n')
			got = append(got, strings.TrimSpace(line))
		}
		result(strings.Join(got, "\n"))
	case mode == "chatty":
		token, _ := json.Marshal(m.Params.Meta.Token)
		for i := range 20_000 {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":20000}}`, token, i)
		}
		result("done")
	case mode == "progress":
		for i := range 6 {
			time.Sleep(300 * time.Millisecond)
			token, _ := json.Marshal(m.Params.Meta.Token)
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"step %d"}}`, token, i, i)
		}
		result("done")
	default:
		result(fmt.Sprint(m.Params.Arguments["text"]))
	}
}

type textIn struct {
	Text string `json:"text,omitempty"`
}

// sdkServer is a server that does everything right, of both eras.
func sdkServer(tell func(string)) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "proper", Version: "1"}, nil)
	text := func(t string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t}}}
	}
	add := func(name string, a *sdk.ToolAnnotations, do func(context.Context, *sdk.CallToolRequest, textIn) (*sdk.CallToolResult, any, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: name, Annotations: a}, do)
	}
	add("echo", nil, func(_ context.Context, _ *sdk.CallToolRequest, in textIn) (*sdk.CallToolResult, any, error) {
		tell("echo")
		return text(in.Text), nil, nil
	})
	add("look", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(_ context.Context, _ *sdk.CallToolRequest, in textIn) (*sdk.CallToolResult, any, error) {
		tell("look")
		return text("seen " + in.Text), nil, nil
	})
	add("set", &sdk.ToolAnnotations{IdempotentHint: true}, func(_ context.Context, _ *sdk.CallToolRequest, in textIn) (*sdk.CallToolResult, any, error) {
		return text("set"), nil, nil
	})
	add("fail", nil, func(context.Context, *sdk.CallToolRequest, textIn) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("the table is locked")
	})
	add("hang", nil, func(ctx context.Context, _ *sdk.CallToolRequest, _ textIn) (*sdk.CallToolResult, any, error) {
		tell("hang")
		<-ctx.Done()
		tell("cancelled")
		return nil, nil, ctx.Err()
	})
	add("die", nil, func(context.Context, *sdk.CallToolRequest, textIn) (*sdk.CallToolResult, any, error) {
		tell("die")
		os.Exit(7)
		return nil, nil, nil
	})
	add("picture", nil, func(context.Context, *sdk.CallToolRequest, textIn) (*sdk.CallToolResult, any, error) {
		png, _ := base64.StdEncoding.DecodeString(onePixel)
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.ImageContent{MIMEType: "image/png", Data: png},
			&sdk.ImageContent{MIMEType: "image/png", Data: []byte("no picture")},
			&sdk.ImageContent{MIMEType: "image/tiff", Data: png},
			&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("abc")},
			&sdk.ResourceLink{URI: "file:///a.txt", Name: "a"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b.txt", Text: "inside"}},
		}}, nil, nil
	})
	add("ask", nil, func(context.Context, *sdk.CallToolRequest, textIn) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{
			"q": &sdk.ElicitParams{Message: "Sure?"},
		}}, nil, nil
	})
	return s
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
