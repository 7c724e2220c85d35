package builtin

import "time"

// command is one run of a program with all that it starts.
//
// When run returns, nothing of it is alive, except what hangs in the kernel,
// which is reported, and what took care to hide: a process that left its
// session, emptied its environment and outlived its parents, or belongs to
// another user. Outside of Linux only the process group is found, so there a
// process that leaves the group goes on. If this program itself is killed the
// command goes on; the group given to started is what a successor can end.
type command struct {
	argv     []string
	dir      string
	env      []string
	timeout  time.Duration
	grace    time.Duration
	started  func(pgid int, start time.Time) error
	progress func(text string)
	out      *capture
}

// ending is how a command ended.
type ending struct {
	code      int    // as a shell says it: 128 and the number for a signal
	signal    string // that ended it, if one did
	timedOut  bool
	cancelled bool
	left      int   // processes that it left running and that were ended
	stuck     []int // processes that could not be ended
	err       error // it was not run at all
}
