package daruma

import (
	"fmt"
	"iter"

	"github.com/daruma-agent/daruma/loop"
	"github.com/daruma-agent/daruma/session"
)

// Result is what a run amounts to.
type Result struct {
	session.End
	Session    string
	Recoveries []session.Recovery // last state of each
	Notices    []string
}

// Err returns nil for a run that completed, and otherwise an error that names
// the reason, wraps the failure if there was one, and matches [loop.Reason].
func (r *Result) Err() error {
	switch {
	case r.Reason == loop.Completed:
		return nil
	case r.Failure != nil:
		return fmt.Errorf("%s: %w", r.Reason, r.Failure)
	}
	return fmt.Errorf("%s: %s", r.Reason, reasonWords[r.Reason])
}

// Collect drains a run. The error is the one of the call; how the run ended is
// in the result.
func Collect(events iter.Seq2[session.Event, error]) (*Result, error) {
	r := &Result{}
	at := map[int]int{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		r.Session = e.Session
		switch b := e.Body.(type) {
		case *session.Recovery:
			if i, ok := at[b.ID]; ok {
				r.Recoveries[i] = *b
				break
			}
			at[b.ID] = len(r.Recoveries)
			r.Recoveries = append(r.Recoveries, *b)
		case *session.Notice:
			r.Notices = append(r.Notices, b.Text)
		case *session.End:
			r.End = *b
		}
	}
	return r, nil
}
