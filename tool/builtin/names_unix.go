//go:build unix

package builtin

import (
	"io/fs"
	"syscall"
)

// nameCount is how many names a file has by hard links.
func nameCount(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Nlink)
	}
	return 1
}
