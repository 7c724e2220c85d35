//go:build !unix

package cli

// suspend does nothing: there are no jobs to stop.
func suspend() {}
