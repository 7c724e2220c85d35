package fault

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type obj = map[string]any

// client is the least that can talk to the server: it shares nothing with any real client.
type client struct {
	t    *testing.T
	url  string
	http *http.Client
}

// serve plays a script on real loopback.
func serve(t *testing.T, script string) (*Running, *client) {
	t.Helper()
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	r := New(parsed(t, script), Options{}).Serve(l)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, &client{t, r.URL, &http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

func parsed(t *testing.T, script string) *Script {
	t.Helper()
	s, err := Parse("test", script)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shellTool() obj {
	return obj{"name": "Bash", "input_schema": obj{"type": "object", "properties": obj{"command": obj{"type": "string"}}, "required": []any{"command"}}}
}

func ask(messages ...obj) obj {
	return obj{"model": "claude-test-1", "max_tokens": 1000, "stream": true, "messages": messages, "tools": []any{shellTool()}}
}

func user(content any) obj      { return obj{"role": "user", "content": content} }
func assistant(content any) obj { return obj{"role": "assistant", "content": content} }
func text(s string) obj         { return obj{"type": "text", "text": s} }
func call(id, name string, input obj) obj {
	return obj{"type": "tool_use", "id": id, "name": name, "input": input}
}
func result(id, s string) obj { return obj{"type": "tool_result", "tool_use_id": id, "content": s} }

func with(base obj, key string, value any) obj {
	out := obj{}
	for k, v := range base {
		out[k] = v
	}
	out[key] = value
	return out
}

// got is what came back.
type got struct {
	status int
	header http.Header
	raw    string
	err    error // of sending or reading

	text, thinking string
	content        []any // blocks as a client would echo them
	inputs         []string
	stop           string
	stopped        bool
	failure        string // type of an error event
	events         []string
	input, output  int
}

func (c *client) send(ctx context.Context, body any) *got {
	c.t.Helper()
	raw, ok := body.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			c.t.Fatal(err)
		}
	}
	return c.post(ctx, "/v1/messages", raw, nil)
}

func (c *client) ask(body any) *got { c.t.Helper(); return c.send(context.Background(), body) }

func (c *client) post(ctx context.Context, path string, raw []byte, header http.Header) *got {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+path, bytes.NewReader(raw))
	if err != nil {
		c.t.Fatal(err)
	}
	req.GetBody = nil // no silent second try by net/http
	req.Header.Set("x-api-key", "key")
	req.Header.Set("anthropic-version", "2023-06-01")
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return &got{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	g := &got{status: resp.StatusCode, header: resp.Header, raw: string(b), err: err}
	if strings.HasPrefix(resp.Header.Get("content-type"), "text/event-stream") {
		g.readStream()
	} else {
		g.readBody()
	}
	return g
}

func (g *got) readBody() {
	var m obj
	if json.Unmarshal([]byte(g.raw), &m) != nil {
		return
	}
	g.content = list(m["content"])
	for _, b := range g.content {
		g.text += str(object(b), "text")
		if v := object(b)["input"]; v != nil {
			g.inputs = append(g.inputs, compactJSON(v))
		}
	}
	g.stop = str(m, "stop_reason")
	g.failure = str(object(m["error"]), "type")
	g.input, _ = integer(object(m["usage"])["input_tokens"])
	g.output, _ = integer(object(m["usage"])["output_tokens"])
}

func (g *got) readStream() {
	sc := bufio.NewScanner(strings.NewReader(g.raw))
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		var m obj
		if !ok || json.Unmarshal([]byte(data), &m) != nil {
			continue
		}
		g.event(m)
	}
	for _, b := range g.content {
		if m := object(b); m["type"] == "tool_use" {
			raw := str(m, "input")
			g.inputs = append(g.inputs, raw)
			var v any
			if json.Unmarshal([]byte(raw), &v) == nil {
				m["input"] = v
			}
		}
	}
}

func (g *got) event(m obj) {
	g.events = append(g.events, str(m, "type"))
	i, _ := integer(m["index"])
	switch str(m, "type") {
	case "message_start":
		g.input, _ = integer(object(object(m["message"])["usage"])["input_tokens"])
	case "content_block_start":
		b := object(m["content_block"])
		if b["type"] == "tool_use" {
			b["input"] = ""
		}
		g.content = append(g.content, b)
	case "content_block_delta":
		d := object(m["delta"])
		if i >= len(g.content) {
			return
		}
		b := object(g.content[i])
		for field, key := range map[string]string{"text": "text", "thinking": "thinking", "signature": "signature", "input": "partial_json"} {
			if s := str(d, key); s != "" {
				b[field] = str(b, field) + s
			}
		}
		g.text += str(d, "text")
		g.thinking += str(d, "thinking")
	case "message_delta":
		g.stop = str(object(m["delta"]), "stop_reason")
		g.output, _ = integer(object(m["usage"])["output_tokens"])
	case "message_stop":
		g.stopped = true
	case "error":
		g.failure = str(object(m["error"]), "type")
	}
}
