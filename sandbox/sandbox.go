// Package sandbox (layer 4) answers one question: what may a command touch?
//
// The kernel of Linux holds it, by Landlock
// (https://docs.kernel.org/userspace-api/landlock.html), which needs no privileges,
// which a process cannot undo, and which its children inherit. It is for the helper
// process of a command (package keeper) to enter: the agent stays free. What it
// does:
//
//   - A command may write only below the paths of [Rules.Write]. Everything may
//     be read and run. Mode, owner, times and attributes of a file can be changed
//     wherever its owner may: the kernel has no right for these.
//   - With [Rules.NoNetwork] it can neither bind nor connect a TCP socket; UDP is
//     covered from ABI 10 on. Unix sockets are not covered.
//   - It cannot trace what is outside of the sandbox, so that it cannot read the
//     memory of the agent, nor, unless it runs as root, its environment. It gets
//     no new privileges, so sudo and other set-user-ID programs do not work, and
//     it cannot mount. It can send signals to the user's other processes.
//
// Landlock can only allow: a folder inside of an allowed one, such as .git/hooks
// in the workspace, cannot be taken out. What must never be written to has to lie
// elsewhere; [Rules.Covers] tells whether it does.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Rules say what a command may touch.
type Rules struct {
	// Write are absolute paths of folders, below which everything may be
	// changed, and of single files. What does not exist when a command starts is
	// left out.
	Write     []string
	NoNetwork bool
}

// Covers reports whether path, absolute and free of links, lies below what may
// be written to.
func (r *Rules) Covers(path string) bool {
	for _, w := range r.Write {
		if real, err := filepath.EvalSymlinks(w); err == nil {
			w = real
		}
		if rel, err := filepath.Rel(w, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// Mode says what is to happen where the kernel cannot enforce rules.
type Mode string

// The modes.
const (
	Auto     Mode = "auto"     // then commands run without, and the level says so
	Required Mode = "required" // then nothing runs
	Off      Mode = "off"      // rules are not wanted
)

// ParseMode reads a mode; empty is [Auto].
func ParseMode(text string) (Mode, error) {
	switch m := Mode(text); m {
	case "":
		return Auto, nil
	case Auto, Required, Off:
		return m, nil
	}
	return "", fmt.Errorf("unknown sandbox mode %q: %s, %s and %s are possible", text, Auto, Required, Off)
}

// What the kernel must have. ABI 1 cannot allow that a file is moved from one
// folder to another, which breaks too many programs.
const (
	abiFiles = 2
	abiTrunc = 3
	abiTCP   = 4
	abiUDP   = 10
)

// Decide says whether rules are enforced by a kernel with this Landlock ABI (see
// [ABI]; 0: none), and what then holds, for people and for the journal: a level
// that begins with "landlock", "none" or "off". It is an error if mode requires
// what the kernel cannot do.
func Decide(mode Mode, noNetwork bool, abi int) (enforced bool, level string, err error) {
	missing := ""
	switch {
	case mode == Off:
		return false, "off", nil
	case abi == 0:
		missing = "the kernel has no Landlock, or it is switched off"
	case abi < abiFiles:
		missing = fmt.Sprintf("the kernel has Landlock abi %d, and %d is needed", abi, abiFiles)
	case noNetwork && abi < abiTCP && mode == Required:
		missing = fmt.Sprintf("the kernel has Landlock abi %d, and %d is needed to deny the network", abi, abiTCP)
	}
	if missing != "" && mode == Required {
		return false, "", errors.New("a sandbox is required: " + missing)
	}
	if missing != "" {
		return false, "none: " + missing, nil
	}
	level = fmt.Sprintf("landlock abi %d: writes only to the workspace, added folders, temp folders and caches", abi)
	switch {
	case !noNetwork:
	case abi < abiTCP:
		level += fmt.Sprintf("; the network is not restricted, which needs abi %d", abiTCP)
	case abi < abiUDP:
		level += "; no TCP (UDP is not covered)"
	default:
		level += "; no TCP and UDP"
	}
	return true, level, nil
}

// Hint is a line for the model about a command whose output looks as if the
// rules had refused something; empty if it does not.
func (r *Rules) Hint(output string) string {
	refused := func(texts ...string) bool {
		for _, t := range texts {
			if strings.Contains(output, t) {
				return true
			}
		}
		return false
	}
	var parts []string
	if refused("ermission denied", "EACCES", "ead-only file system", "Invalid cross-device link") {
		parts = append(parts, "commands may write only below "+strings.Join(r.shown(), ", ")+
			". Work there; if it must be elsewhere, tell the user which folder has to be allowed")
	}
	if r.NoNetwork && refused("ermission denied", "EACCES", "onnect to server", "ailed to connect", "onnection failed", "unreachable") {
		parts = append(parts, "commands may not use the network")
	}
	if len(parts) == 0 {
		return ""
	}
	return "(if this was refused: there is a sandbox, and " + strings.Join(parts, "; ") + ")"
}

// maxShown is how many paths a hint names: the workspace comes first.
const maxShown = 4

func (r *Rules) shown() []string {
	if len(r.Write) <= maxShown {
		return r.Write
	}
	return append(r.Write[:maxShown:maxShown], "caches of build tools and the usual devices")
}
