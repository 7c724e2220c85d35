package mcp_test

func runAgent() {}
