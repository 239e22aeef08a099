package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/endpoint"
	"github.com/tangram-dev/tangram/internal/web"
)

// The scheduler's Lease, of which an annotation says where its leader answers.
const (
	schedulerLeaseNamespace = "kube-system"
	schedulerLease          = "gpu-scheduler"
)

func (o *options) validateWeb() error {
	if o.webListen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.webListen); err != nil {
		return fmt.Errorf("--web-listen: %w", err)
	}
	return nil
}

// serveWeb serves the web page until the context ends. Every replica does, whether it leads
// or not: the page needs only the scheduler.
func (o *options) serveWeb(ctx context.Context, client kubernetes.Interface) error {
	at := endpoint.Options{Listen: o.webListen, Cert: o.endpoint.Cert, Key: o.endpoint.Key, SelfSigned: true}
	leader := web.NewLeader(func(ctx context.Context) (query.Endpoint, error) { return findScheduler(ctx, client) })
	return at.ServeHandler(ctx, "--web-listen", web.Handler(leader))
}

// findScheduler reads from the Lease where the scheduler that leads answers. Its errors are
// for visitors: they name nothing that is theirs to know.
func findScheduler(ctx context.Context, client kubernetes.Interface) (query.Endpoint, error) {
	var found query.Endpoint
	lease, err := client.CoordinationV1().Leases(schedulerLeaseNamespace).Get(ctx, schedulerLease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return found, errors.New("no scheduler has run yet")
	case err != nil:
		return found, errors.New("the scheduler's Lease could not be read")
	}
	text, ok := lease.Annotations[query.AnnotationEndpoint]
	if !ok {
		return found, errors.New("the scheduler answers no questions (--query-listen)")
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return found, fmt.Errorf("annotation %s of the scheduler's Lease is not as expected", query.AnnotationEndpoint)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && found.Holder != *holder {
		return found, errors.New("a new leader has not yet said where it answers")
	}
	return found, nil
}
