package anthropic

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/model"
	"github.com/google/go-cmp/cmp"
)

// whole is hello, unstreamed.
var whole = &model.Request{Model: "m", MaxTokens: 10, Unstreamed: true, Messages: hello.Messages}

// TestUnstreamedIsTheSame: the server judges both requests to be in order, and
// their answers are the same: blocks, deltas, stop reason and price.
func TestUnstreamedIsTheSame(t *testing.T) {
	script, err := fault.Parse("whole.fault", `
model
  rule all
    think "I should look."
    say "Let me see."
    call Read file_path="/x"
`)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := fault.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := fault.New(script, fault.Options{}).Serve(listener)
	defer server.Close()
	c := mustNew(t, Config{BaseURL: server.URL, APIKey: testKey})
	defer c.DropIdle()
	ask := func(unstreamed bool) (*model.Answer, string) {
		r := &model.Request{
			Model: "m", MaxTokens: 8000, Unstreamed: unstreamed, Messages: hello.Messages,
			Tools: []model.Tool{{Name: "Read", Schema: []byte(`{"type":"object","properties":{"file_path":{"type":"string"}}}`)}},
		}
		var a model.Answer
		deltas := ""
		events, err := collect(t.Context(), c, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			deltas += e.Text
			a.Add(e)
		}
		a.ID, a.RequestID = "", ""
		a.Usage.CacheRead, a.Usage.CacheWrite, a.Usage.Input = 0, 0, a.Usage.Prompt()
		for i := range a.Blocks {
			a.Blocks[i].ID = ""
		}
		return &a, deltas
	}
	streamed, said := ask(false)
	once, saidOnce := ask(true)
	if diff := cmp.Diff(streamed, once, cmp.AllowUnexported(), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".text" }, cmp.Ignore())); diff != "" {
		t.Errorf("the answer (-streamed +whole):\n%s", diff)
	}
	if said != saidOnce || !strings.Contains(said, "file_path") || once.Stop != model.StopToolUse {
		t.Errorf("%q and %q, %s", said, saidOnce, once.Stop)
	}
	if report := server.Report(); len(report.Violations) > 0 {
		t.Errorf("violations: %v", report)
	}
}

