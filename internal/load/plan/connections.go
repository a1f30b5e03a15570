package plan

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// setConnections reads the certificates.
func (b *builder) setConnections() {
	c, f := &b.config.Connections, b.flags
	c.DisableKeepAlive = !f.keepAlive
	if f.cacert != "" {
		pem, err := readAll("cacert", f.cacert, maxPEM)
		if err == nil {
			c.Roots = x509.NewCertPool()
			if !c.Roots.AppendCertsFromPEM(pem) {
				err = fmt.Errorf("cacert: %s holds no certificate in PEM form", f.cacert)
			}
		}
		if err != nil {
			b.faults.add(b.file.place(flagCACert), err)
		}
	}
	if err := b.setCertificate(f.cert, f.key); err != nil {
		at := b.file.place(flagCert)
		if f.cert == "" {
			at = b.file.place(flagKey)
		}
		b.faults.add(at, err)
	}
}

// setCertificate reads the client certificate. Without a file of its own its key
// is in the same one, as with curl's --cert.
func (b *builder) setCertificate(cert, key string) error {
	switch {
	case cert == "" && key == "":
		return nil
	case cert == "":
		return fmt.Errorf("key %s has no certificate; give -cert", key)
	case key == "":
		key = cert
	}
	certPEM, err := readAll("cert", cert, maxPEM)
	if err != nil {
		return err
	}
	keyPEM, err := readAll("key", key, maxPEM)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("cert %s and key %s: %w", cert, key, err)
	}
	b.config.Connections.Certificate = &pair
	return nil
}
