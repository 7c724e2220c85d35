package cli

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/loop"
)

// TestExitCodes holds that every end has its code: not 0 exactly for the ends
// that are errors, whatever failure stands behind them.
func TestExitCodes(t *testing.T) {
	known := map[int]bool{exitOK: true}
	for _, code := range []int{
		exitFailed, exitAuth, exitConfig, exitTurns, exitTools, exitBudget, exitContext, exitUnavailable, exitLater, exitInterrupted,
	} {
		known[code] = true
	}
	for _, reason := range loop.Reasons {
		causes := []*failure.Error{nil}
		for _, kind := range failure.Kinds {
			causes = append(causes, &failure.Error{Kind: kind})
		}
		for _, e := range causes {
			code := exitCode(reason, e)
			if (code != exitOK) != reason.IsError() {
				t.Errorf("%s, %v: code %d, is_error %v", reason, e, code, reason.IsError())
			}
			if !known[code] {
				t.Errorf("%s, %v: code %d is none of ours", reason, e, code)
			}
		}
	}
}

// TestExitCodesDocumented holds the table for people to the code: each reason,
// and each kind of failure that has a code of its own.
func TestExitCodesDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{} // name in the first column: the last column
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 2 {
			continue
		}
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1) {
			said[name[1]] = cells[len(cells)-1]
		}
	}
	for _, reason := range loop.Reasons {
		if reason == loop.APIError {
			continue // by its kind, below
		}
		holds(t, said, string(reason), exitCode(reason, nil))
	}
	for _, kind := range failure.Kinds {
		if code := exitCode(loop.APIError, &failure.Error{Kind: kind}); code != exitFailed {
			holds(t, said, string(kind), code)
		}
	}
}

func holds(t *testing.T, said map[string]string, name string, code int) {
	t.Helper()
	text, ok := said[name]
	if !ok {
		t.Errorf("%s has code %d and no line in the document", name, code)
		return
	}
	if number := regexp.MustCompile(`\d+`).FindString(text); number != strconv.Itoa(code) {
		t.Errorf("%s has code %d, the document says%s", name, code, text)
	}
}
