package sandbox

import (
	"os"
	"path/filepath"
	"strings"
)

// devices are what programs write to without changing anything.
var devices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/mqueue",
}

// caches are where build tools keep what they fetched or made, below the home
// folder: without them hardly a build or test works. Programs and settings are
// not among them.
var caches = []string{
	".npm", ".yarn", ".pnpm-store", ".local/share/pnpm", ".bun/install/cache", ".deno", ".node-gyp",
	".cargo/registry", ".cargo/git", ".cargo/.package-cache", ".cargo/.package-cache-mutate", ".cargo/.global-cache",
	".gradle", ".m2/repository", ".ivy2", ".sbt", ".konan", ".nuget/packages", ".local/share/NuGet",
	".composer/cache", ".bundle/cache", ".hex", ".mix", ".stack", ".cabal/packages", ".opam/download-cache", ".pub-cache",
	".ccache", ".conan", ".conan2", ".local/share/uv", ".local/share/virtualenv", ".config/go/telemetry", ".dotnet",
}

// cacheVariables name folders of the same kind that the user has put elsewhere.
var cacheVariables = []string{
	"GOCACHE", "GOMODCACHE", "npm_config_cache", "YARN_CACHE_FOLDER", "PIP_CACHE_DIR", "UV_CACHE_DIR", "GRADLE_USER_HOME",
	"CARGO_TARGET_DIR", "CCACHE_DIR", "NUGET_PACKAGES", "COMPOSER_CACHE_DIR", "DENO_DIR", "PUB_CACHE",
}

// Places are the paths that an ordinary command needs besides its workspace: temp
// folders, devices and the caches of build tools, as env, the environment, names
// them. They need not exist.
func Places(env func(string) string) []string {
	out := []string{"/tmp", "/var/tmp"}
	add := func(path string) {
		if filepath.IsAbs(path) && filepath.Clean(path) != "/" {
			out = append(out, filepath.Clean(path))
		}
	}
	add(env("TMPDIR"))
	out = append(out, devices...)
	add(CacheDir(env))
	for _, name := range cacheVariables {
		add(env(name))
	}
	home := env("HOME")
	for dir := range strings.SplitSeq(env("GOPATH"), string(filepath.ListSeparator)) {
		if dir == "" && home != "" {
			dir = filepath.Join(home, "go")
		}
		if dir != "" {
			add(filepath.Join(dir, "pkg"))
		}
	}
	if filepath.IsAbs(home) {
		for _, name := range caches {
			add(filepath.Join(home, name))
		}
	}
	return out
}

// CacheDir is the folder for caches by the rules of freedesktop.org; empty if
// there is none.
func CacheDir(env func(string) string) string {
	if dir := env("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache")
	}
	return ""
}

// maxUp is how many folders above the workspace are looked through for a repository.
const maxUp = 30

// Repository is the folders of git that hold the history of what is in dir, if
// they lie outside of it: those of a linked worktree, or of a repository around
// it. Ask before the first command runs, for commands can change the answer.
func Repository(dir string) []string {
	for range maxUp {
		git := filepath.Join(dir, ".git")
		info, err := os.Stat(git)
		switch {
		case err == nil && info.IsDir():
			if isRepository(git) {
				return []string{git}
			}
		case err == nil:
			return linked(dir, git)
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// linked reads where a .git file points to.
func linked(dir, file string) []string {
	own := pointer(dir, file, "gitdir:")
	if own == "" {
		return nil
	}
	if isRepository(own) { // of a submodule
		return []string{own}
	}
	common := pointer(own, filepath.Join(own, "commondir"), "")
	// A worktree that its repository does not know is somebody's invention.
	if common == "" || !isRepository(common) || filepath.Dir(own) != filepath.Join(common, "worktrees") {
		return nil
	}
	return []string{common}
}

// pointer reads a file of one path, which may be relative to dir.
func pointer(dir, file, prefix string) string {
	data, err := os.ReadFile(file)
	text, ok := strings.CutPrefix(strings.TrimSpace(string(data)), prefix)
	if text = strings.TrimSpace(text); err != nil || !ok || text == "" {
		return ""
	}
	if !filepath.IsAbs(text) {
		text = filepath.Join(dir, text)
	}
	return filepath.Clean(text)
}

func isRepository(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
