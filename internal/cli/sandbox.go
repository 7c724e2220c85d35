package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	_ "github.com/daruma-agent/daruma/internal/helper" // makes this program the helper of its commands
	"github.com/daruma-agent/daruma/sandbox"
	"github.com/daruma-agent/daruma/sandbox/keeper"
	"github.com/daruma-agent/daruma/tool/builtin"
	"github.com/spf13/pflag"
)

// bounds are the flags about what commands may do, and for how long.
type bounds struct {
	sandbox string
	off     bool
	network string
	timeout time.Duration
}

// The rules for the network.
const (
	networkAllow = "allow"
	networkDeny  = "deny"
)

func (b *bounds) register(f *pflag.FlagSet) {
	f.StringVar(&b.sandbox, "sandbox", "", "what keeps commands from writing elsewhere: auto (default: as far as the kernel can), required or off")
	f.BoolVar(&b.off, "no-sandbox", false, "the same as --sandbox off")
	f.StringVar(&b.network, "sandbox-network", networkAllow, "whether commands may use the network: allow or deny")
	f.DurationVar(&b.timeout, "tool-timeout", 0, "how long a command may run that asks for no time (default 2m)")
}

// The longest that a command may ask for, and what it gets if it asks for
// nothing, unless the variables that people have set for other agents say other.
const (
	mostTimeout    = 10 * time.Minute
	defaultTimeout = 2 * time.Minute
)

// times are the default and the maximum for commands.
func (b *bounds) times(w *world) (normal, most time.Duration, err error) {
	if b.timeout < 0 {
		return 0, 0, usage(errors.New("--tool-timeout: a time must be positive, such as 90s or 5m"))
	}
	if most, err = milliseconds(w, "BASH_MAX_TIMEOUT_MS", mostTimeout); err != nil {
		return 0, 0, err
	}
	if normal, err = milliseconds(w, "BASH_DEFAULT_TIMEOUT_MS", min(defaultTimeout, most)); err != nil {
		return 0, 0, err
	}
	most = max(most, normal)
	if b.timeout > most {
		return 0, 0, usage(fmt.Errorf("--tool-timeout %v: at most %v is possible; BASH_MAX_TIMEOUT_MS in the environment changes that", b.timeout, most))
	}
	if b.timeout > 0 {
		normal = b.timeout
	}
	return normal, most, nil
}

func milliseconds(w *world, name string, otherwise time.Duration) (time.Duration, error) {
	text := w.env(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 {
		return 0, fail(exitConfig, "set it to a number of milliseconds, or unset it", "%s is no time: %q", name, text)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// bound gives the tools a helper for their commands, and a sandbox as far as the
// kernel has one. What then holds is in the first event of the session.
func (s *setup) bound(w *world, o *options, c *builtin.Config) (err error) {
	b := &o.bounds
	if c.Timeout, c.MaxTimeout, err = b.times(w); err != nil {
		return err
	}
	mode, err := sandbox.ParseMode(b.sandbox)
	switch {
	case err != nil:
		return usage(err)
	case b.off && b.sandbox != "" && mode != sandbox.Off:
		return usage(errors.New("--no-sandbox and --sandbox exclude each other"))
	case b.off:
		mode = sandbox.Off
	}
	deny := b.network == networkDeny
	if !deny && b.network != "" && b.network != networkAllow {
		return usage(fmt.Errorf("--sandbox-network %q: %s and %s are possible", b.network, networkAllow, networkDeny))
	}
	if deny && mode == sandbox.Off {
		return usage(errors.New("--sandbox-network deny needs the sandbox, which is off"))
	}
	enforced, level, err := sandbox.Decide(mode, deny, sandbox.ABI())
	if err != nil {
		return fail(exitConfig, "run without --sandbox required, or where the kernel has Landlock", "%v", err)
	}
	if runtime.GOOS == "linux" {
		// This very program, also when its file has been replaced since.
		c.Helper = []string{"/proc/self/exe", keeper.Argument}
	}
	if enforced {
		c.Sandbox = rules(w, c.Root, c.Dirs)
		c.Sandbox.NoNetwork = deny
		if state := w.stateDir(); state != "" && c.Sandbox.Covers(real(state)) {
			level += "; the folder of sessions lies in one of these"
		}
	} else if mode != sandbox.Off {
		s.notes = append(s.notes, "commands run without a sandbox: "+level)
	}
	s.config.Sandbox = level
	return nil
}

// rules allow what commands need: the workspace first.
func rules(w *world, root string, dirs []string) *sandbox.Rules {
	if dir := sandbox.CacheDir(w.env); dir != "" && readable(filepath.Dir(dir)) {
		_ = os.Mkdir(dir, 0o700) // build tools cannot make it later
	}
	r := &sandbox.Rules{Write: append([]string{root}, dirs...)}
	r.Write = append(r.Write, sandbox.Repository(root)...)
	r.Write = append(r.Write, sandbox.Places(w.env)...)
	return r
}

// real is a path without links, as far as it exists.
func real(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(real(dir), filepath.Base(path))
	}
	return path
}
