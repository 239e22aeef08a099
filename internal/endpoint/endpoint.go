// Package endpoint serves what Kubernetes and Prometheus ask of a program: whether it
// lives, whether it works, its metrics.
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Options are the flags of an endpoint.
type Options struct {
	// Listen is the address; empty for none.
	Listen string
	// Cert and Key are files to serve TLS with; both or none.
	Cert, Key string
	// SelfSigned: without Cert and Key, TLS with a certificate that is made at the start.
	SelfSigned bool
}

// Validate names the flag that is wrong.
func (o Options) Validate() error {
	if o.Listen != "" {
		if _, _, err := net.SplitHostPort(o.Listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file: both or none")
	}
	return nil
}

// Serve answers /healthz, /readyz and, when metrics is not nil, /metrics until the context
// ends; then it returns context.Canceled.
func (o Options) Serve(ctx context.Context, ready func() bool, metrics http.Handler) error {
	mux := http.NewServeMux()
	if metrics != nil {
		mux.Handle("/metrics", metrics)
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Addr: o.Listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	var err error
	switch {
	case o.Cert != "":
		err = server.ListenAndServeTLS(o.Cert, o.Key)
	case o.SelfSigned:
		var own tls.Certificate
		if own, err = SelfSigned(); err != nil {
			return fmt.Errorf("a certificate for --listen: %w", err)
		}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{own}}
		err = server.ListenAndServeTLS("", "")
	default:
		err = server.ListenAndServe()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return context.Canceled
	}
	return fmt.Errorf("--listen: %w", err)
}
