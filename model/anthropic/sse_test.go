package anthropic

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type plainEvent struct {
	Name, Data string
	Cut        bool
}

// readEvents reads all of r with the reader under test.
func readEvents(r io.Reader) ([]plainEvent, error) {
	var out []plainEvent
	events := newEventReader(r)
	for {
		e, err := events.next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, plainEvent{string(e.name), string(e.data), e.cut})
	}
}

// naiveEvents is the plainest reading of the format that we could think of.
func naiveEvents(s string) []plainEvent {
	s = strings.TrimPrefix(s, "\uFEFF")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	var out []plainEvent
	for s != "" {
		record, rest, whole := strings.Cut("\n"+s, "\n\n")
		s = rest
		if !whole {
			record = strings.TrimSuffix(record, "\n")
		}
		var e plainEvent
		var data []string
		for _, line := range strings.Split(record, "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "event":
				e.Name = value
			case "data":
				data = append(data, value)
			}
		}
		if data != nil {
			e.Data, e.Cut = strings.Join(data, "\n"), !whole
			out = append(out, e)
		}
	}
	return out
}

var sseSeeds = []string{
	"",
	"data: a\n\n",
	"event: x\ndata: a\ndata:b\ndata\n\n: comment\n\ndata: c\n\n",
	"event: lost\n\ndata: a\n\n",
	"data: a\r\n\r\ndata: b\r\rdata: c\r\n\n",
	"\uFEFFdata: a\n\n",
	"id: 1\nretry: 5\nwhat\n:\ndata:  two spaces\n\n",
	"data: unfinished",
	"data: unfinished\n",
	"data: \xe6\x97\n\n",
	"\n\n\n\r\n\r",
	"data:\n\n",
}

func FuzzSSE(f *testing.F) {
	for _, seed := range sseSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		want := naiveEvents(string(stream))
		for name, r := range map[string]io.Reader{
			"whole":          bytes.NewReader(stream),
			"byte by byte":   iotest.OneByteReader(bytes.NewReader(stream)),
			"data with EOF":  iotest.DataErrReader(bytes.NewReader(stream)),
			"half of a read": iotest.HalfReader(bytes.NewReader(stream)),
		} {
			got, err := readEvents(r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-naive +got):\n%s", name, diff)
			}
		}
	})
}

func TestEventOfAnyLength(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	got, err := readEvents(strings.NewReader("data: " + long + "\n\ndata: b\n\n"))
	if err != nil || len(got) != 2 || got[0].Data != long || got[1].Data != "b" {
		t.Fatalf("%d events, %v", len(got), err)
	}
	if _, err := readEvents(strings.NewReader("data: " + strings.Repeat(long, 33))); err == nil {
		t.Error("a line without end was read to its end")
	}
	if _, err := readEvents(strings.NewReader(strings.Repeat("data: "+long+"\n", 34))); err == nil {
		t.Error("an event without end was read to its end")
	}
}

func TestBrokenReader(t *testing.T) {
	reset := errors.New("reset")
	got, err := readEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(reset)))
	want := []plainEvent{{Data: "a"}, {Data: "b", Cut: true}}
	if !errors.Is(err, reset) || !cmp.Equal(want, got) {
		t.Errorf("got %v, %v", got, err)
	}
}
