package hook

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// ending is how a hook ended.
type ending int

const (
	exited     ending = iota // with a code, or an answer of a service
	notStarted               // it could not be run, or the service not be reached
	killed                   // by a signal that was not ours
	timedOut
	cancelled // the run ended
)

// raw is what came of one hook, before anybody judges it.
type raw struct {
	ending ending
	code   int    // the exit code; of a service the status
	http   bool   // it was a service
	why    string // notStarted, killed: the error or the signal
	stdout []byte // of a service the body
	stderr []byte
	cut    bool // stdout is longer
	torn   bool // stdout could not be read to its end
	limit  time.Duration
	took   time.Duration
}

// verdict is what one hook says.
type verdict struct {
	failed  string // it failed, and could not decide: why, as the rest of a sentence
	refusal bool   // … because the run ended: even an open door stays shut
	blocked bool   // exit code 2
	message string // of the block: the reason of its JSON, else its stderr
	notice  string // exit code other than 0 and 2, without JSON
	reply   reply
	plain   string // output that is not JSON
}

// Codes with which a shell says that a program was not found or cannot be run,
// and the first one that stands for a signal.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
	codeSignal        = 128
	lastSignal        = 64
)

// judge reads what came of one hook. It never makes a yes of a failure.
func judge(t trait, r raw) verdict {
	if why := r.failure(); why != "" {
		return verdict{failed: why, refusal: r.ending == cancelled}
	}
	var v verdict
	var unreadable error
	out := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(r.stdout), []byte("\uFEFF")))
	isJSON := bytes.HasPrefix(out, []byte("{"))
	switch {
	case isJSON && r.cut:
		unreadable = fmt.Errorf("it is longer than %d bytes", mostOutput)
	case isJSON:
		v.reply, unreadable = parseReply(t, out)
	case r.http && len(out) > 0:
		unreadable = fmt.Errorf("it begins with %q", clip(string(out), 20))
	case !t.plain && decides(out):
		unreadable = fmt.Errorf("something stands before it") // a warning of a shell must not hide a no
	case r.code == 0 || r.http:
		v.plain = strings.TrimSpace(text(out))
	}
	switch {
	case !r.http && r.code == 2 && (t.exit2 != ignored || unreadable == nil):
		v.block(t, r)
	case unreadable != nil:
		return verdict{failed: "printed JSON that cannot be read: " + unreadable.Error()}
	case isJSON && !(t.policy && missing(r)), r.http, r.code == 0:
	case missing(r) && t.policy:
		return verdict{failed: fmt.Sprintf("ended with exit code %d: a program of it was not found or cannot be run%s", r.code, quoted(r.stderr))}
	default:
		v.notice = fmt.Sprintf("exit code %d%s", r.code, quoted(r.stderr))
	}
	return v
}

// decides reports whether text that is not JSON as a whole has in it what a hook
// decides with.
func decides(out []byte) bool {
	for _, field := range []string{`"hookSpecificOutput"`, `"decision"`, `"continue"`} {
		if bytes.Contains(out, []byte(field)) {
			return true
		}
	}
	return false
}

// missing reports whether the exit code says that a program was not found.
func missing(r raw) bool {
	return !r.http && (r.code == codeNotExecutable || r.code == codeNotFound)
}

// failure says why a hook decided nothing, as the rest of a sentence; empty: it
// came to its end.
func (r raw) failure() string {
	switch {
	case r.ending == timedOut:
		return fmt.Sprintf("did not end within %s and was stopped", r.limit)
	case r.ending == cancelled:
		return "was stopped because the run ended"
	case r.ending == notStarted && r.http:
		return "could not be asked: " + r.why
	case r.ending == notStarted:
		return "could not be started: " + r.why
	case r.torn && r.code != 2: // which says it all
		return "ended, but its output could not be read to the end: something that it started holds it open"
	case r.ending == killed:
		return "was ended by the signal " + r.why
	case r.http && (r.code < 200 || r.code > 299):
		return fmt.Sprintf("answered with the status %d", r.code)
	case !r.http && r.code > codeSignal && r.code <= codeSignal+lastSignal:
		return fmt.Sprintf("ended with exit code %d: a program of it was ended by signal %d", r.code, r.code-codeSignal)
	}
	return ""
}

// block is exit code 2. Its JSON may word it, and nothing in it can undo it.
func (v *verdict) block(t trait, r raw) {
	v.blocked, v.plain = true, ""
	if v.reply.permission != Deny {
		v.reply.permissionWhy = "" // it words a yes
	}
	v.message = v.reply.reason()
	if v.message == "" {
		v.message = strings.TrimSpace(text(r.stderr))
	}
	v.reply.permission, v.reply.input = "", nil
	if a := v.reply.answer; a != nil && a.Allow {
		v.reply.answer = nil
	}
	if t.exit2 == ignored {
		v.message = ""
	}
}

// quoted is the first line of an error output, for a notice.
func quoted(stderr []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text(stderr)), "\n")
	if line == "" {
		return ""
	}
	return ": " + clip(line, 200)
}

// text is output as text: valid, without what moves a cursor.
func text(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), "\uFFFD"))
}

// clip cuts s to at most n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
