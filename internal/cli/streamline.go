package cli

import (
	"strings"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/session"
	"github.com/go-json-experiment/json/jsontext"
)

// The lines of --output-format stream-json. testdata/stream-json.schema.json
// describes them for those who read them; a test holds both together.

// head begins every line.
type head struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype,omitzero"`
	UUID    string `json:"uuid"`
	Session string `json:"session_id"`
}

// initLine is the first line of every run.
type initLine struct {
	head
	Dir        string           `json:"cwd"`
	Model      string           `json:"model"`
	Fallbacks  []string         `json:"fallback_models,omitempty"`
	Mode       string           `json:"permissionMode"`
	Tools      []string         `json:"tools"`
	KeySource  string           `json:"apiKeySource"`
	Version    string           `json:"claude_code_version"` // readers look for the version under this name
	Agent      string           `json:"agent"`
	Style      string           `json:"output_style"`
	MCPServers []session.Server `json:"mcp_servers"`
	Commands   []string         `json:"slash_commands"`
	Skills     []string         `json:"skills"`
	Plugins    []string         `json:"plugins"`
	Resumed    bool             `json:"resumed,omitzero"`
	Sandbox    string           `json:"sandbox,omitzero"`
}

// talkLine is an answer of the model, or a message to it.
type talkLine struct {
	head
	Message   apiMessage `json:"message"`
	Parent    *string    `json:"parent_tool_use_id"` // null: no sub-agent speaks
	Error     string     `json:"error,omitzero"`
	Aborted   bool       `json:"aborted,omitzero"`
	Synthetic bool       `json:"isSynthetic,omitzero"`
	Replay    bool       `json:"isReplay,omitzero"`
	Attempt   int        `json:"attempt,omitzero"`
	Output    any        `json:"tool_use_result,omitzero"`
}

// apiMessage is a message as the Messages API shapes it.
type apiMessage struct {
	ID      string     `json:"id,omitzero"`
	Type    string     `json:"type,omitzero"`
	Role    string     `json:"role"`
	Model   string     `json:"model,omitzero"`
	Content []any      `json:"content"`
	Stop    *nullable  `json:"stop_reason,omitzero"` // no pointer: people's messages have none
	Usage   *apiTokens `json:"usage,omitzero"`
}

// nullable is a text for which the empty one is null.
type nullable string

func (n nullable) MarshalJSONTo(enc *jsontext.Encoder) error {
	if n == "" {
		return enc.WriteToken(jsontext.Null)
	}
	return enc.WriteToken(jsontext.String(string(n)))
}

// apiTokens is a usage as the API names it.
type apiTokens struct {
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
}

func toTokens(t session.Tokens) *apiTokens {
	return &apiTokens{Input: t.Input, Output: t.Output, CacheWrite: t.CacheWrite, CacheRead: t.CacheRead}
}

// retryLine has exactly the fields that other agents give.
type retryLine struct {
	Type    string           `json:"type"`
	Subtype string           `json:"subtype"`
	Attempt int              `json:"attempt"`
	Most    int              `json:"max_retries"`
	Delay   int64            `json:"retry_delay_ms"`
	Status  *int             `json:"error_status"` // null: there was no HTTP answer
	Error   failure.Category `json:"error"`
	UUID    string           `json:"uuid"`
	Session string           `json:"session_id"`
}

// recoveryLine is the record of a way back, each time that it changes.
type recoveryLine struct {
	head
	Record *session.Recovery `json:"recovery"`
}

// retractLine says that what was streamed of an attempt is void.
type retractLine struct {
	head
	Attempt int          `json:"attempt"`
	Message string       `json:"message_id"`
	Cause   string       `json:"cause"`
	Lost    session.Lost `json:"lost"`
}

type statusLine struct {
	head
	Status nullable `json:"status"`
}

type compactLine struct {
	head
	Data compactData `json:"compact_metadata"`
}

type compactData struct {
	Trigger string `json:"trigger"`
	Before  int    `json:"pre_tokens"`
	After   int    `json:"post_tokens"`
	Rung    string `json:"rung"`
	Cause   string `json:"cause"`
}

// previewLine says what the run before left open.
type previewLine struct {
	head
	*preview
}

