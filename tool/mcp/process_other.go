//go:build !unix

package mcp

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// process cannot be: without process groups nothing could be promised about
// the end of a server.
type process struct {
	stdin, stdout *os.File
	exited        chan struct{}
}

var errNoUnix = errors.New("servers that are programs need a Unix system, such as WSL")

func start([]string, string, []string, io.Writer) (*process, error) { return nil, errNoUnix }

func (p *process) end(time.Duration) {}

func (p *process) fate() string { return "" }

func ask(context.Context, string, string, []string, int) ([]byte, error) { return nil, errNoUnix }
