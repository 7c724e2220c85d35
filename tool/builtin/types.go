package builtin

import (
	"maps"
	"slices"
)

// fileTypes are the types of Grep and the names of their files.
var fileTypes = map[string][]string{
	"c":          {"*.[chH]"},
	"cpp":        {"*.{cpp,cc,cxx,hpp,hh,hxx,h,inl}"},
	"cs":         {"*.cs"},
	"css":        {"*.{css,scss,sass,less}"},
	"dart":       {"*.dart"},
	"docker":     {"*Dockerfile*", "*.dockerfile"},
	"elixir":     {"*.{ex,exs,eex,heex}"},
	"erlang":     {"*.{erl,hrl}"},
	"go":         {"*.go"},
	"haskell":    {"*.{hs,lhs}"},
	"html":       {"*.{html,htm,ejs}"},
	"java":       {"*.java"},
	"js":         {"*.{js,jsx,mjs,cjs,vue}"},
	"json":       {"*.{json,jsonl,jsonc}"},
	"kotlin":     {"*.{kt,kts}"},
	"lua":        {"*.lua"},
	"make":       {"{GNUmakefile,Makefile,makefile}", "*.{mk,mak}"},
	"markdown":   {"*.{md,markdown,mdx}"},
	"md":         {"*.{md,markdown,mdx}"},
	"perl":       {"*.{pl,pm,t}"},
	"php":        {"*.{php,phtml}"},
	"proto":      {"*.proto"},
	"py":         {"*.{py,pyi}"},
	"python":     {"*.{py,pyi}"},
	"r":          {"*.{r,R,Rmd}"},
	"ruby":       {"*.{rb,rake,gemspec}", "{Gemfile,Rakefile}"},
	"rust":       {"*.rs"},
	"scala":      {"*.{scala,sbt}"},
	"sh":         {"*.{sh,bash,zsh,ksh}"},
	"sql":        {"*.sql"},
	"swift":      {"*.swift"},
	"tf":         {"*.{tf,tfvars}"},
	"toml":       {"*.toml"},
	"ts":         {"*.{ts,tsx,mts,cts}"},
	"txt":        {"*.txt"},
	"typescript": {"*.{ts,tsx,mts,cts}"},
	"xml":        {"*.{xml,xsd,xsl,svg}"},
	"yaml":       {"*.{yaml,yml}"},
	"zig":        {"*.zig"},
}

func typeNames() []string { return slices.Sorted(maps.Keys(fileTypes)) }
