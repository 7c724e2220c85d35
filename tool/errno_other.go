//go:build !unix

package tool

// errnoName knows no names here: the errors of io/fs are named in their place.
func errnoName(error) string { return "" }
