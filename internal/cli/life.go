package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool/builtin"
)

// A process that was killed leaves others behind: commands, also those in the
// background and of sub-agents, hooks, servers. Whatever they still did would
// land in the middle of the work of who goes on.

// endGrace is how long they have between the signal that asks and the one that
// does not.
const endGrace = 2 * time.Second

// marked is env with the mark of this process, behind those of the ones that
// started it: by it, who goes on with the session finds what is left.
func (s *setup) marked(w *world, env []string) []string {
	mark := s.config.Life
	if outer := w.env(builtin.LifeVariable); outer != "" {
		mark = outer + ":" + mark
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, builtin.LifeVariable+"=") })
	return append(env, builtin.LifeVariable+"="+mark)
}

// endEarlierLife ends what the process left behind that worked on the session
// of h before, unless it closed the session.
func (s *setup) endEarlierLife(h *session.History, closed bool) {
	_, calls := h.Open()
	for _, c := range calls {
		in := h.Intents[c.ID]
		if _, done := h.Results[c.ID]; done || in == nil || in.Group == 0 {
			continue
		}
		found, stuck := builtin.EndLeft(in.Group, in.Started, endGrace)
		if found > 0 {
			s.ended = append(s.ended, fmt.Sprintf("a %s command of the last time was still running and was ended", in.Name))
		}
		s.stuck(stuck)
	}
	if h.Start == nil || closed && !h.Running {
		return
	}
	found, stuck := builtin.EndMarked(h.Start.Life, endGrace)
	switch {
	case found == 1:
		s.ended = append(s.ended, "a process of the last time was still running and was ended")
	case found > 1:
		s.ended = append(s.ended, fmt.Sprintf("%d processes of the last time were still running and were ended", found))
	}
	s.stuck(stuck)
}

func (s *setup) stuck(pids []int) {
	if len(pids) > 0 {
		s.ended = append(s.ended, fmt.Sprintf("processes %v of the last time could not be ended and may still change files", pids))
	}
}
