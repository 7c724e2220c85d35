package sandbox

import (
	"fmt"
	"os"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	kernel "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ABI is the version of Landlock that the kernel has; 0 if there is none.
func ABI() int {
	v, err := kernel.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

const (
	// onFiles are the rights to change a file, and onFolders those to change what
	// is in a folder. To make device files is in neither: a privileged command
	// could write past the file system with one.
	onFiles   = kernel.AccessFSWriteFile | kernel.AccessFSTruncate
	onFolders = kernel.AccessFSRemoveDir | kernel.AccessFSRemoveFile | kernel.AccessFSMakeDir | kernel.AccessFSMakeReg |
		kernel.AccessFSMakeSock | kernel.AccessFSMakeFifo | kernel.AccessFSMakeSym | kernel.AccessFSRefer
	never = kernel.AccessFSMakeChar | kernel.AccessFSMakeBlock
)

// restrict makes the rules hold for the calling thread and for what it starts.
// The version was read before, so that nothing is left out in silence.
func (r *Rules) restrict(abi int) error {
	handled := landlock.AccessFSSet(onFiles | onFolders | never)
	if abi < abiTrunc {
		handled &^= kernel.AccessFSTruncate
	}
	var network landlock.AccessNetSet
	if r.NoNetwork && abi >= abiTCP {
		network = kernel.AccessNetBindTCP | kernel.AccessNetConnectTCP
	}
	if r.NoNetwork && abi >= abiUDP {
		network |= kernel.AccessNetBindUDP | kernel.AccessNetConnectSendUDP
	}
	var rules []landlock.Rule
	for _, path := range r.Write {
		info, err := os.Stat(path)
		if err != nil {
			continue // it is not there, or cannot be reached
		}
		rights := handled & onFiles
		if info.IsDir() {
			rights = handled &^ never
		}
		rules = append(rules, landlock.PathAccess(rights, path).IgnoreIfMissing())
	}
	fd, _, err := landlock.Config{HandledAccessFS: handled, HandledAccessNet: network}.NewRulesetFD(rules...)
	if err != nil {
		return fmt.Errorf("make sandbox rules: %w", err)
	}
	defer syscall.Close(fd)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := kernel.LandlockRestrictSelf(fd, 0); err != nil {
		return fmt.Errorf("enter sandbox: %w", err)
	}
	return nil
}
