package tool

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"strings"
)

// SafeError is an error whose Safe text holds nothing of the user's and may be
// logged.
type SafeError struct {
	Safe string // at most 200 characters are used
	Err  error
}

func (e *SafeError) Error() string {
	if e.Err == nil {
		return e.Safe
	}
	return e.Err.Error()
}

// Unwrap returns the error itself.
func (e *SafeError) Unwrap() error { return e.Err }

// Classify names err for logs and never uses its message, which may hold what
// belongs to the user. The order is that of R74: declared text, file-system
// code, class name, fixed word.
func Classify(err error) string {
	if err == nil {
		return ""
	}
	var safe *SafeError
	if errors.As(err, &safe) && safe.Safe != "" {
		return Middle(Clean(safe.Safe), 200, 0, "")
	}
	switch {
	case errors.Is(err, context.Canceled):
		return ClassAborted
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	}
	if code := errnoName(err); code != "" {
		return code
	}
	switch { // errors of packages that know no errno, such as os.Root
	case errors.Is(err, fs.ErrNotExist):
		return "ENOENT"
	case errors.Is(err, fs.ErrExist):
		return "EEXIST"
	case errors.Is(err, fs.ErrPermission):
		return "EACCES"
	}
	return className(err)
}

// className finds the outermost type in the chain that says something: the
// types that only carry text or other errors do not.
func className(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		t := reflect.TypeOf(err)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Name() {
		case "errorString", "wrapError", "wrapErrors", "joinError", "fundamental", "PathError", "Error":
			continue
		}
		if name := t.Name(); len(name) > 3 {
			return name[:min(len(name), 60)]
		}
	}
	return ClassUnknown
}

// Nearest returns the one of names that is most like name, or "" if none is
// like it. Case and separators do not count.
func Nearest(name string, names []string) string {
	best, score := "", 0
	for _, n := range names {
		a, b := fold(name), fold(n)
		d := distance(a, b)
		if limit := max(1, min(len(a), len(b))/3); d > limit {
			if len(a) < 3 || len(b) < 3 || !strings.Contains(a, b) && !strings.Contains(b, a) {
				continue
			}
			d = max(d, limit+1) // one inside the other: better than nothing
		}
		if best == "" || d < score {
			best, score = n, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance counts the edits of one byte, or swaps of two neighbours, from a to b.
func distance(a, b string) int {
	if len(a) > 200 || len(b) > 200 {
		return max(len(a), len(b)) // nobody mistypes names of that length
	}
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
