package tool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/tool"
)

// TestNoProgressBehindTheResult: when Run has returned, no report is under way.
func TestNoProgressBehindTheResult(t *testing.T) {
	set, err := tool.NewSet(&tool.Typed[struct{}]{Name: "Talk", Do: func(_ context.Context, c tool.Call, _ struct{}) tool.Result {
		begun := make(chan struct{})
		go func() {
			close(begun)
			for range 10 {
				c.Progress("more")
			}
		}()
		<-begun
		return tool.Text("done")
	}})
	if err != nil {
		t.Fatal(err)
	}
	var late atomic.Int32
	for range 50 {
		var over atomic.Bool
		set.Run(t.Context(), tool.Call{Name: "Talk", Input: []byte("{}"), Progress: func(string) {
			time.Sleep(100 * time.Microsecond)
			if over.Load() {
				late.Add(1)
			}
		}})
		over.Store(true)
	}
	time.Sleep(10 * time.Millisecond)
	if n := late.Load(); n > 0 {
		t.Errorf("%d reports were still under way", n)
	}
}
