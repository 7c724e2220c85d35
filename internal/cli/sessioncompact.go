package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/session"
	"github.com/spf13/cobra"
)

// sessionCompact shortens a saved session now. It asks the model once.
func sessionCompact(w *world) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "compact ID [INSTRUCTION…]",
		Short:   "summarise the conversation of a session now; the instruction says what must not be lost",
		Example: `  daruma session compact 3f2a "keep the exact error messages"`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.print, o.output, o.retries, o.resume = true, "text", -1, args[0]
			s, err := prepare(w, &o)
			if err != nil {
				return err
			}
			defer s.close()
			return compactNow(w, s, strings.Join(args[1:], " "))
		},
	}
	cmd.Flags().StringVar(&o.model, "model", "", "model to ask")
	return cmd
}

func compactNow(w *world, s *setup, instruction string) error {
	agent, err := daruma.New(s.config)
	if err != nil {
		return fail(exitConfig, "please report this: it is a defect of daruma", "%v", err)
	}
	show := w.progress(s)
	sig := onSignals(agent, show.line, nil)
	defer sig.stop()
	var done *session.Compaction
	stop := beats(show.tick)
	result, err := daruma.Collect(tee(agent.Compact(context.Background(), instruction), func(e session.Event) {
		show.event(e)
		if c, ok := e.Body.(*session.Compaction); ok {
			done = c
		}
	}))
	stop()
	show.done()
	switch {
	case err != nil:
		return s.unwritable(w, err)
	case sig.code() != 0:
		return fail(sig.code(), "the conversation is as it was", "interrupted")
	case !result.IsError && done == nil:
		return nil // a notice has said why
	case result.IsError:
		return fail(exitContext, "the conversation is as it was; daruma why tells more", "the session could not be made smaller: %s", lastNotice(result))
	}
	fmt.Fprintf(w.Stdout, "%s: about %s tokens before, %s now\n", s.session, thousands(done.Before), thousands(done.After))
	return nil
}

func lastNotice(r *daruma.Result) string {
	if n := len(r.Notices); n > 0 {
		return r.Notices[n-1]
	}
	return lastWords(r)
}
