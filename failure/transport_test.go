package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
)

type slow struct{}

func (slow) Error() string   { return "odd" }
func (slow) Timeout() bool   { return true }
func (slow) Temporary() bool { return true }

func TestTransportErrors(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Post", URL: "https://host/v1", Err: err} }
	for _, c := range []struct {
		err   error
		kind  Kind
		retry Retry
	}{
		{context.Canceled, Aborted, RetryNo},
		{wrap(context.Canceled), Aborted, RetryNo},
		{wrap(context.DeadlineExceeded), Timeout, RetryYes},
		{os.ErrDeadlineExceeded, Timeout, RetryYes},
		{wrap(slow{}), Timeout, RetryYes},
		{wrap(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), Network, RetryYes},
		{wrap(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), Network, RetryYes},
		{wrap(&net.OpError{Op: "dial", Err: slow{}}), Network, RetryYes},
		{wrap(&net.OpError{Op: "read", Err: slow{}}), Timeout, RetryYes},
		{wrap(&net.DNSError{Err: "no such host", Name: "host", IsNotFound: true}), Network, RetryYes},
		{syscall.EPIPE, Network, RetryYes},
		{io.ErrUnexpectedEOF, Network, RetryYes},
		{wrap(io.EOF), Network, RetryYes},
		{wrap(x509.UnknownAuthorityError{}), Network, RetryNo},
		{wrap(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}), Network, RetryNo},
		{wrap(&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{}}), Network, RetryNo},
		{wrap(tls.RecordHeaderError{Msg: "odd"}), Network, RetryYes},
		{wrap(errors.New("net/http: TLS handshake timeout")), Network, RetryYes},
		{wrap(errors.New("http2: server sent GOAWAY and closed the connection")), Network, RetryYes},
		{errors.New("something nobody has seen"), Unknown, RetryNo},
	} {
		e := Classify(Report{Err: c.err})
		if e.Kind != c.kind || e.Retry != c.retry {
			t.Errorf("%v is %s, %s by %s; want %s, %s", c.err, e.Kind, e.Retry, e.Rule, c.kind, c.retry)
		}
		if !errors.Is(e, c.err) {
			t.Errorf("%v is not reachable through its classification", c.err)
		}
		if As(fmt.Errorf("run: %w", e)) != e {
			t.Errorf("%v is classified twice", c.err)
		}
	}
}

func TestBrokenErrorBodyDecidesNothing(t *testing.T) {
	if e := Classify(Report{Status: 429, Err: io.ErrUnexpectedEOF}); e.Kind != RateLimit {
		t.Errorf("a 429 whose body broke off is %s", e.Kind)
	}
	if e := Classify(Report{Status: 503, Err: context.Canceled}); e.Kind != Aborted {
		t.Errorf("a cancelled 503 is %s", e.Kind)
	}
}

func TestRealTransportErrors(t *testing.T) {
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	}))
	defer cut.Close()
	response, err := http.Get(cut.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(response.Body)
	response.Body.Close()
	if e := Classify(Report{Status: 200, InStream: true, Err: err}); e.Kind != Network || e.Retry != RetryYes {
		t.Errorf("a cut body (%v) is %s, %s", err, e.Kind, e.Retry)
	}

	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake is wanted
	secure.StartTLS()
	defer secure.Close()
	_, err = http.Get(secure.URL)
	if e := Classify(Report{Err: err}); e.Kind != Network || e.Retry != RetryNo {
		t.Errorf("an unknown authority (%v) is %s, %s", err, e.Kind, e.Retry)
	}

	address := cut.Listener.Addr().String()
	cut.Close()
	_, err = http.Get("http://" + address)
	if e := Classify(Report{Err: err}); e.Kind != Network || e.Retry != RetryYes {
		t.Errorf("a refused connection (%v) is %s, %s", err, e.Kind, e.Retry)
	}
}
