package cli

import (
	"github.com/daruma-agent/daruma"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/builtin"
)

// agents lets the model hand tasks over. Each sub-agent remembers for itself
// which files it has read, and has a journal beside that of the session.
func (s *setup) agents(w *world, o *options) error {
	s.config.SubAgents = &daruma.SubAgents{Open: func(id string, again bool) (daruma.Workplace, error) {
		ws, set, err := s.hands()
		if err != nil {
			return daruma.Workplace{}, err
		}
		place := daruma.Workplace{Tools: set, Ended: ws.Ended, Carry: func(budget int) []string { return carried(ws, w.Dir, budget) }}
		place.Close = func() {
			if place.Journal != nil {
				place.Journal.Close()
			}
			ws.Close()
		}
		if o.noJournal {
			return place, nil
		}
		store := w.store()
		if again {
			place.Journal, place.History, _, err = store.Open(id)
		} else {
			place.Journal, err = store.Create(id)
		}
		if err != nil {
			place.Close()
			return daruma.Workplace{}, err
		}
		files := session.FilesOf(place.Journal.Path())
		place.Files = &files
		return place, nil
	}}
	return nil
}

// hands opens the tools of one agent.
func (s *setup) hands() (*builtin.Workspace, *tool.Set, error) {
	ws, err := builtin.New(s.tooling)
	if err != nil {
		return nil, nil, err
	}
	set, err := tool.NewSet(append(ws.Tools(), s.foreign...)...)
	if err != nil {
		ws.Close()
		return nil, nil, err
	}
	set.Spill, set.Hide = s.tooling.Spill, s.config.Redact.Known
	return ws, set, nil
}

// toolNames are the tools of the main agent.
func (s *setup) toolNames() []string {
	names := s.config.Tools.Names()
	if s.config.SubAgents != nil {
		names = append(names, daruma.AgentTool)
	}
	return names
}
