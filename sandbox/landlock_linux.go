package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	kernel "github.com/landlock-lsm/go-landlock/landlock/syscall"
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

// Ruleset makes the rules ready for a helper to put a command under: see
// keeper.Ruleset. This process is not changed by it. The version of the kernel is
// read first, so that nothing is left out in silence; see [Decide].
func (r *Rules) Ruleset() (*os.File, error) {
	abi := ABI()
	if abi < abiFiles {
		return nil, errors.New("make sandbox rules: the kernel cannot enforce them")
	}
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
		return nil, fmt.Errorf("make sandbox rules: %w", err)
	}
	return os.NewFile(uintptr(fd), "ruleset"), nil
}
