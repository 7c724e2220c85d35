package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// nOfM counts; without an m time is the limit.
func nOfM(n, m int) string {
	if m <= 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, m)
}

func round(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(10 * time.Millisecond)
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// brief is the input of a call on one line: its most telling value.
func brief(input jsontext.Value) string {
	var fields map[string]any
	if json.Unmarshal(input, &fields) == nil {
		for _, name := range []string{"command", "file_path", "pattern", "url", "description"} {
			if s, ok := fields[name].(string); ok {
				return clip(s, 120)
			}
		}
	}
	return clip(string(input), 120)
}

// mostTodos bounds the lines of a list of what is to do.
const mostTodos = 30

// todos shows a list of what is to do, a line for each; empty if it is none.
func todos(name string, input jsontext.Value) string {
	var list struct {
		Todos []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"todos"`
	}
	if name != "TodoWrite" || json.Unmarshal(input, &list) != nil {
		return ""
	}
	out := ""
	for i, item := range list.Todos {
		if i == mostTodos {
			return out + fmt.Sprintf("\n  … %d more", len(list.Todos)-i)
		}
		mark := map[string]string{"completed": "✓", "in_progress": "▸"}[item.Status]
		out += fmt.Sprintf("\n  %s %s", cmp.Or(mark, "·"), clip(item.Content, 160))
	}
	return out
}

// marked shows the characters that turn the direction of a line, or take no room,
// as what they are: with them a command reads like another one.
func marked(s string) string {
	if !strings.ContainsFunc(s, hides) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if hides(c) {
			fmt.Fprintf(&b, "⟨%U⟩", c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

func hides(c rune) bool {
	return c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069 || c == 0x200b || c == 0x2060 || c == 0xfeff
}

func clip(s string, most int) string {
	s = strings.Join(strings.Fields(tool.Clean(s)), " ") // nothing that comes from a model may steer the screen
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
