package cli

import (
	"os"
	"runtime"

	"github.com/daruma-agent/daruma/tool/builtin"
)

// It makes this program the reader of its own PDFs.
func init() {
	if code, reader := builtin.ReaderMain(os.Args, os.Stdin, os.Stdout); reader {
		os.Exit(code)
	}
}

// pdfReader is the argument vector of this program as a reader of PDFs; empty where
// the program cannot be found.
func pdfReader() []string {
	if runtime.GOOS == "linux" {
		return []string{"/proc/self/exe", builtin.ReaderArgument} // also when its file has been replaced since
	}
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, builtin.ReaderArgument}
}
