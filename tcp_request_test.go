package daruma_test

import (
	"context"
	"errors"
	"time"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/loop"
)

// once puts a fault before the second request of the task.
func once(effect string) string { return "step fault\n  when n 2\n  " + effect + "\n" + task }

// requestTroubles are the failures of layer 1: the same request passes later,
// or it never does and the end says so.
var requestTroubles = []trouble{
	{name: "429 with a second to wait", least: 1, config: patient, script: once("status 429\n  header retry-after \"1\"")},
	{name: "429 with nothing to wait", least: 1, script: once("status 429\n  header retry-after \"0\"")},
	{name: "429 without a hint", least: 1, script: once("status 429")},
	{name: "429 with a date", least: 1, config: patient, script: once("status 429\n  header retry-after \"${http-date+1s}\"")},
	{name: "529 six times", least: 6, script: "step busy times 6\n  status 529\n" + task},
	{name: "529 for good, with another model", least: 3, config: withSecond, script: "step busy always\n  when model \"claude-a\"\n  status 529\n" + task},
	{name: "500", least: 1, script: once("status 500")},
	{name: "502 with a page", least: 1, script: once("status 502 html \"<html><h1>502 Bad Gateway</h1></html>\"")},
	{name: "503", least: 1, script: once("status 503")},
	{name: "reset at the start of the stream", least: 1, script: once("cut start reset")},
	{name: "reset in the text", least: 1, script: once("cut text 5 reset")},
	{name: "error event at the start", least: 1, script: once("error start overloaded_error \"Overloaded\"")},
	{name: "error event behind text", least: 1, script: once("error text 5 overloaded_error \"Overloaded\"")},
	{name: "clean end in the text", least: 1, script: once("cut text 5 end")},
	{name: "a missing stop event", least: 1, script: once("drop message_delta")},
	{name: "a broken event", least: 1, script: once("mangle cut content_block_delta")},
	{name: "a stall in the text", least: 1, script: once("stall text 5")},
	{name: "401 once, and a new key", least: 1, config: refreshing, script: once("status 401")},
	{name: "401 without a new key", reason: loop.APIError, script: once("status 401")},
	{name: "401, and the new key cannot be had", reason: loop.APIError, config: refusing, script: once("status 401")},
	{name: "403", reason: loop.APIError, script: once("status 403")},
	{name: "429 for a quota", reason: loop.APIError, script: once("status 429 rate_limit_error \"You have reached your usage limit for the month\"\n  header retry-after \"86400\"")},
	{name: "400 for money", reason: loop.APIError, script: once("status 400 invalid_request_error \"Your credit balance is too low to access the API.\"")},
}

// patient waits for the hints of a real second.
func patient(c *daruma.Config) { c.Retry.HintLimit = 10 * time.Second }

func withSecond(c *daruma.Config) { c.Models = []string{"claude-a", "claude-b"} }

func refreshing(c *daruma.Config) { c.Refresh = func(context.Context) error { return nil } }

func refusing(c *daruma.Config) {
	c.Refresh = func(context.Context) error { return errors.New("the helper has none") }
}