func TestUnstreamedOutputRoom(t *testing.T) {
	c := mustNew(t, Config{})
	generous := mustNew(t, Config{Profile: Profile{Unstreamed: 64_000}})
	for _, tc := range []struct {
		client     *Client
		unstreamed bool
		asked      int
		budget     int
		want       int // 0 is a refusal
	}{
		{c, false, 64_000, 0, 64_000},
		{c, true, 8_000, 0, 8_000},
		{c, true, 21_333, 0, 21_333},
		{c, true, 21_334, 0, 21_333},
		{c, true, 64_000, 21_332, 21_333},
		{c, true, 64_000, 21_333, 0},
		{c, false, 64_000, 60_000, 64_000},
		{generous, true, 64_000, 60_000, 64_000},
		{generous, true, 128_000, 0, 64_000},
	} {
		r := &model.Request{MaxTokens: tc.asked, Unstreamed: tc.unstreamed}
		if tc.budget > 0 {
			r.Thinking = model.Thinking{Mode: model.ThinkingEnabled, Budget: tc.budget}
		}
		b, err := tc.client.encodeRequest(r)
		if tc.want == 0 {
			if e := failureIn(err); e == nil || e.Rule != RuleTooLong || e.Retry != failure.RetryNo {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		body, _ := io.ReadAll(b.reader())
		want := fmt.Sprintf(`"max_tokens":%d,"stream":%v,`, tc.want, !tc.unstreamed)
		if err != nil || !strings.Contains(string(body), want[:len(want)-1]) {
			t.Errorf("%+v: %s, %v, want %s", tc, body, err, want)
		}
	}
	// What the server would refuse is not sent.
	c = mustNew(t, Config{Transport: transport(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, io.EOF
	})})
	r := &model.Request{MaxTokens: 64_000, Unstreamed: true, Thinking: model.Thinking{Mode: model.ThinkingEnabled, Budget: 30_000}}
	if _, err := collect(t.Context(), c, r); failure.As(err).Rule != RuleTooLong {
		t.Error(err)
	}
}

func TestUnstreamedFailures(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		kind       failure.Kind
		retry      failure.Retry
		rule       string
	}{
		{"a page", "<html><title>Sign in</title></html>", failure.ServerError, failure.RetryNo, RuleForeign},
		{"nothing", "", failure.ServerError, failure.RetryNo, RuleForeign},
		{"foreign JSON", `{"choices":[]}`, failure.ServerError, failure.RetryNo, RuleForeign},
		{"cut JSON", `{"type":"message","content":[{"type":"te`, failure.ServerError, failure.RetryNo, RuleForeign},
		{"no stop reason", `{"type":"message","content":[]}`, failure.ServerError, failure.RetryYes, RuleMalformed},
		{"an error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, failure.Overloaded, failure.RetryYes, ""},
	} {
		_, err := collect(t.Context(), mustNew(t, Config{Transport: answering(text1(tc.body))}), whole)
		e := failureIn(err)
		if e == nil || e.Kind != tc.kind || e.Retry != tc.retry || tc.rule != "" && e.Rule != tc.rule {
			t.Errorf("%s: %+v", tc.name, e)
		}
	}
	// A thinking block without its field, and a server that streams all the same.
	for _, body := range []string{`{"type":"message","content":[{"type":"thinking"},{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`, rich} {
		if _, err := collect(t.Context(), mustNew(t, Config{Transport: answering(text1(body))}), whole); err != nil {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}

// TestUnstreamedWatchdog: one limit for the whole answer, however the bytes
// trickle; a stream that was not asked for gets the limits of streams.
func TestUnstreamedWatchdog(t *testing.T) {
	inBubble(t, Config{}, func(write func(string), gone <-chan struct{}) {
		for {
			select {
			case <-time.After(21 * time.Second):
				write(" ") // keeps proxies awake
			case <-gone:
				return
			}
		}
	}, func(t *testing.T, c *Client) {
		began := time.Now()
		_, err := collect(t.Context(), c, whole)
		e := failure.As(err)
		if e.Kind != failure.Timeout || e.Rule != RuleWhole || !e.Stalled || time.Since(began) != 300*time.Second {
			t.Errorf("after %v: %s %+v", time.Since(began), e.Rule, e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if _, err := collect(ctx, c, whole); failure.KindOf(err) != failure.Aborted || time.Since(began) != time.Minute {
			t.Errorf("the caller left: %v after %v", err, time.Since(began))
		}
	})
	inBubble(t, Config{}, func(write func(string), _ <-chan struct{}) {
		for line := range strings.SplitAfterSeq(strings.TrimSuffix(rich, "\n\n"), "\n\n") {
			time.Sleep(140 * time.Second)
			write(line)
		}
	}, func(t *testing.T, c *Client) {
		if _, err := collect(t.Context(), c, whole); err != nil {
			t.Error(err)
		}
	})
}

func TestRefusedStream(t *testing.T) {
	for _, tc := range []struct {
		status  int
		request *model.Request
		body    string
		refused bool
	}{
		{404, hello, `{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}`, true},
		{404, hello, "<html><h1>404 Not Found</h1></html>", true},
		{404, hello, "", true},
		{404, whole, "", false},
		{404, hello, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`, false},
		{404, &model.Request{Model: "claude-x", Messages: hello.Messages}, `{"detail":"no claude-x here"}`, false},
		{400, hello, `{"error":{"message":"Streaming is not supported for this model"}}`, true},
		{422, hello, `{"detail":"this deployment doesn't support streaming responses"}`, true},
		{503, hello, "the stream is currently unavailable", false},
		{501, hello, "streamed answers are not yet implemented", true},
		{400, whole, `{"error":{"message":"Streaming is not supported for this model"}}`, false},
		{400, whole, `{"error":{"message":"Streaming is required for operations that may take longer than 10 minutes"}}`, false},
		{503, hello, "upstream unavailable", false},
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		})
		_, err := collect(t.Context(), c, tc.request)
		e := failure.As(err)
		if e.Status != tc.status || (e.Rule == RuleNoStream) != tc.refused || StreamingFails(e) != tc.refused {
			t.Errorf("%d %q: %s %s, StreamingFails %v", tc.status, tc.body, e.Kind, e.Rule, StreamingFails(e))
		}
	}
}

func TestStreamingFails(t *testing.T) {
	of := func(rules ...string) (out []*failure.Error) {
		for _, rule := range rules {
			out = append(out, &failure.Error{Rule: rule})
		}
		return out
	}
	for _, tc := range []struct {
		failures []*failure.Error
		want     bool
	}{
		{nil, false},
		{[]*failure.Error{nil}, false},
		{of(RuleForeign), true},
		{of(RuleNoStream), true},
		{of(RuleCut, RuleForeign), true},
		{of(RuleFirstByte), false},
		{of(RuleFirstByte, RuleFirstByte), true},
		{of(RuleFirstByte, RuleCut, RuleFirstByte), false},
		{of(RuleSlept, RuleFirstByte), false},
		{of(RuleFirstByte, RuleFirstByte, RuleBytes), false},
		{of(RuleBytes, RuleBytes), false},
		{of(RuleEvents), false},
		{of(RuleCut), false},
		{of(RuleMalformed), false},
		{of(RuleWhole, RuleWhole), false},
		{of("overloaded-status"), false},
	} {
		if got := StreamingFails(tc.failures...); got != tc.want {
			t.Errorf("%+v: %v", tc.failures, got)
		}
	}
}

// TestUnstreamedCost: the price of an answer is known on this path too.
func TestUnstreamedCost(t *testing.T) {
	body := `{"type":"message","id":"msg_1","model":"m-1","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn",` +
		`"usage":{"input_tokens":12,"output_tokens":30,"cache_read_input_tokens":900}}`
	events, err := collect(t.Context(), mustNew(t, Config{Transport: answering(text1(body))}), whole)
	if err != nil {
		t.Fatal(err)
	}
	want := model.Usage{Input: 12, Output: 30, CacheRead: 900}
	if got := events[len(events)-1].Usage; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	kinds := []model.EventKind{model.EventStart, model.EventBlockStart, model.EventDelta, model.EventBlockStop, model.EventStop}
	for i, e := range events {
		if e.Kind != kinds[i] {
			t.Errorf("event %d is %d, want %d", i, e.Kind, kinds[i])
		}
	}
	if b := events[3].Block; b.Type != message.Text || b.Text != "hi" {
		t.Errorf("%+v", b)
	}
}
