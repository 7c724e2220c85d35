package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/daruma-agent/daruma/failure"
	"github.com/daruma-agent/daruma/session"
	"github.com/daruma-agent/daruma/tool"
	"github.com/daruma-agent/daruma/tool/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mcpFlags say which MCP servers there are.
type mcpFlags struct {
	configs []string
	strict  bool
	trust   bool
	own     map[string]ownFile // of the folder, once it was decided about them
}

func (m *mcpFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&m.configs, "mcp-config", nil, "MCP servers: a file like .mcp.json, or such JSON itself")
	f.BoolVar(&m.strict, "strict-mcp-config", false, "only the MCP servers of --mcp-config")
	f.BoolVar(&m.trust, "trust", false, "trust this folder's own settings: hooks and MCP servers")
}

const (
	projectServers = ".mcp.json"
	// maxServersFile bounds what is read of such a file.
	maxServersFile = 1 << 20
	// chatWait is how long a conversation waits for its servers to list their
	// tools. A run without a person waits for as long as a start may take: its
	// one prompt may need them.
	chatWait = 5 * time.Second
)

// mcpConfig reads which servers there are. Those of flags come first; of two
// with one name the first counts, as a whole. trusted says whether those of the
// folder may be used.
func mcpConfig(w *world, m *mcpFlags, trusted bool) (cfg mcp.Config, notes []string, err error) {
	seen := map[string]bool{}
	take := func(data []byte, source string) error {
		servers, warnings, err := mcp.Parse(data, source, w.lookup)
		notes = append(notes, warnings...)
		for _, s := range servers {
			if !seen[s.Name] {
				cfg.Servers = append(cfg.Servers, s)
			}
		}
		for _, s := range servers {
			seen[s.Name] = true
		}
		return err
	}
	for _, c := range m.configs {
		data, source, err := []byte(c), "--mcp-config", error(nil)
		if !strings.HasPrefix(strings.TrimSpace(c), "{") {
			source = c
			if data, err = readServers(absolute(w.Dir, []string{c})[0]); err != nil {
				return cfg, nil, fail(exitInput, "name a file like .mcp.json, or give its JSON", "--mcp-config: %v", err)
			}
		}
		if err := take(data, source); err != nil {
			return cfg, nil, fail(exitConfig, `it should look like {"mcpServers":{"name":{"command":"…"}}}`, "%v", err)
		}
	}
	if !m.strict {
		notes = append(notes, projectConfig(w, m, trusted, take)...)
	}
	for _, limit := range []struct {
		name string
		to   *time.Duration
	}{{"MCP_TIMEOUT", &cfg.Startup}, {"MCP_TOOL_TIMEOUT", &cfg.Call}} {
		if text := w.env(limit.name); text != "" {
			ms, err := strconv.Atoi(text)
			if err != nil || ms <= 0 || ms > 28*3600*1000 {
				return cfg, nil, fail(exitConfig, "set it to a number of milliseconds, or unset it", "%s is no time: %q", limit.name, text)
			}
			*limit.to = time.Duration(ms) * time.Millisecond
		}
	}
	cfg.Dir, cfg.Version, cfg.Proxy, cfg.Env = w.Dir, Version(), http.ProxyFromEnvironment, w.serverEnv()
	return cfg, notes, nil
}

// projectConfig reads the servers of the folder, which are somebody else's word
// until a person says otherwise: to use them is to run what they name.
func projectConfig(w *world, m *mcpFlags, trusted bool, take func([]byte, string) error) (notes []string) {
	dirs := foldersDown(w.Dir)
	slices.Reverse(dirs) // the nearest counts
	for _, dir := range dirs {
		path := filepath.Join(dir, projectServers)
		data, err := m.ownFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			continue
		case err == nil && !trusted:
			return []string{"this folder's .mcp.json was not used: pass --trust once you have read it"}
		case err == nil:
			err = take(data, path)
		}
		if err != nil {
			return []string{fmt.Sprintf("this folder's .mcp.json is not used: %v", err)}
		}
		return nil
	}
	return nil
}

func readServers(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxServersFile {
		return nil, fmt.Errorf("%s is no file of at most %d KB", path, maxServersFile>>10)
	}
	return os.ReadFile(path)
}

