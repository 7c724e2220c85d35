// Command daruma is a coding agent that gets up again.
package main

import (
	"os"

	"github.com/daruma-agent/daruma/internal/cli"
)

func main() { os.Exit(cli.Main(cli.System())) }
