package failure

import (
	"strings"
	"testing"
)

func TestRedactRemovesPlantedKeys(t *testing.T) {
	const planted = "Zq8vX2kLm9Rt4Wy7"
	for _, text := range []string{
		`{"error":{"message":"bad","api_key":"` + planted + `"}}`,
		`{"error":"{\"headers\":{\"x-api-key\":\"` + planted + `\"}}"}`,
		`{'headers': {'Authorization': 'Bearer ` + planted + `', 'Accept': '*/*'}}`,
		`{'x-api-key': ['` + planted + `']}`,
		`{'x-api-key': b'` + planted + `'}`,
		"Authorization: Bearer " + planted,
		"authorization: Basic " + planted + "==",
		"sent header X-Api-Key:[" + planted + "] to host",
		"OPENAI_API_KEY=" + planted + " was refused",
		"ANTHROPIC_AUTH_TOKEN: " + planted,
		"GET https://host/v1/models?key=" + planted + "&alt=sse failed",
		"GET https://host/v1?a=b&access_token=" + planted + ": EOF",
		`Post "https://user:` + planted + `@proxy.example:8080/v1": EOF`,
		`Post "https://` + planted + `@proxy.example/v1": EOF`,
		"Incorrect API key provided: " + planted + ". Get one.",
		"key sk-ant-api03-" + planted + " is not valid",
		"gsk_" + planted + planted,
		"aws_secret_access_key=" + planted + "/" + planted,
		"password: " + planted,
		`"client_secret" : "` + planted + `"`,
		"set-cookie: session=" + planted,
	} {
		if got := Redact(text); strings.Contains(got, planted) {
			t.Errorf("a planted key stays in %q", got)
		}
	}
}

func TestRedactKeepsOrdinaryText(t *testing.T) {
	for _, text := range []string{
		"prompt is too long: 209062 tokens > 199999 maximum",
		`{"max_tokens": 32000, "n_prompt_tokens": 14429, "token_count": 5}`,
		"Invalid bearer authentication in header",
		"API key: invalid",
		"Authorization: required",
		"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000",
		"The security token included in the request is expired",
		"OAuth token has been revoked. Please obtain a new token.",
		"https://docs.example/guide?page=2&key_concepts=yes",
		"see https://host:8443/path and mail me@example.org",
		"the task-management-system failed, request req_011C00000000000000000031",
		"Requested tokens (2285) exceed context window of 2048",
		"Tokens per minute limit exceeded - too many tokens processed.",
	} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestRedactorKnowsValues(t *testing.T) {
	r := NewRedactor("correct horse battery", "short")
	got := r.Redact("it was correct horse battery, short and sk-abcdefgh12345678")
	if want := "it was [redacted], short and [redacted]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := r.Known("sk-abcdefgh12345678"); got != "sk-abcdefgh12345678" {
		t.Errorf("Known touched what it does not know: %q", got)
	}
	if got := (Redactor{}).Redact("plain"); got != "plain" {
		t.Errorf("the zero Redactor changed %q", got)
	}
}
