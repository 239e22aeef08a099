package extender

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// access lets clients in by their certificates: a client that may ask the extender to bind may
// place pods. Files are read again at every new connection, so that renewed certificates
// count without a restart.
type access struct {
	cert, key, clientCA string
	// names are those of clients that may ask: the certificate's common name or one of its
	// DNS names. Empty: all that the authority has signed.
	names       []string
	authorities atomic.Pointer[x509.CertPool] // those of clientCA as last read; nil without clientCA
}

// load reads the files; it is also the check at start.
func (a *access) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(a.cert, a.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if a.clientCA == "" {
		return c, nil
	}
	data, err := os.ReadFile(a.clientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--client-ca-file: %s has no certificate", a.clientCA)
	}
	a.authorities.Store(pool)
	// The handler decides, so that a client without a certificate reads why.
	c.ClientAuth = tls.RequestClientCert
	return c, nil
}

func (a *access) config() (*tls.Config, error) {
	first, err := a.load()
	if err != nil {
		return nil, err
	}
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return a.load() }
	return first, nil
}

// check wraps a handler: 401 without a valid certificate, 403 with one of another name.
// Without a client CA every client is let in.
func (a *access) check(next http.Handler) http.Handler {
	if a.clientCA == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.client(r.TLS)
		switch {
		case err != nil:
			http.Error(w, "client certificate: "+err.Error(), http.StatusUnauthorized)
		case len(a.names) > 0 && !slices.ContainsFunc(who, func(n string) bool { return slices.Contains(a.names, n) }):
			http.Error(w, fmt.Sprintf("client certificate: %s is not among the allowed names", strings.Join(who, ", ")), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// client are the names of a connection's client, once its certificate is verified.
func (a *access) client(state *tls.ConnectionState) ([]string, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, fmt.Errorf("missing")
	}
	leaf := state.PeerCertificates[0]
	options := x509.VerifyOptions{Roots: a.authorities.Load(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(options); err != nil {
		return nil, err
	}
	return append([]string{leaf.Subject.CommonName}, leaf.DNSNames...), nil
}
