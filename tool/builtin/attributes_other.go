//go:build !linux

package builtin

import "os"

// keepAttributes does nothing: other systems have their own ways for this.
func (p place) keepAttributes(*os.File) {}
