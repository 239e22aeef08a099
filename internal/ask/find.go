package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/query"
)

// maxEndpoint bounds the annotation that is believed: a certificate or two.
const maxEndpoint = 64 << 10

// find reads where the leader answers. Errors of the API server come back as they are.
func (c *Client) find(ctx context.Context) (query.Endpoint, error) {
	var end query.Endpoint
	if c.options.Scheduler == "" || c.options.SchedulerCA == "" {
		namespace, name, err := c.options.lease()
		if err != nil {
			return end, err
		}
		lease, err := c.kube.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return end, &UnreachableError{"gpu-scheduler", fmt.Errorf("there is no Lease %s/%s: it is not installed, or has another Lease (--lease)", namespace, name)}
		case apierrors.IsUnauthorized(err):
			return end, fmt.Errorf("find the scheduler: the API server does not accept the credentials (expired, or of another cluster): %w", err)
		case apierrors.IsForbidden(err):
			return end, fmt.Errorf("find the scheduler: %w (an administrator can bind ClusterRole tangram-viewer to you)", err)
		case err != nil:
			return end, &UnreachableError{"the API server " + c.rest.Host, err}
		}
		if end, err = decodeEndpoint(lease.Annotations[query.AnnotationEndpoint]); err != nil {
			return end, &UnreachableError{"gpu-scheduler", fmt.Errorf("in Lease %s/%s: %w", namespace, name, err)}
		}
	}
	if c.options.Scheduler == "" {
		return end, nil
	}
	u, err := url.Parse(c.options.Scheduler)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return end, &UsageError{fmt.Sprintf("--scheduler: %q, want https://HOST:PORT", c.options.Scheduler)}
	}
	end.Address, end.Pod = u.Host, ""
	if u.Port() == "" {
		end.Address = net.JoinHostPort(u.Hostname(), "443")
	}
	if c.options.SchedulerCA != "" {
		pem, err := os.ReadFile(c.options.SchedulerCA)
		if err != nil {
			return end, &UsageError{"--scheduler-ca: " + err.Error()}
		}
		end.CA, end.ServerName = string(pem), u.Hostname()
	}
	return end, nil
}

// decodeEndpoint reads the annotation of the Lease.
func decodeEndpoint(text string) (query.Endpoint, error) {
	var end query.Endpoint
	if text == "" {
		return end, fmt.Errorf("annotation %s is missing: the scheduler answers no questions (--query-listen), or is older than they are", query.AnnotationEndpoint)
	}
	if len(text) > maxEndpoint {
		return end, fmt.Errorf("annotation %s: %d bytes are too many", query.AnnotationEndpoint, len(text))
	}
	if err := json.Unmarshal([]byte(text), &end); err != nil {
		return end, fmt.Errorf("annotation %s: %w", query.AnnotationEndpoint, err)
	}
	if _, port, err := net.SplitHostPort(end.Address); err != nil || port == "" {
		return end, fmt.Errorf("annotation %s: address: %q, want HOST:PORT", query.AnnotationEndpoint, end.Address)
	}
	if end.CA == "" || end.ServerName == "" {
		return end, fmt.Errorf("annotation %s: ca and serverName must be set", query.AnnotationEndpoint)
	}
	return end, nil
}
