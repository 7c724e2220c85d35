package builtin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// secrets are the variables that commands never get: they pay for the agent
// itself, and a command has no use for them.
var secrets = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_OAUTH_TOKEN",
	"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "AZURE_OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK",
	"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "OPENROUTER_API_KEY", "MISTRAL_API_KEY",
	"DEEPSEEK_API_KEY", "GROQ_API_KEY", "XAI_API_KEY", "TOGETHER_API_KEY", "FIREWORKS_API_KEY", "COHERE_API_KEY",
	"CEREBRAS_API_KEY", "PERPLEXITY_API_KEY", "DASHSCOPE_API_KEY", "MOONSHOT_API_KEY", "ZHIPU_API_KEY", "ZAI_API_KEY",
	"MINIMAX_API_KEY", "NVIDIA_API_KEY", "HF_TOKEN", "REPLICATE_API_TOKEN", "AI_GATEWAY_API_KEY", "LITELLM_API_KEY",
}

// secretPrefixes are groups of such variables: exporters carry tokens in headers.
var secretPrefixes = []string{"OTEL_EXPORTER_", "DARUMA_"}

// markVar carries the mark of a call from process to process, so that what a
// command started can be found again. Agents inside of commands add their own.
const markVar = "DARUMA_CALL"

// misleading are variables by which a shell would read a command in another way
// than it was judged: cd leads elsewhere, patterns match otherwise.
var misleading = []string{"CDPATH", "GLOBIGNORE", "SHELLOPTS", "BASHOPTS"}

// LifeVariable carries the mark of an agent's process to whatever it starts, so
// that [EndMarked] finds what outlives it.
const LifeVariable = "DARUMA_LIFE"

// childEnv makes the environment of commands out of the given one.
func childEnv(env, more []string, dir string) []string {
	// A command has no terminal to be asked at; git must fail at once instead.
	set := []string{"DARUMA=1", "GIT_TERMINAL_PROMPT=0", "PWD=" + dir}
	out := make([]string, 0, len(env)+len(set)+1)
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		secret := slices.Contains(secrets, name) || slices.Contains(more, name) ||
			slices.ContainsFunc(secretPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if (!secret || name == markVar || name == LifeVariable) && name != "PWD" && name != "DARUMA" && !slices.Contains(misleading, name) {
			out = append(out, kv)
		}
	}
	return append(out, set...)
}

// marked adds the mark of a call to env, behind the marks that are there.
func marked(env []string, token string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if outer, ok := strings.CutPrefix(kv, markVar+"="); ok {
			token = outer + ":" + token
			continue
		}
		out = append(out, kv)
	}
	return append(out, markVar+"="+token)
}

// lookPath finds a program by the PATH of env.
func lookPath(name string, env []string) string {
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v // the last one counts, as for exec
		}
	}
	for _, dir := range filepath.SplitList(path) {
		// A relative entry would run what lies in the workspace.
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(file) {
			return file
		}
	}
	return ""
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
