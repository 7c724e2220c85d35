package fault

import (
	"testing"

	"github.com/go-json-experiment/json"
)

// A prefix that stays the same is read from the cache, whatever grows behind it.
func TestPromptCache(t *testing.T) {
	srv, c := serve(t, "")
	usage := func(body obj) (input, read, write int) {
		var m struct {
			Usage usage `json:"usage"`
		}
		if err := json.Unmarshal([]byte(c.ask(with(body, "stream", false)).raw), &m); err != nil {
			t.Fatal(err)
		}
		return m.Usage.Input, m.Usage.CacheRead, m.Usage.CacheWrite
	}
	marked := func(s string) obj { return with(text(s), "cache_control", obj{"type": "ephemeral"}) }
	first := ask(user([]any{marked("a long beginning")}))
	second := ask(user([]any{text("a long beginning")}), assistant("yes"), user([]any{marked("and more")}))
	changed := with(second, "system", "another")

	if in, read, write := usage(ask(user("x"))); in == 0 || read != 0 || write != 0 {
		t.Errorf("without marks: %d %d %d", in, read, write)
	}
	_, _, wrote := usage(first)
	if wrote == 0 {
		t.Error("the first mark wrote nothing")
	}
	in, read, write := usage(second)
	if read != wrote || write == 0 || in+read+write != srv.Report().Requests[2].Tokens {
		t.Errorf("grown: %d input, %d read of %d, %d written", in, read, wrote, write)
	}
	if _, read, _ := usage(changed); read != 0 {
		t.Errorf("another system prompt read %d", read)
	}
	if _, read, _ := usage(with(first, "model", "claude-other")); read != 0 {
		t.Errorf("another model read %d", read)
	}
	if r := srv.Report(); r.Requests[2].CacheRead != wrote || len(r.Violations) > 0 {
		t.Errorf("report:\n%s", r)
	}
}
