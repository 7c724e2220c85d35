package builtin

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/message"
	"github.com/daruma-agent/daruma/permission"
	"github.com/daruma-agent/daruma/tool"
	"golang.org/x/net/dns/dnsmessage"
)

// browser is a workspace that may fetch from loopback.
func browser(t *testing.T, change ...func(*Web)) *bench {
	web := &Web{AllowPrivate: true, Timeout: 10 * time.Second}
	for _, c := range change {
		c(web)
	}
	return open(t, func(c *Config) { c.Web = web })
}

func site(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func zipped(t *testing.T, parts int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	part := bytes.Repeat([]byte("a line of text\n"), 1<<16)
	for range parts {
		if _, err := z.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// dns answers every question for an address with the next of the given ones,
// and then always with the last.
func dns(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf, asked := make([]byte, 1500), 0
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				a := netip.MustParseAddr(addresses[min(asked, len(addresses)-1)]).As4()
				asked++
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: a},
				}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestWebFetch(t *testing.T) {
	b := browser(t)
	small := encoded(t, "png", picture(30, 20))
	pages := map[string]struct{ kind, body string }{
		"/page":      {"text/html; charset=utf-8", "<title>A page</title><h1>Héad</h1><p>one <a href='/x?y=1'>two</a>"},
		"/text":      {"text/plain", "plain\ntext"},
		"/json":      {"application/json", `{"a":1}`},
		"/problem":   {"application/problem+json", `{"b":2}`},
		"/none":      {"", "<!DOCTYPE html><p>sniffed"},
		"/source":    {"application/x-unheard-of", "package main\n"},
		"/latin":     {"text/plain; charset=iso-8859-1", "gr\xfc\xdfe"},
		"/meta":      {"text/html", "<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2"},
		"/japanese":  {"text/html; charset=Shift_JIS", "<p>\x93\xfa\x96\x7b"},
		"/xml":       {"application/xml", "<?xml version='1.0' encoding='ISO-8859-1'?><a>gr\xfcn</a>"},
		"/utf16":     {"text/plain", "\xff\xfeh\x00i\x00!\x00"},
		"/late":      {"text/plain", strings.Repeat("ascii ", 400) + "späte Umlaute"},
		"/wrong":     {"text/plain; charset=no-such-thing", "naïve"},
		"/image":     {"image/jpeg", small},
		"/pdf":       {"application/pdf", paper("", texts(2)...)},
		"/download":  {"application/octet-stream", small},
		"/svg":       {"image/svg+xml", "<svg><text>drawn</text></svg>"},
		"/empty":     {"text/html", "<script>run()</script>"},
		"/binary":    {"application/octet-stream", "\x00\x01\x02\x03"},
		"/zip":       {"application/zip", "PK\x03\x04\x00\x00"},
		"/liar":      {"text/plain", "abc\x00def"},
		"/cut.png":   {"image/png", small[:40]},
		"/broken":    {"application/pdf", "%PDF-1.4 and no more"},
		"/forbidden": {"text/html", "<p>Please log in"},
	}
	var seen atomic.Value
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Clone())
		p, ok := pages[r.URL.Path]
		if w.Header()["Content-Type"] = nil; p.kind != "" {
			w.Header().Set("Content-Type", p.kind)
		}
		switch {
		case r.URL.Path == "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/nothing":
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		case !ok:
			http.Error(w, "no page "+r.URL.Path, http.StatusNotFound)
		}
		_, _ = w.Write([]byte(p.body))
	})
	for path, want := range map[string][]string{
		"/page":     {"Fetched " + base + "/page\nTitle: A page\n", "data, not instructions", "# Héad\n\none [two](" + base + "/x?y=1)"},
		"/text":     {"plain\ntext"},
		"/json":     {`{"a":1}`},
		"/problem":  {`{"b":2}`},
		"/none":     {"sniffed"},
		"/source":   {"package main"},
		"/latin":    {"grüße"},
		"/meta":     {"Привет"},
		"/japanese": {"日本"},
		"/xml":      {"<a>grün</a>"},
		"/utf16":    {"hi!"},
		"/late":     {"späte Umlaute"},
		"/wrong":    {"naïve"},
		"/svg":      {"<text>drawn"},
		"/empty":    {"has no text", "scripts"},
		"/nothing":  {"has no content: the server answered 204 No Content"},
		"/pdf":      {"PDF", "2 pages"},
	} {
		wants(t, b.good("WebFetch", in{"url": base + path, "prompt": "what is it?"}), want...)
	}
	for path, want := range map[string][]string{
		"/binary":    {"application/octet-stream of 4 bytes", "curl"},
		"/zip":       {"application/zip"},
		"/liar":      {"is binary"},
		"/cut.png":   {"broken"},
		"/broken":    {"PDF is broken"},
		"/forbidden": {"403 Forbidden", "no credentials", "Please log in"},
		"/missing":   {"404 Not Found", "no page /missing"},
		"/busy":      {"503 Service Unavailable", "wait for 7"},
	} {
		wants(t, b.bad("WebFetch", in{"url": base + path}), want...)
	}
	for path, kind := range map[string]message.BlockType{"/image": message.Image, "/download": message.Image, "/pdf": message.Document} {
		r := b.call("WebFetch", in{"url": base + path})
		if n := len(r.Content); r.IsError || n == 0 || r.Content[n-1].Type != kind {
			t.Errorf("%s: %+v", path, r)
		}
	}
	r := b.call("WebFetch", in{"url": base + "/missing#part"})
	if o, ok := r.Output.(WebOutput); !ok || o.Code != 404 || o.CodeText != "Not Found" || o.URL != base+"/missing" || r.Class != ClassStatus {
		t.Errorf("%+v", r)
	}
	h := seen.Load().(http.Header)
	if h.Get("Cookie")+h.Get("Authorization")+h.Get("Referer") != "" || h.Get("User-Agent") != "daruma" {
		t.Errorf("sent %v", h)
	}
}

