//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// suspend stops this job, as Ctrl+Z does where no program reads the keys itself,
// and returns when it goes on.
func suspend() {
	on := make(chan os.Signal, 1)
	signal.Notify(on, syscall.SIGCONT)
	defer signal.Stop(on)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-on:
	case <-time.After(time.Second): // nobody is there who could let it go on, so it was not stopped
	}
}
