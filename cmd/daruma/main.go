// Command daruma is a coding agent that gets up again.
package main

import (
	"os"

	"github.com/daruma-agent/daruma/internal/cli"
	_ "github.com/daruma-agent/daruma/internal/helper" // a process that watches over a command ends there
)

func main() { os.Exit(cli.Main(cli.System())) }
