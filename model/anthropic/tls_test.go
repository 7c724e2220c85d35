package anthropic

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/daruma-agent/daruma/failure"
)

// serveTLS starts a TLS server that answers with rich.
func serveTLS(t *testing.T, change func(*httptest.Server)) (srv *httptest.Server, root []byte) {
	t.Helper()
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, rich) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are what we are here for
	srv.TLS = &tls.Config{}
	if change != nil {
		change(srv)
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
}

// clientPair is a certificate for a client and its key.
func clientPair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "daruma test client"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func TestUnreadablePEM(t *testing.T) {
	cert, key := clientPair(t)
	_, otherKey := clientPair(t)
	locked := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	garbage := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	for _, tc := range []struct {
		name string
		tls  TLS
		says string // empty: it is fine
	}{
		{"no PEM", TLS{Roots: []byte("MIIB")}, "there is none; it must be PEM text"},
		{"a key for a root", TLS{Roots: key}, "there is none"},
		{"an unreadable root", TLS{Roots: garbage}, "none of them can be read"},
		{"one readable root of two", TLS{Roots: append(garbage, cert...)}, ""},
		{"no client certificate", TLS{Key: key}, "read client certificate"},
		{"no key", TLS{Cert: cert}, "read client certificate"},
		{"both in one", TLS{Cert: append(cert[:len(cert):len(cert)], key...)}, ""},
		{"a foreign key", TLS{Cert: cert, Key: otherKey}, "belong together"},
		{"a locked key", TLS{Cert: cert, Key: locked}, "passphrase"},
	} {
		_, err := New(Config{TLS: tc.tls})
		switch {
		case tc.says == "" && err != nil, tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: %v", tc.name, err)
		case err != nil && strings.Contains(err.Error(), string(key[30:60])):
			t.Errorf("%s: the key is in %v", tc.name, err)
		}
	}
	if s := (TLS{Key: key}).String(); strings.Contains(s, "PRIVATE") {
		t.Error(s)
	}
}

func TestTLS(t *testing.T) {
	cert, key := clientPair(t)
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(cert)
	wantClient := func(srv *httptest.Server) {
		srv.TLS.ClientAuth, srv.TLS.ClientCAs = tls.RequireAndVerifyClientCert, known
	}
	strange, strangeKey := clientPair(t)
	old := func(srv *httptest.Server) { srv.TLS.MaxVersion = tls.VersionTLS12 }
	for _, tc := range []struct {
		name   string
		server func(*httptest.Server)
		tls    TLS
		trust  bool
		rule   string // empty: it works
		says   string
	}{
		{name: "trusted", trust: true},
		{name: "not trusted", rule: RuleCertificate, says: "NODE_EXTRA_CA_CERTS"},
		{name: "client certificate", server: wantClient, trust: true, tls: TLS{Cert: cert, Key: key}},
		{name: "no client certificate", server: wantClient, trust: true, rule: RuleClientCertificate, says: "there is none"},
		{name: "a strange client", server: wantClient, trust: true, tls: TLS{Cert: strange, Key: strangeKey}, rule: RuleClientCertificate},
		{name: "TLS 1.2", server: old, trust: true},
		{name: "TLS 1.2 is too old", server: old, trust: true, tls: TLS{MinVersion: tls.VersionTLS13}, rule: RuleTLSVersion, says: "no version of TLS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, root := serveTLS(t, tc.server)
			if tc.trust {
				tc.tls.Roots = root
			}
			c := mustNew(t, Config{BaseURL: srv.URL, TLS: tc.tls})
			defer c.DropIdle()
			_, err := collect(t.Context(), c, hello)
			// The alert that refuses a client comes after the handshake. Where it
			// loses the race against the end of the connection, this is a broken
			// connection like others, and the next try tells.
			for n := 0; n < 20 && tc.rule == RuleClientCertificate && failure.As(err).Retry == failure.RetryYes; n++ {
				_, err = collect(t.Context(), c, hello)
			}
			if tc.rule == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e := failure.As(err)
			if e == nil || e.Kind != failure.Network || e.Retry != failure.RetryNo || e.Rule != tc.rule || !strings.Contains(e.Message, tc.says) {
				t.Errorf("%+v", e)
			}
		})
	}
	// A name that the certificate does not have.
	srv, root := serveTLS(t, nil)
	c := mustNew(t, Config{BaseURL: strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), TLS: TLS{Roots: root}})
	_, err := collect(t.Context(), c, hello)
	if e := failure.As(err); e.Rule != RuleCertificate || !strings.Contains(e.Message, "base URL") {
		t.Errorf("%+v", e)
	}
}
