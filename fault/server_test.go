package fault

import "testing"

func TestHealthyAnswer(t *testing.T) {
	srv, c := serve(t, `
model
  rule hello
    think "a greeting"
    say "Hello, ${user}!"
`)
	g := c.ask(ask(user("world")))
	if g.text != "Hello, world!" || g.thinking != "a greeting" || g.stop != "end_turn" || !g.stopped {
		t.Errorf("got %q, %q, %q, stopped %v\n%s", g.text, g.thinking, g.stop, g.stopped, g.raw)
	}
	whole := c.ask(with(ask(user("world")), "stream", false))
	if whole.text != g.text || whole.stop != "end_turn" || whole.input != g.input || whole.output != g.output {
		t.Errorf("without a stream: %+v", whole)
	}
	if r := srv.Report(); len(r.Violations) > 0 || len(r.Requests) != 2 {
		t.Errorf("report:\n%s", r)
	}
}

func TestOrder529ThenCutInsideToolCall(t *testing.T) {
	srv, c := serve(t, `
step busy times 2
  status 529 overloaded_error "Overloaded"
  header retry-after "1"

step cut-call
  cut tool

model
  rule run once
    say "I look."
    call shell command="go test ./..."
  rule end
    say "Done."
`)
	for range 2 {
		g := c.ask(ask(user("fix it")))
		if g.status != 529 || g.failure != "overloaded_error" || g.header.Get("Retry-After") != "1" {
			t.Fatalf("got %d %s", g.status, g.raw)
		}
	}
	g := c.ask(ask(user("fix it")))
	if g.stopped || g.err != nil || len(g.inputs) != 1 || g.inputs[0] == `{"command":"go test ./..."}` {
		t.Errorf("not cut inside of the call: %v\n%s", g.err, g.raw)
	}
	g = c.ask(ask(user("fix it")))
	if !g.stopped || g.inputs[0] != `{"command":"go test ./..."}` {
		t.Errorf("the same conversation got another answer: %s", g.raw)
	}
	id := str(object(g.content[1]), "id")
	g = c.ask(ask(user("fix it"), assistant(g.content), user([]any{result(id, "ok")})))
	if g.text != "Done." {
		t.Errorf("got %s", g.raw)
	}
	if r := srv.Report(); len(r.Missed()) > 0 || len(r.Violations) > 0 {
		t.Errorf("report:\n%s", r)
	}
}
