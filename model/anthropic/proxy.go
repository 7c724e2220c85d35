package anthropic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/daruma-agent/daruma/failure"
)

// proxyRefusal is the answer of a proxy that does not let a request through. It
// is no answer of the API: a new API key cures none of them.
type proxyRefusal struct {
	proxy, target string // host and port, never a password
	status        int
	scheme        string // of the login that the proxy asks for
}

func (r *proxyRefusal) Error() string {
	return fmt.Sprintf("the proxy %s does not connect to %s: %d %s", r.proxy, r.target, r.status, http.StatusText(r.status))
}

// proxyAnswer looks at the answer to a CONNECT.
func proxyAnswer(_ context.Context, proxy *url.URL, connect *http.Request, res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return refusedBy(proxy, connect.URL.Host, res)
}

func refusedBy(proxy *url.URL, target string, res *http.Response) *proxyRefusal {
	r := &proxyRefusal{target: target, status: res.StatusCode}
	if proxy != nil {
		r.proxy = proxy.Host
	}
	r.scheme, _, _ = strings.Cut(res.Header.Get("Proxy-Authenticate"), " ")
	return r
}

// explainProxy says in words what a proxy did. It reports false where err has
// nothing to do with one.
func explainProxy(e *failure.Error, err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		e.Kind, e.Retry, e.Rule = failure.Network, failure.RetryYes, RuleProxy
		e.Message = fmt.Sprintf("the proxy cannot be reached: %v. Its address comes from HTTPS_PROXY or HTTP_PROXY", op.Err)
		return true
	}
	r, ok := errors.AsType[*proxyRefusal](err)
	if !ok {
		return false
	}
	e.Kind, e.Retry, e.Rule, e.Message = failure.Network, failure.RetryNo, RuleProxy, r.Error()
	switch {
	case r.status == http.StatusProxyAuthRequired && r.scheme != "" && !strings.EqualFold(r.scheme, "basic"):
		e.Message += fmt.Sprintf(". It asks for a login by %s, which is not spoken here: a local forwarder that does can stand in between", r.scheme)
	case r.status == http.StatusProxyAuthRequired:
		e.Message += ". Put user and password into its address, in HTTPS_PROXY or HTTP_PROXY"
	case r.status == http.StatusRequestTimeout, r.status == http.StatusTooManyRequests, r.status >= 500:
		e.Retry = failure.RetryYes // it could not, this time
	default:
		e.Message += ". Its rules forbid this address: who runs it can allow it; or NO_PROXY names the host, if there is a way around"
	}
	return true
}
