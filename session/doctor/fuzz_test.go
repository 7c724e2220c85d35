package doctor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/message"
)

// mustEndWell holds what is promised for every file whatever: no panic, and a
// sound file or a finding that says why not. Healing twice changes nothing.
func mustEndWell(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := parse(path, data)
	if err != nil {
		return
	}
	r := f.Report()
	_ = r.String()
	_ = f.Diff()
	out := healed(t, f)
	again, err := parse(path, out)
	if err != nil || again.Format != f.Format {
		if len(f.Healed().Messages) > 0 {
			t.Errorf("the healed file is none: %v\n%s", err, r)
		}
		return // of what was left of it, nothing was a record
	}
	second := again.Report()
	if !r.Healable {
		if r.Sound {
			t.Errorf("sound, and cannot be healed:\n%s", r)
		}
		return
	}
	if breaks := rulesOf(second, Breaks); len(breaks) > 0 {
		t.Errorf("the healed file breaks: %v\n%s\n%s\n%s", breaks, r, f.Diff(), second)
	}
	c := again.Conversation()
	if problems := message.Check(c.Messages, again.Rules()); len(problems) > 0 && len(c.Messages) > 0 {
		t.Errorf("%v\n%s\n%s", problems, r, f.Diff())
	}
	if !bytes.Equal(out, healed(t, again)) {
		t.Errorf("healing twice gives another file:\n%s\n%s", r, again.Diff())
	}
}

// mutate changes lines at random: as a crash does, as an editor does, as a
// merge of two files does.
func mutate(r *rand.Rand, lines []string) []string {
	out := append([]string(nil), lines...)
	for range 1 + r.IntN(6) {
		i, j := r.IntN(len(out)), r.IntN(len(out))
		switch r.IntN(11) {
		case 0:
			out = append(out[:i], out[i+1:]...)
		case 1:
			out = append(out[:i:i], append([]string{out[j]}, out[i:]...)...)
		case 2:
			out[i], out[j] = out[j], out[i]
		case 3:
			out[i] = out[i][:r.IntN(len(out[i])+1)]
		case 4:
			out[i] += out[j]
		case 5: // one value of another line
			out[i] = graft(r, out[i], out[j])
		case 6:
			if n := len(out[i]); n > 0 {
				k := r.IntN(n)
				out[i] = out[i][:k] + string([]byte{byte(r.IntN(256))}) + out[i][k+1:]
			}
		case 7:
			out[i] = strings.Replace(out[i], `"text":"`, `"text":"`+string([]byte{byte(r.IntN(256)), byte(r.IntN(256))}), 1)
		case 8:
			out = append(out[:i], out[min(len(out), i+r.IntN(8)):]...)
		case 9:
			out[i] = strings.Replace(out[i], `"role":"assistant"`, `"role":"user"`, 1)
		case 10:
			out[i] = strings.NewReplacer("toolu_01", "toolu_0", "call_", "c a").Replace(out[i])
		}
		if len(out) == 0 {
			return []string{lines[0]}
		}
	}
	return out
}

var values = []string{`null`, `""`, `" "`, `[]`, `{}`, `0`, `"x"`, `[null]`, `[{}]`, `{"type":"text"}`, `true`, `[{"type":"tool_use"}]`, `[{"type":"tool_result"}]`, `"toolu_1"`}

var fields = []string{
	"uuid", "parentUuid", "message", "content", "role", "id", "parentId", "type", "payload", "call_id", "arguments", "output", "input",
	"tool_use_id", "name", "text", "thinking", "signature", "body", "block", "calls", "blocks", "order", "new", "toolCallId", "isSidechain",
	"isApiErrorMessage", "summary", "firstKeptEntryId", "replacement_history", "encrypted_content", "model", "stopReason", "session_meta",
}

// graft puts a value of one line, or a made one, into another.
func graft(r *rand.Rand, line, from string) string {
	name := fields[r.IntN(len(fields))]
	i := strings.Index(line, `"`+name+`":`)
	if i < 0 {
		return line
	}
	end := i + len(name) + 3
	head, _, ok := cutJSON(line[end:])
	if !ok {
		return line
	}
	value := values[r.IntN(len(values))]
	if k := strings.Index(from, `"`+name+`":`); k >= 0 && r.IntN(2) == 0 {
		if v, _, ok := cutJSON(from[k+len(name)+3:]); ok {
			value = v
		}
	}
	return line[:end] + value + line[end+len(head):]
}

func cutJSON(text string) (value, rest string, ok bool) {
	v, ok := locate([]byte("["+text), "/0")
	if !ok {
		return "", "", false
	}
	return text[v.start-1 : v.end-1], text[v.end-1:], true
}

// resealed gives the lines of a journal right checksums, so that what is
// broken is what they say.
func resealed(lines []string) []string {
	for i, l := range lines {
		if isObject([]byte(l)) {
			lines[i] = string((&journal{}).seal([]byte(l)))
		}
	}
	return lines
}

func TestMutations(t *testing.T) {
	runs := 100
	if testing.Short() {
		runs = 25
	}
	for _, format := range all {
		for _, name := range []string{"everyday", "compacted", "switched_image", "killed"} {
			lines := linesOf(t, format, name)
			if format == Daruma && name == "compacted" {
				lines = shrunkJournal(t)
			}
			for seed := range runs {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				out := mutate(r, lines)
				if format == Daruma && seed%4 > 0 {
					out = resealed(out)
				}
				data := []byte(strings.Join(out, "\n") + "\n")
				t.Run(fmt.Sprintf("%s/%s/%d", format, name, seed), func(t *testing.T) { mustEndWell(t, "broken.jsonl", data) })
			}
		}
	}
}

func FuzzHeal(f *testing.F) {
	for _, format := range all {
		lines := everyday(f, format)
		f.Add([]byte(strings.Join(lines[:min(len(lines), 20)], "\n")))
		f.Add([]byte(strings.Join(lines[len(lines)-3:], "\n")))
	}
	f.Add([]byte(`{"parentUuid":null,"type":"user","uuid":"a","message":{"role":"user","content":"hi"}}`))
	f.Fuzz(func(t *testing.T, data []byte) { mustEndWell(t, "rollout-x.jsonl", data) })
}
