//go:build !linux

package keeper

// Main does nothing: there is no helper on this system.
func Main(args, env []string) (code int, helper bool) { return 0, false }
