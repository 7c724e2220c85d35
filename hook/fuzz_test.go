package hook

import (
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// FuzzOutput: whatever a hook prints, and however it ends, is judged without
// harm, and a yes is one in words.
func FuzzOutput(f *testing.F) {
	for i, e := range Events() {
		for _, word := range words {
			f.Add(uint8(i), uint8(0), 0, []byte(says(e, word)), []byte("error"))
			f.Add(uint8(i), uint8(0), 2, []byte(says(e, word)), []byte(""))
		}
	}
	f.Add(uint8(0), uint8(2), 0, []byte(says(PreToolUse, "json")), []byte(nil))
	f.Add(uint8(0), uint8(0), 0, []byte(`{"decision":"approve","continue":false,"hookSpecificOutput":null}`), []byte("\xff\x1b[2J"))
	f.Add(uint8(1), uint8(0), 2, []byte(`{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"a":[1]}}}}`), []byte("x"))
	f.Fuzz(func(t *testing.T, event, end uint8, code int, stdout, stderr []byte) {
		trait := traits[int(event)%len(traits)]
		r := raw{ending: ending(end % 5), code: code, stdout: stdout, stderr: stderr, http: end >= 128, cut: end&64 != 0}
		v := judge(trait, r)
		one := sh(trait.event, "x")
		e := (&Config{}).entry(&one)
		m := &merger{trait: trait, keep: (&Hooks{}).keep, hide: (&Hooks{}).hide}
		chars := m.add(&e, v)
		out := m.finish()
		agreed := out.Permission == Allow || out.Answer != nil && out.Answer.Allow
		var any map[string]any
		if agreed && (r.ending != exited || !r.http && code == 2 || r.cut || json.Unmarshal(stdout, &any) != nil) {
			t.Errorf("%+v was a yes", r)
		}
		if chars < 0 || chars > 4*mostText {
			t.Errorf("%d characters", chars)
		}
		for _, text := range append(append(out.Context, out.System...), out.Notices...) {
			if !utf8.ValidString(text.Text) || utf8.RuneCountInString(text.Text) > mostText {
				t.Errorf("%q", text.Text)
			}
		}
	})
}

// FuzzParse: whatever a settings file holds is read, or refused with its place.
func FuzzParse(f *testing.F) {
	f.Add([]byte(settings))
	f.Add([]byte(`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":1}]}]}}`))
	f.Add([]byte(`{"hooks":{"a/b~":0},"disableAllHooks":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "s.json")
		if err != nil {
			return
		}
		if _, err := New(c); err != nil {
			t.Errorf("what was read cannot run: %v", err)
		}
	})
}
