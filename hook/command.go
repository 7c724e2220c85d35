package hook

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// mostOutput is how many bytes of an output are read; the rest is thrown away.
const mostOutput = 1 << 20

// markVar carries a mark from process to process, so that what a hook started
// can be found. Commands of tools use the same variable; marks stand in a row.
const markVar = "DARUMA_CALL"

// command runs a hook as a process.
func (h *Hooks) command(ctx context.Context, e *Entry, in Input, data []byte) raw {
	argv := []string{"/bin/sh", "-c", e.Command}
	switch {
	case e.Direct:
		argv = append([]string{e.Command}, e.Args...)
	case e.Shell != "":
		argv = []string{e.Shell, "-c", e.Command}
	}
	path := argv[0]
	if !strings.Contains(path, "/") {
		if path = lookPath(path, h.cfg.Env); path == "" {
			return raw{ending: notStarted, why: "there is no program " + clip(argv[0], 80) + " in PATH"}
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.Dir, path)
	}
	project := h.cfg.ProjectDir
	if project == "" {
		project = in.Dir
	}
	p := process{
		path: path, argv: argv, dir: in.Dir, env: h.cfg.Env, input: data, limit: e.Limit, grace: h.cfg.Grace,
		set: map[string]string{"CLAUDE_PROJECT_DIR": project, "DARUMA_PROJECT_DIR": project},
	}
	if in.Dir != "" {
		p.set["PWD"] = in.Dir
	}
	return p.run(ctx)
}

// environ is env with the variables of set.
func environ(env []string, set map[string]string) []string {
	out := make([]string, 0, len(env)+len(set))
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := set[name]; !replaced {
			out = append(out, kv)
		}
	}
	for name, v := range set {
		out = append(out, name+"="+v)
	}
	return out
}

// lookPath finds a program by the PATH of env. A relative entry does not count: it
// would run what lies in the workspace.
func lookPath(name string, env []string) string {
	path, _ := lookup(env, "PATH")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}
