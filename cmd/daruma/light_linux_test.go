package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/daruma-agent/daruma/sandbox/keeper"
)

// A program that finds methods by names which it only gets to know as it runs
// (templates do) has every exported method of every type in it: a sixth of
// the pages that a start touches.
func TestMethodsAreNotFoundByName(t *testing.T) {
	f, err := elf.Open(build(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	if !has("main.main") {
		t.Fatal("the symbols of the binary cannot be read")
	}
	for _, name := range []string{"reflect.Value.MethodByName", "text/template.(*Template).Execute"} {
		if has(name) {
			t.Errorf("%s is in the binary: go build -ldflags=-dumpdep says by whom it is called", name)
		}
	}
}

// The helper of a command takes over before the packages that make the program
// dear to start.
func TestHelperTakesOverEarly(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	control := os.NewFile(uintptr(pair[0]), "control")
	defer control.Close()
	if err := syscall.Close(pair[1]); err != nil { // whoever wanted a command is gone
		t.Fatal(err)
	}
	cmd := exec.Command(build(t), keeper.Argument)
	cmd.ExtraFiles = []*os.File{control}
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, _ := cmd.CombinedOutput() // it was told nothing, which is an error
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^init (\S+) @`).FindAllSubmatch(trace, -1) {
		names = append(names, string(line[1]))
	}
	if !slices.Contains(names, "os") {
		t.Fatalf("no trace of what was initialised:\n%s", trace)
	}
	for _, name := range names {
		if name == "unicode" || name == "reflect" || strings.Contains(name, ".") && !strings.HasSuffix(name, "/internal/helper") {
			t.Errorf("%s was initialised before the helper took over", name)
		}
	}
	if len(names) > 30 {
		t.Errorf("%d packages were initialised before the helper took over: %v", len(names), names)
	}
}
