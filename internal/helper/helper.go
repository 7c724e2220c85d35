// Package helper (–) answers one question: was this process started to watch
// over a command of an agent? Then it does that, and nothing else of the program
// ever runs.
//
// It is imported for this alone. Packages are initialised in the order of their
// import paths as far as what they need is there
// (https://go.dev/ref/spec#Program_initialization), and this one needs little: most
// of the program is still untouched when the helper takes over, which makes it
// cheap to start.
package helper

import (
	"os"

	"github.com/daruma-agent/daruma/sandbox/keeper"
)

func init() {
	if code, ok := keeper.Main(os.Args, os.Environ()); ok {
		os.Exit(code)
	}
}
