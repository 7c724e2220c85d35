//go:build !linux

package sandbox

import (
	"errors"
	"os"
)

// ABI is 0: only Linux has Landlock.
func ABI() int { return 0 }

// Ruleset fails: there is nothing to enforce rules with.
func (r *Rules) Ruleset() (*os.File, error) { return nil, errors.New("only Linux has Landlock") }
