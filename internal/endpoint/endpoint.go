// Package endpoint serves what Kubernetes and Prometheus ask of a program: whether it
// lives, whether it works, its metrics.
package endpoint

import (
	"context"
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
	if o.Cert != "" {
		err = server.ListenAndServeTLS(o.Cert, o.Key)
	} else {
		err = server.ListenAndServe()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return context.Canceled
	}
	return fmt.Errorf("--listen: %w", err)
}
