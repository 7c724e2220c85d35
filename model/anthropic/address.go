package anthropic

import (
	"fmt"
	"net/url"
	"strings"
)

// parseBase accepts what people write: with and without a slash at the end,
// with and without /v1, and the whole address of the endpoint.
func parseBase(raw string) (string, error) {
	if raw == "" {
		return DefaultBaseURL, nil
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "", fmt.Errorf("read base URL: it is no URL; write it like %s", DefaultBaseURL)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("read base URL %q: it must begin with http:// or https://, like %s", publicURL(raw), DefaultBaseURL)
	case u.Host == "":
		return "", fmt.Errorf("read base URL %q: it names no host; write it like %s", publicURL(raw), DefaultBaseURL)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("read base URL %q: leave out what follows the path (? or #)", publicURL(raw))
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimRight(strings.TrimSuffix(path, "/messages"), "/")
	u.Path = strings.TrimRight(strings.TrimSuffix(path, "/v1"), "/")
	u.RawPath = ""
	return u.String(), nil
}

// publicURL is raw without the password and the query that it may hold.
func publicURL(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "(not a URL)"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}
