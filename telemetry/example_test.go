package telemetry_test

import (
	"context"
	"log"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/model/anthropic"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/telemetry"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The caller brings the tracer: its provider is set up, and shut down, where
// the program begins and ends. In place of noop stands the SDK, with an
// exporter that works in the background.
func Example() {
	var provider trace.TracerProvider = noop.NewTracerProvider()

	observer := telemetry.New(telemetry.Config{
		Tracer:   provider.Tracer("github.com/daruma-agent/daruma"),
		Provider: "anthropic",
	})
	defer observer.Close() // also after a panic

	wire, err := anthropic.New(anthropic.Config{BaseURL: "https://api.anthropic.com", APIKey: "…"})
	if err != nil {
		log.Fatal(err)
	}
	agent, err := daruma.New(daruma.Config{
		Wire: wire, Models: []string{"claude-sonnet-5"}, Observe: observer.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}
	for event := range agent.Run(context.Background(), "Make the tests pass.") {
		if end, ok := event.Body.(*session.End); ok {
			log.Print(end.Reason)
		}
	}
}
