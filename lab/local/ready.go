package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// httpProbe returns a readiness check: GET url answers 200. It accepts servers of
// the authority only and shows them the certificate, if any.
func httpProbe(url string, ca *x509.Certificate, client *keyPair) (func(context.Context) error, error) {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if client != nil {
		cert, err := tls.X509KeyPair(client.cert, client.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{cert}
	}
	// No kept connection: a probe must not hold a server's shutdown up.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	probe := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := probe.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10)) // the status says enough
		return fmt.Errorf("GET %s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}, nil
}
