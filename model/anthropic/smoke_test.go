package anthropic

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
)

func TestSmoke(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		t.Logf("%s %v\n%s", r.URL, r.Header, b)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"ls\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

`)
	}))
	defer srv.Close()
	c, err := New(Config{BaseURL: srv.URL + "/v1/", APIKey: "sk-ant-123456789"})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Stream(context.Background(), &model.Request{Model: "m", MaxTokens: 100, Messages: []*message.Message{message.NewText("1", "hi")}}) {
		t.Logf("%+v %+v %v", e, e.Block, err)
	}
}
