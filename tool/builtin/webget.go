package builtin

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/daruma-agent/daruma/tool"
	"golang.org/x/net/html/charset"
)

// maxHops is how many redirects are followed.
const maxHops = 10

// fetcher fetches one URL.
type fetcher struct {
	Web
	closed func(netip.Addr) string // why nothing is fetched from there
}

// answer is what a server answered.
type answer struct {
	url        *url.URL // of the answer, after redirects
	status     int
	kind       string // the Content-Type
	retryAfter string
	elsewhere  string // where a redirect leads that was not followed
	body       []byte
	cut        bool // there is more of it
}

// fetch gets a URL and follows its redirects as far as they stay on its host:
// that is what permission was asked for.
func (f *fetcher) fetch(ctx context.Context, target *url.URL) (answer, error) {
	for range maxHops + 1 {
		a, next, err := f.get(ctx, target)
		if err != nil || next == nil {
			return a, err
		}
		if !sameSite(target, next) {
			a.elsewhere = next.String()
			return a, nil
		}
		target = next
	}
	return answer{}, refuse(ClassStatus, "it redirects more than %d times", maxHops)
}

// get asks once. next is where the answer redirects to.
func (f *fetcher) get(ctx context.Context, target *url.URL) (a answer, next *url.URL, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return a, nil, err
	}
	agent := f.Agent
	if agent == "" {
		agent = "daruma"
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept", "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5")
	transport, err := f.transport(req)
	if err != nil {
		return a, nil, err
	}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return a, nil, err
	}
	defer res.Body.Close()
	a = answer{url: target, status: res.StatusCode, kind: res.Header.Get("Content-Type"), retryAfter: res.Header.Get("Retry-After")}
	if to := res.Header.Get("Location"); to != "" && res.StatusCode >= 300 && res.StatusCode < 400 {
		u, err := target.Parse(to)
		if err != nil {
			return a, nil, refuse(ClassURL, "it redirects to what is no URL")
		}
		if u, err = parseTarget(u.String()); err != nil {
			return a, nil, refuse(ClassURL, "it redirects to a URL that is not fetched: %v", err)
		}
		return a, u, nil
	}
	if packed := res.Header.Get("Content-Encoding"); packed != "" && packed != "identity" {
		return a, nil, refuse(ClassKind, "the answer is packed with %q, which was not asked for", tool.Middle(packed, 40, 0, "…"))
	}
	a.body, err = io.ReadAll(io.LimitReader(res.Body, f.MaxBytes+1))
	if err != nil {
		return a, nil, fmt.Errorf("the answer broke off after %s: %w", bytesText(int64(len(a.body))), err)
	}
	if int64(len(a.body)) > f.MaxBytes {
		a.body, a.cut = a.body[:f.MaxBytes], true
	}
	return a, nil, nil
}

// transport makes a transport for one request. Every connection is judged by
// the address that it is made to, after the name was resolved: what a name
// meant a moment before does not count. It unpacks gzip as it is read, so that
// the limit of the body bounds that too.
func (f *fetcher) transport(req *http.Request) (*http.Transport, error) {
	t := &http.Transport{
		ForceAttemptHTTP2: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 256 << 10,
		TLSHandshakeTimeout: 15 * time.Second, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: f.RootCAs},
	}
	dialer := &net.Dialer{Timeout: 15 * time.Second, Resolver: f.Resolver}
	t.DialContext = dialer.DialContext
	if f.Proxy != nil {
		proxy, err := f.Proxy(req)
		if err != nil {
			return nil, err
		}
		if proxy != nil {
			t.Proxy = http.ProxyURL(proxy)
			return t, f.judgeName(req.URL.Hostname())
		}
	}
	dialer.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return f.judge(at.Addr())
	}
	return t, nil
}

func (f *fetcher) judge(a netip.Addr) error {
	if why := f.closed(a); why != "" {
		return refuse(ClassAddress, "nothing is fetched from the address %v: %s", a, why)
	}
	return nil
}

