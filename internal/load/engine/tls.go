package engine

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// tls is the configuration of TLS for a URL with that host.
//
// Every connection is a full handshake: resumed sessions would make the load
// cheaper for the server than that of as many clients.
func (c Connections) tls(host string) *tls.Config {
	return &tls.Config{
		ServerName: cmp.Or(c.ServerName, host), NextProtos: []string{"http/1.1"},
		RootCAs: c.Roots, InsecureSkipVerify: c.Insecure,
	}
}

// shake does the handshake on raw, which has a deadline.
func shake(raw net.Conn, config *tls.Config, certificate *tls.Certificate) (*tls.Conn, error) {
	config = config.Clone()
	asked := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if asked = true; certificate == nil {
			return &tls.Certificate{}, nil
		}
		return certificate, nil
	}
	secure := tls.Client(raw, config)
	if err := secure.Handshake(); err != nil {
		return nil, &handshakeError{error: err, unmet: asked && certificate == nil}
	}
	return secure, nil
}

// handshakeError is a TLS handshake that failed.
type handshakeError struct {
	error
	unmet bool // the server asked for a certificate, and there was none to show
}

func (e *handshakeError) Unwrap() error { return e.error }

// Alerts that a server ends a handshake with: RFC 8446, section 6.2.
const (
	alertHandshakeFailure    tls.AlertError = 40
	alertBadCertificate      tls.AlertError = 42
	alertUnsupported         tls.AlertError = 43
	alertRevoked             tls.AlertError = 44
	alertExpired             tls.AlertError = 45
	alertCertificateUnknown  tls.AlertError = 46
	alertUnknownAuthority    tls.AlertError = 48
	alertAccessDenied        tls.AlertError = 49
	alertCertificateRequired tls.AlertError = 116
)

// cause is what the handshake failed of.
func (e *handshakeError) cause() string {
	var authority x509.UnknownAuthorityError
	var roots x509.SystemRootsError
	var invalid x509.CertificateInvalidError
	var hostname x509.HostnameError
	switch {
	case errors.As(e, &authority), errors.As(e, &roots):
		return CauseTLSAuthority
	case errors.As(e, &hostname):
		return CauseTLSHost
	case errors.As(e, &invalid) && invalid.Reason == x509.Expired:
		return CauseTLSExpired
	case isAlert(e, alertBadCertificate, alertUnsupported, alertRevoked, alertExpired, alertCertificateUnknown,
		alertUnknownAuthority, alertAccessDenied, alertCertificateRequired):
		return CauseTLSClient
	case e.unmet && isAlert(e, alertHandshakeFailure):
		// What servers say before TLS 1.3.
		return CauseTLSClient
	}
	return CauseTLS
}

// isAlert says whether err is that the server sent one of the alerts, or any if
// none is given.
func isAlert(err error, alerts ...tls.AlertError) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}
	for _, alert := range alerts {
		// crypto/tls has a type of its own here, with the same text.
		if op.Err.Error() == alert.Error() {
			return true
		}
	}
	return len(alerts) == 0
}