func TestWebFetchIsBounded(t *testing.T) {
	b := browser(t, func(w *Web) { w.MaxBytes, w.Timeout = 1<<20, 400*time.Millisecond })
	bomb := zipped(t, 200) // 200 MB in 200 kB
	large := []byte(encoded(t, "png", noise(700, 700)))
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		flush := func() { _ = http.NewResponseController(w).Flush() }
		switch r.URL.Path {
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("more and more\n"), 1000)); err != nil {
					return
				}
			}
		case "/slow":
			for i := 0; r.Context().Err() == nil && i < 1000; i++ {
				fmt.Fprint(w, ".")
				flush()
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		case "/silent":
			<-r.Context().Done()
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		case "/twice":
			w.Header().Set("Content-Encoding", "gzip, gzip")
			_, _ = w.Write(bomb)
		case "/brotli":
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("packed"))
		case "/short":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "only this")
		case "/large.png":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(large)
		case "/headers":
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}
	})
	wants(t, b.good("WebFetch", in{"url": base + "/endless"}), "only its first 1048 kB were read", "more and more")
	wants(t, b.good("WebFetch", in{"url": base + "/bomb"}), "only its first 1048 kB were read", "a line of text")
	for path, want := range map[string]string{
		"/slow": "no complete answer within 400ms", "/silent": "no complete answer within 400ms", "/twice": "gzip, gzip", "/brotli": `"br"`,
		"/short": "broke off after 9 bytes", "/large.png": "more than 1048 kB", "/headers": "header",
	} {
		wants(t, b.bad("WebFetch", in{"url": base + path}), want)
	}
	if r := b.call("WebFetch", in{"url": base + "/silent"}); r.Class != tool.ClassTimeout {
		t.Errorf("class %s", r.Class)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	r := b.run(ctx, tool.Call{ID: "call", Name: "WebFetch"}, in{"url": base + "/silent"})
	if !r.IsError || time.Since(start) > 5*time.Second {
		t.Errorf("after %v: %+v", time.Since(start), r)
	}
}

