package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/query"
)

// Endpoint waits until a Lease of kube-system says where a scheduler answers, and accept
// takes that for an answer; nil: whatever is said.
func (c *Cluster) Endpoint(ctx context.Context, lease string, accept func(*coordinationv1.Lease, query.Endpoint) bool) (query.Endpoint, error) {
	for {
		l, err := c.Client.CoordinationV1().Leases("kube-system").Get(ctx, lease, metav1.GetOptions{})
		if err == nil && l.Annotations[query.AnnotationEndpoint] != "" {
			var e query.Endpoint
			if err := json.Unmarshal([]byte(l.Annotations[query.AnnotationEndpoint]), &e); err != nil {
				return e, err
			}
			if accept == nil || accept(l, e) {
				return e, nil
			}
		}
		select {
		case <-ctx.Done():
			return query.Endpoint{}, fmt.Errorf("the Lease %s does not say where to ask: %w", lease, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// HTTPClient is a client for what answers at an endpoint: it trusts what the Lease says and
// nothing else, and has at most one certificate of its own.
func HTTPClient(e query.Endpoint, own ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(e.CA))
	return &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: e.ServerName, Certificates: own}},
	}
}
