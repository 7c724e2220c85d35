package daruma_test

import (
	"context"
	"fmt"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/fault"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/session"
)

// A model that is overloaded twice, and an agent that gets up again.
func ExampleAgent_Run() {
	script, err := fault.Parse("example", `
step busy times 2
  status 529
model
  rule hello
    say "Good morning."
`)
	if err != nil {
		panic(err)
	}
	network := fault.NewMemoryNet()
	server := fault.New(script, fault.Options{}).Serve(network)
	defer server.Close()

	wire, err := anthropic.New(anthropic.Config{BaseURL: "http://fault.test", APIKey: "any", DialContext: network.DialContext})
	if err != nil {
		panic(err)
	}
	defer wire.DropIdle()
	agent, err := daruma.New(daruma.Config{Wire: wire, Models: []string{"claude-sonnet-5"}})
	if err != nil {
		panic(err)
	}
	for event, err := range agent.Run(context.Background(), "Say good morning.") {
		if err != nil {
			panic(err)
		}
		switch e := event.Body.(type) {
		case *session.Recovery:
			fmt.Println(e.Cause, e.Decision, e.State)
		case *session.End:
			fmt.Println(e.Reason+":", e.Text)
		}
	}
	// Output:
	// overloaded retry running
	// overloaded retry running
	// overloaded retry healed
	// overloaded retry healed
	// completed: Good morning.
}