func (w *world) lookup(name string) (string, bool) {
	for i := len(w.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(w.Env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// ownPrefixes begin the names of the variables that pay for this agent. A server
// gets one only if its entry names it.
var ownPrefixes = []string{"ANTHROPIC_", "CLAUDE_CODE_OAUTH_", "DARUMA_", "OTEL_EXPORTER_"}

func (w *world) serverEnv() (env []string) {
	for _, kv := range w.Env {
		if !slices.ContainsFunc(ownPrefixes, func(p string) bool { return strings.HasPrefix(kv, p) }) {
			env = append(env, kv)
		}
	}
	return env
}

// serverRoots trusts for servers what is trusted for the provider. The client's
// certificate is for the provider alone.
func serverRoots(w *world) (*tls.Config, error) {
	known, err := trust(w)
	if err != nil || len(known.Roots) == 0 {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without any
	}
	pool.AppendCertsFromPEM(known.Roots)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// startServers starts the MCP servers, beside whatever else is prepared.
func (s *setup) startServers(w *world, o *options) error {
	cfg, notes, err := mcpConfig(w, &o.mcp, o.mcp.trust)
	if err != nil {
		return err
	}
	s.notes = append(s.notes, notes...)
	if len(cfg.Servers) == 0 {
		return nil
	}
	if cfg.TLS, err = serverRoots(w); err != nil {
		return err
	}
	cfg.Hide, cfg.Env = s.config.Redact.Known, s.marked(w, cfg.Env)
	s.servers = mcp.Open(cfg)
	s.patience = chatWait
	if o.print {
		s.patience = cfg.Startup
		if s.patience == 0 {
			s.patience = 30 * time.Second
		}
		s.patience += 5 * time.Second // two tries take longer than one
	}
	return nil
}

// serverTools are the tools of the servers that have listed them in time.
func (s *setup) serverTools(w *world) []tool.Tool {
	if s.servers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	slow := time.AfterFunc(slowHook, func() {
		var names []string
		for _, st := range s.servers.Status() {
			if st.State == mcp.Pending {
				names = append(names, tool.Clean(st.Name))
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(w.Stderr, "… waiting for MCP servers: %s (at most %s; Ctrl+C stops)\n", strings.Join(names, ", "), s.patience)
		}
	})
	s.servers.Wait(ctx)
	slow.Stop()
	tools := s.servers.Tools()
	for _, st := range s.servers.Status() {
		s.config.Servers = append(s.config.Servers, session.Server{Name: st.Name, Status: string(st.State)})
		s.notes = append(s.notes, serverNotes(st)...)
	}
	return tools
}

// serverNotes tell a person what is missing, and why.
func serverNotes(st mcp.Status) (notes []string) {
	say := func(format string, args ...any) {
		notes = append(notes, "MCP server "+tool.Clean(st.Name)+" "+fmt.Sprintf(format, args...))
	}
	switch st.State {
	case mcp.Failed:
		say("is not there, and its tools are missing: %s", st.Error)
	case mcp.NeedsAuth:
		say("refuses the credentials, and its tools are missing: %s", st.Error)
	case mcp.Pending:
		say("has not listed its tools in time; they are missing in this session")
	}
	for _, warning := range st.Warnings {
		say("– %s", warning)
	}
	return notes
}

func mcpCommand(w *world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "the MCP servers of this folder and of --mcp-config",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var m mcpFlags
	list := &cobra.Command{
		Use:   "list",
		Short: "start each server and say how it is, with the number of its tools; the exit code is 1 if one is not well",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return listServers(w, &m) },
	}
	m.register(list.Flags())
	cmd.AddCommand(list)
	return cmd
}

func listServers(w *world, m *mcpFlags) error {
	if w.DirErr != nil {
		return fail(exitInput, "change to a folder that exists", "the working directory cannot be found: %v", w.DirErr)
	}
	cfg, notes, err := mcpConfig(w, m, m.trust)
	if err != nil {
		return err
	}
	if cfg.TLS, err = serverRoots(w); err != nil {
		return err
	}
	redact := failure.NewRedactor(w.secrets()...)
	cfg.Hide = redact.Known
	for _, note := range notes {
		fmt.Fprintln(w.Stderr, "note: "+redact.Known(note))
	}
	if len(cfg.Servers) == 0 {
		fmt.Fprintln(w.Stderr, "there are no MCP servers")
		return nil
	}
	servers := mcp.Open(cfg)
	defer servers.Close()
	servers.Wait(context.Background()) // each has a time of its own
	servers.Tools()
	table := tabwriter.NewWriter(w.Stdout, 0, 0, 2, ' ', 0)
	bad := 0
	for _, st := range servers.Status() {
		tools := "-"
		if st.State == mcp.Connected {
			tools = count(st.Tools, "tool")
		} else if st.State != mcp.Disabled {
			bad++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", tool.Clean(st.Name), st.Kind, st.State, tools, st.Version)
	}
	if err := written(table.Flush()); err != nil {
		return err
	}
	for _, st := range servers.Status() {
		for _, note := range serverNotes(st) {
			fmt.Fprintln(w.Stderr, "note: "+note)
		}
	}
	if bad > 0 {
		return fail(exitFailed, "the notes above say why", "%d of %d MCP servers are not well", bad, len(cfg.Servers))
	}
	return nil
}