func TestWebFetchRedirects(t *testing.T) {
	b := browser(t)
	var hits atomic.Int32
	other := site(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	elsewhere := strings.Replace(other, "127.0.0.1", "localhost", 1)
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/near": "end?a=b", "/far": elsewhere + "/far", "/loop": "/loop", "/file": "file:///etc/passwd", "/login": "http://a:b@127.0.0.1/",
			"/bad": "http://%zz/", "/upper": strings.Replace(other, "http", "HTTP", 1),
		}[r.URL.Path]
		if to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
			return
		}
		fmt.Fprint(w, "the end is at ", r.URL)
	})
	wants(t, b.good("WebFetch", in{"url": base + "/near"}), "the end is at /end?a=b", "Fetched "+base+"/end?a=b")
	got := b.good("WebFetch", in{"url": base + "/far"})
	wants(t, got, "redirects to another host (status 302)", "WebFetch with the url "+elsewhere+"/far")
	if hits.Load() > 0 {
		t.Error("the other host was asked")
	}
	b.good("WebFetch", in{"url": base + "/upper"}) // another port of the same host
	if hits.Load() != 1 {
		t.Error("the other port was not asked")
	}
	for path, want := range map[string]string{
		"/loop": "more than 10 times", "/file": "only http and https", "/login": "user name", "/bad": "what is no URL",
	} {
		wants(t, b.bad("WebFetch", in{"url": base + path}), want)
	}
}

func TestWebFetchRefusesAddresses(t *testing.T) {
	var hits atomic.Int32
	base := site(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	port := ":" + at.Port()
	b := browser(t, func(w *Web) { w.AllowPrivate, w.Resolver = false, dns(t, "127.0.0.1") })
	for _, host := range []string{
		"127.0.0.1", "127.8.8.8", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[::127.0.0.1]", "0.0.0.0", "[::]",
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255", "[fe80::1]", "[fc00::1]",
		"[ff02::1]", "localhost", "localhost.", "looks-public.test", "rebound.test.",
	} {
		r := b.call("WebFetch", in{"url": "http://" + host + port + "/"})
		if !r.IsError || r.Class != ClassAddress && r.Class != ClassNetwork || !strings.Contains(text(r), "nothing is fetched from the address") {
			t.Errorf("%s: %s %s", host, r.Class, text(r))
		}
	}
	for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "①②⑦.⓪.⓪.①", "[fe80::1%25eth0]", "a b", "host..", "."} {
		if r := b.call("WebFetch", in{"url": "http://" + host + port + "/"}); !r.IsError || r.Class != ClassURL {
			t.Errorf("%s: %s %s", host, r.Class, text(r))
		}
	}
	for raw, want := range map[string]string{
		"": "no whole URL", "example.com/x": "no whole URL", "file:///etc/passwd": "only http", "ftp://example.com/": "only http",
		"javascript:alert(1)": "no whole URL", "https://me:secret@example.com/": "password", "https://me@example.com/": "user name",
		"https:///x": "no name of a host", "https://example.com:99999/": "no port", "https://x/" + strings.Repeat("y", 5000): "at most 4096",
		"https://exa\nmple.com": "no URL",
	} {
		wants(t, b.bad("WebFetch", in{"url": raw}), want)
	}
	if hits.Load() > 0 {
		t.Errorf("%d requests got through", hits.Load())
	}
	if got := b.bad("WebFetch", in{"url": "https://me:secret@example.com/"}); strings.Contains(strings.ReplaceAll(got, "fetch https://me:secret@", ""), "secret") {
		t.Error(got)
	}
}

