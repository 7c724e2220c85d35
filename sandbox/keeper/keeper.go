// Package keeper (layer 4) answers one question: does anything of a command
// outlive it? Nothing does that a helper process watches over: [Main], which a
// program calls first of all, for the case that it was started again with the
// argument [Argument].
//
// A helper is started for every command, so it has to start fast. Packages are
// initialised one after the other, and what this one does not need is not waited
// for (https://go.dev/ref/spec#Program_initialization): it imports neither fmt nor
// strings, nor anything that needs the tables of Unicode.
package keeper

import (
	"errors"
	"io"
	"strconv"
	"time"
)

// Argument makes a program the helper: it is the only argument of its process.
const Argument = "sandbox-helper"

// The descriptors of a helper besides its three streams, which are those of the
// command.
const (
	// Control is a socket to the agent. Its end means that everything is to end.
	Control = 3
	// Ruleset is that of Landlock which the command is to be put under, if it is.
	Ruleset = 4
)

// Order is what the helper is told to run, in its own folder and environment.
type Order struct {
	Argv     []string      // with the absolute path of a program
	Confined bool          // there is a Ruleset
	Grace    time.Duration // from SIGTERM to SIGKILL
}

// The words that go over the control socket. The helper is told one of a byte:
// Go once the command may start, End when everything of it is to end. It says
// lines: Failed with a text if the command was not run, Started once it runs,
// Exited with code and name of the signal when it has ended, and Over with the
// number of processes that it had to end and the numbers of those that it could
// not end.
const (
	Go  = 'g'
	End = 'e'

	Failed  = "failed"
	Started = "started"
	Exited  = "exited"
	Over    = "over"
)

// maxOrder is more than the kernel takes as arguments of a process.
const maxOrder = 8 << 20

var (
	errLong  = errors.New("the command is too long")
	errOrder = errors.New("the order cannot be read")
)

// Encode writes the order for the helper to read: its length, then what it says,
// each with a NUL behind it, which no argument can hold.
func (o *Order) Encode(w io.Writer) error {
	text := make([]byte, 4, 1024)
	text = strconv.AppendInt(text, int64(o.Grace), 10)
	text = append(text, 0)
	text = strconv.AppendBool(text, o.Confined)
	text = append(text, 0)
	for _, arg := range o.Argv {
		text = append(append(text, arg...), 0)
	}
	n := len(text) - 4
	if n > maxOrder {
		return errLong
	}
	text[0], text[1], text[2], text[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	_, err := w.Write(text)
	return err
}

func decode(r io.Reader) (*Order, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(size[0])<<24 | int(size[1])<<16 | int(size[2])<<8 | int(size[3])
	if n > maxOrder {
		return nil, errOrder
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	var fields []string
	from := 0
	for i, c := range text {
		if c == 0 {
			fields = append(fields, string(text[from:i]))
			from = i + 1
		}
	}
	if len(fields) < 3 || from != n {
		return nil, errOrder
	}
	grace, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return nil, errOrder
	}
	return &Order{Grace: time.Duration(grace), Confined: fields[1] == "true", Argv: fields[2:]}, nil
}
