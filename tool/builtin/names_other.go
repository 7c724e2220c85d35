//go:build !unix

package builtin

import "io/fs"

// nameCount is 1: other systems do not say in what they report of a file.
func nameCount(fs.FileInfo) int { return 1 }