type hookLine struct {
	head
	ID      string `json:"hook_id"`
	Name    string `json:"hook_name"`
	Event   string `json:"hook_event"`
	Output  string `json:"output,omitzero"`
	Stdout  string `json:"stdout,omitzero"`
	Stderr  string `json:"stderr,omitzero"`
	Exit    *int   `json:"exit_code,omitempty"`
	Outcome string `json:"outcome,omitzero"`
}

type noticeLine struct {
	head
	Content string `json:"content"`
	Level   string `json:"level"`
}

type deniedLine struct {
	head
	Tool    string `json:"tool_name"`
	Call    string `json:"tool_use_id"`
	By      string `json:"decision_reason_type,omitzero"`
	Reason  string `json:"decision_reason,omitzero"`
	Message string `json:"message"`
}

// partialLine is an event of the API, as far as it can be told.
type partialLine struct {
	Type    string   `json:"type"`
	UUID    string   `json:"uuid"`
	Session string   `json:"session_id"`
	Event   apiEvent `json:"event"`
	Parent  *string  `json:"parent_tool_use_id"`
}

type apiEvent struct {
	Type    string      `json:"type"`
	Message *apiMessage `json:"message,omitzero"`
	Index   *int        `json:"index,omitzero"`
	Block   any         `json:"content_block,omitzero"`
	Delta   any         `json:"delta,omitzero"`
	Usage   *apiTokens  `json:"usage,omitzero"`
}

// apiContent is blocks as the API shapes them.
func apiContent(blocks []message.Block) []any {
	out := make([]any, 0, len(blocks))
	for i := range blocks {
		out = append(out, apiBlock(&blocks[i]))
	}
	return out
}

// fields keeps the order of what the API shows.
type (
	textBlock struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	thinkingBlock struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	hiddenBlock struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	callBlock struct {
		Type  string         `json:"type"`
		ID    string         `json:"id"`
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	}
	resultBlock struct {
		Type    string `json:"type"`
		Call    string `json:"tool_use_id"`
		Content any    `json:"content"`
		IsError bool   `json:"is_error,omitzero"`
	}
	mediaBlock struct {
		Type   string      `json:"type"`
		Source mediaSource `json:"source"`
		Title  string      `json:"title,omitzero"`
	}
	mediaSource struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type,omitzero"`
		Data      string `json:"data,omitzero"`
		URL       string `json:"url,omitzero"`
		FileID    string `json:"file_id,omitzero"`
	}
)

var emptyObject = jsontext.Value("{}")

func apiBlock(b *message.Block) any {
	switch b.Type {
	case message.Text:
		return textBlock{"text", b.Text}
	case message.Thinking:
		return thinkingBlock{"thinking", b.Text, b.Signature}
	case message.RedactedThinking:
		return hiddenBlock{"redacted_thinking", b.Data}
	case message.ToolUse:
		input := b.Input
		if !message.IsObject(input) {
			input = emptyObject
		}
		return callBlock{"tool_use", b.ID, b.Name, input}
	case message.ToolResult:
		r := resultBlock{Type: "tool_result", Call: b.ToolUseID, IsError: b.IsError}
		if len(b.Content) == 1 && b.Content[0].Type == message.Text {
			r.Content = b.Content[0].Text
		} else {
			r.Content = apiContent(b.Content)
		}
		return r
	case message.Image, message.Document:
		if b.Media != nil {
			return apiMedia(string(b.Type), b.Media)
		}
	}
	if b.Raw.IsValid() {
		return b.Raw
	}
	return textBlock{string(b.Type), b.Text}
}

func apiMedia(kind string, m *message.Media) mediaBlock {
	out := mediaBlock{Type: kind, Title: m.Title}
	switch {
	case m.URL != "":
		out.Source = mediaSource{Type: "url", URL: m.URL}
	case m.FileID != "":
		out.Source = mediaSource{Type: "file", FileID: m.FileID}
	default:
		out.Source = mediaSource{Type: "base64", MediaType: m.Type, Data: m.Data}
		if strings.HasPrefix(m.Type, "text/") {
			out.Source.Type = "text"
		}
	}
	return out
}
