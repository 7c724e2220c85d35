//go:build !linux

package builtin

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	beReader()
	goleak.VerifyTestMain(m)
}