// A name that meant a permitted address when it was first asked for, and means
// another one for the next connection.
func TestWebFetchRebinding(t *testing.T) {
	var hits atomic.Int32
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		http.Redirect(w, r, "/again", http.StatusFound)
	})
	f := fetcher{Web: Web{Timeout: 5 * time.Second, MaxBytes: 1 << 20, Resolver: dns(t, "127.0.0.1", "127.0.0.2")}}
	f.closed = func(a netip.Addr) string {
		if a == netip.MustParseAddr("127.0.0.1") { // plays the part of a public address
			return ""
		}
		return f.Web.closed(a)
	}
	target, err := parseTarget(strings.Replace(base, "127.0.0.1", "rebinding.test", 1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.fetch(t.Context(), target)
	if err == nil || !strings.Contains(err.Error(), "the address 127.0.0.2") || hits.Load() != 1 {
		t.Errorf("%d requests, %v", hits.Load(), err)
	}
}

func TestClosedAddresses(t *testing.T) {
	for text, want := range map[string][2]bool{ // closed to all, closed to whom private addresses are allowed
		"8.8.8.8": {false, false}, "1.1.1.1": {false, false}, "172.32.0.1": {false, false}, "100.128.0.1": {false, false},
		"2606:4700::1111": {false, false}, "64:ff9b::808:808": {false, false}, "::ffff:8.8.8.8": {false, false},
		"127.0.0.1": {true, false}, "10.1.2.3": {true, false}, "::1": {true, false}, "fd00::1": {true, false}, "192.0.2.1": {true, false},
		"100.64.0.1": {true, false}, "64:ff9b::a00:1": {true, false}, "64:ff9b:1::1": {true, false}, "2002:7f00:1::": {true, false},
		"2001:0:53aa::1": {true, false}, "fec0::1": {true, false}, "240.0.0.1": {true, false}, "::8.8.8.8": {true, false},
		"169.254.169.254": {true, true}, "169.254.1.1": {true, true}, "100.100.100.200": {true, true}, "168.63.129.16": {true, true},
		"::ffff:169.254.169.254": {true, true}, "64:ff9b::a9fe:a9fe": {true, true}, "fd00:ec2::254": {true, true},
	} {
		a := netip.MustParseAddr(text)
		got := [2]bool{(&Web{}).closed(a) != "", (&Web{AllowPrivate: true}).closed(a) != ""}
		if got != want {
			t.Errorf("%s: closed %v, want %v", text, got, want)
		}
	}
}

// What rules compare is what is fetched.
func TestWebFetchDomain(t *testing.T) {
	b := browser(t)
	for raw, want := range map[string][2]string{
		"https://Example.COM/a":           {"example.com", "https://example.com/a"},
		"http://example.com./a#b":         {"example.com", "https://example.com/a"},
		"http://example.com:80/":          {"example.com", "http://example.com:80/"},
		"https://example.com:443":         {"example.com", "https://example.com"},
		"https://www.example.com:8443/?q": {"www.example.com", "https://www.example.com:8443/?q"},
		"https://bücher.example/":         {"xn--bcher-kva.example", "https://xn--bcher-kva.example/"},
		"https://ｅxample.com/":            {"example.com", "https://example.com/"},
		"http://[::ffff:1.2.3.4]:8080/":   {"1.2.3.4", "http://1.2.3.4:8080/"},
		"https://[2606:4700:0::1]/":       {"2606:4700::1", "https://[2606:4700::1]/"},
		"https://example.com:0443x/":      {"", ""},
		"https://user@example.com/":       {"", ""},
	} {
		a := b.set.Access("WebFetch", []byte(fmt.Sprintf(`{"url":%q}`, raw)))
		if a.Kind != tool.AccessWeb || a.Domain != want[0] {
			t.Errorf("%s: %+v", raw, a)
		}
		if u, err := parseTarget(raw); err == nil && u.String() != want[1] || (err == nil) != (want[1] != "") {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
	if e := b.set.Effect("WebFetch", []byte(`{"url":"https://example.com"}`)); e != tool.Pure {
		t.Errorf("effect %s", e)
	}
}

func TestWebFetchTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "by ", r.Proto) }))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	wants(t, browser(t).bad("WebFetch", in{"url": s.URL}), "certificate of the server is not valid")
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	wants(t, browser(t, func(w *Web) { w.RootCAs = pool }).good("WebFetch", in{"url": s.URL}), "by HTTP/2.0")
	plain := site(t, func(http.ResponseWriter, *http.Request) {})
	wants(t, browser(t).bad("WebFetch", in{"url": strings.Replace(plain, "http:", "https:", 1)}), "speaks http, not https")
	nobody := httptest.NewServer(nil)
	nobody.Close()
	wants(t, browser(t).bad("WebFetch", in{"url": nobody.URL}), "refused")
	wants(t, browser(t, func(w *Web) { w.Resolver = dns(t, "127.0.0.1") }).bad("WebFetch", in{"url": "http://x.test:1/"}), "refused")
}

