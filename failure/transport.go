package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// transportRules read errors of Go's own network stack by type. Texts of other
// clients' errors are read by the rules of words.
var transportRules = []rule{
	{
		name:   "go-cancelled",
		reason: "the caller cancelled",
		kind:   Aborted, retry: RetryNo,
		when: wraps(context.Canceled),
	},
	{
		name:   "go-certificate",
		reason: "a certificate does not become valid by waiting",
		kind:   Network, retry: RetryNo,
		when: isCertificate,
	},
	{
		name:   "go-connect",
		reason: "no connection came about, be it by refusal or in silence: nothing was sent",
		kind:   Network, retry: RetryYes,
		when: func(e *evidence) bool {
			var op *net.OpError
			var dns *net.DNSError
			return errors.As(e.Err, &dns) || errors.As(e.Err, &op) && op.Op == "dial"
		},
	},
	{
		name:   "go-deadline",
		reason: "a deadline of the context or of the connection",
		kind:   Timeout, retry: RetryYes,
		when: func(e *evidence) bool {
			if wraps(context.DeadlineExceeded, os.ErrDeadlineExceeded)(e) {
				return true
			}
			var timeout net.Error
			return errors.As(e.Err, &timeout) && timeout.Timeout() && !connect().MatchString(e.text)
		},
	},
	{
		name:   "go-broken",
		reason: "a connection that was there and broke",
		kind:   Network, retry: RetryYes,
		when: func(e *evidence) bool {
			var op *net.OpError
			var header tls.RecordHeaderError
			var alert tls.AlertError
			return wraps(syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
				io.ErrUnexpectedEOF, io.EOF, io.ErrClosedPipe, net.ErrClosed)(e) ||
				errors.As(e.Err, &op) || errors.As(e.Err, &header) || errors.As(e.Err, &alert)
		},
	},
}

// wraps holds when the transport error is one of targets.
func wraps(targets ...error) func(*evidence) bool {
	return func(e *evidence) bool {
		for _, target := range targets {
			if errors.Is(e.Err, target) {
				return true
			}
		}
		return false
	}
}

func isCertificate(e *evidence) bool {
	var (
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		roots     x509.SystemRootsError
	)
	return errors.As(e.Err, &verify) || errors.As(e.Err, &authority) || errors.As(e.Err, &host) ||
		errors.As(e.Err, &invalid) || errors.As(e.Err, &roots)
}
