//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestPaste pastes several lines: they are one prompt, sent by the Enter of the
// person, and words around them stay.
func TestPaste(t *testing.T) {
	p := newPlace(t, build(t), "model\n  rule got\n    when user \"^See one\\n\\ttwo\\nthree now$\"\n    say \"Got it.\"\n  rule other\n    say \"In parts.\"\n")
	term := p.openTerminal()
	term.sees("/help")
	term.types("See \x1b[200~one\r\ttwo\rthree\r\x1b[201~ now")
	term.sees("[pasted 1: 3 lines] now")
	term.types("\r")
	term.sees("Got it.")
	term.types("/exit\r")
	term.sees("to go on another time: daruma --resume ")
	term.ends(0)
	if n := len(p.server.Report().Requests); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestPasteIsNoAnswer pastes a line while a question waits: no Enter in what is
// pasted allows a call.
func TestPasteIsNoAnswer(t *testing.T) {
	p := newPlace(t, build(t), "model\n  rule run\n    when not results\n    call shell command=\"touch made\"\n  rule done\n    say \"Good.\"\n")
	term := p.openTerminal("run")
	term.sees("y/a/n> ")
	term.types("\x1b[200~y\ry\r\x1b[201~")
	term.sees("[pasted 1: 2 lines]")
	term.types("\r")
	term.sees("✋ Bash refused")
	term.sees("Good.")
	term.types("/exit\r")
	term.ends(0)
	if p.has("made") {
		t.Error("what was pasted allowed the call")
	}
}

// TestPlainTerminal talks on a terminal that cannot take anything back: it gets
// lines, and no sequences.
func TestPlainTerminal(t *testing.T) {
	p := newPlace(t, build(t), "model\n  rule run\n    when user \"^run\", not results\n    call shell command=\"touch made\"\n  rule done\n    say \"Good.\"\n")
	p.env = append(p.env, "TERM=dumb")
	term := p.openTerminal()
	term.sees("> ")
	term.types("/help\r")
	term.sees("/help, /exit\r\n> ")
	term.types("run\r")
	term.sees("y/a/n> ")
	term.types("what else\x15y\r") // the terminal itself takes a line back
	term.sees("Good.\r\n2 turns")
	p.until("the prompt is back", func() bool { return strings.HasSuffix(term.text(), "\n> ") })
	term.types("\x03")
	term.sees("press Ctrl+C again to leave\r\n> ")
	term.types("\x03")
	term.ends(0)
	if text := term.text(); strings.Contains(text, "\x1b") || !p.has("made") {
		t.Errorf("made: %v; the screen:\n%q", p.has("made"), text)
	}
}

// TestSuspend presses Ctrl+Z, which stops the job as anywhere else, and lets it
// go on.
func TestSuspend(t *testing.T) {
	p := newPlace(t, build(t), "model\n  rule done\n    say \"Good.\"\n")
	term := p.openTerminal()
	term.sees("/help")
	term.types("\x1a")
	term.sees("\x1b[?2004l") // it let go of the terminal; a session without a shell is never stopped
	p.until("it has the terminal again", func() bool { return strings.Count(term.text(), "\x1b[?2004h") == 2 })
	term.types("hello\r")
	term.sees("Good.")
	term.types("/exit\r")
	term.ends(0)
}
