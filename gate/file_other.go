//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package gate

import "errors"

const supported = false

// file needs locks that end with their process, which this system lacks.
type file string

func (file) update(func([]byte) []byte) error { return errors.ErrUnsupported }
