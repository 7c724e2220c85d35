// Package fault (–): how does a client behave when its model server fails on purpose?
//
// A [Server] speaks the Anthropic Messages API and plays a [Script]: ordered faults laid over the
// answers of a scripted model. It judges every request by its own reading of the protocol, and its
// [Report] says what it saw and which planned faults landed. A fault that never landed proves nothing.
//
// Data flows one way: text is parsed to a script (lex.go, parse.go), a request and the script give a
// plan (choose.go, plan.go), and the plan is played to the client (play.go). The language is described
// in docs/fault-script.md.
//
// The package shares no code with any client. What it believes about the protocol is written here.
package fault
