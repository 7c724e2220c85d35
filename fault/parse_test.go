package fault

import (
	"errors"
	"strings"
	"testing"
)

func TestParseErrorsHavePlaces(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"windw 5", "s:1:1: unknown statement windw: expected scale"},
		{"window", "s:1:7: expected a number of tokens"},
		{"window many", "s:1:8: expected a number of tokens"},
		{"window 200k loud", `s:1:13: unknown "loud": expected one of too-long, sum, stop, cut`},
		{"window 5 cut now", `s:1:14: unexpected "now" after window: expected the end of the line`},
		{"seed 1\n  scale 2", "s:2:3: seed takes no indented lines"},
		{"   seed 1", "s:1:4: indented by 3 spaces: expected a multiple of two"},
		{"\tseed 1", "s:1:1: found a tab: indent by two spaces"},
		{"    seed 1", "s:1:5: indented too deep: expected at most 0 spaces"},
		{`"seed" 1`, "s:1:1: expected a statement"},
		{"step", "s:1:5: expected a name for the step"},
		{"step a", "s:1:7: step is empty: expected indented lines below it"},
		{"step a twice\n  status 529", `s:1:8: unknown "twice": expected one of once, times, always`},
		{"step a times 0\n  status 529", "s:1:1: times 0 would never happen"},
		{"step a\n  status 529\nstep a\n  status 529", "s:3:1: the name a is already used on line 1"},
		{"step a\n  status ok", "s:2:10: expected a status code"},
		{"step a\n  status 99", "s:2:3: status has to be from 200 to 599"},
		{"step a\n  status 529 overloaded_error", "s:2:30: expected the message of the error"},
		{"step a\n  explode", "s:2:3: unknown statement explode in a step: expected when, until, status"},
		{"step a\n  cut", "s:2:6: expected a position: start, event N"},
		{"step a\n  cut nowhere", "s:2:7: unknown position nowhere"},
		{"step a\n  cut text softly", `s:2:12: unknown "softly": expected one of end, close, reset`},
		{"step a\n  cut event", "s:2:12: expected a number after event"},
		{"step a\n  drop everything", `s:2:8: unknown "everything": expected one of message_start`},
		{"step a\n  delay headers soon", "s:2:17: expected a time: a time such as 250ms, 3s or 5m"},
		{"step a\n  stop because", `s:2:8: unknown stop reason "because"`},
		{"step a\n  usage tokens=5", "s:2:9: expected input=N"},
		{"step a\n  header \"bad name\" \"x\"", "s:2:3: expected the name of a header"},
		{"step a\n  header x \"a\\nb\"", "s:2:12: a header value has to be one line"},
		{"step a\n  when\n  status 529", "s:2:7: expected a condition"},
		{"step a\n  when weather \"fine\"\n  status 529", `s:2:8: unknown condition "weather": expected one of n, nth`},
		{"step a\n  when n 0\n  status 529", "s:2:10: expected a number or range"},
		{"step a\n  when n 2 stream\n  status 529", `s:2:12: unexpected "stream": expected a comma`},
		{"step a\n  when user \"(\"\n  status 529", "s:2:13: not a regular expression"},
		{"step a\n  when not nth 2\n  status 529", "s:2:12: nth counts what the other conditions let through"},
		{"step a\n  when after b\n  status 529", "s:2:14: no step is called b"},
		{"step a\n  status 400 x \"${file}\"", "s:2:16: nothing captures ${file}"},
		{"step a\n  send start \"never closed", "s:2:14: string is not closed on its line"},
		{"step a\n  sse <<END\n  data: x", "s:2:7: text opened by <<END never ends"},
		{"step a\n  reply\n    when first", "s:3:5: a reply has no conditions"},
		{"step a\n  reply\n    shout \"x\"", "s:3:5: unknown statement shout: expected when, say"},
		{"model", "s:1:6: model is empty"},
		{"model\n  say \"x\"", "s:2:3: unknown statement say in model: expected rule NAME"},
		{"model\n  rule a\n    say \"x\"\n  rule a\n    say \"y\"", "s:4:3: the name a is already used by a rule"},
		{"model\n  rule a\n    say 5", "s:3:9: expected the text: a quoted string"},
		{"model\n  rule a\n    say \"x\" fill=much", "s:3:13: expected fill=TOKENS"},
		{"model\n  rule a\n    call shell command=ls", "s:3:16: the value of command is no JSON number"},
		{"model\n  rule a\n    call shell command=", "s:3:24: expected a value after command="},
		{"model\n  rule a\n    call shell \"ls\"", "s:3:16: expected an argument"},
		{"model\n  rule a\n    block \"{}\"", "s:3:11: expected a JSON object with a type"},
		{"for\n  window 5", "s:1:4: expected a name or glob"},
		{"for \"[\"\n  window 5", "s:1:5: expected a name or glob"},
		{"for \"a\"\n  scale 5", "s:2:3: unknown limit scale"},
		{"judge nicely", `s:1:7: unknown "nicely": expected one of refuse, record, ignore`},
		{"judge record spelling", `s:1:14: unknown "spelling"`},
	} {
		_, err := Parse("s", tt.text)
		var se *ScriptError
		if !errors.As(err, &se) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q:\n got %v\nwant %s…", tt.text, err, tt.want)
		}
	}
}

func TestTextInScripts(t *testing.T) {
	_, c := serve(t, "model\n  rule a\n    say <<END # the margin goes\n      one\n        two ${n} $${three}\n\n      four\n      END\n    say `raw \\n` # comment\n")
	g := c.ask(ask(user("x")))
	if want := "one\n  two 1 ${three}\n\nfourraw \\n"; g.text != want {
		t.Errorf("got %q, want %q", g.text, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"seed 7\nwindow 200k sum\nstep a times 2\n  when n 1..3, not stream\n  status 529\n",
		"step a\n  until body < 1MB\n  cut tool 2 close\n  error text x \"y\" go-on\n  pings start 3s every 1s\n",
		"model\n  rule a once\n    when result-of shell, result \"(?P<x>a+)\"\n    call edit file_path=\"${x}\" n=1\n    say <<E fill=3\n    x\n    E\n",
		"for \"*\"\n  output 5\n", "step\nstep\n", "a,=\"", "<<", "x=<<A\nA", "\u00a0#", ",",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("fuzz", text)
		if (s == nil) == (err == nil) {
			t.Errorf("script %v and error %v", s, err)
		}
		var se *ScriptError
		if err != nil && (!errors.As(err, &se) || se.Line < 1 || se.Col < 1 || se.Msg == "") {
			t.Errorf("error without a place: %v", err)
		}
	})
}