// judgeName judges a host whose address a proxy will find, by what its name says.
func (f *fetcher) judgeName(host string) error {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		host = "127.0.0.1"
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return f.judge(a)
	}
	return nil
}

// explain says in words why nothing was fetched. ctx is that of the call.
func (f *fetcher) explain(ctx context.Context, err error) error {
	var refused *refusal
	var unknown *net.DNSError
	var cert *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &refused):
		return refused
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(tool.ClassTimeout, "there was no complete answer within %v", f.Timeout)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return refuse(ClassNetwork, "there is no host called %s: check the spelling", unknown.Name)
	case errors.As(err, &cert):
		return refuse(ClassNetwork, "the certificate of the server is not valid: %v", cert.Err)
	case errors.As(err, &plain), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return refuse(ClassNetwork, "the server speaks http, not https: name its port, as in http://host:80/")
	}
	return refuse(ClassNetwork, "%v", err)
}

// media is the kind of the body without parameters: as it was declared if that
// says that it is text or a PDF, else as its first bytes look.
func (a answer) media() string {
	kind, _, err := mime.ParseMediaType(a.kind)
	if err != nil || kind != "application/pdf" && !textual(kind) {
		kind, _, _ = mime.ParseMediaType(http.DetectContentType(a.body))
	}
	return kind
}

// textTypes are the types of application that are text without being called so.
var textTypes = strings.Fields("json xml yaml toml javascript ecmascript typescript ndjson jsonlines sh sql tex httpd-php perl python ruby " +
	"graphql csv www-form-urlencoded rtf mbox pem-file subrip")

// textual reports whether a media type is one of text.
func textual(media string) bool {
	kind, sub, _ := strings.Cut(media, "/")
	_, suffix, ok := strings.Cut(sub, "+")
	if ok && (suffix == "json" || suffix == "xml" || suffix == "yaml") { // as in image/svg+xml
		return true
	}
	return kind == "text" || kind == "application" && slices.Contains(textTypes, strings.TrimPrefix(sub, "x-"))
}

// text decodes the body, if it is text, and turns HTML into Markdown.
func (a answer) text(media string) (title, text string, err error) {
	if len(a.body) > 0 && !textual(media) {
		return "", "", refuse(ClassKind, "this is %s of %s, which cannot be shown as text. Use Bash and curl to get it into a file",
			media, bytesText(int64(len(a.body))))
	}
	body := a.decode(media)
	if bytes.IndexByte(body, 0) >= 0 {
		return "", "", refuse(ClassKind, "it is called %s but is binary (%s). Use Bash and curl to get it into a file", media, bytesText(int64(len(a.body))))
	}
	if media == "text/html" || media == "application/xhtml+xml" {
		title, text = fromHTML(body, a.url)
		return title, text, nil
	}
	return "", string(body), nil
}

// declared is how an XML text names its encoding.
var declared = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9_:.-]+)["']`)
})

// decode makes UTF-8 of the body: by its byte order mark, by what the server or
// the page says, else as UTF-8 where it is that.
func (a answer) decode(media string) []byte {
	kind := a.kind
	if m := declared().FindSubmatch(a.body); m != nil && !strings.Contains(strings.ToLower(kind), "charset") {
		kind = media + "; charset=" + string(m[1])
	}
	enc, _, certain := charset.DetermineEncoding(a.body[:min(len(a.body), 1024)], kind)
	if whole := bytes.TrimSuffix(a.body, partialRune(a.body)); !certain && utf8.Valid(whole) {
		return whole
	}
	out, err := enc.NewDecoder().Bytes(a.body)
	if err != nil {
		out = a.body // the tool set makes it valid
	}
	return bytes.TrimPrefix(out, []byte(bom))
}

// partialRune is the beginning of a character at the end of a body that was cut.
func partialRune(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return tail
			}
			return nil
		}
	}
	return nil
}
