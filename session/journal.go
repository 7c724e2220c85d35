package session

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
)

// Journal is the log of one session: one event a line, appended by one writer.
// Each line carries a checksum; a line that a crash tore is skipped. What could
// not be written is kept and written before anything else, so that no event is
// ever missing between two others.
type Journal struct {
	path   string
	file   File
	size   int64        // of the file, as far as it is known to be whole
	torn   bool         // the file does not end with a line break
	gone   func() bool  // the file is no longer where it was
	length func() int64 // of the file, as it is; nil: nobody can tell
	behind [][]byte     // lines that wait for the disk, in order
	bytes  int          // of these
	dead   error        // why nothing can be written any more
	ways   []string     // folders that lead to the file, until they are synced

	unsigned  bool // the file lacks events, and nobody may take it for all that happened
	appended  bool // by this process
	abandoned bool // whoever wrote it last did not close it
}

// File is where a journal is written: an [os.File] that was opened for
// appending, or what a test puts before it.
type File interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

// maxLine bounds one event: the largest request is 32 MB.
const maxLine = 64 << 20

var table = crc32.MakeTable(crc32.Castagnoli)

// Each line ends with its checksum, over all bytes before the comma.
const sumFormat = `,"crc":"%08x"}`

const sumLength = len(`,"crc":"00000000"}`)

// Encode returns e as a line of a journal, with its checksum and line break.
func Encode(e Event) ([]byte, error) {
	line, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s event: %w", e.Type(), err)
	}
	line = line[:len(line)-1] // the closing brace comes behind the checksum
	return fmt.Appendf(line, sumFormat+"\n", crc32.Checksum(line, table)), nil
}

// ErrDamaged marks a line that is no whole event: a crash tore it, or
// something else changed it.
var ErrDamaged = errors.New("damaged line")

// Decode reads one line of a journal.
func Decode(line []byte) (Event, error) {
	line = bytes.TrimRight(line, "\r\n")
	var e Event
	if len(line) <= sumLength {
		return e, fmt.Errorf("decode event: %w: %d bytes", ErrDamaged, len(line))
	}
	body, sum := line[:len(line)-sumLength], line[len(line)-sumLength:]
	if want := fmt.Appendf(nil, sumFormat, crc32.Checksum(body, table)); !bytes.Equal(sum, want) {
		return e, fmt.Errorf("decode event: %w: wrong checksum", ErrDamaged)
	}
	if err := json.Unmarshal(append(body[:len(body):len(body)], '}'), &e); err != nil {
		return e, fmt.Errorf("decode event: %w: %w", ErrDamaged, err)
	}
	return e, nil
}

// Read yields the events of a journal. A damaged line yields an error that
// wraps [ErrDamaged] and reading goes on; any other error ends it.
func Read(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		for n := 1; ; n++ {
			line, err := readLine(in)
			if len(line) > 0 {
				e, bad := Decode(line)
				if bad != nil {
					bad = fmt.Errorf("line %d: %w", n, bad)
				}
				if !yield(e, bad) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("read journal: %w", err))
				return
			}
		}
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line has more than %d bytes", maxLine)
		}
	}
}
