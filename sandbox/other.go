//go:build !linux

package sandbox

// ABI is 0: only Linux has Landlock.
func ABI() int { return 0 }

// Main does nothing: there is no helper on this system.
func Main(args, env []string) (code int, helper bool) { return 0, false }
