package anthropic

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/daruma-agent/daruma/failure"
)

// TLS is what is special about the way to a server. All of it is PEM text, as
// it stands in the files that people are given.
type TLS struct {
	Roots      []byte // certificates that are trusted besides those of the system
	Cert       []byte // the client's certificate, with the chain behind it
	Key        []byte // its private key; empty: it stands in Cert
	MinVersion uint16 // such as tls.VersionTLS13; TLS 1.2 at the least
}

// String shows no key.
func (t TLS) String() string { return "anthropic.TLS{…}" }

// GoString shows no key either.
func (t TLS) GoString() string { return t.String() }

func (t TLS) config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: max(t.MinVersion, tls.VersionTLS12)}
	if len(t.Roots) > 0 {
		roots, err := addRoots(t.Roots)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = roots
	}
	if len(t.Cert) == 0 && len(t.Key) == 0 {
		return cfg, nil
	}
	key := t.Key
	if len(key) == 0 {
		key = t.Cert
	}
	if encrypted(key) {
		return nil, errors.New("read client certificate: its key is protected by a passphrase; write it without one (openssl pkey -in FILE -out FILE)")
	}
	pair, err := tls.X509KeyPair(t.Cert, key)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "tls: ")
		return nil, fmt.Errorf("read client certificate: %s; certificate and key must be PEM text and belong together", why)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// addRoots returns the system's roots and those in text. One that cannot be
// read is passed over, as everywhere: bundles hold odd old ones.
func addRoots(text []byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without any; those given may be enough
	}
	good, bad := 0, error(nil)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "CERTIFICATE") {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			bad = err
			continue
		}
		pool.AddCert(cert)
		good++
	}
	switch {
	case good > 0:
		return pool, nil
	case bad != nil:
		return nil, fmt.Errorf("read trusted certificates: none of them can be read: %w", bad)
	}
	return nil, errors.New("read trusted certificates: there is none; it must be PEM text, with a line -----BEGIN CERTIFICATE-----")
}

func encrypted(key []byte) bool {
	for block, rest := pem.Decode(key); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return true
		}
	}
	return false
}

// explainTLS says in words what failed between two ends that did not come to
// trust each other. It reports false where err is something else.
func explainTLS(e *failure.Error, err error) bool {
	var (
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		alert     *net.OpError
	)
	say := func(rule, format string, args ...any) bool {
		e.Kind, e.Retry, e.Rule, e.Message = failure.Network, failure.RetryNo, rule, fmt.Sprintf(format, args...)
		return true
	}
	switch {
	case errors.As(err, &host):
		return say(RuleCertificate, "%v. Look at the base URL, and at whether a proxy answers in the server's place", host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return say(RuleCertificate, "%v. Look at the clock of this machine; else the server needs a new certificate", invalid)
	case errors.As(err, &authority):
		issuer := ""
		if errors.As(err, &verify) && len(verify.UnverifiedCertificates) > 0 {
			issuer = fmt.Sprintf(" (issued by %s)", verify.UnverifiedCertificates[0].Issuer)
		}
		return say(RuleCertificate, "the server's certificate%s is not trusted: %v. Where a company's proxy reads the traffic, "+
			"set NODE_EXTRA_CA_CERTS to the PEM file of its root certificate, or SSL_CERT_FILE to a file of all roots", issuer, authority)
	case errors.As(err, &verify):
		return say(RuleCertificate, "the server's certificate is not accepted: %v", verify.Err)
	case errors.As(err, &alert) && alert.Op == "remote error" && alert.Err != nil:
		// The type of an alert is private to crypto/tls; its words are stable.
		switch why := strings.TrimPrefix(alert.Err.Error(), "tls: "); why {
		case "certificate required":
			return say(RuleClientCertificate, "the server wants a client certificate, and there is none")
		case "bad certificate", "unknown certificate", "expired certificate", "revoked certificate",
			"unsupported certificate", "unknown certificate authority", "access denied":
			return say(RuleClientCertificate, "the server does not accept the client certificate: %s", why)
		case "protocol version not supported":
			return say(RuleTLSVersion, "the server speaks no version of TLS that is allowed here: %s", why)
		}
	}
	return false
}
