//go:build !unix

package hook

import (
	"context"
	"time"
)

// process is one run of a command hook.
type process struct {
	path  string
	argv  []string
	dir   string
	env   []string
	set   map[string]string
	input []byte
	limit time.Duration
	grace time.Duration
}

// run refuses: without process groups nothing could be promised about the end.
// On a policy event the call is denied by this.
func (p *process) run(context.Context) raw {
	return raw{ending: notStarted, why: "command hooks need a Unix system, such as WSL"}
}
