package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Order is what the helper is told to run. Environment, folder, and the streams
// of the command are those of the helper itself.
type Order struct {
	Argv  []string // with the absolute path of a program
	Rules *Rules   // nil: everything that the user may
	Grace time.Duration
}

// maxOrder is more than the kernel takes as arguments of a process.
const maxOrder = 8 << 20

// Encode writes the order for the helper to read. No text in it can hold a NUL.
func (o *Order) Encode(w io.Writer) error {
	fields := []string{o.Grace.String(), strconv.FormatBool(o.Rules != nil)}
	rules := o.Rules
	if rules == nil {
		rules = &Rules{}
	}
	fields = append(fields, strconv.FormatBool(rules.NoNetwork), strconv.Itoa(len(rules.Write)))
	fields = append(append(fields, rules.Write...), o.Argv...)
	text := strings.Join(fields, "\x00")
	if len(text) > maxOrder {
		return fmt.Errorf("a command of %d bytes is too long", len(text))
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

var errOrder = errors.New("the order cannot be read")

func decodeOrder(r io.Reader) (*Order, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxOrder {
		return nil, errOrder
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	f := strings.Split(string(text), "\x00")
	if len(f) < 5 {
		return nil, errOrder
	}
	grace, err := time.ParseDuration(f[0])
	paths, err2 := strconv.Atoi(f[3])
	if err != nil || err2 != nil || paths < 0 || paths > len(f)-5 {
		return nil, errOrder
	}
	o := &Order{Grace: grace, Argv: f[4+paths:]}
	if f[1] == "true" {
		o.Rules = &Rules{Write: f[4 : 4+paths], NoNetwork: f[2] == "true"}
	}
	return o, nil
}

// The words that go over the control socket, each a line. The helper says Failed
// with a text if the command was not run, Started once it runs, Exited with code and name of the signal
// when it has ended, and Over with the number of processes that it had to end and
// the numbers of those that it could not end. It is told Go once the command may
// start, and End when everything of it is to end. The end of the socket is End.
const (
	WordGo      = "go"
	WordEnd     = "end"
	WordFailed  = "failed"
	WordStarted = "started"
	WordExited  = "exited"
	WordOver    = "over"
)
