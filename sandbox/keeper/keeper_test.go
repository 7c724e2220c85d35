package keeper

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	for _, o := range []Order{
		{Argv: []string{"/bin/true"}},
		{Argv: []string{"/bin/bash", "-c", "echo \"ü\n$x\"", "", "end"}, Confined: true, Grace: 3 * time.Second},
		{Argv: []string{"/bin/bash", "-c", strings.Repeat("x", 1<<20)}, Grace: -1},
	} {
		var b bytes.Buffer
		if err := o.Encode(&b); err != nil {
			t.Fatal(err)
		}
		got, err := decode(&b)
		if err != nil || b.Len() > 0 {
			t.Fatalf("%v, %d bytes left", err, b.Len())
		}
		if diff := cmp.Diff(o, *got); diff != "" {
			t.Error(diff)
		}
	}
	if err := (&Order{Argv: []string{strings.Repeat("x", maxOrder)}}).Encode(new(bytes.Buffer)); err == nil {
		t.Error("an order that is too long was written")
	}
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0e5\x00true\x00/bin/a\x00"))
	f.Add([]byte("\x00\x00\x00\x03a\x00b"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := decode(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := o.Encode(&b); err != nil {
			t.Fatal(err)
		}
		again, err := decode(&b)
		if err != nil || !cmp.Equal(o, again) {
			t.Errorf("%+v became %+v, %v", o, again, err)
		}
	})
}

// Nothing but a process that was started as a helper is one.
func TestMainIsOnlyForHelpers(t *testing.T) {
	for _, args := range [][]string{nil, {"daruma"}, {"daruma", "-p", "hello"}, {"daruma", Argument, "more"}, {Argument}, {"daruma", Argument + "x"}} {
		if code, helper := Main(args, nil); helper || code != 0 {
			t.Errorf("%v: %d, %v", args, code, helper)
		}
	}
}
