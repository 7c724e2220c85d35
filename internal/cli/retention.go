package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/session"
)

// keepVariable is the environment's word for --keep-sessions.
const keepVariable = "DARUMA_KEEP_SESSIONS"

// mostForgotten bounds how many sessions one start deletes: it should not take
// long.
const mostForgotten = 100

// parseAge reads a duration that may be in days.
func parseAge(text string) (time.Duration, error) {
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		age = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || age < 0 || age > 100*365*24*time.Hour {
		return 0, fmt.Errorf("%q: an age such as 30d or 12h is needed", text)
	}
	return age, nil
}

// keepFor is how long the person wants to keep sessions that nobody uses; 0
// means for ever, as without a word of theirs: they are the person's work.
func keepFor(w *world, o *options) (time.Duration, error) {
	text := cmp.Or(o.wanted.keep, w.env(keepVariable))
	if text == "" {
		return 0, nil
	}
	age, err := parseAge(text)
	if err == nil && age < time.Hour {
		err = fmt.Errorf("%q: at least an hour is needed", text) // 0 would be a way to lose everything
	}
	if err != nil {
		return 0, fail(exitConfig, "say it as 30d or 12h, or leave it away: then all are kept", "--keep-sessions or %s: %v", keepVariable, err)
	}
	return age, nil
}

// forget deletes the sessions of all folders that nobody used for so long.
func (s *setup) forget(store session.Store, age time.Duration) {
	if age == 0 {
		return
	}
	old := store.Old(age, time.Now())
	gone, stay := 0, len(old)-mostForgotten
	for _, one := range old[:min(len(old), mostForgotten)] {
		if session.Remove(one.Path) == nil {
			gone++
		}
	}
	if gone == 0 {
		return
	}
	note := fmt.Sprintf("%s that nobody used for %s deleted (--keep-sessions)", count(gone, "session"), days(age))
	if stay > 0 {
		note += fmt.Sprintf("; %d more follow next time", stay)
	}
	s.notes = append(s.notes, note)
}

func days(age time.Duration) string {
	if day := 24 * time.Hour; age%day == 0 {
		return count(int(age/day), "day")
	}
	return age.String()
}
