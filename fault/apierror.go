package fault

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// apiError is a refusal in the words of the API.
type apiError struct {
	status  int
	typ     string
	message string
}

func apiErrorBody(typ, message, requestID string) jsontext.Value {
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	return encode(struct {
		Type      string `json:"type"`
		Error     inner  `json:"error"`
		RequestID string `json:"request_id,omitempty"`
	}{"error", inner{typ, message}, requestID})
}

// typeOfStatus is the error type that the API sends with a status.
func typeOfStatus(code int) string {
	switch code {
	case 400:
		return "invalid_request_error"
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 409:
		return "conflict_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 504:
		return "timeout_error"
	case 529:
		return "overloaded_error"
	}
	if code < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

func tooLong(tokens, window int) *apiError {
	return &apiError{400, "invalid_request_error", fmt.Sprintf("prompt is too long: %d tokens > %d maximum", tokens, window)}
}

func sumTooLong(tokens, maxTokens, window int) *apiError {
	return &apiError{400, "invalid_request_error", fmt.Sprintf(
		"input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again", tokens, maxTokens, window)}
}
