package builtin

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// keepAttributes gives f the extended attributes of the file that it will
// replace, as far as this user may: with them go access lists, without which
// others could not get at the file any more. What is of the kernel's own security
// is left out: it judges by the content that was there.
func (p place) keepAttributes(f *os.File) {
	old, _, err := p.open()
	if err != nil {
		return
	}
	defer old.Close()
	const most = 64 << 10 // of all names, and of a value, by the kernel
	names := make([]byte, most)
	n, err := unix.Flistxattr(int(old.Fd()), names)
	if err != nil {
		return
	}
	value := make([]byte, most)
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") && name != "system.posix_acl_access" {
			continue
		}
		if n, err := unix.Fgetxattr(int(old.Fd()), name, value); err == nil {
			_ = unix.Fsetxattr(int(f.Fd()), name, value[:n], 0)
		}
	}
}