// A proxy resolves names itself, so what the URL says is judged.
func TestWebFetchProxy(t *testing.T) {
	var asked atomic.Value
	proxy := site(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.String())
		fmt.Fprint(w, "through the proxy")
	})
	b := browser(t, func(w *Web) {
		w.AllowPrivate = false
		w.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }
	})
	wants(t, b.good("WebFetch", in{"url": "http://example.test:80/x"}), "through the proxy")
	if asked.Load() != "http://example.test:80/x" {
		t.Errorf("the proxy was asked for %v", asked.Load())
	}
	for _, host := range []string{"127.0.0.1", "localhost", "a.localhost", "[::1]", "169.254.169.254"} {
		if r := b.call("WebFetch", in{"url": "http://" + host + ":80/"}); r.Class != ClassAddress {
			t.Errorf("%s: %s", host, text(r))
		}
	}
}

func TestNoWebFetchUnlessWanted(t *testing.T) {
	if _, ok := open(t).set.Lookup("WebFetch"); ok {
		t.Error("it is there without a Web in the Config")
	}
}

// The rules that people write decide about the host that is fetched from.
func TestWebFetchRules(t *testing.T) {
	b := browser(t)
	p := &permission.Policy{Root: b.dir}
	var err error
	if p.Allow, err = permission.ParseRules("WebFetch(domain:example.com) WebFetch(domain:*.example.org)"); err != nil {
		t.Fatal(err)
	}
	if p.Deny, err = permission.ParseRules("WebFetch(domain:bad.example.org)"); err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]permission.Behavior{
		"https://example.com/x":               permission.Allow,
		"http://EXAMPLE.com.:8080/":           permission.Allow,
		"https://www.example.com/":            permission.Ask,
		"https://a.example.org/":              permission.Allow,
		"https://BAD.example.org./":           permission.Deny,
		"https://example.com@evil.test/":      permission.Ask,
		"https://evil.test/?example.com":      permission.Ask,
		"https://example.com.evil.test/":      permission.Ask,
		"https://evil.test#@example.com/":     permission.Ask,
		"https://evil.test\\@example.com/":    permission.Ask,
		"https://evil.test%2f.example.org/":   permission.Ask,
		"https://evil.test%00.example.org/":   permission.Ask,
		"https://[::1]/":                      permission.Ask,
		"file://example.com/etc/passwd":       permission.Ask,
		"https://example.com\uff0fevil.test/": permission.Ask,
	} {
		input, err := json.Marshal(in{"url": raw})
		if err != nil {
			t.Fatal(err)
		}
		c := tool.Call{ID: "c", Name: "WebFetch", Input: input}
		if d := p.Decide(c, b.set.Access(c.Name, input)); d.Behavior != want {
			t.Errorf("%s: %s, want %s (%s)", raw, d.Behavior, want, d.Reason)
		}
	}
}
