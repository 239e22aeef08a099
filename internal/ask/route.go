package ask

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/query"
)

// headStart is how long a direct connection has before a port-forward is tried as well:
// inside the cluster's network it answers in less, outside it never does.
const headStart = 250 * time.Millisecond

// dialTimeout bounds an attempt to connect.
const dialTimeout = 5 * time.Second

// dial opens a connection to the leader.
type dial func(ctx context.Context) (net.Conn, error)

// route is a way to a leader that has proved to be one: it showed the certificate that
// the Lease promised.
type route struct {
	end  query.Endpoint
	http *http.Client
	// close ends a port-forward.
	close func()
}

// connect finds out how the leader is reached from here.
func (c *Client) connect(ctx context.Context, end query.Endpoint) (*route, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(end.CA)) {
		return nil, &UnreachableError{"gpu-scheduler", errors.New("its certificate authority is not PEM")}
	}
	check := &tls.Config{RootCAs: pool, ServerName: end.ServerName, MinVersion: tls.VersionTLS12}
	type outcome struct {
		dial  dial
		close func()
		err   error
	}
	ways := 1
	results := make(chan outcome, 2)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	direct := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", end.Address)
	}
	failed := make(chan struct{})
	go func() {
		err := prove(ctx, direct, check)
		if err != nil {
			close(failed)
			err = fmt.Errorf("%s: %w", end.Address, err)
		}
		results <- outcome{direct, func() {}, err}
	}()
	if end.Pod != "" {
		ways++
		go func() {
			select {
			case <-failed:
			case <-time.After(headStart):
			case <-ctx.Done():
			}
			forward, stop, err := c.forward(end)
			if err == nil {
				if err = prove(ctx, forward, check); err != nil {
					stop()
				}
			}
			if err != nil {
				err = fmt.Errorf("port-forward to pod %s: %w", end.Pod, err)
			}
			results <- outcome{forward, stop, err}
		}()
	}
	var errs []error
	for i := range ways {
		o := <-results
		if o.err != nil {
			errs = append(errs, o.err)
			continue
		}
		if i+1 < ways { // the other one is not needed any more
			go func() {
				if late := <-results; late.err == nil {
					late.close()
				}
			}()
		}
		client, err := c.httpClient(end, o.dial)
		if err != nil {
			o.close()
			return nil, err
		}
		return &route{end: end, http: client, close: o.close}, nil
	}
	return nil, &UnreachableError{"gpu-scheduler", errors.Join(errs...)}
}

// prove connects and checks the certificate, without showing any credential.
func prove(ctx context.Context, d dial, check *tls.Config) error {
	raw, err := d(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	return tls.Client(raw, check).HandshakeContext(ctx)
}

// httpClient sends requests over a route with the kubeconfig's credentials, and checks the
// scheduler's certificate against the Lease instead of the API server's.
func (c *Client) httpClient(end query.Endpoint, d dial) (*http.Client, error) {
	config := rest.CopyConfig(c.rest)
	config.Host = "https://" + end.Address
	config.CAFile, config.CAData, config.Insecure = "", []byte(end.CA), false
	config.ServerName = end.ServerName
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } // the proxy of the API server leads there alone
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) }
	config.Timeout = 0 // each question has its own
	config.DisableCompression = false
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the scheduler redirects nowhere") // and no credential follows one
	}}, nil
}
