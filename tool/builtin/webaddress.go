package builtin

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// metadata are the addresses at which clouds hand out credentials to whoever
// asks from within. Nothing opens them.
var metadata = prefixes("169.254.0.0/16", "192.0.0.192/32", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128", "fd20:ce::254/128")

// closed4 are the IPv4 addresses that are not of the public internet, by the
// registry of special purposes (RFC 6890 and its successors).
var closed4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")

// Of IPv6 one prefix is public (RFC 4291), but for these parts of it: tunnels,
// which lead to IPv4 addresses, and what is for special purposes.
var (
	public6 = prefixes("2000::/3")
	closed6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the IPv4 address is at the end
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func among(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// closed says why nothing is fetched from an address; empty if something is.
func (c *Web) closed(a netip.Addr) string {
	a = a.WithZone("").Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case !a.IsValid():
		return "it is no address"
	case among(metadata, a):
		return "it may be the metadata service of a cloud"
	case c.AllowPrivate:
		return ""
	case a.Is4() && among(closed4, a), a.Is6() && (!among(public6, a) || among(closed6, a)):
		return "it is not on the public internet"
	}
	return ""
}

// maxURL is the length of the longest URL that is fetched.
const maxURL = 4096

// parseTarget reads a URL as it will be fetched: with the host in the one
// spelling that permission rules compare, and without what is not sent. Plain
// http is asked for as https, unless a port is named.
func parseTarget(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxURL {
		return nil, refuse(ClassURL, "the URL has %d characters: at most %d are possible", len(text), maxURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, refuse(ClassURL, "this is no URL that can be read. Write it as https://host/path")
	case u.Scheme == "" || u.Opaque != "":
		return nil, refuse(ClassURL, "this is no whole URL. Write it as https://host/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, refuse(ClassURL, "only http and https are fetched, not %s", u.Scheme)
	case u.User != nil:
		return nil, refuse(ClassURL, "the URL has a user name or a password in it, which is not sent. Leave them out")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
		return nil, refuse(ClassURL, "%s is no port", port)
	}
	if u.Scheme == "http" && port == "" {
		u.Scheme = "https"
	}
	if u.Host = host; strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" && !(u.Scheme == "https" && port == "443") {
		u.Host += ":" + port
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// canonicalHost is the one spelling of a host: lower case, ASCII, without a
// dot at the end; addresses as netip writes them.
func canonicalHost(host string) (string, error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", refuse(ClassURL, "an address with a zone is not fetched")
		}
		return a.Unmap().String(), nil
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", refuse(ClassURL, "%s is no name of a host", host)
		}
		host = ascii
	}
	if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || strings.Trim(host, ".") == "" {
		return "", refuse(ClassURL, "%q is no name of a host", host)
	}
	// The last part of a name is never a number; some resolvers take such a
	// name for an address in another notation.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || last[0] >= '0' && last[0] <= '9' {
		return "", refuse(ClassURL, "%q is no name of a host, and no address in the usual notation", host)
	}
	return host, nil
}

// sameSite reports whether a redirect stays where permission was given for.
func sameSite(from, to *url.URL) bool {
	return from.Hostname() == to.Hostname() && !(from.Scheme == "https" && to.Scheme == "http")
}
