package query

import (
	"context"
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// Announcer writes to the scheduler's Lease where its leader answers. Leader election keeps
// annotations that it did not write.
type Announcer struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// Elected: leader election makes the Lease. Else the announcer does.
	Elected bool
	// Leads says whether this process leads now.
	Leads func() bool
	// Endpoint is what to write.
	Endpoint func() apiquery.Endpoint
}

// announceEvery is how often the Lease is looked at once it is written, tryEvery until then.
const (
	announceEvery = 30 * time.Second
	tryEvery      = 500 * time.Millisecond
)

// Run writes the annotation while this process leads, until the context ends.
func (a *Announcer) Run(ctx context.Context) {
	failed := ""
	for ctx.Err() == nil {
		wait := tryEvery
		if a.Leads() {
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return a.announce(ctx) })
			switch {
			case err == nil:
				wait, failed = announceEvery, ""
			case ctx.Err() == nil && err.Error() != failed:
				failed = err.Error()
				klog.FromContext(ctx).Error(err, "Where questions are answered could not be written", "lease", klog.KRef(a.Namespace, a.Name))
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// announce writes the annotation unless it is there.
func (a *Announcer) announce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := json.Marshal(a.Endpoint())
	if err != nil {
		return err
	}
	leases := a.Client.CoordinationV1().Leases(a.Namespace)
	lease, err := leases.Get(ctx, a.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !a.Elected {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, Annotations: map[string]string{apiquery.AnnotationEndpoint: string(text)}}}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
	if err != nil || lease.Annotations[apiquery.AnnotationEndpoint] == string(text) {
		return err
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[apiquery.AnnotationEndpoint] = string(text)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
