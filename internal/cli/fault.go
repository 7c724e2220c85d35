package cli

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/daruma-agent/daruma/fault"
	"github.com/spf13/cobra"
)

func faultCommand(w *world) *cobra.Command {
	group := &cobra.Command{
		Use:   "fault",
		Short: "the model server that fails on purpose",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var file, listen string
	var scale float64
	var asJSON bool
	serve := &cobra.Command{
		Use:     "serve --script FILE",
		Short:   "play a fault script for any client, until Ctrl+C; then print the report",
		Example: "  daruma fault serve --script demo.fault\n  ANTHROPIC_BASE_URL=http://127.0.0.1:PORT daruma -p …",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return serveFaults(w, file, listen, scale, asJSON)
		},
	}
	serve.Flags().StringVar(&file, "script", "", "the script (see docs/fault-script.md)")
	serve.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on; port 0 takes a free one")
	serve.Flags().Float64Var(&scale, "scale", 0, "multiply all waits of the script by this")
	serve.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "read a script and say whether it is well formed",
		Args:  oneArg("the file of a script"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := readScript(args[0]); err != nil {
				return err
			}
			fmt.Fprintln(w.Stdout, args[0]+": ok")
			return nil
		},
	}
	group.AddCommand(serve, check)
	return group
}

func readScript(file string) (*fault.Script, error) {
	if file == "" {
		return nil, fail(exitUsage, "daruma fault serve --script FILE", "no script was named")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fail(exitInput, "name a file that can be read", "the script cannot be read: %v", err)
	}
	script, err := fault.Parse(file, string(text))
	if err != nil {
		return nil, fail(exitInput, "docs/fault-script.md has the grammar", "%v", err)
	}
	return script, nil
}

func serveFaults(w *world, file, listen string, scale float64, asJSON bool) error {
	script, err := readScript(file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fail(exitConfig, "choose another --listen address", "%v", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	running := fault.New(script, fault.Options{Scale: scale, Log: func(line string) { fmt.Fprintln(w.Stderr, line) }}).Serve(l)
	fmt.Fprintf(w.Stdout, "export ANTHROPIC_BASE_URL=%s ANTHROPIC_API_KEY=any\n", running.URL)
	fmt.Fprintln(w.Stderr, "playing "+file+"; Ctrl+C ends it and prints the report")
	<-signals
	report := running.Report()
	if err := running.Close(); err != nil {
		fmt.Fprintln(w.Stderr, "daruma:", err)
	}
	if asJSON {
		fmt.Fprintf(w.Stdout, "%s\n", report.JSON())
	} else {
		fmt.Fprint(w.Stdout, report.String())
	}
	if n := len(report.Violations); n > 0 {
		return fail(exitFailed, "the report names each one", "the client broke the protocol %d times", n)
	}
	return nil
}
