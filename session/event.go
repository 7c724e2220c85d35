// Package session (–) answers one question: what happened? One event type
// serves the consumer of a run, the journal on disk and every viewer.
//
// The journal is the truth; a conversation is the [Fold] of it.
package session

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the event format that this build writes. Folding
// reads every older one; events of a newer one are kept as [Unknown].
const Version = 1

// Type names what an event reports.
type Type string

// Event is the envelope of everything that happens.
type Event struct {
	Version int       // of the format
	Seq     uint64    // number within the session; 0 for ephemeral events
	Time    time.Time // UTC
	Session string
	Run     int // number of the run, from 1; 0 outside of runs
	Turn    int // number of the turn within the run, from 1; 0 outside of turns
	Body    Body
}

// Body is what an event says. The set is closed: the types of this package.
type Body interface {
	// Type is the event's name in the journal.
	Type() Type
}

// Type is the name of what e says.
func (e Event) Type() Type { return e.Body.Type() }

// Unknown is an event of a version to come, kept as it was read.
type Unknown struct {
	Name Type
	Raw  jsontext.Value
}

// Type implements [Body].
func (u *Unknown) Type() Type { return u.Name }

// envelope is an event on the wire.
type envelope struct {
	Version int            `json:"v"`
	Seq     uint64         `json:"seq,omitzero"`
	Time    time.Time      `json:"time"`
	Session string         `json:"session,omitzero"`
	Run     int            `json:"run,omitzero"`
	Turn    int            `json:"turn,omitzero"`
	Type    Type           `json:"type"`
	Body    jsontext.Value `json:"body,omitzero"`
}

// options make the encoding total: durations are milliseconds, and text that
// is no UTF-8 is mended, never refused.
var options = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true),
	json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, d time.Duration) error {
		return enc.WriteToken(jsontext.Int(d.Milliseconds()))
	})),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, d *time.Duration) error {
		var ms int64
		err := json.UnmarshalDecode(dec, &ms)
		*d = time.Duration(ms) * time.Millisecond
		return err
	})),
)

// MarshalJSON encodes e as one object without line breaks.
func (e Event) MarshalJSON() ([]byte, error) {
	w := envelope{
		Version: e.Version, Seq: e.Seq, Time: e.Time, Session: e.Session,
		Run: e.Run, Turn: e.Turn, Type: e.Type(),
	}
	var err error
	if u, ok := e.Body.(*Unknown); ok {
		w.Body = u.Raw
	} else if w.Body, err = json.Marshal(e.Body, options); err != nil {
		return nil, err
	}
	return json.Marshal(w, options)
}

// UnmarshalJSON decodes an event of any version.
func (e *Event) UnmarshalJSON(data []byte) error {
	var w envelope
	if err := json.Unmarshal(data, &w, options); err != nil {
		return err
	}
	*e = Event{Version: w.Version, Seq: w.Seq, Time: w.Time, Session: w.Session, Run: w.Run, Turn: w.Turn}
	body := newBody(w.Type)
	if body == nil || len(w.Body) == 0 {
		e.Body = &Unknown{Name: w.Type, Raw: w.Body.Clone()}
		return nil
	}
	err := json.Unmarshal(w.Body, body, options)
	switch {
	case err == nil:
		e.Body = body
	case w.Version > Version: // it means something else by then
		e.Body, err = &Unknown{Name: w.Type, Raw: w.Body.Clone()}, nil
	}
	return err
}

// JSONOptions are the options with which the bodies of events are encoded, for
// surfaces that show parts of them.
func JSONOptions() json.Options { return options }
